from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from firn.tables.snapshot_history import NoSuchMoment
from firn_lake.reading.moments import snapshot_at
from firn_lake.sql.query import Limits, QueryError, QueryTooLarge, query
from firn_lake.tables import TableNotFound, history


def test_a_query_reads_the_current_rows(catalog: Catalog, orders: Table) -> None:
    result = query(catalog, "SELECT count(*) AS n, sum(amount) AS total FROM shop.orders")
    assert result.to_pylist() == [{"n": 5, "total": 150.0}]


def test_a_query_may_leave_the_namespace_out(catalog: Catalog, orders: Table) -> None:
    assert query(catalog, "SELECT max(id) AS m FROM orders").to_pylist() == [{"m": 5}]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("WITH orders AS (SELECT * FROM shop.orders WHERE id > 3) SELECT count(*) FROM orders", 2),
        ("SELECT count(*) FROM shop.orders a JOIN Shop.Orders b USING (id)", 5),
        ("SELECT id FROM shop.orders UNION ALL SELECT 9 ORDER BY 1 DESC LIMIT 1", 9),
        ("FROM shop.orders SELECT max(id)", 5),
        ("SELECT shop.orders.id FROM shop.orders ORDER BY id LIMIT 1", 1),
        ("SELECT (o).amount FROM shop.orders o WHERE o.id = 2", 20.0),
        ("SELECT len(struct_keys(o)) FROM (SELECT o FROM shop.orders o LIMIT 1)", 3),
        ("SELECT count(*) FROM shop.orders NATURAL JOIN (SELECT 1 AS id)", 1),
        ("SELECT count(*) FROM range(3);", 3),
        ("VALUES (7)", 7),
    ],
)
def test_the_usual_forms_of_sql_work(catalog: Catalog, orders: Table, sql: str, expected: object) -> None:
    assert query(catalog, sql).column(0)[0].as_py() == expected


def test_columns_that_the_query_does_not_name_are_not_lost_from_star(catalog: Catalog, orders: Table) -> None:
    assert query(catalog, "SELECT * FROM shop.orders WHERE id = 1").to_pylist() == [
        {"id": 1, "amount": 10.0, "note": "a"}
    ]
    assert query(catalog, "SELECT o.* EXCLUDE (note) FROM shop.orders o WHERE id = 1").column_names == ["id", "amount"]
    assert query(catalog, "SELECT columns('a.*') FROM shop.orders").column_names == ["amount"]


def test_odd_names_work_when_quoted(catalog: Catalog, odd: Table) -> None:
    sql = 'SELECT "dot.ted" AS a, "$d", "quo""te" FROM shop."Mixed Case-Table" ORDER BY 1'
    assert query(catalog, sql).to_pylist()[0] == {"a": 1, "$d": "x", 'quo"te': True}
    sql = 'SELECT m."dot.ted" FROM "shop"."Mixed Case-Table" m WHERE m."$d" = \'y\''
    assert query(catalog, sql).to_pylist() == [{"dot.ted": 2}]


def test_a_query_as_of_a_snapshot_a_time_or_a_tag_reads_the_rows_of_then(catalog: Catalog, orders: Table) -> None:
    first, second = history(orders)
    before_second = second.time - timedelta(milliseconds=1)
    for as_of in (first.id, str(first.id), "month-end", first.time.isoformat(), before_second, "month-end"):
        assert query(catalog, "SELECT count(*) AS n FROM shop.orders", as_of).to_pylist() == [{"n": 3}], as_of
    milliseconds = str(int(first.time.timestamp() * 1000))
    assert query(catalog, "SELECT count(*) AS n FROM shop.orders", milliseconds).to_pylist() == [{"n": 3}]
    assert query(catalog, "SELECT count(*) AS n FROM shop.orders", "main").to_pylist() == [{"n": 5}]


def test_a_time_without_a_zone_is_utc(orders: Table) -> None:
    now = datetime.now(UTC) + timedelta(seconds=5)
    assert snapshot_at(orders, now.replace(tzinfo=None).isoformat()) == history(orders)[-1].id


@pytest.mark.parametrize(
    ("as_of", "message"),
    [
        ("2001-01-01", "had no snapshot at 2001-01-01: its first kept one is of"),
        ("yesterday", r"has no such tag or branch \(it has: main, month-end\), and it is not a time either"),
        ("1234567890123456789", "firn history shop.orders"),
    ],
)
def test_a_moment_that_is_not_there_says_what_is(catalog: Catalog, orders: Table, as_of: str, message: str) -> None:
    with pytest.raises(NoSuchMoment, match=message):
        query(catalog, "SELECT 1 FROM shop.orders", as_of)


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE shop.orders",
        "INSERT INTO shop.orders VALUES (1)",
        "COPY (SELECT 1) TO 'out.csv'",
        "ATTACH 'x.db'",
        "SET threads = 1",
        "PRAGMA version",
        "SELECT 1; SELECT 2",
        "",
        "SELECT FROM WHERE",
    ],
)
def test_anything_but_one_select_is_refused(catalog: Catalog, orders: Table, sql: str) -> None:
    with pytest.raises(QueryError):
        query(catalog, sql)


@pytest.mark.parametrize("function", ["read_text", "read_csv", "read_parquet", "read_json", "glob", "parquet_scan"])
def test_a_query_reaches_no_file(catalog: Catalog, orders: Table, tmp_path: Path, function: str) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\nsecret\n")
    with pytest.raises(QueryError):
        query(catalog, f"SELECT * FROM {function}('{secret}')")
    with pytest.raises(TableNotFound):
        query(catalog, f"SELECT * FROM '{secret}'")


def test_a_query_sees_no_python_variable(catalog: Catalog) -> None:
    with pytest.raises(TableNotFound):
        query(catalog, "SELECT * FROM tree")


def test_tables_that_differ_only_in_case_are_not_confused(catalog: Catalog, orders: Table) -> None:
    catalog.create_table(("shop", "ORDERS"), orders.schema())
    assert query(catalog, "SELECT count(*) AS n FROM shop.ORDERS").to_pylist() == [{"n": 0}]
    with pytest.raises(QueryError, match="differ only in case"):
        query(catalog, "SELECT 1 FROM shop.orders, shop.ORDERS")


def test_a_nested_namespace_is_one_quoted_name(catalog: Catalog, orders: Table) -> None:
    catalog.create_namespace(("eu", "west"))
    catalog.create_table(("eu", "west", "orders"), orders.schema())
    assert query(catalog, 'SELECT count(*) AS n FROM "eu.west".orders').to_pylist() == [{"n": 0}]
    with pytest.raises(QueryError, match=r'"eu.west".orders'):
        query(catalog, "SELECT 1 FROM eu.west.orders")


def test_a_long_query_shows_no_bar_among_its_rows(catalog: Catalog, orders: Table) -> None:
    (row,) = query(catalog, "SELECT current_setting('enable_progress_bar') AS bar").to_pylist()
    assert row == {"bar": False}


def test_a_name_that_is_a_word_of_sql_is_told_to_be_quoted(catalog: Catalog, orders: Table) -> None:
    with pytest.raises(QueryError, match='needs double quotes, such as "at"'):
        query(catalog, "SELECT max(at) FROM shop.orders")


def test_a_column_that_is_not_there_tells_those_that_are(catalog: Catalog, orders: Table) -> None:
    for sql in ("SELECT idd FROM shop.orders", "SELECT o.idd FROM shop.orders o"):
        with pytest.raises(QueryError, match=r"shop\.orders has id, amount, note"):
            query(catalog, sql)


def test_a_table_that_is_not_there_tells_those_that_are(catalog: Catalog, orders: Table) -> None:
    with pytest.raises(TableNotFound, match=r"no table 'shop.order' in the lake; tables: shop.orders"):
        query(catalog, "SELECT 1 FROM shop.order")


@pytest.mark.parametrize(
    "source",
    ["read_parquet('/etc/x')", "read_csv('http://x/y')", "glob('/*')", "iceberg_scan('x')", "sqlite_scan('x', 'y')"],
)
def test_what_reads_elsewhere_is_told_that_a_query_reads_tables(catalog: Catalog, source: str) -> None:
    with pytest.raises(QueryError, match=r"reads tables of the lake, such as namespace\.table, and no files"):
        query(catalog, f"SELECT * FROM {source}")


@pytest.mark.parametrize("statement", ["ATTACH 'x.db'", "COPY shop.orders TO 'x'", "PRAGMA version", "INSTALL httpfs"])
def test_a_statement_that_is_no_select_is_told_what_to_write(catalog: Catalog, statement: str) -> None:
    with pytest.raises(QueryError, match="only reads: write SELECT …, WITH … SELECT or EXPLAIN SELECT …"):
        query(catalog, statement)


@pytest.mark.parametrize(
    ("where", "parameters", "message"),
    [
        ("id = ?", None, "none are given: give a list of 1 for its [?]"),
        ("id = ? OR id = ?", [1], "there are 1 in a list: give a list of 2 for its [?]"),
        ("id = ?", {"id": 1}, "they are named id: give a list of 1 for its [?]"),
        ("id = ?", 5, "they are a int: give a list of 1"),
        ("id = ?", "5", "they are a str: give a list of 1"),
        ("id = $b OR id = $a", [1, 2], r"2 in a list: give a dict with a value for each of \$a, \$b"),
        ("id = $a", {"b": 1}, r"they are named b: give a dict with a value for each of \$a"),
        ("id = $a", {"a": 1, "b": 1}, r"they are named a, b: give a dict with a value for each of \$a"),
        ("id = 1", [1], "the query has none: write [?] or [$]name"),
        ("id = ?", [{1, 2}], "a parameter is of a kind that SQL has not: .*set.* It can be a number, text,"),
        ("id = ?", ["x"], "Could not convert string 'x' to INT64"),
    ],
)
def test_parameters_that_do_not_fit_are_told_which_do(
    catalog: Catalog, orders: Table, where: str, parameters: Any, message: str
) -> None:
    with pytest.raises(QueryError, match=message):
        query(catalog, f"SELECT id FROM shop.orders WHERE {where}", parameters=parameters)


def test_parameters_that_fit_may_be_lists_tuples_and_dicts(catalog: Catalog, orders: Table) -> None:
    for where, parameters in (
        ("id = ?", [2]),
        ("id = ?", (2,)),
        ("id = $1", [2]),
        ("id = $a", {"a": 2}),
        ("id = 2", []),
    ):
        found = query(catalog, f"SELECT id FROM shop.orders WHERE {where}", parameters=parameters)
        assert found.to_pylist() == [{"id": 2}]


def test_what_fails_far_behind_in_a_result_is_the_querys_error(catalog: Catalog) -> None:
    with pytest.raises(QueryError, match="Could not convert string 'no' to INT32"):
        query(catalog, "SELECT CAST(CASE WHEN range = 8000 THEN 'no' ELSE '1' END AS INTEGER) FROM range(9000)")


def test_a_result_that_is_larger_than_its_memory_is_an_error(catalog: Catalog) -> None:
    sql = "SELECT repeat('x', 1000) AS t FROM range(2000)"
    assert query(catalog, sql, limits=Limits(memory="100MB")).num_rows == 2000
    with pytest.raises(QueryTooLarge, match=r"the result is larger than 1\.5 MiB: choose fewer rows or columns"):
        query(catalog, sql, limits=Limits(memory="1.5 MiB"))
    with pytest.raises(QueryError, match="memory 'much' is not a size"):
        query(catalog, sql, limits=Limits(memory="much"))
