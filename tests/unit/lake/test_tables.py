import sys
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from firn.errors import ConfigError
from firn_lake.catalogs.catalog import open_catalog, storage_properties
from firn_lake.lake import Lake
from firn_lake.tables import (
    TableNotFound,
    count_rows,
    find_table,
    history,
    key_columns,
    list_tables,
    match_identifier,
    split_name,
)


def test_a_table_is_listed_with_its_rows_and_where_they_come_from(catalog: Catalog, orders: Table) -> None:
    (summary,) = list_tables(catalog)
    assert (summary.name, summary.rows, summary.snapshots) == ("shop.orders", 5, 2)
    assert (summary.source, summary.stream, summary.mode, summary.key) == ("public.orders", "shop", "mirror", ("id",))
    assert summary.size_bytes > 0
    assert summary.updated_at is not None
    assert abs((summary.updated_at - datetime.now(UTC)).total_seconds()) < 60


def test_an_empty_lake_lists_nothing(catalog: Catalog) -> None:
    assert list_tables(catalog) == []


def test_a_tables_memory_of_deletes_is_not_listed(catalog: Catalog, orders: Table) -> None:
    catalog.create_table("shop.orders__deletes", orders.schema(), properties={"firn.mode": "deletes"})
    assert [one.name for one in list_tables(catalog)] == ["shop.orders"]


def test_a_table_without_a_snapshot_has_no_rows(catalog: Catalog, orders: Table) -> None:
    catalog.create_table("shop.empty", orders.schema())
    summary = next(one for one in list_tables(catalog) if one.name == "shop.empty")
    assert (summary.rows, summary.snapshots, summary.updated_at) == (0, 0, None)


def test_tables_of_nested_namespaces_are_listed(catalog: Catalog, orders: Table) -> None:
    catalog.create_namespace(("eu", "west"))
    catalog.create_table(("eu", "west", "orders"), orders.schema())
    assert [one.name for one in list_tables(catalog)] == ['"eu.west".orders', "shop.orders"]


def test_rows_deleted_by_position_are_not_counted(catalog: Catalog, orders: Table) -> None:
    orders.delete("id = 1")
    assert list_tables(catalog)[0].rows == 4
    assert count_rows(catalog.load_table("shop.orders")) == 4


def test_history_tells_rows_epochs_and_tags_of_each_snapshot(orders: Table) -> None:
    first, second = history(orders)
    assert (first.operation, first.added, first.total, dict(first.epochs)) == ("append", 3, 3, {"shop": 1})
    assert (second.added, second.total, dict(second.epochs)) == (2, 5, {"shop": 2})
    assert first.refs == ("month-end",)
    assert second.refs == ("main",)
    assert second.parent == first.id


def test_a_table_is_found_by_any_sensible_spelling(catalog: Catalog, orders: Table, odd: Table) -> None:
    for spelling in ("shop.orders", "orders", "Shop.Orders", '"shop"."orders"'):
        assert find_table(catalog, spelling).name() == ("shop", "orders")
    for spelling in ("shop.Mixed Case-Table", 'shop."Mixed Case-Table"', "mixed case-table"):
        assert find_table(catalog, spelling).name() == ("shop", "Mixed Case-Table")


def test_an_unknown_table_names_those_there_are(catalog: Catalog, orders: Table) -> None:
    with pytest.raises(TableNotFound, match=r"no table 'shop.order' in the lake; tables: shop\.orders"):
        find_table(catalog, "shop.order")


def test_a_name_in_two_namespaces_asks_for_the_namespace() -> None:
    with pytest.raises(TableNotFound, match=r"could be any of a\.t, b\.t"):
        match_identifier(("t",), [("a", "t"), ("b", "t")])


def test_exact_spelling_wins_over_another_case() -> None:
    assert match_identifier(("a", "T"), [("a", "T"), ("a", "t")]) == ("a", "T")


@pytest.mark.parametrize(
    ("text", "parts"),
    [("a.b", ("a", "b")), ('a."b.c"', ("a", "b.c")), ('"a""b".c d', ('a"b', "c d")), ("plain", ("plain",))],
)
def test_names_split_at_dots_outside_quotes(text: str, parts: tuple[str, ...]) -> None:
    assert split_name(text) == parts


def test_a_key_is_read_from_json() -> None:
    assert key_columns('["a", "b,c"]') == ("a", "b,c")
    assert key_columns(None) == ()


def test_storage_settings_come_from_the_environment() -> None:
    env = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000", "AWS_ACCESS_KEY_ID": "k", "AWS_DEFAULT_REGION": "eu-west-1"}
    properties = storage_properties(env)
    assert properties["s3.endpoint"] == "http://127.0.0.1:9000"
    assert properties["s3.force-virtual-addressing"] == "false"
    assert properties["s3.region"] == "eu-west-1"
    assert storage_properties({**env, "AWS_ENDPOINT_URL_S3": "https://s3"})["s3.endpoint"] == "https://s3"
    assert storage_properties({}) == {}


def test_a_catalog_that_needs_what_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "firn_lake.catalogs.hive", None)
    with pytest.raises(ConfigError, match=r"a hive catalog needs more than is installed here: pip install .*hive"):
        open_catalog("thrift://127.0.0.1:9", "file:///tmp/warehouse", {})


def test_a_catalog_without_a_scheme_is_refused() -> None:
    with pytest.raises(ConfigError, match="write sqlite:///"):
        open_catalog("catalog.db", "file:///tmp/warehouse", {})


def test_a_table_of_no_stream_shows_the_key_that_it_was_made_with(catalog: Catalog) -> None:
    lake = Lake(catalog)
    schema = pa.schema([pa.field("kind", pa.string(), nullable=False), pa.field("n", pa.int64())])
    lake.create("own.kinds", schema, key=["kind"])
    assert [(one.name, one.key) for one in lake.tables()] == [("own.kinds", ("kind",))]
