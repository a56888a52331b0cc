"""Metadata files of format 3: what a commit changes in them, and that nothing else of them is lost."""

import copy
import gzip
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataUtil

from firn.errors import ConfigError, UnknownOutcome
from firn_lake.catalogs.metadata_writer import dumped, merged
from firn_lake.lake import Lake
from firn_lake.lake_table import LakeTable
from firn_lake.refs import names
from firn_lake.refs.names import NameTaken
from firn_lake.schemas.evolution import EvolutionRefused
from firn_lake.schemas.evolution_commit import evolve
from firn_lake.schemas.evolution_steps import Wishes
from firn_lake.writing.commit import CannotWrite, MovedOn, land, land_files, stage_files

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
MAPS = ("properties", "summary", "refs")
"""Objects whose names are the table's own."""


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": [f"v{n}" for n in ids]}, SCHEMA)


@pytest.fixture
def table(catalog: Catalog) -> LakeTable:
    catalog.create_namespace("own")
    catalog.create_table("own.t", SCHEMA, properties={"format-version": "3"})
    found = Lake(catalog).table("own.t")
    for n in range(3):
        found.append(rows(n))
    return found


def path(table: LakeTable) -> Path:
    return Path(table.iceberg.metadata_location.removeprefix("file://"))


def stored(table: LakeTable) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path(table).read_text())
    return found


def parts(document: Any, of: str = "") -> Iterator[dict[str, Any]]:
    if isinstance(document, dict):
        if of not in MAPS:
            yield document
        for name, value in document.items():
            yield from parts(value, name)
    elif isinstance(document, list):
        for value in document:
            yield from parts(value)


def marked(table: LakeTable) -> dict[int, dict[str, Any]]:
    """Each part of the newest metadata file gets something that PyIceberg does not know, in the file alone."""
    document = stored(table)
    document["encryption-keys"] = [{"key-id": "k1", "encrypted-key-metadata": "c2VjcmV0"}]
    document["statistics"] = [
        {"snapshot-id": document["snapshots"][0]["snapshot-id"], "statistics-path": "s.puffin", "file-size-in-bytes": 4,
         "file-footer-size-in-bytes": 2, "blob-metadata": []}
    ]  # fmt: skip
    before = copy.deepcopy(document)
    found = {}
    for n, part in enumerate(list(parts(document))):
        found[n] = dict(part)
        part["x-later"] = n
    path(table).write_text(json.dumps(document))
    assert stored(table) != before
    return found


def lost(table: LakeTable, before: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """The parts that are not there any more."""
    there = {part["x-later"] for part in parts(stored(table)) if "x-later" in part}
    return [part for n, part in before.items() if n not in there]


CHANGES: list[Callable[[LakeTable], Any]] = [
    lambda table: table.tag("here"),
    lambda table: table.branch("aside"),
    lambda table: table.append(rows(7)),
    lambda table: table.overwrite(rows(8)),
    lambda table: table.rollback(table.snapshots()[1].id),
    lambda table: table.iceberg.transaction().set_properties({"a": "b"}).commit_transaction(),
]


@pytest.mark.parametrize("change", CHANGES)
def test_what_pyiceberg_does_not_know_stays_in_the_file(table: LakeTable, change: Any) -> None:
    before = marked(table)
    first = path(table)
    change(table)
    assert path(table) != first
    assert lost(table, before) == []
    now = stored(table)
    assert now["encryption-keys"][0]["key-id"] == "k1"
    assert now["statistics"][0]["statistics-path"] == "s.puffin"
    assert now["metadata-log"][-1]["metadata-file"].endswith(first.name)


def test_with_snapshots_that_expire_goes_what_is_theirs_alone(table: LakeTable) -> None:
    for n in range(21):
        table.append(rows(10 + n))
    gone = {one.id for one in table.snapshots()[:-20]}
    before = marked(table)
    assert set(table.expire(timedelta(0), at_least=1).expired) == gone
    assert {part.get("snapshot-id") for part in lost(table, before)} == gone
    assert table.read().count() == 24
    assert "parent-snapshot-id" not in stored(table)["snapshots"][0]


def test_a_file_that_nothing_changed_stays_as_it_is_to_the_letter(table: LakeTable) -> None:
    marked(table)
    text = path(table).read_text()
    known = dumped(TableMetadataUtil.parse_raw(text))
    assert merged(json.loads(text), known, copy.deepcopy(known)) == json.loads(text)


def test_a_packed_file_of_another_writer_is_read(table: LakeTable, tmp_path: Path) -> None:
    marked(table)
    packed = path(table).with_suffix("").with_suffix(".gz.metadata.json")
    packed.write_bytes(gzip.compress(path(table).read_bytes()))
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as database, database:
        database.execute("UPDATE iceberg_tables SET metadata_location = ?", (f"file://{packed}",))
    table.tag("one")
    assert stored(table)["refs"].keys() == {"main", "one"}
    assert stored(table)["encryption-keys"]


def test_columns_that_are_changed_keep_their_defaults(table: LakeTable) -> None:
    document = stored(table)
    document["schemas"][0]["fields"][1] |= {"initial-default": "none", "write-default": "new"}
    document["schemas"][0]["fields"].append(
        {"id": 9, "name": "n", "type": "decimal(9,2)", "required": False, "initial-default": "1.50", "x-unit": "EUR"}
    )
    document["last-column-id"] = 9
    path(table).write_text(json.dumps(document))
    before = marked(table)
    done = table.evolve(add={"at": "timestamp_ns"}, rename={"n": "m"}, widen={"n": "decimal(11,2)"})
    assert done.applied
    assert lost(table, before) == []
    now = stored(table)
    assert now["schemas"][0] == {**before_schema(before), "x-later": now["schemas"][0]["x-later"]}
    fields = {one["name"]: one for one in now["schemas"][1]["fields"]}
    assert (fields["v"]["initial-default"], fields["v"]["write-default"]) == ("none", "new")
    assert (fields["m"]["id"], fields["m"]["type"], fields["m"]["initial-default"]) == (9, "decimal(11, 2)", "1.50")
    assert (fields["m"]["x-unit"], fields["at"]["type"], now["last-column-id"]) == ("EUR", "timestamp_ns", 10)


def before_schema(before: dict[int, dict[str, Any]]) -> dict[str, Any]:
    return next(part for part in before.values() if part.get("schema-id") == 0 and "fields" in part)


def other(catalog: Catalog) -> LakeTable:
    return Lake(catalog).table("own.t")


def test_of_two_that_looked_at_one_ref_the_second_changes_nothing(catalog: Catalog, table: LakeTable) -> None:
    first, last = table.snapshots()[0].id, table.snapshots()[-1].id
    stale = other(catalog).iceberg
    table.tag("x", first)
    with pytest.raises((MovedOn, NameTaken)):
        names.tag(stale, "x", last)
    assert {one.name: one.snapshot for one in table.refs()}["x"] == first


def test_a_snapshot_of_another_branch_that_came_first_has_the_row_ids(catalog: Catalog, table: LakeTable) -> None:
    table.branch("aside")
    stale = other(catalog).iceberg
    table.append(rows(9))
    document = stored(table)  # main is set back by hand, so that the ids alone tell
    document["refs"]["main"]["snapshot-id"] = document["current-snapshot-id"] = stale.metadata.current_snapshot_id
    path(table).write_text(json.dumps(document))
    with pytest.raises(MovedOn, match="whose number and row ids this one has"):
        land_files(stale, (), (), {})


def of_format_2(catalog: Catalog) -> LakeTable:
    catalog.create_table("own.two", SCHEMA, properties={"format-version": "2"})
    found = Lake(catalog).table("own.two")
    found.append(rows(1))
    return found


def test_in_format_2_a_snapshot_of_another_branch_that_came_first_has_the_number(
    catalog: Catalog, table: LakeTable
) -> None:
    two = of_format_2(catalog)
    two.branch("aside")
    stale = Lake(catalog).table("own.two").iceberg
    two.append(rows(9))
    document = stored(two)
    document["refs"]["main"]["snapshot-id"] = document["current-snapshot-id"] = stale.metadata.current_snapshot_id
    path(two).write_text(json.dumps(document))
    with pytest.raises(MovedOn, match="whose number and row ids this one has"):
        land_files(stale, (), (), {})


def test_a_table_that_is_upgraded_between_a_look_and_its_commit_is_looked_at_again(
    catalog: Catalog, table: LakeTable
) -> None:
    two = of_format_2(catalog)

    def stage(transaction: Any) -> None:
        stage_files(transaction, (), (), {})
        path(two).write_text(json.dumps({**stored(two), "format-version": 3, "next-row-id": 0}))

    with pytest.raises(MovedOn, match="became one of format 3"):
        land(two.iceberg, stage)
    again = Lake(catalog).table("own.two")
    again.append(rows(2, 3))
    assert stored(again)["next-row-id"] == 3  # the row from before the upgrade has one too


@pytest.mark.parametrize("format_version", [2, 3])
def test_a_clock_that_is_behind_writes_nothing_that_spark_can_not_read(
    catalog: Catalog, table: LakeTable, format_version: int
) -> None:
    one = table if format_version == 3 else of_format_2(catalog)
    document = stored(one)
    document["last-updated-ms"] += 50_000
    document["snapshot-log"][-1]["timestamp-ms"] += 50_000
    path(one).write_text(json.dumps(document))
    one = Lake(catalog).table(".".join(one.iceberg.name()))
    one.tag("within-a-minute")
    document = stored(one)
    document["snapshot-log"][-1]["timestamp-ms"] += 100_000  # main moved 150 seconds from now
    path(one).write_text(json.dumps(document))
    one = Lake(catalog).table(".".join(one.iceberg.name()))
    for change in (lambda: one.append(rows(7)), lambda: one.tag("x")):
        with pytest.raises(ConfigError, match=r"1[45]\d seconds in the future by the clock of this machine"):
            change()
    assert stored(one) == document


def test_an_encrypted_table_gets_no_plain_files(catalog: Catalog, table: LakeTable) -> None:
    table.iceberg.transaction().set_properties({"encryption.key-id": "k1"}).commit_transaction()
    with pytest.raises(CannotWrite, match="is encrypted"):
        table.append(rows(7))
    with pytest.raises(CannotWrite, match="is encrypted"):
        table.overwrite(rows(8))


def test_a_lost_answer_is_an_unknown_outcome_and_the_same_again_finds_it_done(
    catalog: Catalog, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = type(catalog).commit_table

    def lost_answer(self: Catalog, *given: Any) -> Any:
        commit(self, *given)
        raise ConnectionError("reset by peer")

    with monkeypatch.context() as cut_off:
        cut_off.setattr(type(catalog), "commit_table", lost_answer)
        with pytest.raises(UnknownOutcome):
            table.tag("once")
        with pytest.raises(UnknownOutcome):
            table.append(rows(9), id="once")
    assert table.tag("once", table.snapshots()[-2].id).name == "once"
    assert table.append(rows(9), id="once") == table.snapshots()[-1].id
    assert sorted(one["id"] for one in table.read().pylist()) == [0, 1, 2, 9]
    assert stored(table)["next-row-id"] == 4


def test_a_file_that_can_not_be_written_leaves_the_table_as_it_is(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stored(table)
    with monkeypatch.context() as full:
        full.setattr("firn_lake.catalogs.metadata_writer.merged", lambda *_given: 1 / 0)
        with pytest.raises(UnknownOutcome):
            table.tag("x")
    assert stored(table) == before
    table.tag("x")


def test_a_file_before_that_is_gone_says_that_others_came_first(
    catalog: Catalog, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = type(catalog).load_table

    def removed(self: Catalog, name: Any) -> Table:
        found = load(self, name)
        Path(found.metadata_location.removeprefix("file://")).unlink()
        return found

    looked = table.iceberg
    monkeypatch.setattr(type(catalog), "load_table", removed)
    with pytest.raises(CommitFailedException, match="is gone: other commits came first"):
        looked.transaction().set_properties({"a": "b"}).commit_transaction()


def test_a_catalog_of_pyicebergs_own_is_told_how_to_be_opened(tmp_path: Path, table: LakeTable) -> None:
    own = SqlCatalog("firn", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    stale = own.load_table("own.t")
    with pytest.raises(CannotWrite, match="Open it by its address"):
        land_files(stale, (), (), {})
    with pytest.raises(EvolutionRefused, match="Open it by its address"):
        evolve(stale, Wishes(add={"x": "int"}))
    own.close()
