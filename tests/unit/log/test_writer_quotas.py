"""Quotas of a stream's writers: dispatch keeps the account, ingest refuses by it, and nobody else waits."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from firn.commit.cut_writer import sizes_of
from firn.config.model import Config
from firn.config.names import TableName, starred
from firn.config.reader import parse
from firn.config.table_sizes import TableSizes
from firn.ingest.accept import accept
from firn.ingest.queue import Message, take
from firn.log import backlog, backlog_gate, cuts, epochs, table_health
from firn.log.backlog_gate import Gate
from firn.log.batches import read_meta
from firn.log.store import paths
from firn.log.stored_sizes import stored_sizes
from firn.log.table_health import Health
from firn.tables.table_state import TableState

NOW = datetime(2026, 11, 22, tzinfo=UTC)
ACME, OTHER = "AROAACMEACMEACMEACME0", "AROAOTHEROTHEROTHER00"


def config(acme: str, stream: str = "") -> Config:
    return parse(f"""
streams:
  shop:
    envelope: rows
    {stream}
    writers:
      acme: {{auth: {{queue: [{ACME}]}}, {acme}}}
      other: {{auth: {{queue: [{OTHER}]}}}}
    tables: {{orders: {{to: shop.orders, mode: append}}}}
""")


def row(size: int) -> bytes:
    return json.dumps([{"id": 1, "v": "x" * size}]).encode()


def post(store: MemoryStore, settings: Config, writer: str, size: int, at: datetime = NOW) -> None:
    accept(store, settings, "shop", row(size), now=at, writer=settings.streams["shop"].writers[writer])


def seal(store: MemoryStore, settings: Config, at: datetime) -> None:
    found = epochs.candidates(store, "shop", at)
    assert epochs.seal(store, "shop", found, now=at, config=settings.sha, nonce="0" * 32) is not None


def refusals(store: MemoryStore, settings: Config, at: datetime) -> dict[str, str]:
    gate = Gate(store, seconds=0)
    assert gate.shut("shop", at) is None
    found = {}
    for name, writer in settings.streams["shop"].writers.items():
        if (why := gate.shut_for("shop", writer, at)) is not None:
            found[name] = f"{why.status} {why.code} {why.retry_after} {why}"
    return found


def test_a_batch_says_whose_it_is_and_how_much() -> None:
    store, settings = MemoryStore(), config("rate: 1MB/s")
    messages = [
        Message("1", row(10), sender=f"{ACME}:s"),
        Message("2", row(20), sender=OTHER),
        Message("3", row(30), sender=ACME),
    ]
    take(store, settings, "shop", messages, now=NOW)
    (path,) = paths(store, "staged/shop")
    meta = read_meta(store, path)
    assert meta is not None
    assert meta.writers == {"acme": len(row(10)) + len(row(30)), "other": len(row(20))}
    seal(store, settings, NOW)
    (sealed,) = epochs.read_many(store, "shop", [1])
    assert [batch.writers for batch in sealed.batches] == [meta.writers]


def test_who_has_too_much_waiting_is_refused_and_nobody_else() -> None:
    store, settings = MemoryStore(), config("backlog: 1MB")
    post(store, settings, "acme", 700_000)
    post(store, settings, "other", 5_000_000)
    backlog.tell(store, settings.streams["shop"], NOW)
    assert refusals(store, settings, NOW) == {}
    seal(store, settings, NOW)
    post(store, settings, "acme", 400_000)  # sealed and not, both wait
    backlog.tell(store, settings.streams["shop"], NOW)
    found = refusals(store, settings, NOW)
    assert list(found) == ["acme"]
    assert found["acme"].startswith("429 backlog_full 30 ")
    assert "1.1 MB" in found["acme"]
    assert "streams.shop.writers.acme.backlog" in found["acme"]
    assert refusals(store, settings, NOW + timedelta(minutes=11)) == {}  # an old state is not believed
    assert refusals(store, config("backlog: 2MB"), NOW) == {}  # by the limit as it is now


def test_its_rate_is_kept_by_the_account_of_all_processes() -> None:
    store, settings = MemoryStore(), config("rate: 10KB/s")
    shop = settings.streams["shop"]
    assert backlog.tell(store, shop, NOW) is not None
    post(store, settings, "other", 4_000_000)
    post(store, settings, "acme", 1_900_000)  # 180 s of it may come at once: 1.8 MB
    seal(store, settings, NOW)
    told = backlog.tell(store, shop, NOW)
    assert told is not None
    assert list(told.writers) == ["acme"]
    found = refusals(store, settings, NOW)
    assert list(found) == ["acme"]
    assert "rate_exceeded 11 " in found["acme"]
    assert "of the writer acme 0.010 MB" in found["acme"]
    assert refusals(store, settings, NOW + timedelta(seconds=11)) == {}
    later = backlog.tell(store, shop, NOW + timedelta(seconds=100))
    assert later is not None
    assert later.writers["acme"].debt == pytest.approx(100_000 - 1_000_000, abs=1_000)
    assert backlog.tell(store, shop, NOW + timedelta(hours=1)).writers == {}  # type: ignore[union-attr]


def test_a_stream_and_its_writer_have_accounts_of_their_own() -> None:
    store, settings = MemoryStore(), config("rate: 10KB/s", "rate: 1MB/s")
    shop = settings.streams["shop"]
    backlog.tell(store, shop, NOW)
    post(store, settings, "acme", 1_900_000)
    seal(store, settings, NOW)
    told = backlog.tell(store, shop, NOW)
    assert told is not None
    assert told.debt == pytest.approx(1_900_000 - 180_000_000, abs=1_000)
    assert told.writers["acme"].debt == pytest.approx(100_000, abs=1_000)
    assert told == backlog_gate.read(store, "shop")


def test_one_process_keeps_it_at_once() -> None:
    gate = Gate(MemoryStore(), clock=lambda: 0.0)
    assert gate.pace("shop", 1_000, 900, "acme") == 0
    assert gate.pace("shop", 1_000, 900, "acme") == 0
    assert gate.pace("shop", 1_000, 900, "acme") == 1
    assert gate.pace("shop", 1_000, 900, "other") == 0
    assert gate.pace("shop", 1_000, 900) == 0


def test_its_messages_wait_in_the_queue_and_the_others_do_not() -> None:
    store, settings = MemoryStore(), config("backlog: 1MB")
    messages = [
        Message(str(n), row(n), sender=sender)
        for n, sender in enumerate((ACME, OTHER, ACME, "AIDASTRANGERSTRANGER0", OTHER))
    ]
    waits: Callable[[object], bool] = lambda writer: writer.name == "acme"  # type: ignore[attr-defined]  # noqa: E731
    done = take(store, settings, "shop", messages, now=NOW, waits=waits)
    assert done.again == [0, 2]
    assert done.batch is not None
    assert (done.batch.accepted, done.batch.rejected) == (2, 1)
    after = take(store, settings, "shop", messages, now=NOW)
    assert (after.duplicates, after.again) == ([1, 3, 4], [])
    assert after.batch is not None
    assert after.batch.accepted == 2


def test_who_sends_nothing_is_not_in_the_state() -> None:
    names = "".join(f"      w{n}: {{auth: {{queue: [AROA{n:016d}]}}, rate: 1KB/s}}\n" for n in range(3))
    table = "{orders: {to: shop.orders, mode: append}}"
    text = f"streams:\n  shop:\n    envelope: rows\n    writers:\n{names}    tables: {table}\n"
    store, shop = MemoryStore(), parse(text).streams["shop"]
    told = backlog.tell(store, shop, NOW)
    assert told is not None
    assert told.writers == {}


def measured(store: MemoryStore, **sizes: int) -> None:
    found = [Health(f"shop.{name}", "2026-11-22T00:00:00.000Z", bytes=size) for name, size in sizes.items()]
    table_health.write(store, "shop", found)


def test_a_writer_over_its_storage_is_refused_and_nobody_else_waits() -> None:
    store, settings = MemoryStore(), config("storage: 1MB, stored_in: [shop.acme_*, shop.old]")
    post(store, settings, "acme", 10)
    for size, is_full in ((999_000, False), (1_000_001, True), (500_000, False)):
        measured(store, acme_orders=size - 1_000, old=1_000, orders=10_000_000)
        backlog.tell(store, settings.streams["shop"], NOW)
        told = refusals(store, settings, NOW)
        assert set(told) == ({"acme"} if is_full else set())
        for text in told.values():
            assert text.startswith(
                "429 storage_full 600 nothing was taken: the tables of the writer acme take 1.000 MB"
            )
            assert "streams.shop.writers.acme.storage in firn.yaml" in text
            assert "`firn compact` the tables" in text, "of an idle stream nothing else measures them again"
    # What was accepted is still on its way.
    assert len(epochs.candidates(store, "shop", NOW).batches) == 1


def test_of_cut_and_maintenance_the_newer_measured_a_table() -> None:
    store, settings = MemoryStore(), config("storage: 1MB, stored_in: ['shop.*']")
    for n, (made_at, size) in enumerate((("21T00", 2_000_000), ("22T00", 500_000), ("22T01", 3_000_000)), 1):
        at = f"2026-11-{made_at}:00:00.001Z"
        cuts.write(store, cuts.make("shop", n, at, {"shop.orders": n}, sizes={"shop.orders": size}))
        if n == 1:
            assert stored_sizes(store, ["shop"]) == {"shop.orders": 2_000_000}, "nobody else has looked"
            measured(store, orders=700_000, other=1)
        found = stored_sizes(store, ["shop"])
        assert found == {"shop.orders": 700_000 if n == 1 else size, "shop.other": 1}
    backlog.tell(store, settings.streams["shop"], NOW)
    assert set(refusals(store, settings, NOW)) == {"acme"}


def test_a_table_that_was_dropped_takes_nothing_though_nobody_measures_it_again() -> None:
    store, both = MemoryStore(), {"shop.orders": 1, "shop.other": 1}
    measured(store, orders=2_000_000, other=1)
    for n, tables in ((1, both), (2, {"shop.other": 1})):
        at = f"2026-11-22T0{n}:00:00.000Z"
        cuts.write(store, cuts.make("shop", n, at, tables, progress=both))
        expected = {"shop.orders": 2_000_000} if n == 1 else {}
        assert stored_sizes(store, ["shop"]) == expected | {"shop.other": 1}


def test_of_two_streams_cuts_the_newer_tells_what_a_table_takes() -> None:
    store = MemoryStore()
    for stream, hour, size in (("a", 2, 20), ("b", 1, 10)):
        at = f"2026-11-22T0{hour}:00:00.000Z"
        cuts.write(store, cuts.make(stream, 1, at, {"shop.orders": 1}, sizes={"shop.orders": size}))
    assert stored_sizes(store, ["a", "b"]) == stored_sizes(store, ["b", "a"]) == {"shop.orders": 20}


def test_a_cut_tells_what_the_tables_of_writers_take() -> None:
    def state(*told: str) -> TableState:
        return cast("TableState", SimpleNamespace(ancestry=tuple({"total-files-size": one} for one in told)))

    there = {
        TableName("shop", "orders"): state("12", "7"), TableName("shop", "odd"): state("much"),
        TableName("shop", "new"): state(), TableName("else", "where"): state("5"),
    }  # fmt: skip
    stream = config("stored_in: ['shop.*']").streams["shop"]
    assert sizes_of(stream, there) == {"shop.orders": 12}
    assert sizes_of(config("rate: 1MB/s").streams["shop"], there) == {}


def test_a_queue_message_of_a_writer_over_its_storage_stays_in_the_queue() -> None:
    store, settings = MemoryStore(), config("storage: 1MB, stored_in: ['shop.*']")
    measured(store, orders=2_000_000)
    backlog.tell(store, settings.streams["shop"], NOW)
    gate = Gate(store, seconds=0)
    messages = [Message("1", row(10), sender=ACME), Message("2", row(20), sender=OTHER)]
    taken = take(store, settings, "shop", messages, now=NOW, waits=lambda writer: gate.shut_for("shop", writer, NOW))
    assert taken.again == [0]
    assert taken.batch is not None


def test_a_storage_that_nobody_measured_or_that_was_measured_long_ago_shuts_nobody_out() -> None:
    store, settings = MemoryStore(), config("storage: 1MB, stored_in: ['shop.*']")
    backlog.tell(store, settings.streams["shop"], NOW)
    assert refusals(store, settings, NOW) == {}
    measured(store, orders=2_000_000)
    backlog.tell(store, settings.streams["shop"], NOW)
    assert refusals(store, settings, NOW + timedelta(minutes=11)) == {}


def test_ten_thousand_writers_and_their_tables_are_looked_up_quickly() -> None:
    sizes = TableSizes({f"t{n}.orders": 1 for n in range(1_000)} | {"t5.other": 2, "x.t5": 4})
    began = time.process_time()
    assert sum(sizes.of([f"t{n}.*"]) for n in range(10_000)) == 1_002
    assert time.process_time() - began < 2
    for pattern, table in (
        ("t{}*.orders", "t{}.orders"),
        ("shop.t{}_*", "shop.t{}_a"),
        ("shop.*_{}", "shop.orders_{}"),
    ):
        many = TableSizes({table.format(f"{n:05}"): 1 for n in range(10_000)})
        began = time.process_time()
        assert sum(many.of([pattern.format(f"{n:05}")]) for n in range(10_000)) == 10_000
        assert time.process_time() - began < 5, pattern
    assert sizes.of(["t5.*", "t5.orders", "*.t5", "t5.*s", "none.*", "*"]) == 1_006
    assert sizes.of(["*.*", "t1.orders"]) == 1_006


@given(st.sets(st.text("ab.", max_size=6), max_size=20), st.lists(st.text("ab.*", max_size=6), max_size=3))
def test_tables_are_those_whose_whole_name_fits(names: set[str], patterns: list[str]) -> None:
    expected = {name for name in names for pattern in patterns if starred(pattern).fullmatch(name)}
    assert TableSizes(dict.fromkeys(names, 1)).named(patterns) == expected
