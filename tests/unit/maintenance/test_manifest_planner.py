"""Which manifests are worth rewriting: small ones that are many, and those that all hold files of one partition."""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from firn.maintenance.manifest_planner import DEEP, MANY, MOST_BYTES, SMALL, Manifest, Rewrite, plan

TARGET = 1_000
BIG = TARGET
TINY = 10


def some(count: int, size: int, **more: Any) -> list[Manifest]:
    """Manifests of one kind."""
    return [replace(Manifest(f"{size}-{more}-{n:05d}", size), **more) for n in range(count)]


def test_few_small_manifests_are_left_alone() -> None:
    assert plan(some(MANY, TINY), TARGET) == []
    assert plan(some(10 * MANY, int(SMALL * TARGET)), TARGET) == [], "a quarter of the target is not small"
    assert plan([], TARGET) == []


def test_many_small_ones_become_few_and_the_large_ones_beside_them_stay() -> None:
    small = some(MANY + 1, TINY)
    [found] = plan([*small, *some(100, BIG)], TARGET)
    assert (found.spec, set(found.manifests), found.why) == (0, set(small), "51 small manifests")
    assert found.bytes == 51 * TINY


def test_each_spec_is_a_commit_of_its_own_and_deletes_go_with_their_spec() -> None:
    data, deletes, other = some(60, TINY), some(70, TINY, deletes=True), some(80, TINY, spec=1)
    first, second = plan([*data, *deletes, *other], TARGET)
    assert (first.spec, set(first.manifests)) == (0, {*data, *deletes})
    assert first.why == "70 small manifests of deletes, 60 small manifests"
    assert (second.spec, set(second.manifests)) == (1, set(other))


def test_data_and_deletes_are_not_counted_together() -> None:
    assert plan([*some(MANY, TINY), *some(MANY, TINY, deletes=True), *some(MANY, TINY, spec=3)], TARGET) == []


def test_manifests_that_all_hold_files_of_one_partition_are_sorted_by_it() -> None:
    wide = some(DEEP + 1, BIG, low=0, high=15)
    apart = [replace(one, low=100 + n, high=101 + n) for n, one in enumerate(some(5, BIG + 1))]
    [found] = plan([*wide, *apart], TARGET)
    assert (set(found.manifests), found.why) == (set(wide), "9 manifests with files of one partition")
    assert plan(wide[1:], TARGET) == []


def test_manifests_of_one_partition_each_are_as_good_as_they_get() -> None:
    assert plan(some(100, BIG, low=7, high=7), TARGET) == []
    assert plan(some(100, BIG), TARGET) == [], "of an unpartitioned table"


def test_a_manifest_far_over_the_target_counts_for_as_many_as_it_could_be() -> None:
    assert plan(some(1, DEEP * TARGET, low=0, high=9), TARGET) == []
    assert [len(one.manifests) for one in plan(some(1, DEEP * TARGET + 1, low=0, high=9), TARGET)] == [1]


def test_small_manifests_of_all_partitions_are_the_other_rules() -> None:
    assert plan(some(MANY, TINY, low=0, high=15), TARGET) == []


def test_one_commit_takes_no_more_than_it_may() -> None:
    assert [one.bytes <= 900 for one in plan(some(200, TINY), TARGET, most=900)] == [True]
    assert [len(one.manifests) for one in plan(some(200, TINY), TARGET, most=50 * TINY)] == [50]
    assert plan(some(200, TINY), TARGET, most=3 * TINY) == [], "not worth a commit"
    [deep] = plan(some(100, BIG, low=0, high=15), TARGET, most=20 * BIG)
    assert len(deep.manifests) == 20
    both = plan([*some(60, TINY), *some(60, TINY, deletes=True)], TARGET, most=60 * TINY)
    assert [len(one.manifests) for one in both] == [60], "data and deletes share the bound"


def rewritten(found: Rewrite) -> list[Manifest]:
    """What comes of it: by partition, about the target's size. A partition of several manifests has some of its own."""
    after = []
    for deletes in (False, True):
        mine = [one for one in found.manifests if one.deletes is deletes]
        if mine:
            after += _sorted(mine, found, ceil(sum(one.bytes for one in mine) / TARGET))
    return after


def _sorted(mine: Sequence[Manifest], found: Rewrite, count: int) -> list[Manifest]:
    size = sum(one.bytes for one in mine) // count
    known = [one for one in mine if one.low is not None and one.high is not None]
    if not known:
        return some(count, size, spec=found.spec, deletes=mine[0].deletes)
    low, high = min(one.low for one in known), max(one.high for one in known)
    ends = [low + (high - low) * n // count for n in range(count + 1)]
    return [
        Manifest(f"{found.spec}-{mine[0].deletes}-{n}", size, found.spec, mine[0].deletes, ends[n], ends[n + 1])
        for n in range(count)
    ]


MANIFESTS = st.builds(
    lambda size, spec, deletes, low, width: (size, spec, deletes, low, None if low is None else low + width),
    st.integers(1, 3 * TARGET), st.integers(0, 1), st.booleans(), st.none() | st.integers(0, 100), st.integers(0, 100),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(MANIFESTS, max_size=200), st.integers(1, 5), st.sampled_from([2, 9, 30]))
def test_what_is_planned_is_bounded_and_comes_to_an_end(
    drawn: list[tuple[int, int, bool, int | None, int | None]], times: int, targets: int
) -> None:
    now = [Manifest(f"m{n}", *one) for n, one in enumerate(drawn * times)]
    now = [replace(one, path=f"m{n}") for n, one in enumerate(now)]
    bound = targets * TARGET
    for _ in range(200):
        found = plan(now, TARGET, most=bound)
        if not found:
            break
        for one in found:
            assert 0 < one.bytes <= bound
            assert {each.spec for each in one.manifests} == {one.spec}
            assert len({each.path for each in one.manifests}) == len(one.manifests)
        taken = {each.path for one in found for each in one.manifests}
        after = [each for one in found for each in rewritten(one)]
        now = [one for one in now if one.path not in taken] + after
        now = [replace(one, path=f"m{n}") for n, one in enumerate(now)]
    assert plan(now, TARGET, most=bound) == [], "a rewrite leaves what is worth another one"
    for spec in (0, 1):
        for deletes in (False, True):
            mine = [one for one in now if (one.spec, one.deletes) == (spec, deletes) and one.bytes < SMALL * TARGET]
            assert len(mine) <= MANY


def test_the_bound_leaves_room_for_what_is_worth_it() -> None:
    """Of tables with Iceberg's own target, 8 MB, too: as many as are too many fit, or a part of the small ones."""
    target = 8 * 1024 * 1024
    assert DEEP * target <= MOST_BYTES
    [found] = plan(some(100, int(SMALL * target) - 1), target)
    assert (len(found.manifests), found.why) == (32, "32 small manifests")
