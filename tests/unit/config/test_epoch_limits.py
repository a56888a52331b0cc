from hypothesis import given
from hypothesis import strategies as st

from firn.config.epoch_limits import EVENTS_PER_WRITER, GROWTH, Caps, limit_per_writer, shared_out

batches = st.lists(st.tuples(st.integers(1, 200), st.integers(0, 50)), max_size=60)
CAPS = Caps(bytes=100, events=40)


def epochs_of(waiting: list[tuple[int, int]], caps: Caps) -> list[list[tuple[int, int]]]:
    """All of it sealed, one epoch after the other, each under the caps that the backlog of that moment gives."""
    found = []
    while waiting:
        grown = caps.grown(sum(size for size, _ in waiting), sum(rows for _, rows in waiting))
        count = grown.fitting(waiting)
        assert count, "a backlog that never ends"
        found.append(waiting[:count])
        waiting = waiting[count:]
    return found


@given(batches)
def test_every_batch_is_in_one_epoch_in_its_order(waiting: list[tuple[int, int]]) -> None:
    assert [batch for epoch in epochs_of(waiting, CAPS) for batch in epoch] == waiting


@given(batches)
def test_no_epoch_is_over_the_grown_cap_but_for_one_batch_that_is(waiting: list[tuple[int, int]]) -> None:
    for epoch in epochs_of(waiting, CAPS):
        fits = sum(size for size, _ in epoch) <= GROWTH * 100 and sum(rows for _, rows in epoch) <= GROWTH * 40
        assert fits or len(epoch) == 1


@given(st.lists(st.tuples(st.integers(1, 100), st.just(0)), max_size=300))
def test_a_larger_backlog_is_taken_in_larger_epochs(waiting: list[tuple[int, int]]) -> None:
    """Each epoch is at least half full of its cap, and the cap is at least half of what the backlog allows."""
    size = sum(size for size, _ in waiting)
    assert len(epochs_of(waiting, CAPS)) <= 8 + size / (GROWTH * 100 / 2)


def test_the_cap_doubles_with_the_backlog_up_to_its_end() -> None:
    assert [CAPS.grown(waiting, 0).bytes for waiting in (0, 199, 200, 399, 400, 800, 10**9)] == [
        100, 100, 200, 200, 400, 800, 800,
    ]  # fmt: skip
    assert CAPS.grown(0, 160) == Caps(400, 160)


def test_a_batch_larger_than_an_epoch_goes_alone() -> None:
    assert CAPS.fitting([(1000, 1), (1, 1)]) == 1
    assert CAPS.fitting([(1, 1), (1000, 1)]) == 1
    assert CAPS.fitting([(1, 1000), (1, 1)]) == 1
    assert CAPS.fitting([]) == 0


waiting_batches = st.lists(st.tuples(st.sets(st.sampled_from("abc"), max_size=2), st.integers(0, 50)), max_size=40)


@given(waiting_batches)
def test_shared_out_all_batches_go_in_the_end_and_each_writers_in_order(waiting: list[tuple[set[str], int]]) -> None:
    left, gone = list(enumerate(waiting)), list[tuple[int, tuple[set[str], int]]]()
    while left:
        chosen = shared_out([one for _, one in left], 60)
        assert chosen[0], "the oldest never waits"
        gone += [one for one, mine in zip(left, chosen, strict=True) if mine]
        left = [one for one, mine in zip(left, chosen, strict=True) if not mine]
    for writer in ("a", "b", "c", ""):
        mine = [n for n, (writers, _) in gone if writer in (writers or {""})]
        assert mine == sorted(mine)
    assert len(gone) == len(waiting)


@given(waiting_batches)
def test_of_a_writer_an_epoch_holds_no_more_than_it_may_but_for_one_batch_that_does(
    waiting: list[tuple[set[str], int]],
) -> None:
    chosen = shared_out(waiting, 60)
    for writer in ("a", "b", "c", ""):
        mine = [events for (writers, events), goes in zip(waiting, chosen, strict=True) if goes and
                writer in (writers or {""})]  # fmt: skip
        assert sum(mine) <= 60 or len([events for events in mine if events]) == 1


def test_ten_changes_do_not_wait_for_a_million_that_came_before_them() -> None:
    waiting = [({"busy"}, 2_500)] * 400 + [({"quiet"}, 10)]
    chosen = shared_out(waiting, EVENTS_PER_WRITER)
    assert (chosen[-1], sum(chosen)) == (True, 1 + EVENTS_PER_WRITER // 2_500)


def test_a_heartbeat_takes_no_room_of_its_writers() -> None:
    assert shared_out([({"a"}, 0)] * 3 + [({"a"}, 60), ({"a"}, 0), ({"a"}, 1)], 60) == [True] * 5 + [False]


def test_behind_a_batch_of_two_writers_that_waits_both_wait() -> None:
    assert shared_out([({"a"}, 60), ({"a", "b"}, 1), ({"b"}, 1), ({"c"}, 1)], 60) == [True, False, False, True]


def test_epochs_are_shared_out_in_streams_of_several_writers_whose_jobs_stay() -> None:
    assert limit_per_writer({"a", "b"}, 60) == EVENTS_PER_WRITER
    assert [limit_per_writer({"a"}, 60), limit_per_writer((), 60), limit_per_writer({"a", "b"}, 0)] == [None] * 3
