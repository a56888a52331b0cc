"""A view brought to a new cut by what changed is its query run whole at that cut: random tables, changes and queries."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn_sql.views.algebra import quoted
from firn_sql.views.planner import SourceTable, plan
from firn_sql.views.refresh import AFTER, BEFORE, Delta, Refresh, Within
from tests.soak import times

COLUMNS = {
    "t": ("id INTEGER, a INTEGER, b VARCHAR, x DOUBLE, m DECIMAL(9,2)", ("id",)),
    "u": ("id INTEGER, a INTEGER, c VARCHAR", ("id",)),
    "v": ("a INTEGER, d VARCHAR", ("a",)),
}
TABLES = {
    name: SourceTable(tuple(one.split()[0] for one in text.split(", ")), key) for name, (text, key) in COLUMNS.items()
}
QUERIES = [
    "SELECT a, b || 'x' AS y FROM t WHERE a > 0",
    "SELECT t.*, c FROM t JOIN u USING (a)",
    "SELECT t.id, u.id AS uid, c FROM t LEFT JOIN u ON t.a = u.a AND u.id > 1",
    "SELECT t.id, u.id AS uid, c FROM t RIGHT JOIN u ON t.a = u.a",
    "SELECT a, t.id, u.id AS uid FROM t FULL JOIN u USING (a)",
    "SELECT p.id, q.id AS other FROM t p JOIN t q ON p.a = q.a AND p.id < q.id",
    "SELECT b, count(*) AS n, sum(m) AS s, avg(x) AS v, min(x) AS lo, count(DISTINCT a) AS k FROM t GROUP BY b",
    "SELECT count(*) AS n, sum(a) AS s FROM t",
    "SELECT d, count(*) AS n, sum(m) AS s FROM t JOIN v USING (a) GROUP BY ALL HAVING n > 1",
    "SELECT DISTINCT a FROM t",
    "SELECT a FROM t UNION ALL SELECT a FROM u",
    "SELECT a FROM t UNION SELECT a FROM v",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.id <> t.id)",
    "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a)",
    "SELECT id FROM t WHERE a IN (SELECT a FROM u GROUP BY a HAVING count(*) > 1)",
    "SELECT id, row_number() OVER (PARTITION BY a ORDER BY x) AS n, sum(m) OVER (PARTITION BY a) AS s FROM t",
    "SELECT id, b FROM t QUALIFY row_number() OVER (PARTITION BY b ORDER BY x DESC) <= 2",
    "SELECT id, a FROM t ORDER BY a DESC LIMIT 3",
    "SELECT a, string_agg(b, ',' ORDER BY x) AS s, arg_max(b, x) AS y, any_value(b) AS z FROM t GROUP BY a",
    "SELECT g.a, g.n, c FROM (SELECT a, count(*) AS n FROM t GROUP BY a) g FULL JOIN u ON g.a = u.a",
    "WITH g AS (SELECT a, sum(m) AS s FROM t GROUP BY a) SELECT p.a, p.s, q.s AS r FROM g p JOIN g q ON p.a = q.a + 1",
    "SELECT t.id, u.id AS uid, v.d FROM t, u, v WHERE t.a = u.a AND u.a = v.a AND t.id < 5",
    "SELECT t.id, v.d FROM t LEFT JOIN u ON t.a = u.a LEFT JOIN v ON u.id = v.a",
    "SELECT u.a, n FROM u LEFT JOIN (SELECT a, count(*) AS n FROM t WHERE b IS NOT NULL GROUP BY a) g ON g.a = u.a WHERE u.id > 0",
    "SELECT k, count(*) AS n FROM (SELECT a % 2 AS k FROM t UNION ALL SELECT a FROM u) GROUP BY k",
    "SELECT id FROM t SEMI JOIN v ON t.a = v.a",
    "SELECT u.c, max(w.n) AS n FROM u JOIN (SELECT a, row_number() OVER (PARTITION BY a ORDER BY id) AS n FROM t) w ON w.a = u.a GROUP BY u.c",
]  # fmt: skip
NAN = float("nan")
SMALL = st.none() | st.integers(0, 3)
TEXT = st.none() | st.sampled_from(["p", "q", ""])
ROWS = {
    "t": st.tuples(SMALL, TEXT, st.none() | st.sampled_from([0.5, -1.25, 1e9, NAN, math.inf]), st.none() | st.integers(-9, 9)),
    "u": st.tuples(SMALL, TEXT),
    "v": st.tuples(TEXT),
}
State = dict[str, dict[int, tuple[Any, ...]]]
STATES = st.fixed_dictionaries({name: st.dictionaries(st.integers(0, 7), row, max_size=8) for name, row in ROWS.items()})
CHANGES = st.fixed_dictionaries(
    {name: st.dictionaries(st.integers(0, 7), st.none() | row, max_size=3) for name, row in ROWS.items()}
)


class Tables:
    """The sources of a refresh as tables of a connection, and their changes by whole comparison."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, states: Sequence[State]) -> None:
        self._connection = connection
        for name, (columns, _) in COLUMNS.items():
            for cut, state in enumerate(states):
                connection.execute(f"CREATE OR REPLACE TABLE {name}_{cut} ({columns})")
                rows = [(key, *row) for key, row in state[name].items()]
                if rows:
                    marks = ", ".join("?" * len(rows[0]))
                    connection.executemany(f"INSERT INTO {name}_{cut} VALUES ({marks})", rows)

    def rows(self, source: str, cut: int, columns: Sequence[str], within: Within | None) -> str:
        rows = f"SELECT {', '.join(map(quoted, columns))} FROM {source}_{cut}"
        return rows if within is None else within.semi_join(rows, [quoted(one) for one in columns])

    def changes(self, source: str, columns: Sequence[str]) -> tuple[str, str] | None:
        before, after = (self.rows(source, cut, columns, None) for cut in (BEFORE, AFTER))
        found = f"{before} EXCEPT ALL {after}", f"{after} EXCEPT ALL {before}"
        count = sum(len(self._connection.execute(one).fetchall()) for one in found)
        return found if count else None


def bag(connection: duckdb.DuckDBPyConnection, rows: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(map(plain, row)) for row in connection.execute(rows).fetchall())


def plain(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value if math.isinf(value) else float(f"{value:.9e}")
    return value


def after(state: State, changes: dict[str, dict[int, tuple[Any, ...] | None]]) -> State:
    return {
        name: {key: row for key, row in {**rows, **changes[name]}.items() if row is not None}
        for name, rows in state.items()
    }


@pytest.mark.parametrize("sql", QUERIES)
@given(state=STATES, changes=CHANGES)
@settings(max_examples=times(25, 1000), deadline=None)
def test_what_changed_makes_the_view_what_its_query_is(sql: str, state: State, changes: Any) -> None:
    with duckdb.connect(config={"threads": 1}) as connection:
        sources = Tables(connection, [state, after(state, changes)])
        found = plan(sql, TABLES)
        refresh = Refresh(connection, found, sources)
        delta = refresh.delta()
        before, now = (bag(connection, refresh.whole(cut)) for cut in (BEFORE, AFTER))
        if delta is None:
            assert before == now
            return
        gone, come = (bag(connection, f"SELECT {', '.join(found.root.every)} FROM {one}") for one in (delta.gone, delta.come))
        assert gone <= before
        assert before - gone + come == now
        ids = bag(connection, f"SELECT {', '.join(found.root.ids) or '1'} FROM ({refresh.whole(AFTER)})")
        assert max(ids.values(), default=1) == 1


@pytest.mark.parametrize("sql", [one for one in QUERIES if "arg_max" not in one and "row_number" not in one])
@given(state=STATES)
@settings(max_examples=times(10, 300), deadline=None)
def test_a_plan_is_what_the_sql_says(sql: str, state: State) -> None:
    with duckdb.connect(config={"threads": 1}) as connection:
        sources = Tables(connection, [state, state])
        for name in COLUMNS:
            connection.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM {name}_1")
        found = plan(sql, TABLES)
        whole = Refresh(connection, found, sources).whole(AFTER)
        columns = ", ".join(found.root.columns)
        relation = connection.sql(sql)
        assert [one.lower() for one in found.names] == [one.lower() for one in relation.columns]
        if "LIMIT" not in sql:
            assert bag(connection, f"SELECT {columns} FROM ({whole})") == bag(connection, sql)
