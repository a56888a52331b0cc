"""Which views are made in parts, by what, and why others are not."""

import duckdb
import pytest

from firn_sql.views.fill_way import LEAST, MOST, ROWS, SMALL, FillWay, fill_way
from firn_sql.views.planner import SourceTable, plan
from firn_sql.views.refresh_cost import Facts
from firn_sql.views.sums import with_sums

TABLES = {
    "shop.orders": SourceTable({"id": "INTEGER", "cid": "BIGINT", "x": "DOUBLE", "code": "VARCHAR"}, ("id",)),
    "shop.customers": SourceTable({"id": "INTEGER", "region": "VARCHAR"}, ("id",)),
    "shop.regions": SourceTable({"region": "VARCHAR", "manager": "VARCHAR"}, ("region",)),
}  # fmt: skip
FACTS = {"shop.orders": Facts(50 * ROWS), "shop.customers": Facts(2 * ROWS), "shop.regions": Facts(SMALL)}
JOINED = "FROM shop.orders o JOIN shop.customers c ON o.cid = c.id"


def way(sql: str, facts: dict[str, Facts] = FACTS) -> FillWay:
    with duckdb.connect() as connection:
        found, _ = with_sums(plan(sql, TABLES), TABLES, connection)
        return fill_way(found, TABLES, facts, connection)


@pytest.mark.parametrize(
    ("sql", "inputs", "steps"),
    [
        ("SELECT id, x FROM shop.orders WHERE x > 0", {"shop.orders": ()}, 1),
        ("SELECT cid, max(x) AS m FROM shop.orders GROUP BY cid", {"shop.orders": ("CAST(c1 AS HUGEINT)",)}, 1),
        ("SELECT cid, count(*) AS n FROM shop.orders GROUP BY cid", {"shop.orders": ()}, 2),
        ("SELECT count(*) AS n FROM shop.orders", {"shop.orders": ()}, 2),
        (f"SELECT o.id, region {JOINED}", {"shop.orders": 1, "shop.customers": 1}, 1),
        (f"SELECT cid, count(*) AS n {JOINED} GROUP BY cid", {"shop.orders": 1, "shop.customers": 1}, 1),
        (f"SELECT region, count(*) AS n {JOINED} GROUP BY region", {"shop.orders": 1, "shop.customers": 1}, 2),
        (
            f"SELECT o.id, manager {JOINED} JOIN shop.regions r ON c.region = r.region",
            {"shop.orders": 1, "shop.customers": 1, "shop.regions": "all"},
            1,
        ),
        (
            "SELECT o.id FROM shop.orders o JOIN shop.regions r ON o.code = r.region",
            {"shop.orders": (), "shop.regions": "all"},
            1,
        ),
    ],
)
def test_large_views_are_made_in_parts(sql: str, inputs: dict[str, object], steps: int) -> None:
    found = way(sql)
    assert found.parts is not None, found.why
    told = {one.source: "all" if one.whole else one.by for one in found.parts.inputs}
    assert {name: len(by) if isinstance(inputs[name], int) else by for name, by in told.items()} == inputs
    assert (1 if found.parts.sums is None else 2) == steps
    assert found.count in (50, 52)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT id FROM shop.orders ORDER BY id LIMIT 10", "LIMIT goes by all rows"),
        ("SELECT max(x) AS m FROM shop.orders", "one group has all rows"),
        ("SELECT id, sum(x) OVER (ORDER BY id) AS s FROM shop.orders", "a window without PARTITION BY"),
        (f"SELECT region, max(x) AS m {JOINED} GROUP BY region", "customers.region is not what its tables are joined"),
        ("SELECT o.id FROM shop.orders o JOIN shop.customers c ON o.code = c.id", "compares VARCHAR with INTEGER"),
        (
            "SELECT k, max(n) AS m FROM (SELECT x AS k, count(*) AS n FROM shop.orders GROUP BY x) GROUP BY k + 1, k",
            "",
        ),
        (
            "SELECT CAST(k AS VARCHAR) AS t, max(n) AS m "
            "FROM (SELECT x AS k, count(*) AS n FROM shop.orders GROUP BY x) GROUP BY 1",
            "floating point",
        ),
    ],
)
def test_what_goes_by_all_rows_is_made_in_one_process(sql: str, why: str) -> None:
    found = way(sql)
    assert (found.parts is None) is bool(why)
    assert why in found.told


def test_rows_without_a_partner_are_not_looked_for_by_what_they_lack() -> None:
    sql = "SELECT o.cid, max(x) AS m FROM shop.orders o {} JOIN shop.customers c ON o.cid = c.id GROUP BY o.cid"
    assert [way(sql.format(kind)).parts is not None for kind in ("", "LEFT", "RIGHT", "FULL")] == [
        True,
        True,
        False,
        False,
    ]
    assert "orders.cid is not what its tables are joined by" in way(sql.format("FULL")).why


def test_each_part_has_all_of_a_small_table() -> None:
    found = way("SELECT o.id FROM shop.orders o JOIN shop.regions r ON o.code = r.region")
    assert found.parts is not None
    assert {one.source: one.whole for one in found.parts.inputs} == {"shop.orders": False, "shop.regions": True}


def test_few_rows_are_not_worth_tasks() -> None:
    facts = FACTS | {"shop.orders": Facts(LEAST - 1)}
    sql = "SELECT id, x FROM shop.orders"
    assert way(sql, facts).told.startswith("in one process: its tables count for 49,999,999 rows")
    assert way(sql, FACTS | {"shop.orders": Facts(LEAST)}).count == LEAST // ROWS
    assert way(sql, FACTS | {"shop.orders": Facts(10, bytes=LEAST * 200)}).count == LEAST // ROWS
    assert way(sql, FACTS | {"shop.orders": Facts(10**12)}).count == MOST
