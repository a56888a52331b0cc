"""How each part of a view is kept, and about what a refresh reads."""

import time

import duckdb
import pytest

from firn_sql.views.planner import SourceTable, plan
from firn_sql.views.refresh_cost import Cost, Facts, costs, parts
from firn_sql.views.sums import with_sums

TABLES = {
    "shop.orders": SourceTable(
        {"id": "BIGINT", "cid": "BIGINT", "amount": "DECIMAL(9,2)", "x": "DOUBLE", "tags": "VARCHAR[]"}, ("id",)
    ),
    "shop.customers": SourceTable({"id": "BIGINT", "region": "VARCHAR"}, ("id",)),
}
FACTS = {
    "shop.orders": Facts(1_000_000, ("id",)),
    "shop.customers": Facts(10_000, ("id",), {"region": 12}),
}
JOINED = "FROM shop.orders o JOIN shop.customers c ON o.cid = c.id"


def told(sql: str) -> tuple[bool, list[tuple[int, str, str]], dict[str, Cost]]:
    found = plan(sql, TABLES)
    sums = with_sums(found, TABLES, duckdb.connect())[0].sums
    listed = [(one.depth, one.what, one.kept) for one in parts(found, sums=sums)]
    return sums, listed, {one.source: one for one in costs(found, FACTS, sums=sums)}


@pytest.mark.parametrize(
    ("sql", "first"),
    [
        (f"SELECT region, count(*) AS n {JOINED} GROUP BY region", "group by customers.region: sums of what changed"),
        (f"SELECT region, max(x) AS m {JOINED} GROUP BY ALL", "group by customers.region: touched groups made again"),
        ("SELECT max(x) AS m FROM shop.orders", "one group of all rows: made again from all rows"),
        ("SELECT DISTINCT cid FROM shop.orders", "distinct orders.cid: sums of what changed"),
        ("SELECT lower(region) AS r, count(*) AS n FROM shop.customers GROUP BY r",
         "group by lower(customers.region): sums of what changed"),
        (f"SELECT o.id {JOINED}",
         "inner join on orders.cid = customers.id: rows of touched join values, before and now"),
        ("SELECT id FROM shop.orders WHERE EXISTS (SELECT 1 FROM shop.customers c WHERE c.id = cid)",
         "semi join on orders.cid = customers.id: rows of touched join values, before and now"),
        ("SELECT id, sum(x) OVER (PARTITION BY cid) AS s FROM shop.orders",
         "window over orders.cid: touched partitions made again"),
        ("SELECT id, row_number() OVER (ORDER BY x) AS s FROM shop.orders",
         "window over all rows: made again from all rows"),
        ("SELECT id, x FROM shop.orders ORDER BY x LIMIT 5 OFFSET 2",
         "the first 5 rows after 2: made again from all rows"),
        ("SELECT id, x FROM shop.orders ORDER BY x LIMIT 5",
         "the first 5 rows: what changed in it, or all rows where others come up"),
        ("SELECT id FROM shop.orders UNION ALL SELECT id FROM shop.customers",
         "union of 2 queries: each query by itself"),
        ("SELECT id FROM shop.orders WHERE amount > 3", "where (orders.amount > 3): row by row"),
        ("SELECT cid, max(x) AS m FROM shop.orders GROUP BY cid HAVING m > 3", "where (max(orders.x) > 3): row by row"),
        ("SELECT * FROM shop.orders", "shop.orders: what changed in it"),
    ],
)  # fmt: skip
def test_each_operator_says_how_it_is_kept(sql: str, first: str) -> None:
    _, listed, _ = told(sql)
    assert f"{listed[0][1]}: {listed[0][2]}" == first
    assert [one[0] for one in listed[:2]] == [0, 1][: len(listed)]


def test_sums_read_what_changed_alone() -> None:
    _, _, found = told("SELECT cid, sum(amount) AS s FROM shop.orders GROUP BY cid")
    assert found["shop.orders"] == Cost("shop.orders", {}, {}, 1000, assumed=True)


def test_a_join_reads_the_other_sides_rows_of_touched_values_twice() -> None:
    _, _, found = told(f"SELECT o.id, region {JOINED}")
    # 10,000 customers, so 100 orders of each
    assert found["shop.orders"].reads == {"shop.customers": 2 * 1000}
    assert (found["shop.orders"].view, found["shop.customers"].view) == (1000, 100_000)
    assert not found["shop.orders"].assumed
    assert found["shop.orders"].by == {"shop.customers": [("id",)]}


def test_groups_without_sums_read_the_rows_of_touched_groups() -> None:
    _, _, found = told("SELECT region, max(id) AS m FROM shop.customers GROUP BY region")
    assert found["shop.customers"] == Cost(
        "shop.customers", {"shop.customers": 10_000}, {"shop.customers": [("region",)]}, 12, assumed=False
    )
    _, _, found = told("SELECT cid, max(x) AS m FROM shop.orders GROUP BY cid")
    assert found["shop.orders"] == Cost(
        "shop.orders", {"shop.orders": 10_000}, {"shop.orders": [("cid",)]}, 1000, assumed=True
    )


def test_what_is_made_again_from_all_rows_reads_all_rows() -> None:
    _, _, found = told("SELECT id, x FROM shop.orders ORDER BY x LIMIT 5")
    assert found["shop.orders"].reads == {"shop.orders": 1_000_000}
    _, _, found = told("SELECT id, row_number() OVER (ORDER BY x) AS s FROM shop.orders")
    assert found["shop.orders"].reads == {"shop.orders": 2_000_000}


def test_what_reaches_a_table_is_what_its_rows_are_looked_up_by() -> None:
    """As a refresh does it: a condition on some of the values goes down where all of them can't."""
    _, _, found = told("SELECT cid, lower(tags[1]) AS t, max(x) AS m FROM shop.orders GROUP BY ALL")
    assert found["shop.orders"].by == {"shop.orders": [("cid",)]}, "the text is computed"
    assert found["shop.orders"].reads == {"shop.orders": 10_000}
    _, _, found = told("SELECT lower(tags[1]) AS t, max(x) AS m FROM shop.orders GROUP BY ALL")
    assert found["shop.orders"].by == {"shop.orders": [()]}
    _, _, found = told(f"SELECT region, max(x) AS m {JOINED.replace('JOIN', 'FULL JOIN')} GROUP BY region")
    assert () in found["shop.customers"].by["shop.orders"], "of a full join nothing goes down by one side"
    _, _, found = told(f"SELECT region, max(x) AS m {JOINED} GROUP BY region")
    assert found["shop.customers"].by == {"shop.customers": [("region",)], "shop.orders": [("cid",)]}
    _, _, found = told("SELECT cid, count(*) OVER (PARTITION BY cid) AS n FROM shop.orders WHERE amount > 3")
    assert found["shop.orders"].by == {"shop.orders": [("cid",)]}, "what WHERE says leaves out rows that were read"


def test_a_value_that_is_computed_leaves_out_no_file() -> None:
    _, _, found = told("SELECT lower(region) AS r, max(id) AS m FROM shop.customers GROUP BY r")
    assert found["shop.customers"].reads == {"shop.customers": 10_000}


def test_empty_tables_are_no_division_by_nothing() -> None:
    found = plan(f"SELECT region, max(x) AS m {JOINED} GROUP BY region", TABLES)
    for one in costs(found, {name: Facts(0, ("id",)) for name in TABLES}, sums=False):
        assert all(rows == 0 for rows in one.reads.values())


def test_forty_joins_are_estimated_at_once() -> None:
    joins = " ".join(f"JOIN shop.orders t{i} ON t{i}.cid = t{i - 1}.cid" for i in range(1, 40))
    found = plan(f"SELECT t0.id FROM shop.orders t0 {joins}", TABLES)
    started = time.process_time()
    (one,) = costs(found, FACTS, sums=False)
    assert len(parts(found, sums=False)) == 79
    assert time.process_time() - started < 5
    assert one.view > 1000
