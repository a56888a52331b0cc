import io
import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from firn.config.model import Config
from firn.errors import StorageUnavailable, UnknownOutcome
from firn.ingest.accept import accept, accept_messages
from firn.ingest.replay import Choice, Replayed, _staged_rows, acknowledged, replay
from firn.log import epochs, layout, published_configs
from firn.log.batches import read_meta
from firn.log.dead_letters import replay_marks
from firn.log.dead_letters.letters import DeadLetter, StagedChange, read_dead, write_dead
from firn.log.store import Store, get, open_store, paths
from tests.data.formats.old_formats import unpack
from tests.unit.log.storage_faults import FaultyStore

FLAT = "streams: {shop: {envelope: flat, tables: {public.orders: {to: shop.orders, key: [id]}}}}"
RIGHT = "streams: {shop: {envelope: debezium, tables: {public.orders: {to: shop.orders, key: [id]}}}}"
TWINS = """
streams:
  shop:
    envelope: auto
    tables:
      sales.twin: {to: sales.twin, mode: append}
      hr.twin: {to: hr.twin, mode: append}
"""
ONE_TWIN = "streams: {shop: {envelope: auto, tables: {sales.twin: {to: sales.twin, mode: append}}}}"
MYSQL_OFF = """
streams:
  shop:
    tables:
      '*': {to: '{schema}.{table}', key: [id]}
"""
MYSQL_ON = "streams: {shop: {tables: {'*': {to: 'shop.{table}', key: [id]}}}}"

Event = Callable[..., dict[str, Any]]


@pytest.fixture
def clock(now: datetime) -> Iterator[Callable[[], datetime]]:
    """A minute later at each look."""
    ticks = count(1)
    return lambda: now + timedelta(minutes=next(ticks))


def lines(*events: Any) -> bytes:
    return "\n".join(event if isinstance(event, str) else json.dumps(event) for event in events).encode()


def run(store: Store, config: Config, clock: Callable[[], datetime], **how: Any) -> list[Replayed]:
    choice = how.pop("choice", Choice())
    return list(replay(store, config, "shop", choice, clock=clock, **how))


def staged(store: Store, batch: str | None) -> list[StagedChange]:
    assert batch is not None
    return list(_staged_rows(store, batch).values())


def replayed_batches(store: Store) -> list[str]:
    """The batches of the whole log that are replays."""
    found = [layout.batch_of(path) or "" for path in paths(store, layout.staged_prefix("shop"))]
    metas = {batch: read_meta(store, layout.staged_path(batch)) for batch in found}
    return [batch for batch, meta in metas.items() if meta is not None and meta.replay]


def test_letters_that_a_wrong_envelope_made_are_brought_by_the_right_one(
    now: datetime, clock: Callable[[], datetime], event: Event
) -> None:
    store = FaultyStore()
    accept(store, published_configs.publish(store, FLAT), "shop", lines(event(1), event(2), event(3)), now=now)
    (done,) = run(store, published_configs.publish(store, RIGHT), clock)
    assert (done.letters, done.events, done.dead_again, done.unplaced) == (3, 3, 0, 0)
    assert [json.loads(change.after or "") for change in staged(store, done.batch)] == [{"id": 1}, {"id": 2}, {"id": 3}]
    meta = read_meta(store, layout.staged_path(done.batch or ""))
    assert meta is not None
    assert (meta.tables, meta.replay) == ({"public.orders": 3}, done.path)


def test_a_second_replay_finds_nothing_left(now: datetime, clock: Callable[[], datetime], event: Event) -> None:
    store = FaultyStore()
    accept(store, published_configs.publish(store, FLAT), "shop", lines(event(1)), now=now)
    right = published_configs.publish(store, RIGHT)
    run(store, right, clock)
    (done,) = run(store, right, clock)
    assert (done.batch, done.letters, done.still) == (None, 0, {})
    assert len(replayed_batches(store)) == 1


def test_what_cannot_be_taken_yet_stays_a_letter_and_says_why(
    now: datetime, clock: Callable[[], datetime], event: Event
) -> None:
    store = FaultyStore()
    accept(store, published_configs.publish(store, FLAT), "shop", lines(event(1), '{"op": "c", '), now=now)
    wrong = published_configs.publish(store, FLAT + "\n")
    (done,) = run(store, wrong, clock)
    assert done.batch is None
    assert sorted(code for code, _ in done.still) == ["bad_json", "missing_op"]
    (done,) = run(store, published_configs.publish(store, RIGHT), clock)
    assert (done.letters, [code for code, _ in done.still]) == (1, ["bad_json"])


def test_a_letter_whose_table_no_rule_takes_now_is_not_thrown_away(
    now: datetime, clock: Callable[[], datetime], event: Event
) -> None:
    store = FaultyStore()
    accept(store, published_configs.publish(store, FLAT), "shop", lines(event(1, table="other")), now=now)
    (done,) = run(store, published_configs.publish(store, RIGHT), clock)
    ((code, message),) = done.still
    assert (done.batch, code) == (None, "filtered_table")
    assert "public.other" in message


def test_a_dry_run_writes_nothing(now: datetime, clock: Callable[[], datetime], event: Event) -> None:
    store = FaultyStore()
    accept(store, published_configs.publish(store, FLAT), "shop", lines(event(1)), now=now)
    right = published_configs.publish(store, RIGHT)
    before = paths(store, "")
    (done,) = run(store, right, clock, dry_run=True)
    assert (done.letters, done.batch) == (1, None)
    assert paths(store, "") == before


def flat_twin(lsn: int = 5, **values: Any) -> dict[str, Any]:
    return {"id": 1, **values, "__op": "c", "__table": "twin", "__lsn": lsn, "__connector": "postgresql"}


def test_a_refused_table_comes_back_as_the_very_change_it_was(now: datetime, clock: Callable[[], datetime]) -> None:
    source = {"connector": "mysql", "db": "", "table": "t", "file": "mysql-bin.000003", "pos": 154, "row": 2}
    body = {"op": "c", "after": {"id": 1}, "source": source, "transaction": {"total_order": 7}}
    store = FaultyStore()
    accept(store, published_configs.publish(store, MYSQL_OFF), "shop", lines(body), now=now)
    (letter,) = read_dead(store, paths(store, "dead")[0])
    assert (letter.reason, letter.table) == ("bad_table", "t")
    (done,) = run(store, published_configs.publish(store, MYSQL_ON), clock)
    (change,) = staged(store, done.batch)
    assert (change.connector, change.order, change.tx_order) == ("mysql", '["mysql-bin.000003",154,2]', 7)


def test_identical_rows_of_one_copy_that_died_together_all_come_back(
    now: datetime, clock: Callable[[], datetime]
) -> None:
    store = FaultyStore()
    accept(store, published_configs.publish(store, TWINS), "shop", lines(*[flat_twin()] * 3), now=now)
    one = published_configs.publish(store, ONE_TWIN)
    (batch,) = [layout.dead_name(path) for path in paths(store, "dead")]
    path = layout.batch_dead_path(batch)
    first = run(store, one, clock, choice=Choice(only=frozenset({(path, 1)})))
    rest = run(store, one, clock)
    changes = [change for done in (*first, *rest) for change in staged(store, done.batch)]
    assert sorted(change.occurrence or 0 for change in changes) == [0, 1, 2]
    assert sorted(change.origin or "" for change in changes) == [f"{batch}:{n}" for n in range(3)]


def test_an_equal_row_that_landed_is_not_taken_for_the_dead_one(
    now: datetime, clock: Callable[[], datetime], event: Event
) -> None:
    store = FaultyStore()
    config = published_configs.publish(store, RIGHT)
    broken = event(1)
    broken["transaction"] = {"total_order": "none"}
    accept(store, config, "shop", lines(event(1), broken), now=now)
    (path,) = paths(store, "dead")
    (done,) = run(store, config, clock, corrected={(path, 0): lines(event(1))})
    (change,) = staged(store, done.batch)
    assert change.occurrence == 1


def test_a_corrected_original_goes_in_the_letters_place(
    now: datetime, clock: Callable[[], datetime], event: Event
) -> None:
    store = FaultyStore()
    config = published_configs.publish(store, RIGHT)
    accept(store, config, "shop", lines(event(1), '{"op": "c", '), now=now)
    (path,) = paths(store, "dead")
    (done,) = run(store, config, clock, corrected={(path, 0): lines(event(9))})
    (change,) = staged(store, done.batch)
    assert (change.order, change.after, change.origin) == ('["9","9"]', '{"id": 9}', f"{layout.dead_name(path)}:1")
    assert run(store, config, clock, corrected={(path, 0): lines(event(9))})[0].batch is None


def test_a_corrected_change_keeps_the_order_that_its_event_does_not_tell(
    now: datetime, clock: Callable[[], datetime]
) -> None:
    store = FaultyStore()
    config = published_configs.publish(store, MYSQL_ON)
    change = StagedChange("db.t", "u", "mysql", '["mysql-bin.000003",154,0]', 5, 3, after='{"id": "x"}')
    letter = DeadLetter("type_mismatch", "column id", "shop", "db.t", "shop." + "0" * 28, 4, now, b"{}", change, 0)
    path = layout.dead_path("shop", now, "commit-1-shop.t")
    write_dead(store, path, [letter])
    fixed = lines({"op": "u", "after": {"id": 1}, "source": {"connector": "mysql", "db": "db", "table": "t"}})
    (done,) = run(store, config, clock, corrected={(path, 0): fixed})
    (again,) = staged(store, done.batch)
    assert (again.order, again.tx_order, again.ts, again.after) == (change.order, 3, 5, '{"id": 1}')


def test_a_letter_of_an_older_generation_keeps_it(now: datetime, clock: Callable[[], datetime], event: Event) -> None:
    store = FaultyStore()
    accept(store, published_configs.publish(store, FLAT), "shop", lines(event(1)), now=now)
    (done,) = run(store, published_configs.publish(store, RIGHT.replace("envelope", "generation: 2, envelope")), clock)
    data = get(store, layout.staged_path(done.batch or ""))
    assert data is not None
    assert pq.read_table(io.BytesIO(data)).column("generation").to_pylist() == [0]


def test_the_good_events_of_a_broken_message_come_and_the_others_die_in_the_new_batch(
    now: datetime, clock: Callable[[], datetime], event: Event
) -> None:
    store = FaultyStore()
    config = published_configs.publish(store, RIGHT)
    accept_messages(store, config, "shop", [b"\xff nonsense"], now=now)
    (path,) = paths(store, "dead")
    (done,) = run(store, config, clock, corrected={(path, 0): lines(event(1), {"op": "x"}, event(2))})
    assert (done.letters, done.events, done.dead_again) == (1, 2, 1)
    first = layout.dead_name(path)
    assert [change.origin for change in staged(store, done.batch)] == [f"{first}:0", f"{first}:0.2"]
    (again,) = read_dead(store, layout.batch_dead_path(done.batch or ""))
    assert (again.reason, again.index, again.batch) == ("unknown_op", 1, done.batch)


def test_only_the_chosen_letters_go(now: datetime, clock: Callable[[], datetime], event: Event) -> None:
    store = FaultyStore()
    flat = published_configs.publish(store, FLAT)
    accept(store, flat, "shop", lines(event(1), event(2, table="other")), now=now)
    accept(store, flat, "shop", lines(event(3)), now=now + timedelta(days=2))
    right = published_configs.publish(store, RIGHT)
    assert [done.letters for done in run(store, right, clock, choice=Choice(reason="bad_json"))] == [0, 0]
    assert [done.letters for done in run(store, right, clock, choice=Choice(table="public.other"))] == [0, 0]
    recent = run(store, right, clock, choice=Choice(since=now + timedelta(days=1)))
    assert [done.letters for done in recent] == [1]
    old = layout.dead_name(paths(store, "dead")[0])
    assert [done.letters for done in run(store, right, clock, choice=Choice(batch=old))] == [1, 0]


def test_letters_whose_batch_was_never_staged_do_not_count(now: datetime, clock: Callable[[], datetime]) -> None:
    store = FaultyStore()
    config = published_configs.publish(store, RIGHT)
    store.faults = [None, "refused", "refused", "refused"]
    with pytest.raises(StorageUnavailable):
        accept(store, config, "shop", b'{"op": "x"}', now=now)
    (path,) = paths(store, "dead")
    assert not acknowledged(store, path)
    assert run(store, config, clock) == []


def test_letters_older_than_the_log_that_is_kept_count(now: datetime, event: Event) -> None:
    store = FaultyStore()
    config = published_configs.publish(store, RIGHT)
    done = accept(store, config, "shop", b'{"op": "x"}', now=now)
    later = now + timedelta(days=20)
    accept(store, config, "shop", lines(event(1)), now=later)
    store.delete(layout.staged_path(done.batch_id))
    assert not acknowledged(store, layout.batch_dead_path(done.batch_id))
    found = epochs.candidates(store, "shop", later)
    assert epochs.seal(store, "shop", found, now=later, config=config.sha, nonce="n")
    assert acknowledged(store, layout.batch_dead_path(done.batch_id))


class Died(BaseException):
    """The process, at an I/O call."""


class Mortal(FaultyStore):
    """Dies at its n-th put, before or after the effect."""

    def __init__(self, inner: Any, at: int, *, after: bool) -> None:
        super().__init__()
        self.inner = inner
        self.left = at
        self.after = after

    def put(self, path: str, file: bytes, *, mode: str) -> Any:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise Died
        result = self.inner.put(path, file, mode=mode)
        if self.left == 0:
            raise Died
        return result


@pytest.mark.parametrize("after", [False, True])
def test_a_replay_that_dies_at_any_write_is_finished_by_the_next(
    now: datetime, clock: Callable[[], datetime], event: Event, after: bool
) -> None:
    for at in range(1, 20):
        store = FaultyStore()
        accept(store, published_configs.publish(store, FLAT), "shop", lines(event(1), event(2)), now=now)
        accept_messages(
            store, published_configs.publish(store, RIGHT), "shop", [b"\xff"], now=now + timedelta(seconds=1)
        )
        right = published_configs.publish(store, RIGHT)
        message = layout.batch_dead_path(layout.dead_name(paths(store, "dead")[1]))
        corrected = {(message, 0): lines(event(5), {"op": "c"})}
        try:
            run(Mortal(store.inner, at, after=after), right, clock, corrected=corrected)
        except Died:
            # What the next one is told does not matter to what was claimed.
            run(store, published_configs.publish(store, FLAT), clock)
            run(store, published_configs.publish(store, RIGHT), clock, corrected=corrected)
        else:
            assert at > 7, "each replay claims, writes dead letters, stages and says so"
            return
        changes = [change for batch in replayed_batches(store) for change in staged(store, batch)]
        assert sorted(change.after or "" for change in changes) == ['{"id": 1}', '{"id": 2}', '{"id": 5}'], at
        for batch in replayed_batches(store):
            meta = read_meta(store, layout.staged_path(batch))
            assert meta is not None
            assert meta.rejected == len(read_dead(store, layout.batch_dead_path(batch)))
    pytest.fail("no clean run")


class Racing(FaultyStore):
    """Lets another replay run through just before this one's claim."""

    def __init__(self, inner: Any, other: Callable[[], None]) -> None:
        super().__init__()
        self.inner = inner
        self.other: Callable[[], None] | None = other

    def put(self, path: str, file: bytes, *, mode: str) -> Any:
        if path.startswith("replays/") and self.other is not None:
            other, self.other = self.other, None
            other()
        return self.inner.put(path, file, mode=mode)


def test_two_replays_at_once_take_each_letter_once(now: datetime, clock: Callable[[], datetime], event: Event) -> None:
    store = FaultyStore()
    accept(store, published_configs.publish(store, FLAT), "shop", lines(event(1), event(2), event(3)), now=now)
    right = published_configs.publish(store, RIGHT)
    (path,) = paths(store, "dead")

    def other() -> None:
        run(store, right, clock, choice=Choice(only=frozenset({(path, 1)})))

    (done,) = run(Racing(store.inner, other), right, clock)
    assert done.letters == 2
    earlier, staged_numbers = replay_marks.of_object(store, path)
    assert [one.rows for one in earlier] == [[(1, 1)], [(0, 0), (2, 2)]]
    assert staged_numbers == {1, 2}


def test_a_claim_that_stays_unclear_is_finished_by_the_next(
    now: datetime, clock: Callable[[], datetime], event: Event
) -> None:
    store = FaultyStore()
    accept(store, published_configs.publish(store, FLAT), "shop", lines(event(1)), now=now)
    right = published_configs.publish(store, RIGHT)
    store.faults = [None, "lost before", "lost before", "lost before"]
    with pytest.raises(UnknownOutcome):
        run(store, right, clock)
    (done,) = run(store, right, clock)
    assert len(done.finished) == 1
    assert replayed_batches(store) == done.finished


@pytest.mark.parametrize("tables", [("orders", "zz__deletes"), ("zz__deletes", "yy__deletes")])
def test_what_is_refused_since_it_was_claimed_is_a_letter_again_and_stops_no_replay(
    now: datetime, clock: Callable[[], datetime], event: Event, tables: tuple[str, ...]
) -> None:
    """As after an upgrade: a replay of an older version, which died, took names that are reserved by now."""
    store = FaultyStore()
    wrong = published_configs.publish(store, MYSQL_ON.replace("tables", "envelope: flat, tables"))
    accept(store, wrong, "shop", lines(*(event(number, table=one) for number, one in enumerate(tables))), now=now)
    (path,) = paths(store, "dead")
    right = published_configs.publish(store, MYSQL_ON)
    batch = layout.batch_id("shop", now + timedelta(seconds=1), b"12345678")
    assert replay_marks.claim(store, replay_marks.make(path, 1, batch, right.sha, [0, 1], {}))

    (first,) = run(store, right, clock)
    refused = [one for one in tables if one != "orders"]
    assert first.finished == [batch]
    assert [json.loads(one.after or "")["id"] for one in staged(store, batch)] == list(range(2 - len(refused)))
    again = read_dead(store, layout.batch_dead_path(batch))
    assert [(one.reason, one.table, one.batch, one.generation) for one in again] == [
        ("reserved_name", f"public.{one}", batch, 0) for one in refused
    ]
    assert [one.original for one in again] == [one.original for one in read_dead(store, path)][-len(refused) :]
    meta = read_meta(store, layout.staged_path(batch))
    assert meta is not None
    assert (meta.accepted, meta.rejected) == (2 - len(refused), len(refused))
    _, second = run(store, right, clock)
    assert [code for code, _ in second.still.elements()] == ["reserved_name"] * len(refused)
    named = published_configs.publish(store, MYSQL_ON.replace("'*'", "'*__deletes': {to: 'shop.all', key: [id]}, '*'"))
    *_, last = run(store, named, clock)
    assert (last.letters, last.still) == (len(refused), {})


def test_a_batch_that_was_staged_and_expired_is_not_staged_again(
    now: datetime, clock: Callable[[], datetime], event: Event
) -> None:
    store = FaultyStore()
    accept(store, published_configs.publish(store, FLAT), "shop", lines(event(1)), now=now)
    right = published_configs.publish(store, RIGHT)
    (done,) = run(store, right, clock)
    store.delete(layout.staged_path(done.batch or ""))
    (again,) = run(store, right, clock)
    assert (again.finished, replayed_batches(store)) == ([], [])


def test_letters_of_format_1_come_back_with_the_order_their_batch_still_holds(
    tmp_path: Path, clock: Callable[[], datetime]
) -> None:
    store = open_store(f"file://{unpack(1, tmp_path)}/staging")
    config = published_configs.load(store, published_configs.current_sha(store))
    done = {layout.dead_name(one.path): one for one in run(store, config, clock)}
    commit = done["commit-00000000000000000001-shop.orders"]
    (change,) = staged(store, commit.batch)
    assert (change.table, change.order, change.after and json.loads(change.after)["amount"]) == (
        "public.orders", '["104", "105"]', "many"
    )  # fmt: skip
    assert sorted(code for one in done.values() for code, _ in one.still) == ["bad_json", "unknown_op"]


def test_a_letter_without_an_event_stays(now: datetime, clock: Callable[[], datetime]) -> None:
    store = FaultyStore()
    config = published_configs.publish(store, RIGHT)
    accept(store, config, "shop", b'{"op": "x"}\n[]', now=now)
    (done,) = run(store, config, clock)
    assert (done.batch, {code for code, _ in done.still}) == (None, {"unknown_op", "empty"})


def test_events_without_a_position_are_counted_and_keep_who_they_were(
    now: datetime, clock: Callable[[], datetime], event: Event
) -> None:
    store = FaultyStore()
    loose = event(1)
    loose["source"] = {"connector": "postgresql", "schema": "public", "table": "orders"}
    first = accept(store, published_configs.publish(store, FLAT), "shop", lines(loose, loose), now=now)
    (done,) = run(store, published_configs.publish(store, RIGHT), clock)
    assert done.unplaced == 2
    assert [change.origin for change in staged(store, done.batch)] == [f"{first.batch_id}:0", f"{first.batch_id}:1"]
    again = published_configs.publish(store, RIGHT.replace("envelope", "order_by: id, envelope"))
    accept(store, published_configs.publish(store, FLAT), "shop", lines(loose), now=now + timedelta(seconds=1))
    assert [one.unplaced for one in run(store, again, clock) if one.letters] == [0]


def test_a_letter_that_counts_by_its_arrival_counts_from_when_it_came(
    now: datetime, clock: Callable[[], datetime]
) -> None:
    store = FaultyStore()
    source = {"connector": "mongodb", "db": "app", "collection": "o", "ts_ms": 1_700_000_000_500, "ord": 1}
    told = {"op": "u", "before": None, "after": {"id": 1}, "source": source}
    first = accept(store, published_configs.publish(store, FLAT), "shop", lines("{}", told), now=now)
    (done,) = run(store, published_configs.publish(store, MYSQL_ON), clock)
    made = layout.accepted(first.batch_id) * 10**6 + 1
    assert [change.order for change in staged(store, done.batch)] == [f"[1700000000500,1,{made}]"]


def test_a_letter_over_a_limit_of_requests_is_taken_by_a_replay(
    config: Config, now: datetime, clock: Callable[[], datetime], event: Event
) -> None:
    """What a person replays on purpose needs no guard, and a person's machine does not know the functions' limits."""
    store = FaultyStore()
    wide = event(1) | {"after": {"id": 1} | {f"column_{n:05}": None for n in range(6_000)}}
    accept_messages(
        store, config, "shop", [json.dumps(wide).encode()], now=now, batch=layout.batch_id("shop", now, b"12345678")
    )
    (path,) = paths(store, "dead/shop")
    assert [letter.reason for letter in read_dead(store, path)] == ["too_many_columns"]
    (done,) = run(store, config, clock)
    assert (done.letters, done.events, done.still) == (1, 1, {})
