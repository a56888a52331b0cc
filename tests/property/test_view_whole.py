"""A view that is made again each time holds what DuckDB says of its SQL, in rows that are each told apart."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from hypothesis import given, settings

from firn.config.sql_text import SqlRefused
from firn_sql.views.planner import SourceTable
from firn_sql.views.refresh import AFTER, BEFORE, Refresh
from firn_sql.views.stored import stored
from firn_sql.views.whole import whole_plan
from tests.property.test_views import CHANGES, COLUMNS, STATES, State, Tables, after, bag, columns_of
from tests.soak import times

TABLES = {f"s.{name}": SourceTable(columns_of(text), ()) for name, (text, _) in COLUMNS.items()}
QUERIES = [
    "SELECT a, b FROM s.t WHERE a NOT IN (SELECT a FROM s.u WHERE a IS NOT NULL)",
    "SELECT b FROM s.t EXCEPT ALL SELECT c FROM s.u",
    "SELECT a, sum(m) AS m, grouping(a) AS g FROM s.t GROUP BY ROLLUP (a)",
    "SELECT t.id, (SELECT max(u.id) FROM s.u WHERE u.a <= t.a) AS m, s.t.b AS b FROM s.t",
    "WITH t AS (SELECT a FROM s.t) SELECT t.a, v.d FROM t, s.v",
    "SELECT p.a, q.a AS other FROM s.t p JOIN s.u q ON p.a < q.a",
    "SELECT DISTINCT ON (a) a, id FROM s.t ORDER BY a, id",
    "SELECT x, unnest([a, id]) AS n FROM s.t",
]


class OfSchema(Tables):
    """The tables of a schema `s`, none of which need a key."""

    def rows(self, source: str, *more: Any) -> str:
        return super().rows(source.removeprefix("s."), *more)


@pytest.mark.parametrize("sql", QUERIES)
@given(state=STATES, changes=CHANGES)
@settings(max_examples=times(3, 300), deadline=None)
def test_any_query_is_run_whole(sql: str, state: State, changes: Any) -> None:
    with duckdb.connect(config={"threads": 1}) as connection:
        sources = OfSchema(connection, [state, after(state, changes)])
        connection.execute("CREATE SCHEMA s")
        found = whole_plan(sql, TABLES, connection)
        how = stored("v.whole", found, TABLES, connection)
        refresh = Refresh(connection, found, sources)
        seen = []
        for cut in (BEFORE, AFTER):
            for name in COLUMNS:
                connection.execute(f"CREATE OR REPLACE VIEW s.{name} AS SELECT * FROM {name}_{cut}")
            listed = ", ".join(found.root.columns)
            assert bag(connection, f"SELECT {listed} FROM ({refresh.whole(cut)})") == bag(connection, sql)
            names = ", ".join(f'"{one}"' for one in (*found.names, "_firn_id"))
            seen.append(bag(connection, f"SELECT {names} FROM ({how.rows(refresh.whole(cut))})"))
            assert len({row[-1] for row in seen[-1]}) == seen[-1].total()
        delta = refresh.delta()
        gone, come = (
            bag(connection, f"SELECT {names} FROM ({how.rows(f'SELECT * FROM {one}')})")
            if delta
            else bag(connection, f"{sql} LIMIT 0")
            for one in ((delta.gone, delta.come) if delta else ("", ""))
        )
        assert seen[0] - gone + come == seen[1]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT random() AS r FROM s.t", "column 8: random gives another value each time"),
        ("SELECT current_time AS d FROM s.t", "column 8: current_time reads the clock in a way of its own"),
        ("SELECT * FROM s.w", "column 15: there is no table 's.w'; write one of s.t, s.u, s.v"),
        ("SELECT nothing FROM s.t", "DuckDB can't run it: Binder Error"),
        ('WITH "x.csv" AS (SELECT 1 AS a) SELECT * FROM "x.csv", s.t', "there is no table 'x.csv'"),
        ("SELECT 1 AS a", "it reads no table"),
        ("SELECT t.a, u.a FROM s.t, s.u", "it gives two columns 'a'"),
        ("SELECT a FROM hop(s.t, a, INTERVAL '1 hour', INTERVAL '1 hour')", "windows of time are kept by what changed"),
        ("SELECT a FROM read_csv('x')", "read_csv reads what is no table of Firn"),
    ],
)
def test_what_is_refused_of_a_query_that_is_run_whole(sql: str, said: str) -> None:
    with duckdb.connect() as connection, pytest.raises(SqlRefused) as refused:
        whole_plan(sql, TABLES, connection)
    assert said in str(refused.value)
