"""What firn_lake writes into tables of Iceberg's format 3, in each kind of catalog."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

import firn_lake
from firn.errors import UnknownOutcome
from firn_lake.lake_table import LakeTable
from firn_lake.refs.branches import set_branch
from firn_lake.refs.rollback import CannotRollBack
from firn_lake.writing.commit import MovedOn
from tests.integration.catalogs.conftest import Ground
from tests.soak import few_cases

# One set of servers, not one for each worker.
pytestmark = pytest.mark.stack
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def rows(*ids: int, v: str = "v") -> pa.Table:
    return pa.table({"id": list(ids), "v": [f"{v}{n}" for n in ids]}, SCHEMA)


def made(catalog: Catalog, name: str) -> LakeTable:
    catalog.create_namespace_if_not_exists("three")
    catalog.create_table(("three", name), SCHEMA, properties={"format-version": "3"})
    return firn_lake.connect(catalog).table(f"three.{name}")


def ids(table: LakeTable, at: Any = None) -> list[int]:
    return sorted(row["id"] for row in table.read(as_of=at).pylist())


@few_cases(1)
def test_rows_refs_columns_rollback_and_expiry(ground: Ground, catalog: Catalog) -> None:
    table = made(catalog, "t")
    assert table.append(rows(1, 2), id="first") == table.append(rows(1, 2), id="first")
    table.tag("begun")
    table.branch("aside")
    table.append(rows(3))
    done = table.upsert(rows(2, 4, v="w"), key=["id"])
    assert (done.updated, done.inserted) == (1, 1)
    table.evolve(add={"at": "date"}, rename={"v": "w"})
    with ground.open() as other:
        seen = firn_lake.connect(other).table("three.t")
        assert ids(seen) == [1, 2, 3, 4]
        assert ids(seen, "begun") == ids(seen, "aside") == [1, 2]
        assert seen.columns()["at"] == "date"
        assert seen.iceberg.metadata.format_version == 3
    table.fast_forward("aside", "main")
    table.rollback("begun")
    assert ids(table) == [1, 2]
    with pytest.raises(CannotRollBack):
        table.rollback("aside")
    table.drop("aside")
    for n in range(20):
        table.append(pa.table({"id": [10 + n]}))
    assert table.expire(timedelta(0), at_least=1).expired
    assert {one.name for one in table.refs()} == {"main", "begun"}
    assert ids(table, "begun") == [1, 2]
    assert ids(table) == [1, 2, *range(10, 30)]
    told = [(one.first_row_id, one.added_rows) for one in table.iceberg.metadata.snapshots]
    assert all(first is not None and added is not None for first, added in told)


@few_cases(2)
def test_of_two_writers_that_looked_at_one_snapshot_both_have_their_rows(ground: Ground, catalog: Catalog) -> None:
    table = made(catalog, "twins")
    both = Barrier(2)

    def write(number: int) -> None:
        with ground.open() as client:
            mine = firn_lake.connect(client).table("three.twins")
            assert mine.iceberg is not None
            both.wait(30)
            mine.append(rows(number, number + 1))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, (10, 20)))
    assert ids(table) == [10, 11, 20, 21]
    first, second = table.iceberg.metadata.snapshots
    assert [(one.first_row_id, one.added_rows) for one in (first, second)] == [(0, 2), (2, 2)]


@few_cases(1)
def test_a_ref_that_moved_meanwhile_is_not_set_and_a_lost_answer_leaves_it_open(
    ground: Ground, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(catalog, "late")
    table.append(rows(1))
    stale = catalog.load_table("three.late")
    table.append(rows(2))
    with pytest.raises(MovedOn):
        set_branch(stale, "main", stale.metadata.snapshots[0].snapshot_id)
    assert ids(table) == [1, 2]
    commit = type(catalog).commit_table

    def lost(self: Catalog, *given: Any) -> Any:
        commit(self, *given)
        raise ConnectionError("reset by peer")

    with monkeypatch.context() as cut_off:
        cut_off.setattr(type(catalog), "commit_table", lost)
        with pytest.raises(UnknownOutcome):
            table.append(rows(3), id="once")
    assert table.append(rows(3), id="once") == table.snapshots()[-1].id
    assert ids(table) == [1, 2, 3]
