"""Whatever a table's files are: what is planned is bounded, and a rewrite as planned leaves no debt."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from firn.config.maintenance import Compaction
from firn.maintenance import compaction_planner
from firn.maintenance.compaction_planner import DataFile, DeleteFile, Group

TARGET = 100
POLICY = Compaction(target_bytes=TARGET)
SPEC = 1
_MOST_ROUNDS = 6

PLACES = st.tuples(st.integers(0, 1), st.sampled_from(("", "a", "b")))


@st.composite
def tables(draw: st.DrawFn, deletes: bool = True) -> list[DataFile]:
    sizes = draw(st.lists(st.integers(1, 450), max_size=40))
    files = []
    for n, size in enumerate(sizes):
        spec, partition = draw(PLACES)
        gone = draw(st.integers(0, size)) if deletes and draw(st.booleans()) else 0
        cold = draw(st.integers(0, 5)) == 0
        files.append(DataFile(f"f{n:03}", size, size, spec, partition, 1, gone, cold))
    return files


def rewritten(files: list[DataFile], groups: list[Group], round: int = 0) -> list[DataFile]:
    """The table after the groups were rewritten as planned: as many files, of about one size, without deletes."""
    gone = {file.path for group in groups for file in group.files}
    new = []
    for n, group in enumerate(groups):
        size = sum(file.live_bytes for file in group.files)
        one = group.files[0]
        for part in range(group.into if size else 0):
            mine = size // group.into + (part < size % group.into)
            new.append(DataFile(f"r{round}-{n}-{part}", mine, mine, one.spec, one.partition, 2 + round))
    return [file for file in files if file.path not in gone] + new


@given(tables())
def test_no_file_is_in_two_groups_and_each_group_is_in_one_place(files: list[DataFile]) -> None:
    groups = compaction_planner.plan(files, POLICY, SPEC, most=400)
    assert all(count == 1 for count in Counter(file.path for group in groups for file in group.files).values())
    assert all(len({(file.spec, file.partition) for file in group.files}) == 1 for group in groups)
    assert {file.path for group in groups for file in group.files} <= {file.path for file in files}
    gains = [group.gain for group in groups]
    assert gains == sorted(gains, reverse=True)


@given(tables(), st.integers(40, 500))
def test_no_group_writes_more_than_it_may_unless_it_is_one_file(files: list[DataFile], most: int) -> None:
    limit = most if most < TARGET else max(most, 150)
    for group in compaction_planner.plan(files, POLICY, SPEC, most=most):
        assert len(group.files) == 1 or sum(file.live_bytes for file in group.files) <= limit


@given(tables(deletes=False), st.integers(200, 800))
def test_what_was_joined_as_planned_is_worth_no_other_rewrite(files: list[DataFile], most: int) -> None:
    after = rewritten(files, compaction_planner.plan(files, POLICY, SPEC, most=most))
    assert compaction_planner.plan(after, POLICY, SPEC, most=most) == []


@given(tables(), st.integers(40, 800))
def test_rewriting_what_is_planned_comes_to_an_end(files: list[DataFile], most: int) -> None:
    for round in range(_MOST_ROUNDS):
        groups = compaction_planner.plan(files, POLICY, SPEC, most=most)
        if not groups:
            return
        after = rewritten(files, groups, round)
        fewer = len(after) < len(files)
        assert fewer or sum(file.deleted for file in after) < sum(file.deleted for file in files)
        files = after
    assert compaction_planner.plan(files, POLICY, SPEC, most=most) == []


@given(tables(), st.integers(0, 2_000), st.booleans())
def test_a_budget_is_never_exceeded_but_by_the_first_group(files: list[DataFile], budget: int, fresh: bool) -> None:
    groups = compaction_planner.plan(files, POLICY, SPEC, most=400)
    taken = compaction_planner.within(groups, budget, fresh=fresh)
    assert sum(group.bytes for group in taken) <= budget or (fresh and taken == groups[:1])
    assert bool(taken) >= (fresh and bool(groups))
    assert [group for group in groups if group in taken] == taken


@st.composite
def delete_files(draw: st.DrawFn) -> list[DeleteFile]:
    found = []
    for n in range(draw(st.integers(0, 8))):
        spec, partition = draw(PLACES)
        bounds = draw(st.sampled_from((("", None), ("f001", "f003"), ("f002", "f002"), ("f900", "f901"))))
        rows = draw(st.integers(1, 50))
        found.append(DeleteFile(f"d{n}", 1, rows, spec, partition, draw(st.integers(0, 3)), *bounds))
    return found


@given(tables(deletes=False), delete_files())
def test_deleted_rows_are_counted_once_and_dangling_files_name_nothing(
    files: list[DataFile], deletes: list[DeleteFile]
) -> None:
    found, dangling = compaction_planner.spread(files, deletes)
    assert sorted(one.path for one in found) == sorted(one.path for one in files)
    assert [replace(one, deleted=0) for one in sorted(found, key=lambda one: one.path)] == files
    assert all(0 <= one.deleted <= one.rows for one in found)
    told = sum(one.rows for one in deletes if one not in dangling)
    assert sum(one.deleted for one in found) <= told + len(files)
    for one in dangling:
        here = [file for file in files if (file.spec, file.partition) == (one.spec, one.partition)]
        assert not any(one.may_name(file) for file in here)
