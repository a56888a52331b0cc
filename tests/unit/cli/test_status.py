import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from firn.config.map_document import MapVersion
from firn.dispatch.dispatcher import Terms, dispatch
from firn.ingest.accept import accept
from firn.ingest.replay import Choice, replay
from firn.log import cuts, layout, published_configs, shard_maps, table_health
from firn.log.batches import UnreadableBatch
from firn.log.store import Store, open_store, paths, put
from firn.log.table_health import Health
from firn.status.stream_status import commits_by_stream, readable_statuses, stream_statuses
from firn.tables import shard_changes
from firn_cli.main import main
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.tables import list_tables

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
STAGED = "staged/shop/**/*.parquet"
CUT = "2026-01-31T12:00:05.000Z"


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


def send(store: Store, *events: str, when: datetime = NOW) -> str:
    config = published_configs.publish(store, CONFIG)
    accept(store, config, "shop", "".join(events).encode(), now=when)
    return config.sha


def test_what_is_staged_is_pending_and_what_is_sealed_waits_for_its_cut(store: Store, catalog: Catalog) -> None:
    sha = send(store, event(1), event(2))
    idle, shop = stream_statuses(store, list_tables(catalog), NOW)
    assert (idle.stream, idle.pending_events, idle.committed_epoch) == ("idle", 0, 0)
    assert (shop.pending_events, shop.pending_batches, shop.sealed_epochs) == (2, 1, 0)

    dispatch(store, "shop", None, now=NOW, terms=Terms(sha), force=True)
    shop = stream_statuses(store, list_tables(catalog), NOW)[1]
    assert (shop.pending_events, shop.sealed_events, shop.sealed_epochs) == (0, 2, 1)

    cuts.write(store, cuts.make("shop", 1, "2026-01-31T12:00:05.000Z", {}))
    shop = stream_statuses(store, list_tables(catalog), NOW)[1]
    assert (shop.sealed_epochs, shop.committed_epoch) == (0, 1)
    assert shop.committed_at == datetime(2026, 1, 31, 12, 0, 5, tzinfo=UTC)
    assert shop.notes == ()


def test_rejected_events_are_counted_as_dead_letters(store: Store, catalog: Catalog) -> None:
    send(store, event(1), '{"op":"c"}\n', "[]\n")
    shop = stream_statuses(store, list_tables(catalog), NOW)[1]
    assert (shop.pending_events, shop.dead_letters) == (1, 2)
    assert "2 dead letters" in shop.notes[0]


def test_a_stream_without_positions_is_marked(store: Store, catalog: Catalog) -> None:
    sha = send(store, event(1, position=False))
    assert stream_statuses(store, list_tables(catalog), NOW)[1].without_position
    dispatch(store, "shop", None, now=NOW, terms=Terms(sha), force=True)
    shop = stream_statuses(store, list_tables(catalog), NOW)[1]
    assert shop.without_position
    assert "no position" in shop.notes[0]


def test_rows_that_count_by_their_arrival_are_marked(store: Store, catalog: Catalog) -> None:
    text = "streams: {{web: {{envelope: rows,{} tables: {{users: {{to: web.users{}}}}}}}}}"
    cases = [("", ", key: [id]", True), ("", ", mode: append", False), (" order_by: at,", ", key: [id]", False)]
    for settings, rule, said in cases:
        config = published_configs.publish(store, text.format(settings, rule))
        accept(store, config, "web", b'{"id": 1, "at": 1}', now=NOW)
        (web,) = stream_statuses(store, list_tables(catalog), NOW)
        assert any("count by when they were accepted" in note for note in web.notes) is said
        assert not web.without_position


def test_emitters_without_an_order_are_marked(store: Store, catalog: Catalog) -> None:
    row = {"database": "app", "table": "users", "type": "INSERT", "isDdl": False, "data": [{"id": "1"}], "es": 1}
    mine = {**row, "type": "insert", "data": {"id": 1}}
    cases = [("canal", row, True), ("maxwell", {**mine, "position": "bin.1:4"}, False), ("maxwell", mine, True)]
    for number, (envelope, event, said) in enumerate(cases):
        event = (
            event if envelope == "canal" else {name: one for name, one in event.items() if name not in ("isDdl", "es")}
        )
        config = f"streams: {{web: {{envelope: {envelope}, tables: {{'*': {{to: 'web.{{table}}'}}}}}}}}"
        published = published_configs.publish(store, config)
        accept(store, published, "web", json.dumps(event).encode(), now=NOW + timedelta(seconds=number))
        assert stream_statuses(store, list_tables(catalog), NOW)[0].without_position is said


def test_rows_that_count_by_their_offsets_are_marked(store: Store, catalog: Catalog) -> None:
    text = "streams: {{web: {{envelope: rows, {}, tables: {{users: {{to: web.users, key: [id]}}}}}}}}"
    arn = "arn:aws:kinesis:eu-central-1:123456789012:stream/users"
    cases = [("kafka: {topics: [users]}", True), ("kafka: {topics: [users], order: timestamp}", False),
             ("kafka: {topics: [users]}, order_by: at", False), (f"kinesis: '{arn}'", False)]  # fmt: skip
    for settings, said in cases:
        published_configs.publish(store, text.format(settings))
        (web,) = stream_statuses(store, list_tables(catalog), NOW)
        assert any("count by their offsets" in note for note in web.notes) is said
        assert not any("count by when they were accepted" in note for note in web.notes)


def test_tables_without_a_key_are_named(store: Store, catalog: Catalog) -> None:
    published_configs.publish(store, CONFIG)
    catalog.create_namespace("shop")
    properties = {"firn.stream": "shop", "firn.mode": "append", "firn.key": "[]"}
    catalog.create_table("shop.log", pa.schema([("a", pa.int64())]), properties=properties)
    shop = stream_statuses(store, list_tables(catalog), NOW)[1]
    assert shop.keyless_tables == ("shop.log",)
    assert "no key for shop.log" in shop.notes[0]


def test_tables_of_removed_rules_and_pipelines_are_named(store: Store, catalog: Catalog) -> None:
    text = "streams: {{web: {{envelope: rows, tables: {{users: {{to: {}, mode: append}}}}, pipelines: {{{}}}}}}}"
    every = "a: {sql: INSERT INTO web.log SELECT * FROM users}, b: {sql: INSERT INTO web.log SELECT 1 FROM users}"
    properties = {"firn.stream": "web", "firn.mode": "append", "firn.key": "[]"}
    catalog.create_namespace("web")
    catalog.create_table("web.users", pa.schema([("a", pa.int64())]), properties=properties)
    told = properties | {"firn.pipeline.input": '{"a": [], "b": []}'}
    catalog.create_table("web.log", pa.schema([("a", pa.int64())]), properties=told)

    def said(*config: str) -> list[str]:
        published_configs.publish(store, text.format(*config))
        (web,) = stream_statuses(store, list_tables(catalog), NOW)
        return [note for note in web.notes if "stay" in note]

    assert said("web.users", every) == []
    assert said("web.users", every.partition(", b")[0]) == ["the pipeline b is gone; its rows in web.log stay"]
    (one,) = said("web.users", "")
    assert one.startswith("no rule and no pipeline of firn.yaml fills web.log any more: it stays as it is (")
    assert [note.partition(" any")[0][-9:] for note in said("other.users", every)] == ["web.users"]


def test_a_shard_that_the_map_got_since_is_filled(store: Store, catalog: Catalog) -> None:
    rule = "{to: '{shard}.log', key: [w], columns: {w: string}, shard: {by: tenant(w), tenants: [x]}}"
    published_configs.publish(store, f"streams: {{web: {{envelope: rows, tables: {{log: {rule}}}}}}}")
    properties = {"firn.stream": "web", "firn.mode": "mirror", "firn.key": '["w"]'}
    for name in ("acme", "Else"):
        catalog.create_namespace(name)
        catalog.create_table(f"{name}.log", pa.schema([("w", pa.string())]), properties=properties)
    (web,) = stream_statuses(store, list_tables(catalog), NOW)
    assert [note.partition(" any")[0][-8:] for note in web.notes if "stay" in note] == ["Else.log"]


def test_a_shard_that_was_moved_is_filled_and_nobody_is_told_to_drop_it(store: Store, catalog: Catalog) -> None:
    rule = "{to: '{shard}.log', key: [w], columns: {w: string}, shard: {by: tenant(w), tenants: [x]}}"
    published_configs.publish(store, f"streams: {{web: {{envelope: rows, tables: {{log: {rule}}}}}}}")
    of = published_configs.current(store).streams["web"].tables[0].shard
    assert of is not None
    after = shard_changes.move(of.map, "x", "apart.events")
    assert shard_maps.put(store, "web", "rest.log", MapVersion(of.map).next(after, "2026-01-01T00:00:00Z", "move"))
    properties = {"firn.stream": "web", "firn.mode": "mirror", "firn.key": '["w"]', "firn.shard.of": "rest.log"}
    for name in ("apart.events", "apart.others"):
        catalog.create_namespace_if_not_exists("apart")
        catalog.create_table(name, pa.schema([("w", pa.string())]), properties=properties)

    def said() -> list[str]:
        (web,) = stream_statuses(store, list_tables(catalog), NOW)
        return [note.partition(" any")[0][-12:] for note in web.notes if "stay" in note]

    assert said() == ["apart.others"]
    put(store, next(iter(paths(store, "shards"))), b"{}")
    assert said() == [], "of a map that can't be read nobody knows"


def test_without_a_configuration_there_is_nothing_to_say(store: Store, catalog: Catalog) -> None:
    assert stream_statuses(store, list_tables(catalog), NOW) == []


def test_replayed_dead_letters_no_longer_wait(store: Store, catalog: Catalog) -> None:
    wrong = CONFIG.replace("  shop:\n", "  shop:\n    envelope: flat\n")
    accept(store, published_configs.publish(store, wrong), "shop", (event(1) + event(2) + "[]\n").encode(), now=NOW)
    shop = stream_statuses(store, list_tables(catalog), NOW)[1]
    assert (shop.dead_letters, shop.dead_waiting) == (3, 3)
    right = published_configs.publish(store, CONFIG)
    list(replay(store, right, "shop", Choice(), clock=lambda: NOW))
    shop = stream_statuses(store, list_tables(catalog), NOW)[1]
    assert (shop.dead_letters, shop.dead_waiting, shop.pending_events) == (3, 1, 2)
    assert "1 dead letter to replay: firn dead list shop" in shop.notes


def taken(folder: Path, pattern: str, seconds: float) -> None:
    """The storage took the newest such object so many seconds before NOW."""
    newest = max(folder.glob(f"staging/{pattern}"), key=lambda path: path.stat().st_mtime_ns)
    os.utime(newest, ((NOW - timedelta(seconds=seconds)).timestamp(),) * 2)


def test_how_long_changes_have_waited_is_told_by_stream_and_table(
    store: Store, catalog: Catalog, tmp_path: Path
) -> None:
    sha = send(store, event(1))
    taken(tmp_path, STAGED, 90)
    idle, shop = stream_statuses(store, list_tables(catalog), NOW)
    assert (idle.oldest_seconds, idle.oldest_by_table) == (None, {})
    assert (shop.oldest_seconds, shop.oldest_by_table) == (90.0, {"shop.orders": 90.0})
    dispatch(store, "shop", None, now=NOW, terms=Terms(sha), force=True)
    assert stream_statuses(store, list_tables(catalog), NOW)[1].oldest_by_table == {"shop.orders": 90.0}
    cuts.write(store, cuts.make("shop", 1, CUT, {}))
    shop = stream_statuses(store, list_tables(catalog), NOW)[1]
    assert (shop.oldest_seconds, shop.oldest_by_table) == (None, {})


def test_a_quarantined_table_ages_while_the_others_are_fresh(store: Store, catalog: Catalog, tmp_path: Path) -> None:
    for n in (1, 2):
        sha = send(store, event(n))
        taken(tmp_path, STAGED, 100 - n)
        dispatch(store, "shop", None, now=NOW, terms=Terms(sha), force=True)
    held = {"shop.orders": "key_changed"}
    cuts.write(store, cuts.make("shop", 2, CUT, {}, progress={"shop.orders": 1}, quarantined=held))
    shop = stream_statuses(store, list_tables(catalog), NOW)[1]
    assert shop.oldest_seconds is None
    assert shop.oldest_by_table == {"shop.orders": 98.0}


def test_the_freshness_of_the_last_hours_commits_is_told_and_drawn(
    store: Store, catalog: Catalog, tmp_path: Path
) -> None:
    sha = send(store, event(1), event(2))
    taken(tmp_path, STAGED, 90)
    dispatch(store, "shop", None, now=NOW, terms=Terms(sha), force=True)
    cuts.write(store, cuts.make("shop", 1, CUT, {}))
    taken(tmp_path, "cuts/shop/*.json", 70)
    found = stream_statuses(store, list_tables(catalog), NOW)[1].freshness
    assert (found.commits, found.events, found.p50, found.p99, found.events_per_second) == (1, 2, 20.0, 20.0, 0.1)
    assert stream_statuses(store, list_tables(catalog), NOW + timedelta(hours=2))[1].freshness.commits == 0
    later = stream_statuses(store, list_tables(catalog), NOW + timedelta(hours=2), timedelta(hours=3))
    assert later[1].freshness.commits == 1
    drawn = commits_by_stream(store, NOW - timedelta(hours=1))
    assert {name: [one.n for one in commits] for name, commits in drawn.items()} == {"idle": [], "shop": [1]}


def test_the_command_prints_freshness_and_writes_the_plot(
    store: Store, catalog: Catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sha = send(store, event(1))
    dispatch(store, "shop", None, now=datetime.now(UTC), terms=Terms(sha), force=True)
    cuts.write(store, cuts.make("shop", 1, CUT, {}))
    send(store, event(2), when=datetime.now(UTC))
    file = tmp_path / "fresh.svg"
    assert main(["status", "--dir", str(tmp_path), "--plot", str(file)]) == 0
    assert main(["status", "--dir", str(tmp_path), "--plot", str(tmp_path / "nowhere" / "f.svg")]) == 2
    told = capsys.readouterr()
    assert "oldest waits" in told.out
    assert "shop.orders" in told.out
    assert "shop: seconds from acceptance to commit (p50" in file.read_text()
    assert str(file) in told.err
    assert main(["status", "--dir", str(tmp_path), "--json"]) == 0
    shop = json.loads(capsys.readouterr().out)[1]
    assert shop["freshness"]["commits"] == 1
    assert list(shop["oldest_by_table"]) == ["shop.orders"]


def test_the_command_names_tables_whose_rows_others_changed(
    store: Store, catalog: Catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published_configs.publish(store, CONFIG)
    at = "2026-11-22T00:00:00.000Z"
    table_health.write(store, "shop", [Health("shop.orders", at, by_others=2), Health("shop.log", at)])
    assert main(["status", "--dir", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert "shop.orders: 2 kept snapshots of others put rows into it" in " ".join((told.out + told.err).split())
    assert "shop.log: " not in told.out + told.err


def test_a_damaged_object_of_one_stream_hides_no_other_and_fails_the_command(
    store: Store, catalog: Catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    send(store, event(1))
    store.put(layout.epoch_path("shop", 1), b"garbage", mode="create")
    with pytest.raises(UnreadableBatch):
        stream_statuses(store, list_tables(catalog), NOW)
    found, unread = readable_statuses(store, list_tables(catalog), NOW)
    assert ([one.stream for one in found], [*unread]) == (["idle"], ["shop"])
    for options in ([], ["--json"]):
        assert main(["status", "--dir", str(tmp_path), *options]) == 1
        told = capsys.readouterr()
        assert "idle" in told.out
        assert "firn: shop is left out: epoch 1 of shop is no epoch" in told.err
