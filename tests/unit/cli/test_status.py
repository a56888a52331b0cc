import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from firn.cli.stream_status import stream_statuses
from firn.jobs.dispatch import dispatch
from firn.staging import configs, cuts
from firn.staging.ingest import accept
from firn.staging.replay import Choice, replay
from firn.staging.store import Store, open_store
from firn_lake.catalog import open_catalog

CONFIG = """
streams:
  shop:
    tables:
      public.orders: {to: shop.orders, key: [id]}
      public.log: {to: shop.log, mode: append}
  idle:
    tables:
      public.other: {to: other.other, key: [id]}
"""
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(f"file://{tmp_path}/staging")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = open_catalog(f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse", {})
    yield opened
    opened.close()


def event(number: int, *, position: bool = True) -> str:
    source = {"connector": "postgresql", "schema": "public", "table": "orders", "ts_ms": 1}
    if position:
        source["sequence"] = f'["{number}","{number}"]'
    return json.dumps({"before": None, "after": {"id": number}, "source": source, "op": "c", "ts_ms": 1}) + "\n"


def send(store: Store, *events: str) -> str:
    config = configs.publish(store, CONFIG)
    accept(store, config, "shop", "".join(events).encode(), now=NOW)
    return config.sha


def test_what_is_staged_is_pending_and_what_is_sealed_waits_for_its_cut(store: Store, catalog: Catalog) -> None:
    sha = send(store, event(1), event(2))
    idle, shop = stream_statuses(store, catalog, NOW)
    assert (idle.stream, idle.pending_events, idle.committed_epoch) == ("idle", 0, 0)
    assert (shop.pending_events, shop.pending_batches, shop.sealed_epochs) == (2, 1, 0)

    dispatch(store, "shop", None, now=NOW, config=sha, force=True)
    shop = stream_statuses(store, catalog, NOW)[1]
    assert (shop.pending_events, shop.sealed_events, shop.sealed_epochs) == (0, 2, 1)

    cuts.write(store, cuts.make("shop", 1, "2026-01-31T12:00:05.000Z", {}))
    shop = stream_statuses(store, catalog, NOW)[1]
    assert (shop.sealed_epochs, shop.committed_epoch) == (0, 1)
    assert shop.committed_at == datetime(2026, 1, 31, 12, 0, 5, tzinfo=UTC)
    assert shop.notes == ()


def test_rejected_events_are_counted_as_dead_letters(store: Store, catalog: Catalog) -> None:
    send(store, event(1), '{"op":"c"}\n', "[]\n")
    shop = stream_statuses(store, catalog, NOW)[1]
    assert (shop.pending_events, shop.dead_letters) == (1, 2)
    assert "2 dead letters" in shop.notes[0]


def test_a_stream_without_positions_is_marked(store: Store, catalog: Catalog) -> None:
    sha = send(store, event(1, position=False))
    assert stream_statuses(store, catalog, NOW)[1].without_position
    dispatch(store, "shop", None, now=NOW, config=sha, force=True)
    shop = stream_statuses(store, catalog, NOW)[1]
    assert shop.without_position
    assert "no position" in shop.notes[0]


def test_tables_without_a_key_are_named(store: Store, catalog: Catalog) -> None:
    configs.publish(store, CONFIG)
    catalog.create_namespace("shop")
    properties = {"firn.stream": "shop", "firn.mode": "append", "firn.key": "[]"}
    catalog.create_table("shop.log", pa.schema([("a", pa.int64())]), properties=properties)
    shop = stream_statuses(store, catalog, NOW)[1]
    assert shop.keyless_tables == ("shop.log",)
    assert "no key for shop.log" in shop.notes[0]


def test_without_a_configuration_there_is_nothing_to_say(store: Store, catalog: Catalog) -> None:
    assert stream_statuses(store, catalog, NOW) == []


def test_replayed_dead_letters_no_longer_wait(store: Store, catalog: Catalog) -> None:
    wrong = CONFIG.replace("  shop:\n", "  shop:\n    envelope: flat\n")
    accept(store, configs.publish(store, wrong), "shop", (event(1) + event(2) + "[]\n").encode(), now=NOW)
    shop = stream_statuses(store, catalog, NOW)[1]
    assert (shop.dead_letters, shop.dead_waiting) == (3, 3)
    right = configs.publish(store, CONFIG)
    list(replay(store, right, "shop", Choice(), clock=lambda: NOW))
    shop = stream_statuses(store, catalog, NOW)[1]
    assert (shop.dead_letters, shop.dead_waiting, shop.pending_events) == (3, 1, 2)
    assert "1 dead letters wait: firn dead list shop" in shop.notes
