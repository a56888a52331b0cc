"""Whether a refresh goes by what changed or by the whole query, by the sizes of what it would read."""

import duckdb
import pytest

from firn_sql.views.planner import SourceTable, plan
from firn_sql.views.refresh_cost import Facts
from firn_sql.views.refresh_way import Way, way_of
from firn_sql.views.sums import with_sums

TABLES = {
    "shop.orders": SourceTable({"id": "BIGINT", "cid": "BIGINT", "amount": "DECIMAL(9,2)", "x": "DOUBLE"}, ("id",)),
    "shop.customers": SourceTable({"id": "BIGINT", "region": "VARCHAR"}, ("id",)),
}
JOIN = "SELECT o.id, c.region FROM shop.orders o JOIN shop.customers c ON o.cid = c.id"
GROUPS = "SELECT cid, count(*) AS n, sum(amount) AS s FROM shop.orders GROUP BY cid"


def way(
    sql: str, orders: int, changed: int = 1_000, *, view: int = 0, kinds: tuple[str, ...] = ("BIGINT",), width: int = 0
) -> Way:
    found, _ = with_sums(plan(sql, TABLES), TABLES, duckdb.connect())
    facts = {
        "shop.orders": Facts(orders, ("id",), bytes=orders * width),
        "shop.customers": Facts(orders // 10, ("id",), {"region": 12}),
    }
    return way_of(found, facts, {"shop.orders": changed}, Facts(view, bytes=view * width), kinds)


@pytest.mark.parametrize("sql", [JOIN, GROUPS])
def test_of_small_tables_all_is_read_and_of_large_ones_what_changed(sql: str) -> None:
    ways = [way(sql, 10**n, 100).whole for n in range(8)]
    assert ways[0]
    assert not ways[-1]
    assert ways == sorted(ways, reverse=True), "there is one size above which it is by change"


def test_many_changes_of_a_table_are_its_whole() -> None:
    ways = [way("SELECT cid, max(id) AS m FROM shop.orders GROUP BY cid", 2_000_000, 10**n).whole for n in range(7)]
    assert (ways[0], ways[-1]) == (False, True)
    assert ways == sorted(ways)


def test_all_of_very_many_rows_is_not_compared() -> None:
    found = way("SELECT cid, max(id) AS m FROM shop.orders GROUP BY cid", 30_000_000, 10**8)
    assert not found.whole
    assert found.by_change > found.by_whole
    assert found.told.endswith("the whole query 30,000,000, which are too many to compare")


def test_a_view_that_is_larger_than_its_tables_is_read_too() -> None:
    assert way(JOIN, 100_000).whole
    assert not way(JOIN, 100_000, view=10**7).whole


def test_wide_rows_are_read_whole_sooner_than_many_only_if_they_are_few() -> None:
    """A query over a gigabyte of documents may take more disk than a view's query has, though they are few."""
    assert way(JOIN, 100_000, view=50_000).whole
    assert way(JOIN, 100_000, view=50_000, width=90).whole, "as wide as rows are"
    assert not way(JOIN, 100_000, view=50_000, width=20_000).whole
    assert way(JOIN, 500, view=500, width=20_000).whole
    every = "SELECT id, row_number() OVER (ORDER BY x) AS n FROM shop.orders"
    assert way(every, 50_000, view=50_000, width=20_000).whole, "all are read twice either way"


def test_a_table_that_says_no_rows_has_those_of_its_bytes() -> None:
    found, _ = with_sums(plan(GROUPS, TABLES), TABLES, duckdb.connect())
    assert not way_of(found, {"shop.orders": Facts(0, ("id",), bytes=10**11)}, {"shop.orders": 9}, Facts(0), ()).whole


def test_first_rows_of_a_large_table_go_by_those_that_the_view_has() -> None:
    first = "SELECT id, amount FROM shop.orders ORDER BY amount DESC LIMIT 10"
    assert way(first, 1_000).whole
    assert not way(first, 1_000_000).whole
    assert way(f"{first} OFFSET 5", 1_000_000).whole, "what is before its first row is not known, and all is read twice"


def test_what_did_not_change_takes_no_step() -> None:
    union = f"SELECT id, cid AS n FROM shop.orders UNION ALL SELECT id, count(*) FROM ({JOIN}) GROUP BY id"
    assert way(JOIN, 10_000).by_change < way(union, 10_000).by_change
    found, _ = with_sums(plan(JOIN, TABLES), TABLES, duckdb.connect())
    none = way_of(found, {name: Facts(1_000, ("id",)) for name in TABLES}, {}, Facts(0), ())
    assert (none.whole, none.by_change) == (False, 0)


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT", "DOUBLE[]", "STRUCT(a FLOAT)"])
def test_sums_of_floating_point_go_by_what_changed_whatever_that_costs(kind: str) -> None:
    sql = "SELECT cid, sum(x) AS s FROM shop.orders GROUP BY cid"
    assert way(sql, 10).whole
    found = way(sql, 10, kinds=("BIGINT", kind))
    assert found.told == "by change: sums of floating point go by the order of rows, and would differ each time"
    assert way(JOIN, 10, kinds=(kind,)).whole, "where none are made, they are what the table has"
    assert way(GROUPS, 10, kinds=(kind,)).whole, "a mean of sums that are exact is the same each time"


def test_it_tells_what_both_would_cost() -> None:
    found = way(GROUPS, 5_000, view=500)
    assert found.told == "whole query: what changed costs about as much as reading 200,000 rows, the whole query 5,500"
    found = way(GROUPS, 5_000_000)
    assert found.told.startswith("by change: what changed costs about as much as reading 200,000 rows, the whole query")


def test_values_that_statistics_count_change_nothing() -> None:
    """As `firn views explain` says it: the job that refreshes asks for no statistics."""
    found, _ = with_sums(plan(JOIN, TABLES), TABLES, duckdb.connect())
    facts = {name: Facts(10**6, ("id",)) for name in TABLES}
    told = {name: Facts(10**6, ("id",), {"cid": 3, "region": 2}) for name in TABLES}
    assert way_of(found, facts, {"shop.orders": 9}, Facts(0), ()) == way_of(
        found, told, {"shop.orders": 9}, Facts(0), ()
    )
