"""What Firn needs of a catalog, of every kind: what holds for one must hold for all."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.table import Table
from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate
from pyiceberg.types import LongType

import firn_lake
from firn.tables import table_state
from firn_cli.catalog_check import CatalogCheck
from firn_lake.refs.branches import NotAhead
from firn_lake.tables import TableNotFound, list_tables
from tests.integration.catalogs.conftest import Ground
from tests.soak import few_cases

# One set of servers, not one for each worker.
pytestmark = pytest.mark.stack
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
_numbers = itertools.count(1)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": [f"v{number}" for number in ids]}, SCHEMA)


@pytest.fixture
def namespace(catalog: Catalog) -> str:
    """One of the test's own. Glue's names are lower case letters, digits and _."""
    name = f"n{next(_numbers)}"
    catalog.create_namespace(name)
    return name


@pytest.fixture
def table(catalog: Catalog, namespace: str) -> Table:
    made = catalog.create_table((namespace, "t"), SCHEMA, properties={"firn.key": '["id"]'})
    made.append(rows(1, 2), snapshot_properties={"firn.epoch.shop": "1"})
    return made


def ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


@few_cases(2)
def test_a_table_is_what_another_client_made_it(ground: Ground, catalog: Catalog, table: Table) -> None:
    with ground.open() as other:
        loaded = other.load_table(table.name())
        assert loaded.metadata.table_uuid == table.metadata.table_uuid
        assert loaded.properties["firn.key"] == '["id"]'
        assert ids(loaded) == [1, 2]
        summary = loaded.metadata.snapshots[-1].summary
        assert summary is not None
        assert summary.additional_properties["firn.epoch.shop"] == "1"
        state = table_state.parse(loaded.metadata.model_dump_json())
        assert state.progress("shop") == 1


def test_a_table_is_not_made_twice(catalog: Catalog, table: Table) -> None:
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table(table.name(), SCHEMA)
    assert ids(catalog.load_table(table.name())) == [1, 2]


def test_what_is_not_there_is_said_to_be_so(ground: Ground, catalog: Catalog, namespace: str) -> None:
    assert not catalog.table_exists((namespace, "none"))
    assert not catalog.table_exists(("nowhere", "none"))
    for name in ((namespace, "none"), ("nowhere", "none")):
        with pytest.raises(NoSuchTableError):
            catalog.load_table(name)
    lake = firn_lake.connect(catalog)
    with pytest.raises(TableNotFound, match="none"):
        lake.table(f"{namespace}.none")


def test_a_commit_on_what_has_changed_meanwhile_is_refused(ground: Ground, catalog: Catalog, table: Table) -> None:
    seen = table.metadata.current_snapshot_id
    with ground.open() as other:
        other.load_table(table.name()).append(rows(3))
    rule = AssertRefSnapshotId(ref="main", snapshot_id=seen)
    late = SetPropertiesUpdate(updates={"late": "yes"})
    with pytest.raises(CommitFailedException):
        catalog.commit_table(table, (rule,), (late,))
    now = catalog.load_table(table.name())
    assert "late" not in now.properties
    assert ids(now) == [1, 2, 3]


@few_cases(3)
def test_of_two_commits_on_one_snapshot_one_is_made(ground: Ground, table: Table) -> None:
    both = Barrier(2)
    seen = table.metadata.current_snapshot_id

    def commit(mine: str) -> str:
        with ground.open() as client:
            loaded = client.load_table(table.name())
            rule = AssertRefSnapshotId(ref="main", snapshot_id=seen)
            update, _ = loaded.transaction().update_snapshot().fast_append()._commit()
            both.wait(20)
            client.commit_table(loaded, (rule,), (SetPropertiesUpdate(updates={"winner": mine}), *update))
        return mine

    with ThreadPoolExecutor(2) as pool:
        tries = [pool.submit(commit, name) for name in ("a", "b")]
    failed = [one.exception() for one in tries if one.exception() is not None]
    assert [type(error) for error in failed] == [CommitFailedException], failed
    won = next(one.result() for one in tries if one.exception() is None)
    with ground.open() as client:
        now = client.load_table(table.name())
        assert now.properties["winner"] == won
        assert len(now.metadata.snapshots) == 2


@few_cases(3)
def test_concurrent_writers_lose_nothing(ground: Ground, table: Table) -> None:
    def write(first: int) -> None:
        with ground.open() as client:
            for number in range(first, first + 3):
                for attempt in range(20):
                    loaded = client.load_table(table.name())
                    try:
                        loaded.append(rows(number))
                        break
                    except CommitFailedException:
                        assert attempt < 19

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, (10, 20)))
    with ground.open() as client:
        assert ids(client.load_table(table.name())) == [1, 2, 10, 11, 12, 20, 21, 22]


@few_cases(2)
def test_tags_and_branches_are_kept_beside_main(ground: Ground, catalog: Catalog, table: Table) -> None:
    first = table.metadata.current_snapshot_id
    assert first is not None
    table.manage_snapshots().create_tag(first, "kept").commit()
    table.manage_snapshots().create_branch(first, "side").commit()
    table.append(rows(3))
    table.append(rows(9), branch="side")
    with ground.open() as other:
        loaded = other.load_table(table.name())
        assert set(loaded.metadata.refs) == {"main", "kept", "side"}
        read = firn_lake.connect(other).table(".".join(table.name())).read
        found = {ref: sorted(row["id"] for row in read(as_of=ref).pylist()) for ref in ("main", "kept", "side")}
        assert found == {"main": [1, 2, 3], "kept": [1, 2], "side": [1, 2, 9]}
        loaded.manage_snapshots().remove_tag("kept").remove_branch("side").commit()
    assert set(catalog.load_table(table.name()).metadata.refs) == {"main"}


@few_cases(2)
def test_what_was_written_to_a_branch_becomes_main(catalog: Catalog, namespace: str) -> None:
    own = catalog.create_table((namespace, "own"), SCHEMA)
    own.append(rows(1))
    table = firn_lake.connect(catalog).table(f"{namespace}.own")
    table.branch("audit")
    table.tag("before")
    own.refresh().append(rows(2), branch="audit")
    assert ids(own.refresh()) == [1]
    table.fast_forward("main", "audit")
    assert ids(own.refresh()) == [1, 2]
    with pytest.raises(NotAhead, match="does not descend from main"):
        table.fast_forward("main", "before")


def test_a_renamed_and_a_widened_column_keep_their_rows(ground: Ground, catalog: Catalog, namespace: str) -> None:
    table = catalog.create_table((namespace, "t"), pa.schema([("id", pa.int32()), ("v", pa.string())]))
    table.append(pa.table({"id": pa.array([1], pa.int32()), "v": ["a"]}))
    with table.update_schema() as change:
        change.rename_column("v", "renamed")
        change.update_column("id", field_type=LongType())
    with ground.open() as other:
        (row,) = other.load_table((namespace, "t")).scan().to_arrow().to_pylist()
    assert row == {"id": 1, "renamed": "a"}


@few_cases(2)
def test_a_renamed_table_is_the_same_table(ground: Ground, catalog: Catalog, namespace: str, table: Table) -> None:
    uuid = table.metadata.table_uuid
    catalog.rename_table(table.name(), (namespace, "other"))
    with ground.open() as client:
        assert not client.table_exists(table.name())
        moved = client.load_table((namespace, "other"))
        assert moved.metadata.table_uuid == uuid
        moved.append(rows(3))
        assert ids(client.load_table((namespace, "other"))) == [1, 2, 3]


@few_cases(2)
def test_namespaces_and_tables_are_listed(ground: Ground, catalog: Catalog, namespace: str, table: Table) -> None:
    assert (namespace,) in catalog.list_namespaces()
    assert catalog.list_tables(namespace) == [(namespace, "t")]
    assert f"{namespace}.t" in {one.name for one in list_tables(catalog)}
    if ground.kind in ("glue", "hive"):
        return  # its databases have no others in them
    catalog.create_namespace((namespace, "below"))
    catalog.create_table((namespace, "below", "deep"), SCHEMA).append(rows(7))
    assert catalog.list_namespaces(namespace) == [(namespace, "below")]
    assert catalog.list_tables((namespace, "below")) == [(namespace, "below", "deep")]
    assert catalog.list_tables(namespace) == [(namespace, "t")]
    assert f'"{namespace}.below".deep' in {one.name for one in list_tables(catalog)}


def test_a_dropped_table_is_gone_and_its_name_free(ground: Ground, catalog: Catalog, table: Table) -> None:
    catalog.drop_table(table.name())
    with ground.open() as other:
        assert not other.table_exists(table.name())
        with pytest.raises(NoSuchTableError):
            other.load_table(table.name())
        again = other.create_table(table.name(), SCHEMA)
        assert again.metadata.table_uuid != table.metadata.table_uuid
        assert ids(again) == []
    with pytest.raises(NoSuchTableError):
        catalog.drop_table((table.name()[0], "never"))


def test_a_purged_table_leaves_no_file(catalog: Catalog, table: Table) -> None:
    folder = Path(urlsplit(table.location()).path)  # file:/… or file:///…
    assert [path for path in folder.rglob("*") if path.is_file()]
    catalog.purge_table(table.name())
    assert not catalog.table_exists(table.name())
    assert [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc"] == []


@few_cases(2)
def test_the_doctor_finds_what_firn_rests_on_and_leaves_nothing(ground: Ground, catalog: Catalog) -> None:
    found = {one.name: one for one in CatalogCheck(ground.address, ground.warehouse, ground.env, "firn_check").checks()}
    parts = ("reach", "create", "writers", "conflict", "types", "drop")
    assert {name: found[name].ok for name in parts} == dict.fromkeys(parts, True), found
    assert found["catalog"].ok is (None if ground.kind == "glue" else True)
    assert not catalog.namespace_exists("firn_check")
    left = Path(ground.warehouse.removeprefix("file://")).rglob("firn_check_*/**/*")
    assert [path for path in left if path.is_file()] == []
