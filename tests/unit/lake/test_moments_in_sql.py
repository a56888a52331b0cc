"""FOR … AS OF behind a table, EXPLAIN, and Firn's own columns in `*`."""

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from firn.tables.snapshot_history import NoSuchMoment
from firn_lake.federated import together
from firn_lake.lake import Lake
from firn_lake.sql.as_of import pinned
from firn_lake.sql.duck import SNAPSHOTS
from firn_lake.sql.query import QueryError, query
from firn_lake.tables import history


def test_each_table_of_a_query_can_have_a_moment_of_its_own(catalog: Catalog, orders: Table) -> None:
    first, second = history(orders)
    between = (second.time - timedelta(milliseconds=1)).isoformat()
    for clause in (
        f"FOR VERSION AS OF {first.id}",
        f"for version as of '{first.id}'",
        "FOR VERSION AS OF 'month-end'",
        f"FOR TIMESTAMP AS OF '{between}'",
        f"FOR TIMESTAMP AS OF TIMESTAMP '{between}'",
    ):
        sql = f"""SELECT count(*) AS now, count(o.id) AS then, 'FOR VERSION AS OF 1' AS text -- FOR VERSION AS OF 1
        FROM shop.orders n LEFT JOIN shop.orders {clause} AS o USING (id)"""
        assert query(catalog, sql).to_pylist() == [{"now": 5, "then": 3, "text": "FOR VERSION AS OF 1"}]
    found = query(catalog, f"SELECT orders.id FROM orders FOR VERSION AS OF {first.id} WHERE orders.id > 2")
    assert found.column("id").to_pylist() == [3]
    read = (found.schema.metadata or {})[SNAPSHOTS.encode()].decode()
    assert read == f'{{"shop.orders FOR VERSION AS OF {first.id}": {first.id}}}'


def test_the_table_s_own_moment_wins_over_that_of_the_query(catalog: Catalog, orders: Table) -> None:
    sql = "SELECT (SELECT count(*) FROM orders) AS n, (SELECT count(*) FROM orders FOR VERSION AS OF 'main') AS own"
    assert query(catalog, sql, "month-end").to_pylist() == [{"n": 3, "own": 5}]


def test_odd_names_take_a_moment_too(catalog: Catalog, odd: Table) -> None:
    sql = "SELECT count(*) AS n FROM shop.\"Mixed Case-Table\" FOR VERSION AS OF 'main' t"
    assert query(catalog, sql).to_pylist() == [{"n": 2}]


@pytest.mark.parametrize(
    ("clause", "error", "said"),
    [
        ("FOR VERSION AS OF 5", NoSuchMoment, "shop.orders has no version 5, or it has expired; it has the tags"),
        ("FOR VERSION AS OF 'nothing'", NoSuchMoment, "no version 'nothing'.*main, month-end.*firn history"),
        ("FOR VERSION AS OF id", QueryError, "FOR VERSION AS OF id: write FOR TIMESTAMP AS OF '2026"),
        ("FOR VERSION AS OF", QueryError, "write FOR TIMESTAMP AS OF"),
        ("FOR TIMESTAMP AS OF 'yesterday'", QueryError, "'yesterday': that is not a time"),
        ("FOR TIMESTAMP AS OF 1700000000", QueryError, "write FOR TIMESTAMP AS OF '2026"),
        ("FOR TIMESTAMP AS OF '2001-01-01'", NoSuchMoment, "its first kept one"),
        ("o FOR VERSION AS OF 5", QueryError, "right behind the name of a table, before its alias"),
    ],
)
def test_a_moment_that_is_none_is_said(
    catalog: Catalog, orders: Table, clause: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        query(catalog, f"SELECT * FROM shop.orders {clause}")


def test_a_query_without_a_moment_is_left_as_it_is() -> None:
    for sql in ("SELECT 1", "SELECT [x for x in [1]] AS of", "SELECT 'broken", "SELECT 1 AS of_1"):
        assert pinned(sql).sql == sql


def test_several_lakes_refuse_a_moment_of_one_table(catalog: Catalog, orders: Table) -> None:
    with pytest.raises(QueryError, match="ask that lake"):
        together(eu=Lake(catalog)).sql("SELECT * FROM shop.orders FOR VERSION AS OF 5")


def test_explain_shows_the_plan_and_reads_nothing_else_than_a_select(catalog: Catalog, orders: Table) -> None:
    plan = query(catalog, "EXPLAIN SELECT amount FROM shop.orders WHERE id = ?", parameters=[2]).to_pylist()
    assert [one["explain_key"] for one in plan] == ["physical_plan"]
    assert "amount" in plan[0]["explain_value"]
    ran = query(catalog, "explain analyze SELECT count(*) FROM shop.orders FOR VERSION AS OF 'month-end'").to_pylist()
    assert "3 rows" in ran[0]["explain_value"]
    for other in (
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/x'",
        "EXPLAIN EXPLAIN SELECT 1",
        "EXPLAIN CREATE TABLE t(a INT)",
    ):
        with pytest.raises(QueryError, match=r"write SELECT|one statement"):
            query(catalog, other)


@pytest.fixture
def clicks(catalog: Catalog) -> Table:
    """One row with Firn's own columns beside its own."""
    catalog.create_namespace_if_not_exists("web")
    rows = pa.table({"id": [1], "_firn_op": ["c"], "_firn_pos": [b"1"], "_firn_mine": ["kept"]})
    table = catalog.create_table("web.clicks", rows.schema)
    table.append(rows)
    return table


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT * FROM web.clicks", ["id", "_firn_mine"]),
        ("SELECT c.* FROM web.clicks c", ["id", "_firn_mine"]),
        ("FROM clicks", ["id", "_firn_mine"]),
        ("SELECT _FIRN_OP FROM web.clicks", ["_firn_op"]),
        ("SELECT * FROM web.clicks WHERE _firn_op = 'c'", ["id", "_firn_op", "_firn_mine"]),
        ("SELECT COLUMNS('_firn_[po].*') FROM web.clicks", ["_firn_op", "_firn_pos"]),
        ("SELECT * FROM (SELECT DISTINCT * FROM web.clicks EXCEPT SELECT 2, 'x')", ["id", "_firn_mine"]),
    ],
)
def test_a_star_leaves_out_the_own_columns_that_a_query_does_not_name(
    catalog: Catalog, clicks: Table, sql: str, columns: list[str]
) -> None:
    assert query(catalog, sql).column_names == columns


def test_a_star_holds_all_columns_where_it_is_asked_for(catalog: Catalog, clicks: Table) -> None:
    every = ["id", "_firn_op", "_firn_pos", "_firn_mine"]
    assert query(catalog, "SELECT * FROM web.clicks", all_columns=True).column_names == every
    lake: Any = Lake(catalog)
    assert lake.sql("SELECT * FROM clicks").schema.names == ["id", "_firn_mine"]
    assert lake.sql("SELECT * FROM clicks", metadata=True).schema.names == every
    assert together(eu=lake).sql("SELECT * FROM clicks").schema.names == ["_lake", "id", "_firn_mine"]
    assert together(eu=lake).sql("SELECT * FROM clicks", metadata=True).schema.names == ["_lake", *every]
