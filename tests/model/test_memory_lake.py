"""The tables in memory do what every lake must, and break where a test tells them to."""

from collections.abc import Callable
from typing import Any

import pytest

from firn.config.names import TableName
from firn.errors import UnknownOutcome
from firn.log import cuts
from tests.model.lake_contract import CASES, ORDERS, STREAM, Stream, event
from tests.model.memory_ground import MemoryGround
from tests.model.memory_lake import Call

OTHER = TableName("lake", "other")


@pytest.fixture
def ground() -> MemoryGround:
    return MemoryGround()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_contract(case: Callable[[Stream], None], ground: MemoryGround) -> None:
    case(Stream(ground))


class Crash(BaseException):
    """The process is gone: no `except Exception` holds it."""


def test_a_crash_at_any_call_leaves_a_rerun_the_rest(ground: MemoryGround) -> None:
    stream = Stream(ground)
    stream.land(event("c", 10, {"id": 1, "v": "a"}), event("c", 11, {"id": 2, "v": "b"}))
    for number in range(1, 100):
        n = stream.seal(event("d", 100 * number, None, {"id": 1}), event("c", 100 * number + 1, {"id": 1, "v": "z"}))
        calls: list[Call] = []

        def around(call: Call, effect: Callable[[], Any], calls: list[Call] = calls, at: int = number) -> Any:
            calls.append(call)
            answer = effect()
            if len(calls) == at:
                raise Crash
            return answer

        ground.catalog.around = around
        try:
            stream.commit(n)
            break
        except Crash:
            ground.catalog.around = lambda call, effect: effect()
        assert stream.commit(n) == 0
        assert stream.values() == [(1, "z"), (2, "b")]
    else:
        pytest.fail("the calls of a commit have no end")
    progress = [int(summary["firn.epoch.shop"]) for summary in ground.snapshots(ORDERS)]
    assert progress == sorted(set(progress))
    assert number > 4


def failing(table: TableName) -> Callable[[Call, Callable[[], Any]], Any]:
    """Commits of the table fail, for a reason that passes."""

    def around(call: Call, effect: Callable[[], Any]) -> Any:
        if call.kind == "commit" and call.table == table:
            raise UnknownOutcome("no answer")
        return effect()

    return around


def both(lsn: int, id: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A row of each of two tables."""
    return event("c", lsn, {"id": id, "v": "a"}), event("c", lsn + 1, {"id": id, "v": "a"}, table="other")


def test_tables_that_are_behind_each_by_other_epochs_get_all_that_they_lack(ground: MemoryGround) -> None:
    stream = Stream(ground)
    ground.catalog.around = failing(OTHER)
    assert stream.commit(stream.seal(*both(10, 1))) == 1
    ground.catalog.around = lambda call, effect: effect()
    stream.seal(*both(20, 2))
    assert stream.commit(1, 2) == 0
    assert stream.values() == stream.values(OTHER) == [(1, "a"), (2, "a")]


def test_a_cut_is_not_made_below_what_is_in_a_table(ground: MemoryGround) -> None:
    stream = Stream(ground)
    stream.seal(*both(10, 1))
    stream.seal(*both(20, 2))
    ground.catalog.around = failing(OTHER)
    assert stream.commit(1, 2) == 1
    ground.catalog.around = lambda call, effect: effect()
    assert stream.commit(1) == 0
    assert cuts.newest(stream.store, STREAM) == 0, "orders are at epoch 2: a cut at 1 would show them too new"
    assert stream.commit(1, 2) == 0
    assert cuts.numbers(stream.store, STREAM) == [2]


def test_a_commit_whose_answer_is_lost_is_found_by_the_rerun(ground: MemoryGround) -> None:
    stream = Stream(ground)
    n = stream.seal(event("c", 10, {"id": 1, "v": "a"}))

    def lose(call: Call, effect: Callable[[], Any]) -> Any:
        answer = effect()
        if call.kind == "commit":
            raise UnknownOutcome("no answer")
        return answer

    ground.catalog.around = lose
    assert stream.commit(n) == 1
    assert stream.line(ORDERS)["failure"] == "transient"
    ground.catalog.around = lambda call, effect: effect()
    assert stream.commit(n) == 0
    assert len(ground.snapshots(ORDERS)) == 1
    assert stream.cut().counts["lake.orders"]["events"] == 1


def test_a_commit_that_is_applied_late_is_refused_after_the_rerun(ground: MemoryGround) -> None:
    stream = Stream(ground)
    n = stream.seal(event("c", 10, {"id": 1, "v": "a"}))
    late: list[Callable[[], Any]] = []

    def keep(call: Call, effect: Callable[[], Any]) -> Any:
        if call.kind == "commit":
            late.append(effect)
            raise UnknownOutcome("no answer")
        return effect()

    ground.catalog.around = keep
    assert stream.commit(n) == 1
    ground.catalog.around = lambda call, effect: effect()
    assert stream.commit(n) == 0
    with pytest.raises(Exception, match="the progress is 1, not 0"):
        late[0]()
    assert len(ground.snapshots(ORDERS)) == 1
    assert cuts.newest(stream.store, STREAM) == 1


def test_maintenance_keeps_rows_progress_and_what_the_next_commit_adds(ground: MemoryGround) -> None:
    stream = Stream(ground)
    for n in range(1, 4):
        stream.land(event("c", 10 * n, {"id": n, "v": "a"}))
    ground.catalog.compact(ORDERS)
    ground.catalog.compact(ORDERS)
    ground.catalog.expire(ORDERS)
    assert len(ground.snapshots(ORDERS)) == 3, "two compactions, and the commit that tells the progress"
    state = ground.lake.state(ORDERS)
    assert state is not None
    assert state.progress(STREAM) == 3
    stream.land(event("c", 40, {"id": 4, "v": "a"}))
    assert stream.values() == [(n, "a") for n in range(1, 5)]
    assert stream.cut().counts["lake.orders"]["events"] == 1
