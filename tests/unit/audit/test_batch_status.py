"""What a sender is told about a batch: where it is, and what died of it and why."""

import json

import pytest

from firn.audit.batch_status import BatchStatus, batch_status
from firn.config.names import TableName
from firn.ingest.accept import accept
from firn.ingest.replay import Choice, replay
from firn.log import cuts, holds, layout
from tests.model.lake_contract import CONFIG, ORDERS, STREAM, Stream, event
from tests.model.memory_ground import MemoryGround
from tests.model.memory_lake import fails_at, straight

OTHER = TableName("lake", "other")


@pytest.fixture
def ground() -> MemoryGround:
    return MemoryGround()


@pytest.fixture
def stream(ground: MemoryGround) -> Stream:
    return Stream(ground)


def post(stream: Stream, *events: object) -> str:
    body = b"\n".join(one.encode() if isinstance(one, str) else json.dumps(one).encode() for one in events)
    return accept(stream.store, stream.config, STREAM, body, now=stream.tick()).batch_id


def status(stream: Stream, batch: str) -> BatchStatus:
    found = batch_status(stream.store, batch)
    assert found is not None
    return found


def test_a_batch_goes_from_staged_to_sealed_to_committed_in_the_snapshot_of_its_table(
    stream: Stream, ground: MemoryGround
) -> None:
    batch = post(stream, event("c", 1, {"id": 1, "v": "a"}), event("c", 2, {"id": 2, "v": "a"}))
    assert (status(stream, batch).state, status(stream, batch).targets) == ("staged", [])
    n = stream.seal()
    sealed = status(stream, batch)
    assert (sealed.state, sealed.epoch, sealed.cut) == ("sealed", n, None)
    assert [(one.table, one.state) for one in sealed.targets] == [("lake.orders", "pending")]
    assert stream.commit(n) == 0
    done = status(stream, batch)
    (target,) = done.targets
    assert (done.state, target.source, target.rows, target.state) == ("committed", "app.orders", 2, "committed")
    assert (target.snapshot, target.cut) == (ground.catalog.tables[ORDERS].current, n)
    stream.land(event("c", 3, {"id": 3, "v": "a"}))
    assert status(stream, batch).targets == [target]


def test_what_died_at_ingest_and_at_the_commit_is_told_with_its_reason_and_advice(stream: Stream) -> None:
    batch = post(stream, event("c", 1, {"id": 1, "v": "a"}), '{"op": "x"}', event("c", 2, {"id": "x"}, table="typed"))
    stream.commit(stream.seal())
    found = status(stream, batch)
    assert (found.state, found.accepted, found.rejected, found.dead_letters) == ("committed", 2, 1, 2)
    at_ingest, at_commit = found.dead
    assert (at_ingest.object, at_ingest.reason, at_ingest.letters) == (batch, "unknown_op", 1)
    assert (at_commit.table, at_commit.reason) == ("app.typed", "type_mismatch")
    assert at_commit.object == "commit-00000000000000000001-lake.typed"
    assert "firn.yaml" in at_commit.advice
    assert "id" in at_commit.message


def test_letters_of_other_batches_are_not_told(stream: Stream) -> None:
    first = post(stream, event("c", 1, {"id": "x"}, table="typed"))
    second = post(stream, event("c", 2, {"id": 2}, table="typed"))
    stream.commit(stream.seal())
    assert status(stream, second).dead == []
    assert [one.letters for one in status(stream, first).dead] == [1]


def test_a_batch_of_which_everything_died_is_dead_lettered(stream: Stream) -> None:
    at_once = post(stream, '{"op": "x"}')
    later = post(stream, event("c", 1, {"id": "x"}, table="typed"), '{"op": "x"}')
    assert status(stream, at_once).state == "dead_lettered"
    assert status(stream, later).state == "staged"
    stream.commit(stream.seal())
    assert status(stream, later).state == "dead_lettered"


def test_a_replay_is_told_on_both_sides(stream: Stream) -> None:
    batch = post(stream, event("c", 1, {"id": "x"}, table="typed"))
    stream.commit(stream.seal())
    stream.publish(CONFIG.replace("columns: {id: int}", "columns: {id: string}"))
    (done,) = replay(stream.store, stream.config, STREAM, Choice(), clock=stream.tick)
    (dead,) = status(stream, batch).dead
    assert (dead.replayed, dead.replayed_in) == (1, [done.batch])
    assert status(stream, done.batch or "").replay_of == done.path


def test_a_quarantined_table_says_why_and_a_released_one_in_which_snapshot(
    stream: Stream, ground: MemoryGround
) -> None:
    batch = post(stream, event("c", 1, {"id": 1, "v": "a"}), event("c", 2, {"id": 2, "v": "a"}, table="other"))
    ground.catalog.around = fails_at("create", OTHER)
    stream.commit(stream.seal(), attempt=3)
    found = status(stream, batch)
    states = {one.table: one for one in found.targets}
    assert (found.state, found.cut) == ("quarantined", 1)
    assert states["lake.orders"].state == "committed"
    assert states["lake.other"].state == "quarantined"
    assert "firn resume" in (states["lake.other"].why or "")

    held = holds.read_all(stream.store, STREAM).held()["lake.other"]
    holds.lift(stream.store, held, "retry", layout.instant(stream.now))
    assert {one.state for one in status(stream, batch).targets} == {"committed", "pending"}
    ground.catalog.around = straight
    stream.commit(stream.seal(event("c", 3, {"id": 3, "v": "a"})))
    found = status(stream, batch)
    states = {one.table: one for one in found.targets}
    assert (found.state, states["lake.other"].state, states["lake.other"].cut) == ("committed", "committed", 2)


def test_what_was_skipped_on_purpose_is_told(stream: Stream, ground: MemoryGround) -> None:
    batch = post(stream, event("c", 2, {"id": 2, "v": "a"}, table="other"))
    ground.catalog.around = fails_at("create", OTHER)
    stream.commit(stream.seal(), attempt=3)
    held = holds.read_all(stream.store, STREAM).held()["lake.other"]
    holds.lift(stream.store, held, "skip", layout.instant(stream.now))
    assert [one.state for one in status(stream, batch).targets] == ["skipped"]


def test_a_quarantined_epoch_says_why_and_its_batch_waits_again_when_it_is_lifted(stream: Stream) -> None:
    batch = post(stream, event("c", 1, {"id": 1, "v": "a"}))
    n = stream.seal()
    case = holds.Quarantine(1, STREAM, n, "t", "killed", "it kills", "fix it", epoch=n, last=n)
    holds.hold(stream.store, case)
    found = status(stream, batch)
    assert (found.state, found.quarantine) == ("quarantined", "it kills; fix it")
    holds.lift(stream.store, case, "retry", "t")
    assert (status(stream, batch).state, status(stream, batch).epoch) == ("staged", None)
    assert stream.commit(stream.seal()) == 0
    assert (status(stream, batch).state, status(stream, batch).epoch) == ("committed", n + 1)


def test_changes_that_no_rule_takes_or_that_can_not_be_placed_are_told(stream: Stream) -> None:
    bare = event("c", 1, {"id": 1, "v": "a"})
    del bare["source"]["schema"]
    batch = post(stream, bare, event("c", 2, {"id": 2}, table="other"))
    stream.publish(CONFIG.replace("app.other: {", "x.other: {") + "      hr.orders: {to: lake.hr, key: [id]}\n")
    assert stream.commit(stream.seal(event("c", 3, {"id": 3, "v": "a"}))) == 0
    states = {one.source: (one.table, one.state) for one in status(stream, batch).targets}
    assert states == {"orders": (None, "refused"), "app.other": (None, "ignored")}


def test_a_batch_whose_object_has_expired_is_known_by_its_epoch(stream: Stream) -> None:
    batch = post(stream, event("c", 1, {"id": 1, "v": "a"}), '{"op": "x"}')
    stream.commit(stream.seal())
    stream.store.delete(layout.staged_path(batch))
    found = status(stream, batch)
    assert (found.state, found.expired, found.accepted, found.rejected, found.tables) == ("committed", True, 1, 1, {})
    stream.store.delete(layout.epoch_path(STREAM, 1))
    other = Stream(MemoryGround())
    assert batch_status(other.store, batch) is None


def test_a_cut_of_a_configuration_that_is_gone_still_tells_its_snapshots(stream: Stream) -> None:
    batch = post(stream, event("c", 1, {"id": 1, "v": "a"}))
    stream.commit(stream.seal())
    stream.store.delete(layout.config_path(stream.config.sha))
    found = status(stream, batch)
    newest = cuts.read(stream.store, STREAM, 1)
    assert newest is not None
    assert (found.state, found.snapshots) == ("committed", newest.tables)
    assert found.targets == []
