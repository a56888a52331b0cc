"""What readers have used: sums in a chain, whoever writes it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from firn.log import query_usage
from firn.log.query_usage import QuotaUsed, add, check, used_in
from firn.log.store import Store, open_store, paths, put
from firn.log.usage_layout import reader_link, reader_prefix
from tests.unit.log.storage_faults import Fault, FaultyStore

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
MONTH = "2026-01"


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Store:
    return open_store(f"memory://{request.node.name}")


@pytest.fixture
def another() -> Iterator[Callable[[], None]]:
    """Has the next call be one of a function that has just begun."""

    def begin() -> None:
        query_usage._known.clear()
        query_usage._owed.clear()

    yield begin
    begin()


def test_seconds_add_up_over_functions_days_and_months(store: Store, another: Callable[[], None]) -> None:
    for hours, seconds in ((0, 10.5), (1, 2.25), (11, 1.0), (12, 4.0)):
        another()
        add(store, "acme", seconds, NOON + timedelta(hours=hours))
    assert (used_in(store, "acme", MONTH).seconds, used_in(store, "acme", MONTH).queries) == (13.75, 3)
    assert used_in(store, "acme", "2026-02").seconds == 4.0  # which began at midnight
    assert used_in(store, "other", MONTH) == query_usage.NOTHING


def test_a_day_that_is_used_up_is_a_429_that_says_whose_and_until_when(store: Store) -> None:
    add(store, "acme", 59.9, NOON)
    check(store, "acme", 60, NOON)
    add(store, "acme", 0.5, NOON)
    with pytest.raises(QuotaUsed) as refused:
        check(store, "acme", 60, NOON + timedelta(hours=1))
    assert (refused.value.status, refused.value.code, refused.value.retry_after) == (429, "quota_used", 11 * 3600)
    for part in ("the reader acme", "60 of its 60 seconds", "query.readers.acme.seconds", "2026-02-01T00:00:00.000Z"):
        assert part in str(refused.value)
    check(store, "acme", None, NOON)
    check(store, "other", 60, NOON)
    check(store, "acme", 60, NOON + timedelta(hours=12))


def test_what_began_before_midnight_and_ends_after_another_day_began_is_not_lost(store: Store) -> None:
    late, early = NOON + timedelta(days=-1, hours=13), NOON + timedelta(days=-1)
    add(store, "acme", 5, late)
    add(store, "acme", 7, early)
    assert used_in(store, "acme", MONTH).on("2026-01-31") == 12.0


def test_a_clock_that_is_a_day_ahead_gives_nobody_a_day_without_end(store: Store) -> None:
    day = NOON + timedelta(days=-1)
    add(store, "acme", 6, day)
    add(store, "acme", 2, day + timedelta(days=1))
    add(store, "acme", 9, day)
    with pytest.raises(QuotaUsed, match="11 of its 10"):
        check(store, "acme", 10, day)


@pytest.mark.parametrize("damaged", [1, 99, 100, 101])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_damaged_link_ends_no_counting_and_the_one_before_counts(
    another: Callable[[], None], damaged: int, *, is_new: bool
) -> None:
    store = MemoryStore()
    for _ in range(damaged - 1):
        add(store, "acme", 1, NOON)
    known = dict(query_usage._known.of(store))
    add(store, "acme", 1, NOON)
    put(store, reader_link("acme", MONTH, damaged), b"")
    another()
    query_usage._known.of(store).update({} if is_new else known)
    add(store, "acme", 1, NOON)
    assert used_in(store, "acme", MONTH).seconds == damaged
    assert query_usage._owed.of(store) == {}


def test_functions_that_answer_at_once_lose_nothing_of_each_other(store: Store, another: Callable[[], None]) -> None:
    def many(_: int) -> None:
        for _ in range(10):
            add(store, "acme", 0.25, NOON)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(many, range(4)))
    owed = query_usage._owed.of(store).get("acme", 0.0)
    assert used_in(store, "acme", MONTH).seconds + owed == 10.0


def test_a_function_that_has_not_heard_of_others_answers_one_query_more_at_most(
    store: Store, another: Callable[[], None]
) -> None:
    check(store, "acme", 10, NOON)  # nothing yet, as far as it knows
    known = dict(query_usage._known.of(store))
    another()
    add(store, "acme", 20, NOON)  # by another function
    query_usage._known.of(store).update(known)
    check(store, "acme", 10, NOON)
    add(store, "acme", 1, NOON)
    with pytest.raises(QuotaUsed, match="21 of its 10"):
        check(store, "acme", 10, NOON)


def test_a_query_costs_one_put() -> None:
    counting = FaultyStore()
    add(counting, "acme", 1, NOON)
    reads = counting.reads
    check(counting, "acme", 60, NOON)
    add(counting, "acme", 1, NOON)
    assert counting.reads == reads
    assert counting.puts == [reader_link("acme", MONTH, n) for n in (1, 2)]


def test_a_new_function_lists_from_the_mark_on(another: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    store = FaultyStore()
    for _ in range(205):
        add(store, "acme", 1, NOON)
    another()
    listed: list[str] = []
    reads = store.reads

    def noting(*asked: Any) -> list[str]:
        listed.extend(found := paths(*asked))
        return found

    monkeypatch.setattr(query_usage, "paths", noting)
    assert used_in(store, "acme", MONTH).seconds == 205.0
    assert len(listed) == 6
    assert store.reads == reads + 2  # the mark, the newest link


def test_what_the_storage_does_not_take_is_counted_with_the_next_query() -> None:
    store = FaultyStore(None, "refused", "refused", "refused")
    add(store, "acme", 1, NOON)
    add(store, "acme", 2, NOON)
    with pytest.raises(QuotaUsed, match="3 of its 3"):
        check(store, "acme", 3, NOON)
    add(store, "acme", 4, NOON)
    assert used_in(store, "acme", MONTH).seconds == 7.0


@pytest.mark.parametrize(("lost", "counted"), [("lost before", 5.0), ("lost after", 7.0)])
def test_what_may_have_been_written_is_not_counted_twice(lost: Fault, counted: float) -> None:
    store = FaultyStore(None, lost, "lost before", "lost before")
    add(store, "acme", 1, NOON)
    add(store, "acme", 2, NOON)
    add(store, "acme", 4, NOON)
    assert used_in(store, "acme", MONTH).seconds == counted


def test_a_lost_answer_is_found_out() -> None:
    store = FaultyStore(None, "lost after")
    add(store, "acme", 1, NOON)
    add(store, "acme", 2, NOON)
    assert used_in(store, "acme", MONTH).seconds == 3.0


def test_no_query_is_too_short_to_count(store: Store) -> None:
    for _ in range(10):
        add(store, "acme", 0.00001, NOON)
    assert used_in(store, "acme", MONTH).seconds == 0.01


def test_a_damaged_link_costs_no_more_than_itself(store: Store, another: Callable[[], None]) -> None:
    add(store, "acme", 1, NOON)
    put(store, reader_link("acme", MONTH, 2), b"{")
    another()
    add(store, "acme", 2, NOON)
    assert used_in(store, "acme", MONTH).seconds == 3.0
    assert paths(store, reader_prefix("acme", MONTH))[-1] == reader_link("acme", MONTH, 3)


class Function(FaultyStore):
    """The storage as one function sees it: what a process remembers is kept by the store."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__()
        self.inner = inner
        self.busy: float | None = None


STEPS = st.lists(st.tuples(st.integers(0, 3), st.floats(0.001, 25.0)), max_size=40)


@given(STEPS, st.integers(1, 100))
def test_functions_at_once_count_all_and_overdraw_by_one_query_each_at_most(
    steps: list[tuple[int, float]], limit: int
) -> None:
    inner = MemoryStore()
    functions = [Function(inner) for _ in range(4)]
    taken = 0.0
    for at, seconds in steps:
        function = functions[at]
        if function.busy is not None:
            add(function, "acme", function.busy, NOON)
            function.busy = None
            continue
        try:
            check(function, "acme", limit, NOON)
        except QuotaUsed:
            assert taken >= limit - 0.1, "nobody waits for what is left"
            continue
        function.busy, taken = seconds, taken + seconds
    for function in functions:
        if function.busy is not None:
            add(function, "acme", function.busy, NOON)
    assert used_in(Function(inner), "acme", MONTH).seconds == pytest.approx(taken, abs=0.1)
    assert taken <= limit + 4 * 25.0 + 0.1
