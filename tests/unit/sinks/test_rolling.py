"""Which epochs a plan takes, and how its rows become files: pure rules, each time the same."""

from datetime import UTC, datetime, timedelta
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from firn.config.file_sinks import FileSink, Roll
from firn.sinks import rolling
from firn.sinks.rolling import MOST_EPOCHS, MOST_FILES, WaitingEpoch, cut, next_plan, pause_after

START = datetime(2026, 11, 21, tzinfo=UTC)
SINK = FileSink("s3://acme/files", roll=Roll(300, 1_000))


def epoch(n: int, size: int = 100, config: str = "a", since: datetime = START) -> WaitingEpoch:
    return WaitingEpoch(n, config, 10, size, since, SINK)


def numbers(waiting: list[WaitingEpoch], *, seconds: int = 0, ended: bool = False) -> list[int]:
    return [one.n for one in next_plan(waiting, START + timedelta(seconds=seconds), ended=ended)]


def test_a_plan_ends_with_the_epoch_that_reaches_the_size() -> None:
    waiting = [epoch(n, 400) for n in range(1, 6)]
    assert numbers(waiting) == [1, 2, 3]
    assert numbers(waiting[3:]) == []
    assert numbers([epoch(1, 5_000), epoch(2)]) == [1]


def test_what_waits_is_planned_once_its_oldest_is_old_enough() -> None:
    waiting = [epoch(1), epoch(2, since=START - timedelta(seconds=10)), epoch(3)]
    assert numbers(waiting, seconds=289) == []
    assert numbers(waiting, seconds=290) == [1, 2, 3]
    assert numbers(waiting, ended=True) == [1, 2, 3]
    assert numbers([]) == numbers([], ended=True) == []


def test_a_plan_ends_where_the_configuration_changes_and_holds_a_bounded_number_of_epochs() -> None:
    assert numbers([epoch(1), epoch(2), epoch(3, config="b")]) == [1, 2]
    assert len(numbers([epoch(n, 0) for n in range(3 * MOST_EPOCHS)])) == MOST_EPOCHS


@given(
    st.lists(st.tuples(st.integers(0, 3_000), st.sampled_from("ab")), max_size=30),
    st.integers(1, 30),
)
def test_plans_partition_the_epochs_however_they_arrive(sizes: list[tuple[int, str]], at_once: int) -> None:
    every = [epoch(n, size, config) for n, (size, config) in enumerate(sizes)]
    seen: list[int] = []
    for end in [*range(0, len(every), at_once), len(every)]:
        while taken := next_plan(every[len(seen) : end], START, ended=end == len(every)):
            assert len({one.config for one in taken}) == 1
            assert sum(one.bytes for one in taken[:-1]) < SINK.roll.bytes
            seen += [one.n for one in taken]
    assert seen == list(range(len(every)))


@given(
    st.dictionaries(st.sampled_from(["", "a", "b", "a/b"]), st.integers(1, 500), max_size=4),
    st.integers(0, 2_000),
    st.integers(0, 10**9),
    st.integers(1_000, 10**8),
)
def test_each_row_is_in_one_file_and_files_are_about_as_large_as_asked(
    folders: dict[str, int], events: int, size: int, roll: int
) -> None:
    files = cut(folders, events=events, size=size, roll=roll, name="shop.raw.1-x", ending=".parquet")
    assert len({one.path for one in files}) == len(files)
    total = max(events, sum(folders.values()), 1)
    roll = max(roll, size // MOST_FILES)
    for folder, rows in folders.items():
        mine = [one for one in files if one.folder == folder]
        assert [one.first for one in mine] == [0, *accumulate(one.rows for one in mine)][:-1]
        assert sum(one.rows for one in mine) == rows
        assert min(one.rows for one in mine) >= 1
        assert len(mine) <= max(1, rows * size / total / roll + 0.5)
        assert all(one.rows * size / total <= max(2 * roll, 2 * size / total) for one in mine)
    assert files == cut(dict(reversed(folders.items())), events=events, size=size, roll=roll, name="shop.raw.1-x",
                        ending=".parquet")  # fmt: skip


def test_a_sink_that_fails_is_tried_less_and_less_often() -> None:
    pauses = [pause_after(tries) for tries in range(1, 2_000)]
    assert pauses[:4] == [timedelta(minutes=n) for n in (1, 2, 4, 8)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == rolling._LONGEST_PAUSE
