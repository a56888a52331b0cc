"""An envelope is added by a module and a line of the registry: nothing else knows which there are."""

import io
import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pyarrow.parquet as pq
import pytest

from firn.changes.envelopes import registry
from firn.config.reader import parse as parse_config
from firn.errors import ConfigError
from firn.ingest.accept import Accepted, accept
from firn.log import layout
from firn.log.dead_letters.letters import read_dead
from firn.log.store import get
from tests.unit.ingest import maxwell
from tests.unit.log.storage_faults import FaultyStore

CONFIG = """
streams:
  shop:
    envelope: {}
    tables:
      "*": {{to: "lake.{{table}}"}}
"""


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    known = registry.Registry({**registry.ENVELOPES, "maxwell": maxwell.ENVELOPE})
    monkeypatch.setattr(registry, "KNOWN", known)


def said(number: int, kind: str = "insert") -> dict[str, Any]:
    return {
        "database": "shop", "table": "orders", "type": kind, "ts": 1_700_000_000, "position": f"bin.7:{number}",
        "data": {"id": number},
    }  # fmt: skip


def taken(store: FaultyStore, envelope: str, now: datetime, *events: Any) -> Accepted:
    config = parse_config(CONFIG.format(envelope))
    return accept(store, config, "shop", json.dumps(events).encode(), now=now)


def staged(store: FaultyStore, batch: str) -> list[tuple[Any, ...]]:
    data = get(store, layout.staged_path(batch))
    assert data is not None
    columns = ("table", "op", "ts", "connector", "order", "before", "after")
    return [tuple(map(row.get, columns)) for row in pq.read_table(io.BytesIO(data)).to_pylist()]


ROWS = [
    ("shop.orders", "c", 1_700_000_000_000, "mysql", '["bin.7",1,0]', None, '{"id": 1}'),
    ("shop.orders", "u", 1_700_000_000_000, "mysql", '["bin.7",2,0]', None, '{"id": 2}'),
    ("shop.orders", "d", 1_700_000_000_000, "mysql", '["bin.7",3,0]', '{"id": 3}', None),
]


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize("envelope", ["maxwell", "auto"])
def test_its_events_are_staged_as_changes_under_its_name_and_recognised(envelope: str, now: datetime) -> None:
    store = FaultyStore()
    done = taken(store, envelope, now, said(1), said(2, "update"), said(3, "delete"))
    assert (done.accepted, done.rejected) == (3, 0)
    assert staged(store, done.batch_id) == ROWS


@pytest.mark.usefixtures("added")
def test_what_it_cannot_read_is_a_dead_letter_that_names_its_table(now: datetime) -> None:
    store = FaultyStore()
    done = taken(store, "maxwell", now, said(1), said(9, "bootstrap-start"), said(2, "update"), said(3, "delete"))
    assert staged(store, done.batch_id) == ROWS
    (letter,) = read_dead(store, layout.batch_dead_path(done.batch_id))
    assert (letter.index, letter.reason, letter.table) == (1, "unknown_op", "shop.orders")


@pytest.mark.usefixtures("added")
def test_auto_tells_it_from_others_in_one_request(now: datetime, event: Callable[..., dict[str, Any]]) -> None:
    store = FaultyStore()
    for events in ([event(1), said(1)], [said(1), event(1)]):
        done = taken(store, "auto", now, *events)
        assert (done.accepted, done.rejected) == (2, 0)
        assert {row[:2] for row in staged(store, done.batch_id)} == {("public.orders", "c"), ("shop.orders", "c")}


@pytest.mark.usefixtures("added")
def test_a_stream_of_another_envelope_says_what_it_sees(now: datetime) -> None:
    (error,) = taken(FaultyStore(), "debezium", now, said(1)).errors
    assert error.message == "this is Maxwell's JSON: write `envelope: maxwell` (or auto) for this stream"


def test_without_its_line_nobody_knows_it(now: datetime) -> None:
    with pytest.raises(ConfigError, match="write debezium, flat, cloudevents, rows or auto"):
        taken(FaultyStore(), "maxwell", now, said(1))
