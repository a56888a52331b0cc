"""Whatever happens in the right way balances."""

import json
from datetime import timedelta

import pytest

from firn.audit.verdict import NOT_ROWS
from firn.config.names import TableName
from firn.ingest.accept import accept
from firn.ingest.queue import Message, take
from firn.ingest.replay import Choice, replay
from firn.log import holds, layout, published_configs
from firn.maintenance.expiry import told
from tests.model.lake_contract import CONFIG, ORDERS, STREAM, Stream, event
from tests.model.memory_lake import fails_at, straight
from tests.unit.audit.audited import Ground, audited, ledger, release, sums, typed

OTHER, TYPED = TableName("lake", "other"), TableName("lake", "typed")


@pytest.fixture
def ground() -> Ground:
    return Ground()


@pytest.fixture
def stream(ground: Ground) -> Stream:
    return Stream(ground)


def body(*events: object) -> bytes:
    return b"\n".join(one.encode() if isinstance(one, str) else json.dumps(one).encode() for one in events)


def test_a_stream_with_nothing_balances(stream: Stream, ground: Ground) -> None:
    found = audited(stream, ground)
    assert found.balanced
    assert set(sums(found).values()) == {0}


def test_every_event_is_counted_once_wherever_it_ended(stream: Stream, ground: Ground) -> None:
    heartbeat = {"ts_ms": 1}
    filtered = event("c", 4, {"id": 1}, table="unknown")
    first = body(
        event("c", 1, {"id": 1, "v": "a"}), event("u", 2, {"id": 1, "v": "b"}), filtered, '{"op": "x"}', heartbeat
    )
    accept(stream.store, stream.config, STREAM, first, now=stream.tick())
    take(
        stream.store,
        stream.config,
        STREAM,
        [Message("m1", body(event("c", 3, {"id": 2, "v": "c"})))],
        now=stream.tick(),
    )
    late = [
        event("u", 1, {"id": 1, "v": "old"}),
        event("t", 9, table="other"),
        event("c", 10, {"id": "x"}, table="typed"),
    ]
    assert stream.commit(stream.seal(*late)) == 0
    accept(stream.store, stream.config, STREAM, body(event("c", 20, {"id": 5, "v": "z"})), now=stream.tick())
    found = audited(stream, ground)
    assert found.differences == []
    assert sums(found) == {
        "acked": 10, "merged": 2, "superseded": 2, "ignored": 3, "pending": 1, "dead": 2, "uncounted": 0
    }  # fmt: skip
    assert found.ignored == {"filtered_table": 1, "heartbeat": 1, NOT_ROWS: 1}
    assert (found.staged, found.batches, found.epochs) == (1, 4, 1)
    by_name = {one.table: one for one in found.tables}
    orders, typed = by_name["lake.orders"], by_name["lake.typed"]
    assert (orders.events, orders.merged, orders.superseded, orders.progress) == (4, 2, 2, 1)
    assert (typed.events, typed.dead, typed.state) == (1, 1, "ok")


def test_what_is_sealed_and_not_committed_is_pending(stream: Stream, ground: Ground) -> None:
    stream.land(event("c", 1, {"id": 1, "v": "a"}))
    stream.seal(event("c", 2, {"id": 2, "v": "a"}), event("c", 3, {"id": 1}, table="other"))
    found = audited(stream, ground)
    assert found.differences == []
    assert (found.merged, found.pending, found.staged) == (1, 2, 0)


def test_duplicates_and_a_key_that_is_used_again_count_as_they_were_acknowledged(
    stream: Stream, ground: Ground
) -> None:
    one = body(event("c", 1, {"id": 1, "v": "a"}))
    for _ in range(2):
        accept(stream.store, stream.config, STREAM, one, now=stream.tick(), key="k")
    accept(stream.store, stream.config, STREAM, one, now=stream.tick())
    assert stream.commit(stream.seal()) == 0
    found = audited(stream, ground)
    assert found.differences == []
    assert (found.acked, found.merged, found.superseded) == (2, 1, 1)


def test_a_key_that_changes_is_one_event(stream: Stream, ground: Ground) -> None:
    stream.land(event("c", 1, {"id": 1, "v": "a"}))
    stream.land(event("u", 2, {"id": 2, "v": "a"}, {"id": 1, "v": "a"}))
    found = audited(stream, ground)
    assert found.differences == []
    assert (found.acked, found.merged) == (2, 2)


def test_letters_that_were_replayed_count_again_as_a_batch_of_their_own(stream: Stream, ground: Ground) -> None:
    stream.land(event("c", 1, {"id": "x", "v": "a"}, table="typed"), event("c", 2, {"id": 1, "v": "a"}))
    stream.publish(CONFIG.replace("columns: {id: int}", "columns: {id: string}"))
    done = list(replay(stream.store, stream.config, STREAM, Choice(), clock=stream.tick))
    assert [one.letters for one in done] == [1]
    found = audited(stream, ground)
    assert found.differences == []
    assert (found.acked, found.merged, found.dead, found.pending, found.replayed) == (3, 1, 1, 1, 1)
    assert stream.commit(stream.seal()) == 0
    found = audited(stream, ground)
    assert found.differences == []
    assert (found.merged, found.dead, found.pending) == (2, 1, 0)


def test_a_quarantined_table_waits_and_its_events_are_pending(stream: Stream, ground: Ground) -> None:
    ground.catalog.around = fails_at("create", TYPED)
    assert stream.commit(stream.seal(event("c", 1, {"id": 1, "v": "a"}), typed(2, 1)), attempt=3) == 0
    stream.land(event("c", 3, {"id": 2, "v": "a"}), typed(4, 2))
    found = audited(stream, ground)
    assert found.differences == []
    assert (found.merged, found.pending, found.quarantined) == (2, 2, 2)
    assert any("lake.typed is quarantined" in note for note in found.notes)


@pytest.mark.parametrize("how", ["retry", "skip"])
def test_a_released_table_gets_what_it_lacks_or_skips_it(stream: Stream, ground: Ground, how: str) -> None:
    ground.catalog.around = fails_at("create", TYPED)
    assert stream.commit(stream.seal(typed(1, 1)), attempt=3) == 0
    stream.land(typed(2, 2))
    release(stream, how)
    ground.catalog.around = straight
    stream.land(typed(3, 3))
    found = audited(stream, ground)
    assert found.differences == []
    (table,) = found.tables
    assert (table.merged, table.skipped, table.pending) == ((3, 0, 0) if how == "retry" else (2, 1, 0))


def test_a_job_that_died_before_its_cut_leaves_no_difference(stream: Stream, ground: Ground) -> None:
    stream.land(event("c", 1, {"id": 1, "v": "a"}))
    stream.land(event("c", 2, {"id": 2, "v": "a"}), event("c", 3, {"id": 1}, table="other"))
    stream.store.delete(layout.cut_path(STREAM, 2))
    found = audited(stream, ground)
    assert found.differences == []
    assert (found.merged, found.pending) == (3, 0)
    assert stream.commit(2, stream.seal(event("c", 4, {"id": 4, "v": "a"}))) == 0
    assert audited(stream, ground).differences == []


def test_epochs_that_were_committed_together_balance_too(stream: Stream, ground: Ground) -> None:
    for lsn in range(1, 5):
        last = stream.seal(event("c", lsn, {"id": lsn, "v": "a"}), event("d", lsn, None, {"id": 7}, table="other"))
    assert stream.commit(1, last) == 0
    stream.land(event("c", 9, {"id": 9, "v": "a"}, table="other"))
    found = audited(stream, ground)
    assert found.differences == []
    assert (found.acked, found.pending) == (9, 0)


def test_expired_snapshots_are_counted_by_the_cuts(stream: Stream, ground: Ground) -> None:
    for lsn in range(1, 6):
        stream.land(event("c", lsn, {"id": lsn, "v": "a"}))
    ground.catalog.expire(ORDERS)
    table = ground.catalog.tables[ORDERS]
    newest = table.snapshots[table.current or 0]
    gone = ledger(stream, ground).tables["lake.orders"]
    assert len(gone.versions) == 1
    found = audited(stream, ground)
    assert found.differences == []
    assert (found.merged, found.uncounted, newest.summary["firn.merged"]) == (5, 0, "1")


def test_where_cuts_have_expired_too_the_progress_says_that_they_are_in(stream: Stream, ground: Ground) -> None:
    for lsn in range(1, 6):
        stream.land(event("c", lsn, {"id": lsn, "v": "a"}))
    table = ground.catalog.tables[ORDERS]
    newest = table.snapshots[table.current or 0]
    table.snapshots = {newest.id: newest}  # its parent is not there any more
    for n in range(1, 4):
        stream.store.delete(layout.cut_path(STREAM, n))
    found = audited(stream, ground)
    assert found.differences == []
    assert (found.merged, found.uncounted) == (2, 3)


def test_staged_objects_that_expired_after_their_commit_are_no_difference(stream: Stream, ground: Ground) -> None:
    stream.land(event("c", 1, {"id": 1, "v": "a"}))
    old = next(iter(ledger(stream, ground).staged.values()))
    stream.store.delete(old.path)
    found = audited(stream, ground, later=timedelta(days=15))
    assert found.differences == []
    assert (found.acked, found.merged, found.batches, found.expired_batches) == (1, 1, 1, 1)


def test_a_log_whose_beginning_has_expired_is_audited_from_the_next_cut_on(stream: Stream, ground: Ground) -> None:
    for lsn in range(1, 5):
        last = stream.seal(event("c", lsn, {"id": lsn, "v": "a"}))
        if last % 2 == 0:
            assert stream.commit(last - 1, last) == 0
    first = next(iter(sorted(ledger(stream, ground).staged)))
    stream.store.delete(layout.epoch_path(STREAM, 1))
    stream.store.delete(layout.staged_path(first))
    found = audited(stream, ground, later=timedelta(days=15))
    assert found.differences == []
    assert (found.since, found.acked, found.merged) == (3, 2, 2)


def test_an_epoch_that_killed_its_jobs_waits_and_comes_again_in_another(stream: Stream, ground: Ground) -> None:
    stream.land(event("c", 1, {"id": 1, "v": "a"}))
    n = stream.seal(event("c", 2, {"id": 2, "v": "a"}), event("c", 3, {"id": 3}, table="other"))
    case = holds.Quarantine(1, STREAM, n, layout.instant(stream.now), "killed", "it kills", "fix it", epoch=n, last=n)
    holds.hold(stream.store, case)
    stream.land(event("c", 4, {"id": 4, "v": "a"}))
    found = audited(stream, ground)
    assert found.differences == []
    assert (found.merged, found.pending, found.quarantined) == (2, 2, 2)
    holds.lift(stream.store, case, "retry", layout.instant(stream.now))
    found = audited(stream, ground)
    assert found.differences == []
    assert (found.pending, found.quarantined, found.staged) == (2, 0, 2)
    assert stream.commit(stream.seal()) == 0
    found = audited(stream, ground)
    assert found.differences == []
    assert (found.merged, found.pending) == (4, 0)


def test_what_a_table_had_of_an_epoch_that_was_quarantined_later_counts_once(stream: Stream, ground: Ground) -> None:
    n = stream.seal(event("c", 2, {"id": 2, "v": "a"}), event("c", 3, {"id": 3}, table="other"))
    assert stream.commit(n) == 0
    stream.store.delete(layout.cut_path(STREAM, n))  # the job died before it
    case = holds.Quarantine(1, STREAM, n, layout.instant(stream.now), "killed", "it kills", "fix it", epoch=n, last=n)
    holds.hold(stream.store, case)
    assert audited(stream, ground).differences == []
    holds.lift(stream.store, case, "retry", layout.instant(stream.now))
    found = audited(stream, ground)
    assert (found.differences, found.pending) == ([], 2)
    assert stream.commit(stream.seal()) == 0
    found = audited(stream, ground)
    assert found.differences == []
    assert (found.acked, found.merged + found.superseded) == (2, 2)


def test_letters_of_a_try_that_failed_are_only_noted(stream: Stream, ground: Ground) -> None:
    stream.land(event("c", 1, {"id": "x"}, table="typed"), event("c", 2, {"id": 2}, table="typed"))
    path = layout.dead_path(STREAM, stream.now, "commit-00000000000000000001-lake.typed-2")
    there = next(path for path in ledger(stream, ground).dead if "commit" in path)
    stream.store.put(path, bytes(stream.store.get(there).bytes()), mode="create")
    found = audited(stream, ground)
    assert found.differences == []
    assert any("1 letters more" in note for note in found.notes)


def test_letters_that_were_never_acknowledged_do_not_count(stream: Stream, ground: Ground) -> None:
    done = accept(stream.store, stream.config, STREAM, b'{"op": "x"}', now=stream.tick())
    stream.store.delete(layout.staged_path(done.batch_id))
    found = audited(stream, ground)
    assert found.differences == []
    assert found.acked == 0


def test_a_configuration_that_moves_a_table_counts_by_the_cut(stream: Stream, ground: Ground) -> None:
    stream.land(event("c", 1, {"id": 1, "v": "a"}))
    stream.publish(CONFIG.replace("lake.orders", "lake.moved"))
    stream.land(event("c", 2, {"id": 2, "v": "a"}))
    found = audited(stream, ground)
    assert found.differences == []
    assert {one.table: one.events for one in found.tables} == {"lake.orders": 1, "lake.moved": 1}


def test_an_older_table_without_counts_is_in_but_uncounted(stream: Stream, ground: Ground) -> None:
    stream.land(event("c", 1, {"id": 1, "v": "a"}))
    table = ground.catalog.tables[ORDERS]
    for n, one in table.snapshots.items():
        bare = {name: value for name, value in one.summary.items() if name.startswith("firn.epoch")}
        table.snapshots[n] = type(one)(one.id, one.parent, bare, one.rows)
    found = audited(stream, ground)
    assert found.differences == []
    assert (found.merged, found.uncounted) == (0, 1)


@pytest.mark.parametrize("upto", [2, 4])
def test_what_expiry_has_carried_on_is_counted_by_the_cuts(stream: Stream, ground: Ground, upto: int) -> None:
    """A snapshot of nothing tells the progress of those that went (maintenance/expiry.py)."""
    for lsn in range(1, upto + 1):
        stream.land(event("c", lsn, {"id": lsn, "v": "a"}), typed(lsn, "x"))
    table = ground.catalog.tables[ORDERS]
    newest = table.snapshots[table.current or 0]
    gone = told([one.summary for one in sorted(table.snapshots.values(), key=lambda one: one.id)])
    table.snapshots = {newest.id: type(newest)(newest.id, 10**6, gone, newest.rows)}
    stream.land(event("c", 9, {"id": 9, "v": "a"}))
    found = audited(stream, ground)
    assert found.differences == []
    assert (found.merged, found.dead, found.uncounted, found.difference) == (upto + 1, upto, 0, 0)


def test_a_stream_configured_for_a_moved_staging_area_is_renumbered(ground: Ground) -> None:
    first = Stream(ground)
    for lsn in range(1, 4):
        first.land(event("c", lsn, {"id": lsn, "v": "a"}))
    ground.store = type(ground.store)()
    ground.lake.store = ground.store
    stream = Stream(ground)
    published_configs.publish(stream.store, CONFIG)
    n = stream.seal(event("c", 9, {"id": 9, "v": "a"}))
    assert {one.code for one in audited(stream, ground).differences} == {"log_behind"}
    assert stream.commit(n) == 0
    found = audited(stream, ground)
    assert (found.differences, found.pending) == ([], 1)
    assert stream.commit(stream.seal()) == 0
    found = audited(stream, ground)
    assert found.differences == []
    assert (found.acked, found.merged, found.pending) == (1, 1, 0)
