"""Rolling back: set back where no stream feeds the table; else the rows come back and the progress stays."""

import random
import warnings
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.types import StringType

from firn.tables.snapshot_history import NoSuchMoment
from firn.tables.table_state import parse
from firn_lake.lake import Lake
from firn_lake.lake_table import LakeTable
from firn_lake.reading.positions import Positions
from firn_lake.reading.versions import version_at
from firn_lake.refs import rollback as rollback_module
from firn_lake.refs.rollback import BACK_TO, CannotRollBack
from firn_lake.tables import list_tables
from firn_lake.writing.commit import MovedOn
from firn_lake.writing.stream_ownership import FedByStream
from tests.soak import few_cases, seeds
from tests.unit.lake.row_delta import data_files, row_delta

COLUMNS = pa.schema([("id", pa.int64()), ("note", pa.string()), ("_firn_pos", pa.binary())])
FED = {"firn.key": '["id"]', "firn.stream": "shop", "firn.mode": "mirror"}
# What Spark's writer knows and PyIceberg's warns of.
SPARKS = {"write.parquet.row-group-size-bytes": "33554432", "write.parquet.bloom-filter-enabled.column.id": "true"}


def rows(*found: tuple[int, str]) -> pa.Table:
    told = [{"id": number, "note": note, "_firn_pos": bytes([number])} for number, note in found]
    return pa.Table.from_pylist(told, COLUMNS)


@pytest.fixture
def made(catalog: Catalog, tmp_path: Path) -> Table:
    """Epoch 1: three rows. Epoch 2, as the commit job does it: row 2 is updated, row 3 deleted, row 4 new."""
    catalog.create_namespace_if_not_exists("shop")
    table = catalog.create_table("shop.notes", COLUMNS, properties=FED)
    table.append(rows((1, "a"), (2, "b"), (3, "c")), snapshot_properties={"firn.epoch.shop": "1"})
    gone = {data_files(table)[0]: [1, 2]}
    row_delta(table, tmp_path, gone, rows((2, "B"), (4, "d")), {"firn.epoch.shop": "2"})
    with table.transaction() as settings:
        settings.set_properties(SPARKS)
    return table


@pytest.fixture
def table(catalog: Catalog, made: Table) -> LakeTable:
    return Lake(catalog).table("shop.notes")


def put(made: Table, more: pa.Table, **how: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyIceberg's own writer
        made.append(more, **how)  # type: ignore[arg-type]


def told(table: LakeTable, **how: object) -> dict[int, str]:
    found = table.read(columns=["id", "note", "_firn_pos"], **how).pylist()  # type: ignore[arg-type]
    assert len({row["id"] for row in found}) == len(found)
    assert all(row["_firn_pos"] == bytes([row["id"]]) for row in found)
    return {row["id"]: row["note"] for row in found}


def progress(table: LakeTable) -> int:
    return parse(table.iceberg.metadata.model_dump_json()).progress("shop")


BEFORE, AFTER = {1: "a", 2: "b", 3: "c"}, {1: "a", 2: "B", 4: "d"}


def test_rows_of_a_fed_table_come_back_and_its_progress_stays(table: LakeTable) -> None:
    first, second = table.snapshots()
    assert told(table) == AFTER
    done = table.rollback(first.id, then="skip")
    assert told(table) == BEFORE
    assert told(table, as_of=second.id) == AFTER
    assert progress(table) == 2
    newest = table.snapshot()
    assert newest is not None
    assert (newest.id, newest.parent) == (done, second.id)
    assert table.changes(second.id).counts() == {"insert": 1, "update": 1, "delete": 1}


def test_the_files_that_both_snapshots_have_stay_where_they_are(table: LakeTable, made: Table) -> None:
    [kept, gone] = data_files(made)
    table.rollback(table.snapshots()[0].id, then="skip")
    now = data_files(table.iceberg)
    assert kept in now
    assert gone not in now


def test_rolled_back_twice_is_rolled_back_once(table: LakeTable) -> None:
    first = table.snapshots()[0].id
    done = table.rollback(first, then="skip")
    assert table.rollback(first, then="skip") == done
    assert len(table.snapshots()) == 3


def test_a_rollback_can_itself_be_rolled_back(table: LakeTable) -> None:
    first, second = table.snapshots()
    table.rollback(first.id, then="skip")
    table.rollback(second.id)  # no epoch was committed since
    assert told(table) == AFTER
    table.rollback(first.id, then="skip")
    assert told(table) == BEFORE


def test_epochs_are_left_out_only_if_somebody_says_so(table: LakeTable) -> None:
    first = table.snapshots()[0].id
    with pytest.raises(CannotRollBack, match=r"has since got epochs 2 to 2 of shop: say then='skip'.*firn rebuild"):
        table.rollback(first)
    with pytest.raises(CannotRollBack, match=r"firn rebuild shop\.notes --in-place"):
        table.rollback(first, then="replay")
    with pytest.raises(CannotRollBack, match="write 'skip', or nothing"):
        table.rollback(first, then="forget")  # type: ignore[arg-type]
    assert told(table) == AFTER


def test_what_somebody_did_by_hand_is_undone_without_a_word_about_epochs(table: LakeTable, made: Table) -> None:
    here = table.snapshot()
    assert here is not None
    made.refresh()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.delete("id = 1")
    assert told(table) == {2: "B", 4: "d"}
    table.rollback(here.id)
    assert told(table) == AFTER


def test_a_rollback_to_now_is_none(table: LakeTable) -> None:
    here = table.snapshot()
    assert here is not None
    assert table.rollback("main") == here.id
    assert len(table.snapshots()) == 2


def test_columns_that_came_since_stay_and_are_null(table: LakeTable, made: Table) -> None:
    first = table.snapshots()[0].id
    made.refresh()
    with made.update_schema() as schema:
        schema.add_column("more", StringType())
        schema.rename_column("note", "remark")
    table.rollback(first, then="skip")
    found = sorted(table.read().pylist(), key=lambda row: row["id"])
    assert found == [{"id": n, "remark": note, "more": None} for n, note in BEFORE.items()]


def test_a_column_that_became_another_one_is_not_emptied(table: LakeTable, made: Table) -> None:
    first = table.snapshots()[0].id
    made.refresh()
    with made.update_schema() as schema:
        schema.delete_column("note")
    with made.update_schema() as schema:
        schema.add_column("note", StringType())
    with pytest.raises(CannotRollBack, match=r"note of shop\.notes became another column since"):
        table.rollback(first, then="skip")


def test_a_snapshot_of_another_branch_is_not_a_way_back(table: LakeTable, made: Table) -> None:
    made.refresh()
    made.manage_snapshots().create_branch(made.metadata.snapshots[0].snapshot_id, "audit").commit()
    put(made, rows((9, "z")), branch="audit")
    with pytest.raises(CannotRollBack, match="is not in the history of main"):
        table.rollback("audit", then="skip")
    with pytest.raises(NoSuchMoment):
        table.rollback(12345678901234567)


def test_delete_facts_never_go_back(catalog: Catalog) -> None:
    catalog.create_namespace_if_not_exists("shop")
    facts = catalog.create_table("shop.notes__deletes", COLUMNS, properties={"firn.mode": "deletes"})
    facts.append(rows((1, "a")))
    first = facts.metadata.current_snapshot_id
    facts.append(rows((2, "b")))
    with pytest.raises(FedByStream, match="memory of deletes"):
        Lake(catalog).table("shop.notes__deletes").rollback(first, then="skip")


def test_a_table_that_no_stream_feeds_is_set_back(catalog: Catalog) -> None:
    catalog.create_namespace_if_not_exists("own")
    iceberg = catalog.create_table("own.notes", COLUMNS)
    iceberg.append(rows((1, "a")))
    iceberg.append(rows((2, "b")))
    table = Lake(catalog).table("own.notes")
    first = table.snapshots()[0].id
    assert table.rollback(first) == first
    assert told(table) == {1: "a"}
    assert len(table.snapshots()) == 2


def test_a_commit_that_comes_between_is_seen_and_rolled_back_too(
    table: LakeTable, made: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = table.snapshots()[0].id
    land = rollback_module._land
    times: list[int] = []

    def late(*given: object) -> None:
        if not times:
            made.refresh()
            put(made, rows((5, "e")), snapshot_properties={"firn.epoch.shop": "3"})
        times.append(1)
        land(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(rollback_module, "_land", late)
    table.rollback(first, then="skip")
    assert len(times) == 2
    assert told(table) == BEFORE
    assert progress(table) == 3


def test_a_table_that_never_rests_is_told_and_nothing_is_left_behind(
    table: LakeTable, made: Table, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = table.snapshots()[0].id
    land = rollback_module._land

    def late(*given: object) -> None:
        made.refresh()
        put(made, rows((5, "e")), snapshot_properties={"firn.epoch.shop": "3"})
        land(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(rollback_module, "_land", late)
    with pytest.raises(MovedOn, match=r"shop\.notes moved on, another commit came first; nothing was done"):
        table.rollback(first, then="skip")
    made.refresh()
    stored = {f"file://{path}" for path in (tmp_path / "warehouse").rglob("data/*.parquet")}
    assert stored == set(data_files(made))
    assert BACK_TO not in str(made.metadata.snapshots)


def test_the_rows_are_counted(catalog: Catalog, table: LakeTable) -> None:
    table.rollback(table.snapshots()[0].id, then="skip")
    assert table.read().count() == 3
    assert list_tables(catalog)[0].rows == 3


def a_delta(table: Table, folder: Path, dice: random.Random, epoch: int) -> None:
    """Deletes some live rows where they are, and puts one in."""
    version = version_at(table, None)
    positions = Positions(table.io, "shop.notes", version.id)
    gone: dict[str, list[int]] = {}
    for task in version.files():
        deleted = set(positions.of(task.file.file_path, task.delete_files).to_pylist())
        there = [place for place in range(task.file.record_count) if place not in deleted]
        if chosen := dice.sample(there, dice.randint(0, len(there))):
            gone[task.file.file_path] = chosen
    if gone:
        more = rows((100 + epoch, f"delta {epoch}"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row_delta(table, folder, gone, more, {"firn.epoch.shop": str(epoch)})


@few_cases(1)
@pytest.mark.parametrize("seed", seeds(3, 50))
def test_any_history_is_rolled_back_to_any_of_its_moments(
    table: LakeTable, made: Table, tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)
    for epoch in range(3, 11):
        made.refresh()
        step = dice.choice(("append", "delta", "delta", "rewrite", "back"))
        if step == "append":
            put(
                made,
                rows((10 * epoch, "x"), (10 * epoch + 1, "y")),
                snapshot_properties={"firn.epoch.shop": f"{epoch}"},
            )
        elif step == "delta":
            a_delta(made, tmp_path, dice, epoch)
        elif step == "rewrite":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made.delete(f"id < {dice.randint(1, 60)}")
        else:
            target = dice.choice(table.snapshots()).id
            before, done = told(table, as_of=target), progress(table)
            table.rollback(target, then="skip")
            assert told(table) == before
            assert progress(table) == done
    moments = {one.id: told(table, as_of=one.id) for one in table.snapshots()}
    target = dice.choice(list(moments))
    table.rollback(target, then="skip")
    assert told(table) == moments[target]
    assert {one: told(table, as_of=one) for one in moments} == moments
