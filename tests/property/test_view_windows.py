"""Windows of time in a view: what they are, by DuckDB's answer for a query without them, and how changes go through."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn_sql.views.planner import SourceTable, plan
from firn_sql.views.refresh import AFTER, Refresh
from tests.property.test_views import State, Tables, bag, check_refresh, columns_of
from tests.soak import few_cases, times

KNOWN: Final = {
    "e": ("id INTEGER, k VARCHAR, ts TIMESTAMP, z TIMESTAMP WITH TIME ZONE, d DATE, n INTEGER", ("id",)),
    "u": ("id INTEGER, k VARCHAR", ("id",)),
}
TABLES: Final = {name: SourceTable(columns_of(text), key) for name, (text, key) in KNOWN.items()}
MOMENTS: Final = st.none() | st.sampled_from(["infinity", "-infinity"]) | st.integers(-90, 400)
"""Minutes of a day near the turn of a month."""


def moment(minutes: int | str | None) -> Any:
    if minutes is None or isinstance(minutes, str):
        return minutes
    return datetime(2024, 2, 29) + timedelta(minutes=minutes * 5)


def row(k: str | None, minutes: Any, n: int) -> tuple[Any, ...]:
    at = moment(minutes)
    return k, at, at if not isinstance(at, datetime) else f"{at}+00", at, n


ROWS: Final = st.builds(row, st.none() | st.sampled_from(["a", "b"]), MOMENTS, st.integers(0, 3))
USERS: Final = st.tuples(st.none() | st.sampled_from(["a", "b", "c"]))
STATES: Final = st.fixed_dictionaries({
    "e": st.dictionaries(st.integers(0, 12), ROWS, max_size=12),
    "u": st.dictionaries(st.integers(0, 3), USERS, max_size=4),
})  # fmt: skip
CHANGES: Final = st.fixed_dictionaries({
    "e": st.dictionaries(st.integers(0, 12), st.none() | ROWS, max_size=3),
    "u": st.dictionaries(st.integers(0, 3), st.none() | USERS, max_size=1),
})  # fmt: skip

SERIES: Final = "SELECT unnest(generate_series({kind} '2024-02-26', {kind} '2024-03-04', INTERVAL '{hop}')) AS w"
HOPS: Final = """
    (SELECT e.*, w AS window_start, w + INTERVAL '{size}' AS window_end FROM e, ({all}) WHERE {at} >= w
     AND {at} < w + INTERVAL '{size}')"""
SESSIONS: Final = """
    (SELECT r.*, (SELECT max({at}) FROM r l WHERE l.k IS NOT DISTINCT FROM r.k AND l.window_start = r.window_start)
            + INTERVAL '{gap}' AS window_end
     FROM r)"""
FIRST: Final = """
    WITH f AS (SELECT * FROM e WHERE isfinite({at})),
    b AS (SELECT * FROM f WHERE NOT EXISTS (
        SELECT 1 FROM f p
        WHERE p.k IS NOT DISTINCT FROM f.k AND p.{at} < f.{at} AND p.{at} + INTERVAL '{gap}' >= f.{at})),
    r AS (SELECT f.*, (SELECT max(b.{at}) FROM b WHERE b.k IS NOT DISTINCT FROM f.k AND b.{at} <= f.{at})
                 AS window_start FROM f)
"""


def hops(hop: str, size: str, at: str = "ts") -> str:
    every = SERIES.format(hop=hop, kind="TIMESTAMPTZ" if at == "z" else "TIMESTAMP")
    return HOPS.format(size=size, at=at, all=every)


WHAT: Final = [
    ("hop(e, ts, INTERVAL '15 minutes', INTERVAL 1 HOUR)", "", hops("15 minutes", "1 hour")),
    ("hop(e, z, INTERVAL '6 hours', INTERVAL '1 day')", "", hops("6 hours", "1 day", "z")),
    ("tumble(e, d, INTERVAL '6 hours')", "", hops("6 hours", "6 hours", "d")),
    ("tumble(e, ts - INTERVAL '20 minutes', to_hours(1))", "",
     hops("1 hour", "1 hour", "(ts - INTERVAL '20 minutes')")),
    ("session(e, ts, INTERVAL '30 minutes', k)", FIRST.format(at="ts", gap="30 minutes"),
     SESSIONS.format(at="ts", gap="30 minutes")),
    ("session(e, z, INTERVAL '2 hours', k)", FIRST.format(at="z", gap="2 hours"),
     SESSIONS.format(at="z", gap="2 hours")),
]  # fmt: skip
AROUND: Final = [
    "SELECT id, k, n, window_start AS a, window_end AS b FROM {}",
    "SELECT window_start AS a, window_end AS b, count(*) AS c, sum(n) AS s FROM {} GROUP BY ALL",
    "SELECT k, window_start AS a, max(n) AS m, string_agg(k, ',' ORDER BY id) AS t FROM {} WHERE n > 0 GROUP BY ALL",
    "SELECT n % 2 AS h, window_end AS b, max(id) AS m FROM {} GROUP BY ALL HAVING count(*) > 1",
]
MORE: Final = [
    "SELECT x.id, u.id AS uid, x.window_start AS a FROM hop(e, ts, INTERVAL '1 hour', INTERVAL '2 hours') AS x "
    "LEFT JOIN u USING (k)",
    "WITH s AS (SELECT k, ts, id FROM e WHERE n < 3) SELECT k, window_start AS a, count(*) AS c, min(id) AS i "
    "FROM session(s, ts, INTERVAL '1 hour', k) GROUP BY ALL",
    "SELECT id, window_start AS a FROM session(e, ts, INTERVAL '3 hours')",
    "WITH m AS (SELECT k, window_start AS w, max(n) AS m FROM tumble(e, ts, INTERVAL '1 hour') GROUP BY ALL) "
    "SELECT k, window_start AS a, arg_max(m, w) AS b FROM hop(m, w, INTERVAL '3 hours', INTERVAL '6 hours') "
    "GROUP BY ALL",
    "SELECT id, window_start AS a FROM hop(e, ts, INTERVAL '1 month', INTERVAL '1 year') WHERE window_start < ts",
    "SELECT id, k, window_start AS a FROM tumble(e, ts, INTERVAL '2 hours') "
    "QUALIFY row_number() OVER (PARTITION BY k, window_start ORDER BY n DESC) <= 2",
    "SELECT s.id, h.window_start AS a FROM session(e, ts, INTERVAL '1 hour', k, n) s "
    "JOIN hop(e, ts, INTERVAL '1 hour', INTERVAL '2 hours') h ON s.k = h.k AND h.window_start = s.window_start",
    "SELECT time_bucket(INTERVAL '1 hour', z) AS h, date_trunc('month', ts) AS m, count(*) AS c FROM e GROUP BY ALL",
    "SELECT time_bucket(INTERVAL '7 days', ts, TIMESTAMP '2024-01-07') AS w, max(n) AS m FROM e GROUP BY 1",
    "SELECT time_bucket(INTERVAL '1 day', z AT TIME ZONE 'Europe/Berlin') AS w, list(id ORDER BY n) AS m FROM e "
    "GROUP BY 1",
]  # fmt: skip


@few_cases(6)
@pytest.mark.parametrize("window", WHAT, ids=[one[0] for one in WHAT])
@pytest.mark.parametrize("around", AROUND)
@given(state=STATES)
@settings(max_examples=times(3, 300), deadline=None)
def test_windows_are_what_a_query_without_them_says(window: Sequence[str], around: str, state: State) -> None:
    call, before, same = window
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        sources = Tables(connection, [state, state], KNOWN)
        for name in KNOWN:
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {name}_1")
        found = plan(around.format(call), TABLES)
        whole = Refresh(connection, found, sources).whole(AFTER)
        columns = ", ".join(found.root.columns)
        assert bag(connection, f"SELECT {columns} FROM ({whole})") == bag(connection, before + around.format(same))


@few_cases(6)
@pytest.mark.parametrize("sql", [*(one.format(call) for call, _, _ in WHAT for one in AROUND), *MORE])
@given(state=STATES, changes=CHANGES)
@settings(max_examples=times(3, 500), deadline=None)
def test_changes_go_through_windows(sql: str, state: State, changes: Any) -> None:
    check_refresh(sql, state, changes, KNOWN)


LATE: Final = {5: row("a", 5, 1)}  # between two sessions of a, five minutes of which are one


@pytest.mark.parametrize(("before", "change"), [({}, LATE), (LATE, {5: None})])
def test_a_late_row_joins_two_sessions_and_a_delete_splits_one(before: Any, change: Any) -> None:
    sql = "SELECT k, window_start AS a, window_end AS b, count(*) AS c FROM session(e, ts, INTERVAL '30 minutes', k) "
    sql += "GROUP BY ALL"
    rows = {1: row("a", 0, 1), 2: row("a", 10, 1), 3: row("b", 5, 1), 4: row(None, 5, 1), 6: row("a", None, 1)}
    state = {"e": rows | before, "u": {}}
    check_refresh(sql, state, {"e": change, "u": {}}, KNOWN)
    with duckdb.connect(config={"threads": 1}) as connection:
        sources = Tables(connection, [state, state], KNOWN)
        found = connection.execute(Refresh(connection, plan(sql, TABLES), sources).whole(AFTER)).fetchall()
    of_a = sorted((start, end, count) for k, start, end, count, *_ in found if k == "a")
    joined = [(moment(0), moment(16), 3)]
    assert of_a == (joined if before else [(moment(0), moment(6), 1), (moment(10), moment(16), 1)])
    assert len(found) == len(of_a) + 2  # those of b, and those without a user
