"""Reading by `firn_lake.connect`: moments, columns, filters, results, limits, and files that are not there."""

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table
from pyiceberg.types import StringType

import firn
import firn_lake
from firn.errors import ConfigError
from firn.log import cuts
from firn.log.store import open_store
from firn.tables.snapshot_history import NoSuchMoment
from firn_lake.connection import NoLake
from firn_lake.lake import Lake
from firn_lake.lake_table import LakeTable
from firn_lake.reading.rows import NotInstalled
from firn_lake.reading.unreadable import UnreadableFile
from firn_lake.reading.versions import BadFilter, NoSuchColumn
from firn_lake.sql.query import QueryError, QueryTooLarge
from firn_lake.tables import TableNotFound


@pytest.fixture
def table(catalog: Catalog, orders: Table) -> LakeTable:
    return Lake(catalog).table("orders")


def ids(table: LakeTable, **how: Any) -> list[int]:
    return sorted(row["id"] for row in table.read(**how).pylist())


def test_a_read_is_all_rows_of_now(table: LakeTable) -> None:
    assert ids(table) == [1, 2, 3, 4, 5]
    assert table.read().schema.names == ["id", "amount", "note"]
    assert (table.name, table.key, table.columns()["amount"]) == ("shop.orders", ("id",), "double")
    assert repr(table) == "<table shop.orders: id, amount, note>"


def test_a_read_sees_what_was_committed_since(catalog: Catalog, table: LakeTable, orders: Table) -> None:
    orders.append(pa.table({"id": [6], "amount": [1.0], "note": ["f"]}))
    assert ids(table) == [1, 2, 3, 4, 5, 6]


def test_columns_come_in_the_order_asked_for(table: LakeTable) -> None:
    assert table.read(columns=["note", "id"]).schema.names == ["note", "id"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["ammount"], "has no column 'ammount'; do you mean 'amount'. It has id, amount, note"),
        (["ID"], "do you mean 'id'"),
        ("id", r"write a list of names, such as \['id'\]"),
        ([], "no columns of shop.orders"),
    ],
)
def test_a_column_that_is_not_there_names_those_that_are(table: LakeTable, columns: Any, message: str) -> None:
    with pytest.raises(NoSuchColumn, match=message.replace("'. It", r"'\? It")):
        table.read(columns=columns)


def test_firns_own_columns_are_there_when_asked_for(catalog: Catalog) -> None:
    catalog.create_namespace_if_not_exists("shop")
    made = catalog.create_table("shop.t", pa.schema([("id", pa.int64()), ("_firn_pos", pa.binary())]))
    made.append(pa.table({"id": [1], "_firn_pos": [b"p"]}))
    table = Lake(catalog).table("t")
    assert table.read().schema.names == ["id"]
    assert table.read(metadata=True).pylist() == [{"id": 1, "_firn_pos": b"p"}]
    assert table.read(columns=["_firn_pos"]).pylist() == [{"_firn_pos": b"p"}]


def test_filters_may_look_at_columns_that_are_not_read(table: LakeTable) -> None:
    assert table.read(columns=["note"], filter="amount >= 40 and note != 'e'").pylist() == [{"note": "d"}]
    assert ids(table, filter="note is null") == [3]
    assert ids(table, filter=EqualTo("id", 2)) == [2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("amount >", "can't be read at character"),
        ("colour = 'red'", r"Its columns: id \(long\), amount \(double\), note \(string\)"),
        ("amount = 'many'", "does not fit shop.orders"),
    ],
)
def test_a_filter_that_does_not_fit_says_why(table: LakeTable, text: str, message: str) -> None:
    with pytest.raises(BadFilter, match=message):
        table.read(filter=text)


def test_batches_are_as_small_as_asked_for_and_a_limit_holds(table: LakeTable) -> None:
    assert sorted(batch.num_rows for batch in table.read(batch_size=2)) == [1, 2, 2]
    assert table.read(limit=4).count() == 4
    assert table.read(limit=0).count() == 0


def test_results_come_as_arrow_duckdb_and_rows_and_can_be_read_again(table: LakeTable) -> None:
    rows = table.read()
    assert rows.arrow().num_rows == rows.count() == 5
    assert rows.reader().read_all().num_rows == 5
    assert rows.duckdb().aggregate("sum(amount)").fetchall() == [(150.0,)]
    assert pa.table(rows).num_rows == 5


def test_a_library_that_is_missing_is_named(table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(NotInstalled, match="pip install pandas"):
        table.read().pandas()
    with pytest.raises(NotInstalled, match="polars"):
        table.read().polars()


def test_every_kind_of_moment_is_understood(table: LakeTable) -> None:
    first, second = table.snapshots()
    name = "shop.orders"
    for as_of in (
        first.id,
        "month-end",
        first.time,
        first.time.isoformat(),
        first.time.replace(tzinfo=None),
        round(first.time.timestamp() * 1000),
        cuts.make("shop", 1, "2026-01-01T00:00:00.000Z", {name: first.id}),
    ):
        rows = table.read(as_of=as_of)
        assert (rows.snapshot, rows.count()) == (first.id, 3), as_of
    assert table.read(as_of="main").snapshot == second.id
    with pytest.raises(NoSuchMoment, match="its first kept one is of"):
        table.read(as_of=date(2001, 1, 1))


@pytest.mark.parametrize("as_of", [1.5, True, ("shop",), ("shop", "1"), b"main"])
def test_what_is_no_moment_says_what_one_is(table: LakeTable, as_of: Any) -> None:
    with pytest.raises(NoSuchMoment, match=r"such as \('shop', 12\)|give a datetime, an ISO time"):
        table.read(as_of=as_of)


def test_an_old_snapshot_is_read_by_the_names_of_then(table: LakeTable, orders: Table) -> None:
    with orders.update_schema() as update:
        update.rename_column("note", "remark")
        update.add_column("extra", StringType())
    first = table.snapshots()[0].id
    assert table.read(as_of=first, filter="note = 'a'").pylist() == [{"id": 1, "amount": 10.0, "note": "a"}]
    assert table.read(filter="remark = 'a'").pylist() == [{"id": 1, "amount": 10.0, "remark": "a", "extra": None}]
    assert table.read(columns=["extra"]).count() == 5
    assert table.read(as_of="main").schema.names == ["id", "amount", "remark", "extra"]
    assert table.read(as_of="month-end").schema.names == ["id", "amount", "note"]
    with pytest.raises(NoSuchColumn, match="no column 'remark'"):
        table.read(columns=["remark"], as_of=first)


def test_a_missing_or_damaged_data_file_is_named_with_its_snapshot(table: LakeTable) -> None:
    file = next(iter(table.iceberg.scan().plan_files())).file.file_path
    path = Path(file.removeprefix("file://"))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UnreadableFile, match=f"{path.name}, which snapshot {table.read().snapshot} of shop.orders"):
        table.read().arrow()
    path.unlink()
    with pytest.raises(UnreadableFile, match="is missing"):
        table.read().arrow()
    with pytest.raises(UnreadableFile, match="is missing"):
        Lake(table._lake.catalog).sql("SELECT sum(amount) FROM shop.orders")


def test_a_table_that_is_dropped_or_whose_metadata_is_lost_says_so(catalog: Catalog, table: LakeTable) -> None:
    Path(table.iceberg.metadata_location.removeprefix("file://")).unlink()
    with pytest.raises(UnreadableFile, match=r"metadata\.json, which shop\.orders needs, is missing"):
        table.read()
    catalog.drop_table("shop.orders")
    with pytest.raises(TableNotFound, match="not in the lake any more"):
        table.read()


def test_sql_reads_several_tables_with_parameters(catalog: Catalog, table: LakeTable) -> None:
    lake = Lake(catalog)
    sql = "SELECT a.id FROM shop.orders a JOIN orders b USING (id) WHERE a.amount > $least ORDER BY id"
    assert lake.sql(sql, parameters={"least": 30}).pylist() == [{"id": 4}, {"id": 5}]
    assert lake.sql("SELECT count(*) AS n FROM orders WHERE id = ?", parameters=[2]).pylist() == [{"n": 1}]
    assert lake.sql("SELECT count(*) AS n FROM orders", as_of="month-end").pylist() == [{"n": 3}]
    with pytest.raises(QueryError, match="least"):
        lake.sql(sql)


def test_sql_stops_at_its_limits(catalog: Catalog, table: LakeTable) -> None:
    lake = Lake(catalog)
    assert lake.sql("SELECT id FROM orders", rows=5).count() == 5
    with pytest.raises(QueryTooLarge, match="more than 4 rows"):
        lake.sql("SELECT id FROM orders", rows=4)
    with pytest.raises(QueryTooLarge, match=r"more than its 0\.2 seconds"):
        lake.sql("SELECT sum(a.range * b.range) FROM range(10000000) a, range(100000) b", seconds=0.2)
    with pytest.raises(QueryTooLarge, match="more memory than 20MB"):
        lake.sql("SELECT list(range) FROM range(100000000)", memory="20MB")
    with pytest.raises(QueryError, match="write, for example, 500MB"):
        lake.sql("SELECT 1", memory="1'; DROP")


def test_sql_can_be_read_at_a_cut(catalog: Catalog, table: LakeTable, tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/staging")
    first = table.snapshots()[0].id
    cuts.write(store, cuts.make("shop", 7, "2026-01-01T00:00:00.000Z", {"shop.orders": first}))
    lake = Lake(catalog, lambda: store)
    assert lake.sql("SELECT count(*) AS n FROM orders", as_of=("shop", 7)).pylist() == [{"n": 3}]
    assert lake.cut().n == 7
    assert lake.table("orders").read(as_of=lake.cut(7)).count() == 3
    with pytest.raises(ConfigError, match="staging store"):
        Lake(catalog).cut()


def test_a_lake_is_opened_by_each_of_its_addresses(catalog: Catalog, orders: Table, tmp_path: Path) -> None:
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse"
    about = tmp_path / "firn.yaml"
    about.write_text(
        f"catalog: {{type: sql, uri: '{uri}'}}\nwarehouse: {warehouse}\n"
        "streams: {shop: {tables: {public.orders: {to: shop.orders, key: [id]}}}}\n"
    )
    for where in (tmp_path, str(about), uri, {"type": "sql", "uri": uri, "warehouse": warehouse}, catalog):
        with firn_lake.connect(where, warehouse=warehouse, env={}) as lake:
            assert [one.name for one in lake.tables()] == ["shop.orders"]
            assert lake.table("shop.orders").read().count() == 5
    assert firn.connect(tmp_path).table("orders").read().count() == 5


def test_a_firn_yaml_that_leaves_the_catalog_out_means_the_stack_beside_it(orders: Table, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    about = project / "firn.yaml"
    about.write_text("streams: {shop: {tables: {public.orders: {to: shop.orders, key: [id]}}}}\n")
    with pytest.raises(NoLake, match="run `firn up` there"):
        firn_lake.connect(about, env={})
    (project / ".firn").symlink_to(tmp_path)
    assert firn_lake.connect(about, env={}).table("orders").read().count() == 5
    with pytest.raises(NoLake, match="neither the folder of a stack nor"):
        firn_lake.connect(tmp_path / "nowhere")
    with pytest.raises(NoLake, match=r"typo\.db: no such catalog; for a new one say warehouse="):
        firn_lake.connect(f"sqlite:///{tmp_path}/typo.db", env={})
    assert not (tmp_path / "typo.db").exists()
