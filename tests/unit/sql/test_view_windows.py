"""What windows of time of a view may say, and where they are narrowed."""

import duckdb
import pytest

from firn.config import sql_text
from firn.config.reader import parse
from firn.config.sql_text import SqlRefused, tables_in
from firn.errors import ConfigError
from firn_sql.configured import check_sql
from firn_sql.views.algebra import Hops, Sessions, operators
from firn_sql.views.planner import SourceTable, plan
from firn_sql.views.refresh_cost import Facts, costs, parts
from firn_sql.views.sums import with_sums
from firn_sql.views.time_windows import NAMES

TABLES = {
    "shop.orders": SourceTable({"id": "INTEGER", "created": "TIMESTAMP", "uid": "INTEGER", "n": "BIGINT"}, ("id",)),
    "shop.taken": SourceTable({"id": "INTEGER", "created": "TIMESTAMP", "window_start": "DATE"}, ("id",)),
    "shop.loose": SourceTable({"created": "TIMESTAMP"}, ()),
}


def test_the_text_is_read_for_the_same_functions() -> None:
    assert {*NAMES} == sql_text.TIME_WINDOWS


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("hop(shop.orders, created, INTERVAL '1 hour')", "hop takes a table, a time, how far apart windows"),
        (
            "hop(shop.orders, created, INTERVAL '1 hour', INTERVAL '15 minutes')",
            "the length of the windows is not so many",
        ),
        ("hop(shop.orders, created, INTERVAL '1 day', INTERVAL '1 month')", "the length of the windows is not so many"),
        (
            "hop(shop.orders, created, INTERVAL '1 second', INTERVAL '1 day')",
            "in 86,400 windows, and 1,000 are the most",
        ),
        ("tumble(shop.orders, created, INTERVAL '0 days')", "a length of time is months alone, or days and less"),
        ("tumble(shop.orders, created, INTERVAL '-1 days')", "a length of time is months alone, or days and less"),
        ("tumble(shop.orders, created, INTERVAL '1 month 3 days')", "a length of time is months alone"),
        ("tumble(shop.orders, created, INTERVAL '900 years')", "this is longer than a hundred years"),
        ("tumble(shop.orders, created, INTERVAL 'soon')", "this is no length of time"),
        ("tumble(shop.orders, created, n)", "tumble takes a length of time here"),
        ("tumble(shop.orders, created, (SELECT 1))", "tumble takes a length of time here"),
        ("tumble(shop.orders, 'created', INTERVAL '1 day')", "the time is not one of the rows"),
        ("tumble(shop.orders, made, INTERVAL '1 day')", "column 40: there is no column 'made' in FROM"),
        ("tumble(shop.orders, max(created), INTERVAL '1 day')", "tumble holds a query or a function over rows"),
        ("tumble(shop.orders, now(), INTERVAL '1 day')", "now is another time at each refresh"),
        ("tumble(shop.nothing, created, INTERVAL '1 day')", "column 27: there is no table 'shop.nothing'"),
        ("tumble(shop.loose, created, INTERVAL '1 day')", "shop.loose has no key"),
        ("tumble(shop.taken, created, INTERVAL '1 day')", "'taken' has a column window_start or window_end already"),
        ("tumble((SELECT * FROM shop.orders), created, INTERVAL '1 day')", "is a table by its name"),
        ("session(shop.orders, created)", "the longest pause, and whose sessions they are"),
        ("session(shop.orders, created, uid, INTERVAL '1 hour')", "session takes a length of time here"),
        ("session(shop.orders, created, INTERVAL '1 hour', who)", "there is no column 'who'"),
        ("range(10)", "TABLE_FUNCTION can't stand in FROM of a view"),
    ],
)
def test_what_is_refused_names_the_place_and_what_to_write(call: str, said: str) -> None:
    with pytest.raises(SqlRefused) as refused:
        plan(f"SELECT 1 AS a FROM {call}", TABLES)
    assert said in str(refused.value)
    assert refused.value.instead


def test_the_text_names_the_table_of_a_window() -> None:
    sql = """WITH w AS (SELECT * FROM tumble(shop."a.b", created, INTERVAL '1 hour'))
             SELECT * FROM HOP (web.clicks, created, INTERVAL '1 hour', INTERVAL '1 day') h
             JOIN session(w, c, i) USING (a), shop.c"""
    assert [one for one, _ in tables_in(sql)] == [("shop", "a.b"), ("web", "clicks"), ("shop", "c")]


def test_firn_yaml_may_have_windows_over_tables_whose_columns_it_does_not_know() -> None:
    streams = "streams: {s: {tables: {public.c: {to: web.clicks, key: [id]}}}}\nviews:\n"
    call = "session(web.clicks, created, INTERVAL '30 minutes', user_id)"
    check_sql(
        parse(f"""{streams}  v.a: {{sql: "SELECT user_id, window_start, count(*) AS n FROM {call} GROUP BY ALL"}}""")
    )
    with pytest.raises(ConfigError, match="line 1, column 15: windows of time are kept by what changed alone"):
        check_sql(parse(f"""{streams}  v.a: {{sql: "SELECT * FROM {call}", refresh: full}}"""))


def test_counts_of_windows_are_kept_as_sums_and_read_no_table() -> None:
    call = "hop(shop.orders, created, INTERVAL 1 HOUR, INTERVAL 1 DAY)"
    sql = f"SELECT window_start AS w, count(*) AS c FROM {call} GROUP BY 1"
    with duckdb.connect() as connection:
        found, why = with_sums(plan(sql, TABLES), TABLES, connection)
    assert not why
    (hops,) = [one for one in operators(found.root) if isinstance(one, Hops)]
    assert (hops.number, hops.hop.micros) == (24, 3_600_000_000)
    (cost,) = costs(found, {"shop.orders": Facts(10**9, ("id",))}, sums=True)
    assert not cost.reads.get("shop.orders")
    assert [one.what for one in parts(found, sums=True)][1] == "windows of time over orders.created"


def test_sessions_read_the_rows_of_touched_users() -> None:
    sql = "SELECT id, window_end AS e FROM session(shop.orders, created, INTERVAL '1 hour', uid)"
    found = plan(sql, TABLES)
    assert any(isinstance(one, Sessions) for one in operators(found.root))
    (cost,) = costs(found, {"shop.orders": Facts(10**9, ("id",), {"uid": 10**7})}, sums=False)
    assert 0 < cost.reads["shop.orders"] < 10**6
    assert [one.what for one in parts(found, sums=False)] == ["sessions of orders.uid", "shop.orders"]
