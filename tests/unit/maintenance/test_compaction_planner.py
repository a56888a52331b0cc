"""What of a table is worth rewriting."""

from dataclasses import replace

from firn.config.maintenance import Compaction
from firn.maintenance import compaction_planner
from firn.maintenance.compaction_planner import DataFile, DeleteFile, Group, plan, spread, within

MB = 1_000_000
POLICY = Compaction(target_bytes=128 * MB)


def file(name: str, size: int = 128 * MB, rows: int = 1_000, **more: object) -> DataFile:
    return replace(DataFile(name, size, rows), **more)  # type: ignore[arg-type]


def few(count: int, size: int, **more: object) -> list[DataFile]:
    return [file(f"{size}-{n}", size, **more) for n in range(count)]


def paths(groups: list[Group]) -> list[list[str]]:
    return [sorted(one.path for one in group.files) for group in groups]


def test_a_table_of_files_of_the_target_owes_nothing() -> None:
    assert plan(few(40, 128 * MB), POLICY, 0) == []


def test_two_small_files_of_a_partition_are_no_debt_and_five_are() -> None:
    assert plan(few(2, MB), POLICY, 0) == []
    assert plan(few(compaction_planner.ENOUGH - 1, MB), POLICY, 0) == []
    [group] = plan(few(compaction_planner.ENOUGH, MB), POLICY, 0)
    assert (len(group.files), group.into) == (5, 1)


def test_small_files_are_counted_partition_by_partition() -> None:
    files = [file(f"{day}-{n}", MB, partition=day) for day in ("a", "b") for n in range(4)]
    assert plan(files, POLICY, 0) == []
    assert paths(plan([*files, file("b-4", MB, partition="b")], POLICY, 0)) == [[f"b-{n}" for n in range(5)]]


def test_a_file_below_three_quarters_of_the_target_is_small_and_one_above_stays() -> None:
    assert plan(few(9, 96 * MB), POLICY, 0) == []
    groups = plan(few(9, 96 * MB - 1), POLICY, 0)
    assert sum(len(group.files) for group in groups) == 9
    assert all(96 * MB <= group.bytes / group.into <= 192 * MB for group in groups)


def test_deleted_rows_make_a_file_worth_it_from_a_tenth_on() -> None:
    assert plan([file("a", deleted=99)], POLICY, 0) == []
    assert paths(plan([file("a", deleted=100), file("b")], POLICY, 0)) == [["a"]]


def test_a_cold_file_is_fetched_for_many_deletes_only_and_never_for_being_small() -> None:
    assert plan([file("a", deleted=299, cold=True)], POLICY, 0) == []
    assert paths(plan([file("a", deleted=300, cold=True)], POLICY, 0)) == [["a"]]
    assert plan(few(9, MB, cold=True), POLICY, 0) == []


def test_files_of_an_older_spec_are_left_alone_but_for_their_deletes() -> None:
    assert plan(few(9, MB, spec=0), POLICY, 1) == []
    assert paths(plan([*few(9, MB, spec=0), file("a", spec=0, deleted=500)], POLICY, 1)) == [["a"]]


def test_the_files_that_shrink_most_come_first() -> None:
    tiny = few(50, MB)
    half = [file("half", 128 * MB, deleted=500, partition="p")]
    tenth = [file("tenth", 128 * MB, deleted=100, partition="q")]
    found = plan([*tenth, *half, *tiny], POLICY, 0)
    assert [len(group.files) for group in found] == [50, 1, 1]
    assert [group.files[0].path for group in found[1:]] == ["half", "tenth"]


def test_a_group_is_no_larger_than_it_may_be_unless_one_file_is() -> None:
    groups = plan([*few(30, 90 * MB), file("huge", 4_000 * MB, deleted=900, partition="h")], POLICY, 0)
    assert all(group.bytes <= compaction_planner.GROUP_BYTES for group in groups if len(group.files) > 1)
    assert sum(len(group.files) for group in groups) == 31


def test_a_large_target_makes_large_groups() -> None:
    """Of 512 MB no file of a gigabyte can come: the same files would be worth it again and again."""
    groups = plan(few(20, 300 * MB), Compaction(target_bytes=1_000 * MB), 0)
    assert all(group.bytes / group.into >= 750 * MB for group in groups)


def test_files_that_others_look_after_are_left_to_them() -> None:
    assert plan(few(9, MB), POLICY, 0, least=16 * MB) == []
    assert paths(plan([file("a", 20 * MB, deleted=500)], POLICY, 0, least=16 * MB)) == [["a"]]


def test_compaction_that_is_off_finds_no_debt() -> None:
    assert plan(few(9, MB), Compaction(on=False), 0) == []


def test_a_budget_is_filled_in_order_and_a_fresh_one_takes_one_group_at_least() -> None:
    large, small = Group((file("a", 100),), 1), Group((file("b", 10),), 1)
    assert within([large, small], 50, fresh=False) == [small]
    assert within([large, small], 50, fresh=True) == [large]
    assert within([large, small], 110, fresh=False) == [large, small]
    assert within([], 110, fresh=True) == []


def test_a_delete_file_that_names_one_file_counts_for_it_alone() -> None:
    one = DeleteFile("d", 1, 30, lowest="a", highest="a", sequence=1)
    found, dangling = spread([file("a"), file("b")], [one])
    assert {each.path: each.deleted for each in found} == {"a": 30, "b": 0}
    assert dangling == []


def test_deletes_of_a_whole_partition_are_spread_by_rows() -> None:
    one = DeleteFile("d", 1, 40, partition="p", sequence=1)
    files = [file("a", rows=100, partition="p"), file("b", rows=300, partition="p"), file("c", partition="q")]
    found, _ = spread(files, [one])
    assert {each.path: each.deleted for each in found} == {"a": 10, "b": 30, "c": 0}


def test_a_file_has_no_more_deleted_rows_than_rows() -> None:
    [found], _ = spread([file("a", rows=10)], [DeleteFile("d", 1, 40, sequence=1)])
    assert found.deleted == 10
    assert found.live_bytes == 0


def test_deletes_name_no_younger_file_and_none_outside_their_bounds() -> None:
    files = [file("a", sequence=5), file("b", sequence=1), file("c", sequence=1)]
    found, dangling = spread(files, [DeleteFile("d", 1, 10, sequence=3, lowest="a", highest="bz")])
    assert {each.path: each.deleted for each in found} == {"a": 0, "b": 10, "c": 0}
    assert dangling == []


def test_deletes_that_can_name_no_live_file_are_dangling() -> None:
    files = [file("a", sequence=5, partition="p")]
    old = DeleteFile("old", 1, 10, partition="p", sequence=4)
    elsewhere = DeleteFile("elsewhere", 1, 10, partition="q", sequence=9)
    gone = DeleteFile("gone", 1, 10, partition="p", sequence=9, lowest="x", highest="x")
    current = DeleteFile("current", 1, 10, partition="p", sequence=5)
    _, dangling = spread(files, [old, elsewhere, gone, current])
    assert {one.path for one in dangling} == {"old", "elsewhere", "gone"}


def test_a_file_that_is_named_from_another_partition_still_needs_its_deletes() -> None:
    """Iceberg finds the deletes of one file by its path alone."""
    one = DeleteFile("d", 1, 10, partition="q", sequence=9, lowest="a", highest="a")
    [found], dangling = spread([file("a", partition="p")], [one])
    assert (found.deleted, dangling) == (10, [])


def test_many_deletes_of_a_partition_with_many_files_are_spread_as_one() -> None:
    files = [file(f"{n:04}", rows=100) for n in range(1_001)]
    deletes = [DeleteFile(f"d{n}", 1, 50, sequence=1) for n in range(1_000)]
    found, dangling = spread(files, deletes)
    assert {one.deleted for one in found} == {50}
    assert dangling == []
