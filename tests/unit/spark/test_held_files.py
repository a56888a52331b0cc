"""A job knows the files of tables from what was added since its last look-up, and asks Iceberg where it does not."""

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from firn.changes.decode.types import Column, Type
from firn_spark.files import row_lookup
from firn_spark.files.held_files import HeldFiles
from firn_spark.files.row_lookup import Files, Limits, Wanted
from firn_spark.merge.mirror_commit import Written
from firn_spark.not_eligible import Unfit
from firn_spark.tables.deletes import DeleteFile
from firn_spark.tables.removals import Removal
from firn_spark.views import view_table

ID, NAME, PRICE = (
    Column("id", Type("long")), Column("name", Type("string")), Column("price", Type("decimal", precision=9, scale=2)),
)  # fmt: skip
FIELDS = tuple({"id": n, "name": one.name} for n, one in enumerate((ID, NAME, PRICE), start=1))
OLD = DeleteFile("old-deletes", 100)


def table(
    uuid: str = "u", snapshot: int | None = 1, partitioned_by: frozenset[int] = frozenset(), count: int = 2
) -> Any:
    state = SimpleNamespace(
        uuid=uuid, snapshot_id=snapshot, partitioned_by=partitioned_by, fields=FIELDS, location="file:///t",
        ancestry=({"total-data-files": str(count)},),
    )  # fmt: skip
    return SimpleNamespace(state=state)


def wanted(*some: int, by: Column = ID, snapshot: int | None = None) -> Wanted:
    kind = {"id": pa.int64(), "name": pa.string(), "price": pa.decimal128(9, 2)}[by.name]
    values = pa.array([Decimal(one) if by == PRICE else str(one) if by == NAME else one for one in some], kind)
    return Wanted([by], some=[values], snapshot=snapshot)


def said(path: str, low: int, high: int, size: int = 10) -> dict[str, Any]:
    """A data file as Iceberg's JSON of it."""
    lower, upper = ({"keys": [1], "values": [one.to_bytes(8, "little").hex().upper()]} for one in (low, high))
    return {"file-path": path, "file-size-in-bytes": size, "lower-bounds": lower, "upper-bounds": upper}


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What Iceberg was asked: snapshot, column, whether for all files."""
    found: list[tuple[Any, ...]] = []

    def plan(_: Any, table: Any, wanted: Wanted, limits: Limits | None) -> Files:
        snapshot = wanted.snapshot or table.state.snapshot_id
        found.append((snapshot, wanted.key[0].name, wanted.between == (None, None)))
        if limits is not None and table.state.uuid == "large":
            raise Unfit("more than 400 files to look through")
        ends = {"a": (0, 9), "b": (10, 19)} if wanted.key[0] == ID and wanted.between else {}
        return Files(wanted, ["a", "b"], [OLD], {}, ends, table.state.location)

    monkeypatch.setattr(row_lookup, "plan", plan)
    return found


def test_what_a_snapshot_adds_is_known_without_asking(asked: list[tuple[Any, ...]]) -> None:
    held: Any = HeldFiles()
    assert held.plan(None, table(), wanted(12)).open() == ["b"]
    new = DeleteFile("new-deletes", 50)
    held.follow(table(), 1, 2, [said("c", 5, 12)], [new])
    found = held.plan(None, table(snapshot=2), wanted(12))
    assert (found.open(), list(found.deletes)) == (["b", "c"], [new, OLD])
    assert held.plan(None, table(snapshot=2), wanted(7)).open() == ["a", "c"]
    assert held.plan(None, table(snapshot=2), wanted(12, snapshot=1)).open() == ["b"], "as it was"
    assert asked == [(1, "id", True)]


def test_a_snapshot_on_another_one_than_is_known_is_asked_for(asked: list[tuple[Any, ...]]) -> None:
    held: Any = HeldFiles()
    held.plan(None, table(), wanted(1))
    held.follow(table(), 7, 8, [said("c", 5, 12)], [])
    held.follow(table("other"), 1, 8, [said("c", 5, 12)], [])
    held.follow(table(), None, 8, [said("c", 5, 12)], [])
    assert [held.holds(table(), one) for one in (1, 7, 8, None)] == [True, False, False, True]
    assert not held.holds(table("other"))
    assert held.plan(None, table(snapshot=8), wanted(1)).open() == ["a"]
    held.clear()
    held.plan(None, table(), wanted(1))
    assert asked == [(1, "id", True), (8, "id", True), (1, "id", True)]


def test_each_column_is_asked_for_once_and_then_followed(asked: list[tuple[Any, ...]]) -> None:
    held: Any = HeldFiles()
    for _ in range(2):
        held.plan(None, table(), wanted(1))
        assert held.plan(None, table(), wanted(1, by=NAME)).open() == ["a", "b"]
    held.follow(table(), 1, 2, [said("c", 5, 12)], [])
    assert held.plan(None, table(snapshot=2), wanted(1, by=NAME)).open() == ["a", "b", "c"]
    assert held.plan(None, table(snapshot=2), wanted(11)).open() == ["b", "c"]
    assert asked == [(1, "id", True), (1, "name", True)]
    # A column that has become another type is told of in other bounds.
    held.plan(None, table(snapshot=2), wanted(1, by=Column("id", Type("int"))))
    assert asked[2:] == [(2, "id", True)]


@pytest.mark.parametrize(
    "given", [table(partitioned_by=frozenset({1})), table(snapshot=None), table("large"), table(count=401)]
)
def test_of_others_the_files_that_may_be_wanted_are_asked_for(given: Any, asked: list[tuple[Any, ...]]) -> None:
    held: Any = HeldFiles()
    held.plan(None, given, wanted(1))
    held.plan(None, given, wanted(1))
    assert [every for _, _, every in asked if not every] == [False, False]
    assert sum(every for _, _, every in asked) == (given.state.uuid == "large"), "and that it is large is found once"


def test_bounds_that_only_iceberg_goes_by_are_its_own_affair(asked: list[tuple[Any, ...]]) -> None:
    held: Any = HeldFiles()
    held.plan(None, table(), wanted(1, by=PRICE))
    held.plan(None, table(), Wanted([ID], keys=[(1,)]))
    assert asked == [(1, "price", False), (1, "id", False)]


def test_no_more_than_so_many_files_are_held() -> None:
    held: Any = HeldFiles(most=11)  # two files with the bounds of a column, and one of deletes: five of each version
    for uuid in "uvw":
        held.plan(None, table(uuid), wanted(1))
    assert [held.holds(table(uuid)) for uuid in "uvw"] == [False, True, True]
    held.plan(None, table("v"), wanted(1))
    held.plan(None, table("x"), wanted(1))
    assert [held.holds(table(uuid)) for uuid in "vwx"] == [True, False, True]
    some = [said(f"c{n}", 0, 1) for n in range(500)]
    held = HeldFiles()
    held.plan(None, table(), wanted(1))
    held.follow(table(), 1, 2, some, [])
    assert not held.holds(table(), 2), "of so many files those are asked for that may be wanted"


@pytest.mark.parametrize(
    ("written", "parent", "bytes_told", "known"),
    [
        (Written([said("c", 5, 12)], Removal([OLD]), {}), 1, 110, True),
        (Written([], Removal(), {}), 1, None, True),
        (Written([said("c", 5, 12)], Removal([OLD]), {}), 7, 110, False),
        (Written([said("c", 5, 12)], Removal([OLD]), {}), None, 110, False),
        (Written([said("c", 5, 12)], Removal([OLD]), {}), 1, 111, False),
        (Written([said("c", 5, 12)], Removal([OLD], replaced=[OLD]), {}), 1, 110, False),
        (Written([said("c", 5, 12)], Removal(), {}, old=["a"]), 1, 10, False),
        (Written([said("c", 5, 12)], Removal([None]), {}), 1, 10, False),
    ],
    ids=["rows", "no rows", "beside", "alone", "others", "vectors", "copy on write", "other deletes"],
)
def test_a_view_is_followed_where_it_is_what_was_written(
    monkeypatch: pytest.MonkeyPatch, written: Written, parent: int | None, bytes_told: int | None, known: bool
) -> None:
    described: Any = SimpleNamespace(said=lambda one: one, of=lambda one: one)
    monkeypatch.setattr(view_table, "Descriptions", lambda *_: described)
    held: Any = HeldFiles()
    held.plan(None, table(), wanted(12))
    now = table(snapshot=2)
    now.state.ancestry = ({} if bytes_told is None else {"added-files-size": str(bytes_told)},)
    now.head = lambda: SimpleNamespace(parentId=lambda: parent, snapshotId=lambda: 2)
    view_table.follow(held, held, table(), now, written)
    assert held.holds(now, 2) == known
