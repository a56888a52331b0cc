"""What was held counts once, whatever had become of it before."""

import pytest

from firn.config.names import TableName
from firn.log import holds, layout
from tests.model.lake_contract import CONFIG, ORDERS, STREAM, Stream, event
from tests.model.memory_lake import fails_at, straight
from tests.unit.audit.audited import Ground, audited, release, typed

TYPED = TableName("lake", "typed")


@pytest.fixture
def ground() -> Ground:
    return Ground()


@pytest.fixture
def stream(ground: Ground) -> Stream:
    return Stream(ground)


@pytest.mark.parametrize("how", ["retry", "skip"])
@pytest.mark.parametrize("between", [0, 1])
def test_what_a_table_without_any_snapshot_had_done_before_it_was_held_counts_once(
    stream: Stream, ground: Ground, how: str, between: int
) -> None:
    stream.land(typed(1, "x"))
    ground.catalog.around = fails_at("create", TYPED)
    assert stream.commit(stream.seal(typed(2, 2)), attempt=3) == 0
    for _ in range(between):
        stream.land(typed(3, 3))
    ground.catalog.around = straight
    release(stream, how)
    for lsn in (4, 5):
        stream.land(typed(lsn, lsn))
        found = audited(stream, ground)
        assert found.differences == []
    (table,) = found.tables
    skipped = 1 if how == "skip" else 0
    assert (table.dead, table.merged, table.skipped, table.pending) == (1, 3 + between - skipped, skipped, 0)


@pytest.mark.parametrize("how", ["retry", "skip"])
def test_what_a_table_without_any_snapshot_caught_up_with_before_it_was_held_again_counts_once(
    stream: Stream, ground: Ground, how: str
) -> None:
    ground.catalog.around = fails_at("create", TYPED)
    assert stream.commit(stream.seal(typed(1, 2)), attempt=3) == 0
    release(stream, "retry")
    # Under this type the first epoch is nothing but dead, and the second one fails.
    stream.publish(CONFIG.replace("columns: {id: int}", "columns: {id: boolean}"))
    assert stream.commit(stream.seal(typed(2, True)), attempt=3) == 0
    assert stream.cut().counts["lake.typed"]["dead"] == 1
    assert audited(stream, ground).differences == []
    ground.catalog.around = straight
    release(stream, how)
    for lsn in (3, 4):
        stream.land(typed(lsn, lsn == 3))
        found = audited(stream, ground)
        assert found.differences == []
    (table,) = found.tables
    skipped = 1 if how == "skip" else 0
    assert (table.dead, table.merged, table.skipped, table.pending) == (1, 3 - skipped, skipped, 0)


def test_letters_that_were_written_before_their_epoch_was_quarantined_are_there(stream: Stream, ground: Ground) -> None:
    ground.catalog.around = fails_at("commit", ORDERS)
    n = stream.seal(event("c", 1, {"id": 1, "v": "a"}), event("c", 2, {"v": "no key"}))
    assert stream.commit(n) == 1
    ground.catalog.around = straight
    case = holds.Quarantine(1, STREAM, n, layout.instant(stream.now), "killed", "it", "fix it", epoch=n, last=n)
    holds.hold(stream.store, case)
    stream.land(event("c", 3, {"id": 3, "v": "a"}))
    holds.lift(stream.store, case, "retry", layout.instant(stream.now))
    assert stream.commit(stream.seal()) == 0
    found = audited(stream, ground)
    assert found.differences == []
    assert (found.merged, found.dead) == (2, 1)
