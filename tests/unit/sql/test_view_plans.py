"""What the query of a view may say, and what is said of what it may not."""

import duckdb
import pytest

from firn.config.sql_text import SqlRefused
from firn_sql.views.algebra import Filter, Group, Join, Scan, operators
from firn_sql.views.planner import SourceTable, plan
from firn_sql.views.sums import with_sums

TABLES = {
    "shop.orders": SourceTable(
        {"id": "INTEGER", "cid": "INTEGER", "amount": "DECIMAL(9,2)", "x": "DOUBLE", "o": "STRUCT(a INTEGER)"},
        ("id",),
    ),
    "shop.customers": SourceTable({"cid": "INTEGER", "region": "VARCHAR"}, ("cid",)),
    "web.clicks": SourceTable({"url": "VARCHAR", "_firn_id": "VARCHAR"}, ("_firn_id",)),
    "web.loose": SourceTable({"url": "VARCHAR"}, ()),
}  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM shop.nothing", "column 15: there is no table 'shop.nothing'"),
        ("SELECT nothing FROM shop.orders", "column 8: there is no column 'nothing' in FROM"),
        ("SELECT cid FROM shop.orders o JOIN shop.customers c ON o.cid = c.cid", "'cid' is a column of o and c"),
        ("SELECT o.id FROM shop.orders o, shop.customers c", "two tables are joined that nothing makes equal"),
        ("SELECT id FROM shop.orders o LEFT JOIN shop.customers c ON o.cid < c.cid", "a join compares nothing with ="),
        ("SELECT id FROM shop.orders o NATURAL JOIN shop.customers", "a join of the kind NATURAL is not kept"),
        ("SELECT id FROM shop.orders ASOF JOIN shop.customers c ON id >= c.cid", "a join of the kind ASOF is not kept"),
        ("SELECT id, sum(amount) FROM shop.orders", "a column is neither in GROUP BY nor within a function over rows"),
        ("SELECT sum(sum(amount)) FROM shop.orders", "a function over rows stands within another one"),
        ("SELECT id FROM shop.orders WHERE sum(amount) > 3", "WHERE holds a query or a function over rows"),
        ("SELECT id FROM shop.orders ORDER BY id", "ORDER BY sorts rows, and a table keeps no order"),
        ("SELECT DISTINCT ON (cid) id FROM shop.orders", "DISTINCT ON takes any row of several"),
        ("SELECT id FROM shop.orders LIMIT 5 %", "LIMIT is not a number"),
        ("SELECT id FROM shop.orders WHERE cid NOT IN (SELECT cid FROM shop.customers)", "NOT IN is unknown as soon"),
        ("SELECT (SELECT max(cid) FROM shop.customers) AS m FROM shop.orders", "a query stands within an expression"),
        ("SELECT cid FROM shop.orders EXCEPT SELECT cid FROM shop.customers", "EXCEPT is not kept"),
        ("SELECT cid FROM shop.orders GROUP BY ROLLUP (cid)", "GROUPING SETS, ROLLUP and CUBE are not kept"),
        ("SELECT random() AS r FROM shop.orders", "random gives another value each time"),
        ("SELECT id FROM read_csv('/etc/passwd')", "TABLE_FUNCTION can't stand in FROM of a view"),
        ("SELECT unnest([1, 2]) AS n FROM shop.orders", "UNNEST makes several rows of one"),
        ("SELECT id AS a, cid AS A FROM shop.orders", "it gives two columns 'A'"),
        ("SELECT id AS _firn_x FROM shop.orders", "names that begin with _firn_ are Firn's own"),
        ("SELECT _firn_id FROM web.clicks", "there is no column '_firn_id' in FROM"),
        ("SELECT url FROM web.loose", "web.loose has no key"),
        ("SELECT cid AS id, sum(x) AS s FROM shop.orders GROUP BY id", "'id' is a column of FROM and an AS of this"),
        ("SELECT id FROM shop.orders TABLESAMPLE 10%", "a part or an earlier state of a table is not kept"),
        ("SELECT 1 AS a", "a SELECT without FROM reads no table"),
        ("SELECT lag(id) FROM shop.orders", "lag is not one of the functions over rows"),
        ("SELECT approx_count_distinct(id) AS n FROM shop.orders", "approx_count_distinct is not one of"),
        ("SELECT list_transform([1], lambda x: x + 1) AS l FROM shop.orders", "LAMBDA is not for views"),
        ("WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r) SELECT a FROM r", "RECURSIVE"),
        ("SELECT a.id FROM shop.orders a JOIN shop.orders a ON a.id = a.cid", "stands twice in FROM"),
        ("SELECT id FROM shop.orders WHERE id IN (SELECT cid, region FROM shop.customers)", "2 columns"),
        ("DELETE FROM shop.orders", "this is no query"),
        ("SELECT id FROM shop.orders; SELECT 1", "there are several statements"),
    ],
)  # fmt: skip
def test_what_is_refused_names_the_place_and_what_to_write(sql: str, said: str) -> None:
    with pytest.raises(SqlRefused) as refused:
        plan(sql, TABLES)
    assert said in str(refused.value)
    assert ";" in str(refused.value)  # what to write instead


def test_with_tables_that_double_are_bounded() -> None:
    tables = ["g0 AS (SELECT cid FROM shop.orders)"]
    tables += [f"g{i + 1} AS (SELECT a.cid FROM g{i} a JOIN g{i} b ON a.cid = b.cid)" for i in range(25)]
    with pytest.raises(SqlRefused, match="more than 40 tables are read"):
        plan(f"WITH {', '.join(tables)} SELECT cid FROM g25", TABLES)


def test_names_are_found_as_sql_finds_them() -> None:
    sql = """
        WITH Big AS (SELECT Cid, sum(Amount) AS total FROM Shop.Orders GROUP BY cid HAVING total > 10)
        SELECT c.*, b.TOTAL, o.o.a AS deep
        FROM shop.customers AS c JOIN big b USING (cid) JOIN shop.orders o ON o.cid = b.cid
    """
    found = plan(sql, TABLES)
    assert found.names == ("cid", "region", "TOTAL", "deep")
    assert found.sources == ("shop.customers", "shop.orders")


def test_conditions_stand_where_their_table_does() -> None:
    found = plan(
        "SELECT id FROM shop.orders o, shop.customers c WHERE o.cid = c.cid AND amount > 3 AND region = 'eu'", TABLES
    )
    (join,) = [one for one in operators(found.root) if isinstance(one, Join)]
    assert all(isinstance(side, Filter) and isinstance(side.input, Scan) for side in join.inputs())


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT cid, sum(amount) AS s, avg(id) AS a, count(x) AS n FROM shop.orders GROUP BY cid", ""),
        ("SELECT count(*) AS n FROM shop.orders", ""),
        ("SELECT DISTINCT region FROM shop.customers", ""),
        ("SELECT cid, sum(x) AS s FROM shop.orders GROUP BY cid", "a sum of DOUBLE depends on the order"),
        (
            "SELECT cid, count(DISTINCT id) AS s FROM shop.orders GROUP BY cid",
            "count DISTINCT needs the rows of a group",
        ),
        ("SELECT cid, max(id) AS s FROM shop.orders GROUP BY cid", "max needs the rows of a group"),
        ("SELECT cid, count(*) AS n FROM shop.orders GROUP BY cid HAVING n > 1", "HAVING leaves groups out"),
        ("SELECT id FROM shop.orders", "its rows are not groups"),
    ],
)
def test_which_groups_are_kept_as_sums(sql: str, why: str) -> None:
    with duckdb.connect() as connection:
        found, said = with_sums(plan(sql, TABLES), TABLES, connection)
    assert said.startswith(why)
    assert bool(said) == bool(why)
    assert found.sums == (not why)
    if found.sums:
        assert isinstance(found.group, Group)
        assert set(found.group.columns) <= set(found.stored)
