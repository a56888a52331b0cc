"""Whatever is not as it was written is found, and the batch is named."""

import json
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from firn.audit.ledger import History, Version
from firn.audit.verdict import audit
from firn.ingest.accept import accept
from firn.ingest.replay import Choice, replay
from firn.log import cuts, layout
from tests.model.lake_contract import CONFIG, ORDERS, STREAM, Stream, event
from tests.unit.audit.audited import Ground, audited, codes, ledger, only, rewrite


@pytest.fixture
def ground() -> Ground:
    return Ground()


@pytest.fixture
def stream(ground: Ground) -> Stream:
    """Three committed epochs of one batch each: two orders, one order and a letter of the commit, one order."""
    made = Stream(ground)
    made.land(event("c", 1, {"id": 1, "v": "a"}), event("c", 2, {"id": 2, "v": "a"}))
    made.land(event("c", 3, {"id": 3, "v": "a"}), event("c", 4, {"id": "x"}, table="typed"))
    made.land(event("c", 5, {"id": 5, "v": "a"}))
    assert audited(made, ground).balanced
    return made


def batch_of(stream: Stream, ground: Ground, n: int) -> str:
    return ledger(stream, ground).epochs[n].batches[0].id


def test_a_deleted_staged_object(stream: Stream, ground: Ground) -> None:
    batch = batch_of(stream, ground, 2)
    stream.store.delete(layout.staged_path(batch))
    found = only(audited(stream, ground), "batch_missing")
    assert (found.batches, found.epochs, found.objects) == ((batch,), (2,), (layout.staged_path(batch),))
    assert "the tables have them" in found.message


def test_a_deleted_staged_object_that_no_table_has_is_lost_however_old_it_is(stream: Stream, ground: Ground) -> None:
    n = stream.seal(event("c", 9, {"id": 9, "v": "a"}))
    batch = batch_of(stream, ground, n)
    stream.store.delete(layout.staged_path(batch))
    found = only(audited(stream, ground, later=timedelta(days=400)), "batch_missing")
    assert (found.batches, found.epochs) == ((batch,), (n,))


def test_a_deleted_dead_letter_object_of_a_commit(stream: Stream, ground: Ground) -> None:
    (path,) = ledger(stream, ground).dead
    stream.store.delete(path)
    found = only(audited(stream, ground), "letters_missing")
    assert (found.table, found.epochs, found.batches) == ("lake.typed", (2,), (batch_of(stream, ground, 2),))
    assert audited(stream, ground, later=timedelta(days=91), log=timedelta(days=100)).balanced


def test_a_deleted_dead_letter_object_of_ingest(stream: Stream, ground: Ground) -> None:
    done = accept(stream.store, stream.config, STREAM, b'{"op": "x"}', now=stream.tick())
    stream.store.delete(layout.batch_dead_path(done.batch_id))
    found = only(audited(stream, ground), "letters_missing")
    assert (found.batches, found.objects) == ((done.batch_id,), (layout.batch_dead_path(done.batch_id),))


def test_a_dead_letter_object_that_is_none(stream: Stream, ground: Ground) -> None:
    done = accept(stream.store, stream.config, STREAM, b'{"op": "x"}', now=stream.tick())
    stream.store.put(layout.batch_dead_path(done.batch_id), b"nonsense", mode="overwrite")
    assert "not a Parquet file" in only(audited(stream, ground), "letters_missing").advice


@pytest.mark.parametrize("sums", [False, True])
def test_a_batch_that_was_taken_out_of_its_epoch(stream: Stream, ground: Ground, sums: bool) -> None:
    batch = batch_of(stream, ground, 1)
    rewrite(ground, 1, batches=[], **({"tables": {}} if sums else {}))
    found = audited(stream, ground)
    assert codes(found) == (["cut_counts", "snapshot_events"] if sums else ["epoch_sums"])
    assert all(batch in one.batches for one in found.differences)
    assert found.difference == -2


def test_a_batch_in_two_epochs(stream: Stream, ground: Ground) -> None:
    one, two = (ledger(stream, ground).epochs[n] for n in (1, 3))
    tables = dict(Counter(one.tables) + Counter(two.tables))
    rewrite(ground, 3, batches=[*one.batches, *two.batches], tables=tables)
    found = audited(stream, ground)
    assert codes(found) == ["batch_twice", "cut_counts", "snapshot_events"]
    assert found.differences[0].batches == (one.batches[0].id,)


def test_a_staged_object_that_is_another_one(stream: Stream, ground: Ground) -> None:
    one, two = batch_of(stream, ground, 1), batch_of(stream, ground, 2)
    other = bytes(stream.store.get(layout.staged_path(two)).bytes())
    stream.store.put(layout.staged_path(one), other, mode="overwrite")
    assert only(audited(stream, ground), "batch_changed").batches == (one,)


def test_a_staged_object_that_can_not_be_read(stream: Stream, ground: Ground) -> None:
    batch = batch_of(stream, ground, 1)
    stream.store.put(layout.staged_path(batch), b"nonsense", mode="overwrite")
    found = only(audited(stream, ground), "batch_unreadable")
    assert (found.batches, found.epochs) == ((batch,), (1,))


@pytest.mark.parametrize("n", [1, 2])
def test_a_deleted_epoch(stream: Stream, ground: Ground, n: int) -> None:
    batch = batch_of(stream, ground, n)
    stream.store.delete(layout.epoch_path(STREAM, n))
    found = audited(stream, ground)
    missing = next(one for one in found.differences if one.code == "epoch_missing")
    assert (missing.epochs, missing.batches) == ((n,), (batch,))


def test_the_last_epochs_deleted(stream: Stream, ground: Ground) -> None:
    stream.store.delete(layout.epoch_path(STREAM, 3))
    assert codes(audited(stream, ground)) == ["log_behind"]


def test_a_table_rolled_back_by_hand(stream: Stream, ground: Ground) -> None:
    table = ground.catalog.tables[ORDERS]
    ground.catalog.rollback(ORDERS, table.ancestry()[-1].id)
    audit_ = audited(stream, ground)
    found = only(audit_, "rolled_back")
    assert (found.table, found.epochs) == ("lake.orders", (2, 3))
    assert found.batches == (batch_of(stream, ground, 2), batch_of(stream, ground, 3))
    assert (audit_.pending, audit_.difference) == (2, 0)
    stream.commit(stream.seal(event("c", 9, {"id": 9}, table="other")))
    held = audited(stream, ground)
    assert held.differences == []
    assert (held.pending, held.quarantined) == (2, 2)


def test_a_dropped_table(stream: Stream, ground: Ground) -> None:
    del ground.catalog.tables[ORDERS]
    assert only(audited(stream, ground), "rolled_back").epochs == (1, 2, 3)


def test_a_table_that_another_tool_rewrote(stream: Stream, ground: Ground) -> None:
    stream.land(event("c", 7, {"id": 7}, table="other"))
    table = ground.catalog.tables[ORDERS]
    newest = table.snapshots[table.current or 0]
    alone = type(newest)(newest.id, None, newest.summary, newest.rows)
    table.snapshots = {newest.id: alone}
    cut = cuts.read(stream.store, STREAM, 1)
    assert cut is not None
    stream.store.put(
        layout.cut_path(STREAM, 1), msgspec.json.encode(msgspec.structs.replace(cut, counts={})), mode="overwrite"
    )
    found = audited(stream, ground)
    assert "snapshot_events" in codes(found)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"merged": 5}, "snapshot_sum"),
        ({"superseded": -1, "merged": 3}, "snapshot_sum"),
        ({"events": 3, "merged": 3}, "snapshot_events"),
        ({"dead": 1, "merged": 1}, "letters_missing"),
    ],
)
def test_a_snapshots_summary_that_says_something_else(
    stream: Stream, ground: Ground, change: dict[str, int], code: str
) -> None:
    read = ledger(stream, ground)
    first, *rest = read.tables["lake.orders"].versions
    told = Version(first.snapshot, first.epoch, dict(first.counts) | change)
    crafted = replace(read, tables=dict(read.tables) | {"lake.orders": History((told, *rest), whole=True)})
    found = audit(crafted, stream.now)
    assert code in codes(found)
    assert all(one.table == "lake.orders" and batch_of(stream, ground, 1) in one.batches for one in found.differences)


def test_a_snapshot_that_is_gone_though_the_ancestry_is_whole(stream: Stream, ground: Ground) -> None:
    read = ledger(stream, ground)
    versions = read.tables["lake.orders"].versions
    crafted = replace(read, tables=dict(read.tables) | {"lake.orders": History((versions[0], versions[2]), whole=True)})
    found = only(audit(crafted, stream.now), "snapshot_events")
    assert found.epochs == (2, 3)


def test_a_progress_without_its_counts(stream: Stream, ground: Ground) -> None:
    read = ledger(stream, ground)
    versions = read.tables["lake.orders"].versions
    cut = read.cuts[3]
    lowered = msgspec.structs.replace(cut, progress={name: min(n, 2) for name, n in cut.progress.items()})
    tables = dict(read.tables) | {"lake.orders": History(versions[:2], whole=True)}
    crafted = replace(read, tables=tables, cuts=dict(read.cuts) | {3: lowered})
    found = only(audit(crafted, stream.now), "not_in_table")
    assert (found.epochs, found.batches) == ((3,), (batch_of(stream, ground, 3),))


def test_a_cut_with_other_counts(stream: Stream, ground: Ground) -> None:
    cut = cuts.read(stream.store, STREAM, 2)
    assert cut is not None
    wrong = msgspec.structs.replace(cut, counts={}, filtered=2)
    stream.store.put(layout.cut_path(STREAM, 2), msgspec.json.encode(wrong), mode="overwrite")
    found = audited(stream, ground)
    assert {one.table for one in found.differences if one.code == "cut_counts"} == {"lake.orders", "lake.typed", None}
    assert all(one.epochs == (2,) for one in found.differences)


def test_a_replayed_batch_that_vanished(stream: Stream, ground: Ground) -> None:
    stream.publish(CONFIG.replace("columns: {id: int}", "columns: {id: string}"))
    (done,) = replay(stream.store, stream.config, STREAM, Choice(), clock=stream.tick)
    stream.store.delete(layout.staged_path(done.batch or ""))
    found = only(audited(stream, ground), "batch_missing")
    assert found.batches == (done.batch,)


def test_the_letters_of_a_source_table_that_can_not_be_placed(ground: Ground) -> None:
    stream = Stream(ground)
    bare = event("c", 1, {"id": 1, "v": "a"})
    del bare["source"]["schema"]
    accept(stream.store, stream.config, STREAM, json.dumps(bare).encode(), now=stream.tick())
    stream.publish(CONFIG + "      hr.orders: {to: lake.hr, key: [id]}\n")
    assert stream.commit(stream.seal(event("c", 2, {"id": 2, "v": "a"}))) == 0
    found = audited(stream, ground)
    assert found.balanced
    assert (found.dead, found.merged) == (1, 1)
    (path,) = ledger(stream, ground).dead
    assert "refused" in path
    stream.store.delete(path)
    assert only(audited(stream, ground), "letters_missing").epochs == (1,)
