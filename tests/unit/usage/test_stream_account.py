"""What was sent to a stream by month: each epoch once, whoever counts it and how often."""

import logging
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.config.reader import parse
from firn.log import epochs, layout
from firn.log.batches import FORMAT
from firn.log.epochs import Epoch, EpochBatch
from firn.log.store import put, put_if_absent
from firn.log.usage_layout import stream_path
from firn.usage import tenant_metrics
from firn.usage.stream_account import (
    MOST_EPOCHS,
    NOBODY,
    Account,
    Sent,
    brought_on,
    read,
    sent_in,
    up_to_now,
    update,
)
from firn.usage.tenant_metrics import NAMED, OTHERS, print_query, print_sent
from firn.usage.tenant_rounds import count_sent
from tests.unit.log.storage_faults import FaultyStore

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def epoch(n: int, at: datetime, *batches: dict[str, int], unnamed: int = 0) -> Epoch:
    held = [EpochBatch(f"b{n}.{i}", "p", 1, 1, sum(one.values()) + unnamed, one) for i, one in enumerate(batches)]
    return Epoch(FORMAT, "shop", n, "0" * 32, layout.instant(at), "sha", held, {})


def sealed(store: FaultyStore, *some: Epoch) -> None:
    for one in some:
        put_if_absent(store, layout.epoch_path("shop", one.n), epochs.encode(one))


def test_a_batch_counts_for_each_whose_changes_it_holds() -> None:
    some = [epoch(1, NOON, {"acme": 10}, {"acme": 5, "other": 7}), epoch(2, NOON, {}, {"acme": 1}, unnamed=3)]
    assert sent_in(some) == {"acme": Sent(16, 3), "other": Sent(7, 1), NOBODY: Sent(6, 2)}


def test_counting_begins_with_the_next_epoch_and_goes_on_over_months() -> None:
    store = FaultyStore()
    sealed(store, epoch(1, NOON, {"acme": 1_000}))
    assert update(store, "shop", NOON) == {}
    sealed(store, epoch(2, NOON, {"acme": 10}), epoch(3, NOON + timedelta(hours=12), {"acme": 5}))
    assert up_to_now(store, "shop", "2026-02") == Account(FORMAT, "shop", "2026-02", 3, {"acme": Sent(5, 1)})
    assert read(store, "shop", "2026-02") is None, "a look writes nothing"
    assert update(store, "shop", NOON + timedelta(hours=13)) == {"acme": Sent(15, 2)}
    assert update(store, "shop", NOON + timedelta(hours=13)) == {}
    for month, size in (("2026-01", 10), ("2026-02", 5)):
        found = read(store, "shop", month)
        assert found is not None
        assert found.sent == {"acme": Sent(size, 1)}
        assert up_to_now(store, "shop", month) == found
    assert up_to_now(store, "shop", "2026-03") is None
    assert len(store.puts) == 1 + 2 + 3, "nothing is written where nothing was sealed"


def test_one_that_is_far_behind_is_brought_on_by_many_rounds() -> None:
    """Writers were taken out of firn.yaml and are back a month later: a round has a minute, other streams in it too."""
    store = FaultyStore()
    update(store, "shop", NOON)
    sealed(store, *(epoch(n, NOON, {"acme": 1}) for n in range(1, 2 * MOST_EPOCHS + 2)))
    together = 0
    for expected in (MOST_EPOCHS, MOST_EPOCHS, 1, 0):
        found = update(store, "shop", NOON).get("acme", Sent())
        assert found == Sent(expected, expected)
        together += found.bytes
        told = read(store, "shop", "2026-01")
        assert told is not None
        assert told.counted == together
        assert told.sent["acme"].bytes == together


def test_an_account_that_is_behind_is_made_good_by_the_next_round() -> None:
    store = FaultyStore()
    update(store, "shop", NOON)
    sealed(store, epoch(1, NOON, {"acme": 10}))
    behind = read(store, "shop", "2026-01")
    update(store, "shop", NOON)
    put(store, stream_path("shop", "2026-01"), msgspec.json.encode(behind))  # a round that was slower
    sealed(store, epoch(2, NOON, {"acme": 5}))
    update(store, "shop", NOON)
    found = read(store, "shop", "2026-01")
    assert found is not None
    assert (found.counted, found.sent) == (2, {"acme": Sent(15, 2)})


SOME = st.lists(
    st.tuples(st.integers(0, 90), st.dictionaries(st.sampled_from(["a", "b"]), st.integers(1, 9), max_size=2)),
    max_size=8,
)


@given(SOME, st.integers(0, 8))
def test_two_rounds_count_what_one_would(some: list[tuple[int, dict[str, int]]], cut: int) -> None:
    new = [epoch(n + 1, NOON + timedelta(days=days), held) for n, (days, held) in enumerate(some)]
    start = Account(FORMAT, "shop", "2026-01", 0, {})
    at_once = {one.month: one for one in brought_on(start, new)}
    first = brought_on(start, new[:cut])
    then = brought_on(first[-1] if first else start, new[cut:])
    assert {one.month: one for one in (*first, *then)} == at_once


def test_what_cant_be_read_is_begun_again() -> None:
    store = FaultyStore()
    put(store, stream_path("shop", "2026-01"), b"{")
    assert read(store, "shop", "2026-01") is None
    assert update(store, "shop", NOON) == {}
    assert read(store, "shop", "2026-01") is not None


TENANTS = "streams: {shop: {envelope: rows, writers: {%s}, tables: {t: {to: s.t, mode: append}}}, other: {tables: {}}}"


def config_of(count: int, readers: int = 0) -> str:
    auth = "auth: {by: api_key, secret: 'ssm:/firn/%s'}"
    writers = ", ".join(f"w{n}: {{{auth % f'w{n}'}}}" for n in range(count))
    reading = ", ".join(f"r{n}: {{{auth % f'r{n}'}, tables: [s.t]}}" for n in range(readers))
    return (f"query: {{readers: {{{reading}}}}}\n" if readers else "") + TENANTS % writers


def test_metrics_name_the_first_tenants_and_sum_up_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    config = parse(config_of(NAMED + 2, NAMED + 1).replace("tables: {}", "tables: {t: {to: o.t, key: [id]}}"))
    sent = {
        "w0": Sent(10, 1),
        f"w{NAMED}": Sent(5, 1),
        f"w{NAMED + 1}": Sent(6, 2),
        "gone": Sent(1, 1),
        NOBODY: Sent(9, 9),
    }
    print_sent(config, sent)
    for reader in ("r0", f"r{NAMED}", "gone"):
        print_query(config, reader, 1.5)
    lines = [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["tenant"], one["firn_tenant_bytes"], one["firn_tenant_requests"]) for one in lines[:2]] == [
        ("w0", 10, 1),
        (OTHERS, 12, 4),
    ]
    assert [one["reader"] for one in lines[2:]] == ["r0", OTHERS, OTHERS]
    assert tenant_metrics.named("r1", ["r1"]) == "r1"


def test_dispatch_counts_each_fifth_minute_and_where_there_are_tenants_alone() -> None:
    store, log = FaultyStore(), logging.getLogger("test")
    config = parse(config_of(1).replace("tables: {}", "tables: {t: {to: o.t, key: [id]}}"))
    alone = parse("streams: {shop: {tables: {t: {to: o.t, key: [id]}}}}")
    count_sent(store, alone, ["shop"], NOON, log, force=True)
    count_sent(store, config, ["shop"], NOON + timedelta(minutes=1), log)
    assert store.puts == []
    count_sent(store, config, ["shop"], NOON, log)
    count_sent(store, config, ["other"], NOON + timedelta(minutes=1), log, force=True)
    assert store.puts == [stream_path("shop", "2026-01"), stream_path("other", "2026-01")]
    store.away = True
    count_sent(store, config, ["shop"], NOON, log)  # fails nobody
