"""Views whose WHERE asks for the time: brought to a later moment by what changed, they are their query at it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import duckdb
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from firn_sql.views.clock import Moments
from firn_sql.views.planner import SourceTable, plan
from firn_sql.views.refresh import AFTER, BEFORE, Refresh
from firn_sql.views.sums import with_sums
from tests.property.test_views import ASKS, Columns, State, Tables, bag, check_refresh, columns_of, queries
from tests.soak import few_cases, times

KNOWN: Final = {
    "t": ("id INTEGER, a INTEGER, w TIMESTAMP, x DOUBLE", ("id",)),
    "u": ("id INTEGER, a INTEGER, z TIMESTAMP WITH TIME ZONE, e DATE", ("id",)),
}
TABLES: Final = {name: SourceTable(columns_of(text), key) for name, (text, key) in KNOWN.items()}
BASE: Final[dict[str, Columns]] = {
    "t": [("id", "int"), ("a", "int"), ("w", "time"), ("x", "number")],
    "u": [("id", "int"), ("a", "int"), ("z", "time"), ("e", "day")],
}
START: Final = datetime(2026, 11, 20, 0, tzinfo=UTC)
STEP: Final = timedelta(hours=6)
SMALL = st.none() | st.integers(0, 3)
TIMES = st.none() | st.builds(
    lambda n, off: f"{START + n * STEP + timedelta(microseconds=off):%Y-%m-%d %H:%M:%S.%f}",
    st.integers(-10, 10), st.integers(-1, 1),
)  # fmt: skip
DAYS = st.none() | st.integers(-3, 3).map(lambda n: f"{START + timedelta(days=n):%Y-%m-%d}")
ROWS = {
    "t": st.tuples(SMALL, TIMES, st.none() | st.sampled_from([0.1, 0.2, 0.7, 1e9])),
    "u": st.tuples(SMALL, TIMES.map(lambda one: one and f"{one}+00"), DAYS),
}
STATES = st.fixed_dictionaries(
    {name: st.dictionaries(st.integers(0, 7), row, max_size=8) for name, row in ROWS.items()}
)
CHANGES = st.fixed_dictionaries(
    {name: st.dictionaries(st.integers(0, 7), st.none() | row, max_size=3) for name, row in ROWS.items()}
)
PASSED = [timedelta(0), timedelta(microseconds=1), timedelta(hours=1), STEP, timedelta(days=1), timedelta(days=9)]
MOMENTS = st.builds(
    lambda n, off, passed: (first := START + n * STEP + timedelta(microseconds=off), first + passed),
    st.integers(-6, 6), st.integers(-1, 1), st.sampled_from(PASSED),
)  # fmt: skip
QUERIES = [
    "SELECT * FROM t WHERE w > now() - INTERVAL 1 DAY",
    "SELECT id FROM u WHERE e = current_date",
    "SELECT id FROM t WHERE CAST(w AS DATE) = current_date",
    "SELECT id, z FROM u WHERE z::date BETWEEN current_date - 1 AND today() OR a = 1 AND z::DATE > now()",
    "SELECT a, count(*) AS n FROM t WHERE CAST(w AS DATE) > now() - INTERVAL 30 HOUR GROUP BY a",
    "SELECT a, count(*) AS n, sum(id) AS s FROM t WHERE w <= now() AND a > 0 GROUP BY a",
    "SELECT t.id, u.id AS o FROM t LEFT JOIN u ON t.a = u.a AND u.z > now() - INTERVAL 1 DAY WHERE t.w < now()",
    "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.z > now() - INTERVAL 1 DAY)",
    "SELECT a, max(w) AS last, sum(x) AS s FROM t GROUP BY a HAVING max(w) > now() - INTERVAL 1 DAY",
    "SELECT id, w FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY w) = 1 AND w > now() - INTERVAL 1 DAY",
    "SELECT id FROM t WHERE w BETWEEN now() - INTERVAL 1 DAY AND now() OR (a = 1 AND w < now() - INTERVAL 2 DAY)",
    "SELECT t.id, u.id AS o FROM t JOIN u ON t.a = u.a AND t.w + INTERVAL 1 DAY > now() AND t.w < now()",
    "SELECT window_start, count(*) AS n FROM tumble(t, w, INTERVAL '6 hours') "
    "WHERE window_start > now() - INTERVAL 1 DAY GROUP BY window_start",
    "SELECT window_start, a FROM hop(t, w, INTERVAL '6 hours', INTERVAL '12 hours') WHERE window_end <= now()",
    "SELECT id, w FROM t WHERE w > now() - INTERVAL 1 DAY ORDER BY w LIMIT 2",
    "SELECT w FROM (SELECT w FROM t UNION ALL SELECT z FROM u) WHERE w < now()",
    "SELECT id FROM t WHERE now() - w < INTERVAL 36 HOUR",
    "SELECT id FROM t WHERE now() > TIMESTAMPTZ '2026-11-20 06:00:00+00' AND a = 1",
    "SELECT a, count(*) AS n FROM (SELECT a, max(w) AS w FROM t WHERE w < now() GROUP BY a) "
    "WHERE w > now() - INTERVAL 1 DAY GROUP BY a",
]  # fmt: skip


@given(query=queries(base=BASE), state=STATES, changes=CHANGES, moments=MOMENTS)
@settings(max_examples=times(8, 20_000, 100), deadline=None, suppress_health_check=list(HealthCheck))
def test_random_queries(query: tuple[str, Columns], state: State, changes: Any, moments: Moments) -> None:
    assume(ASKS.search(query[0]))
    check_refresh(query[0], state, changes, KNOWN, moments)


@few_cases(4)
@pytest.mark.parametrize("sql", QUERIES)
@given(state=STATES, changes=CHANGES, moments=MOMENTS)
@example(state={"t": {}, "u": {}}, changes={"t": {}, "u": {}}, moments=(START, START + STEP))
@settings(max_examples=times(6, 1000), deadline=None)
def test_what_changed_makes_the_view_what_its_query_is(sql: str, state: State, changes: Any, moments: Moments) -> None:
    check_refresh(sql, state, changes, KNOWN, moments)


def test_a_row_that_changes_while_time_passes_it_goes_once() -> None:
    state: Any = {"t": {1: (1, "2026-11-19 03:00:00", 0.1), 2: (1, "2026-11-19 04:00:00", 0.1)}, "u": {}}
    changes: Any = {"t": {1: (2, "2026-11-19 03:00:00", 0.1)}, "u": {}}
    check_refresh(QUERIES[0], state, changes, KNOWN, (START, START + STEP))


@few_cases(2)
@pytest.mark.parametrize("how", ["=", "<>", "IS DISTINCT FROM", "IN"])
def test_what_equals_the_time_as_a_text_says_it_comes_and_goes(how: str) -> None:
    known = {"t": ("id INTEGER, a INTEGER, b VARCHAR", ("id",))}
    state: Any = {"t": {1: (9, "2026-11-09"), 2: (10, "2026-11-10"), 3: (11, "2026-11-11"), 4: (None, None)}}
    moments = datetime(2026, 11, 9, 23, tzinfo=UTC), datetime(2026, 11, 10, 1, tzinfo=UTC)
    pairs = [("a", "strftime(now(), '%d')"), ("b", "current_date"), ("b", "CAST(current_date AS VARCHAR)")]
    for value, time in (*pairs, ("CAST(b AS DATE)", "current_date")):
        sql = f"SELECT id FROM t WHERE {value} {how} ({time})"
        check_refresh(sql, state, {"t": {}}, known, moments)
        check_refresh(sql, state, {"t": {1: None, 5: (10, "2026-11-10")}}, known, moments)


@pytest.mark.parametrize(
    ("condition", "asked"),
    [
        ("CAST(w AS DATE) = current_date", [(datetime(2026, 11, 19), datetime(2026, 11, 21))]),
        ("w::date > current_date - 7", [(datetime(2026, 11, 12), datetime(2026, 11, 14))]),
        ("CAST(b AS DATE) = current_date", None),
        ("CAST(w + INTERVAL 1 HOUR AS DATE) = current_date", None),
    ],
)
def test_rows_of_a_day_are_looked_up_by_the_time_that_is_cast_to_it(condition: str, asked: Any) -> None:
    known = {"t": ("id INTEGER, w TIMESTAMP, b VARCHAR", ("id",))}
    tables = {name: SourceTable(columns_of(text), key) for name, (text, key) in known.items()}
    state: Any = {"t": {1: ("2026-11-19 23:59:59", "2026-11-20"), 2: (None, None)}}
    found = []

    class Asked(Tables):
        def rows(self, source: str, cut: int, columns: Any, within: Any) -> str:
            if cut == AFTER:
                found.append(within and connection.sql(f"FROM {within.table}").fetchall())
            return super().rows(source, cut, columns, within)

    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        sources = Asked(connection, [state, state], known)
        moments = (START - timedelta(hours=1), START + timedelta(hours=1))
        Refresh(connection, plan(f"SELECT id FROM t WHERE {condition}", tables), sources, moments).delta()
    of_changes, of_the_day = found
    assert of_changes is None
    assert (of_the_day and [tuple(map(as_time, row)) for row in of_the_day]) == asked


def as_time(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


@pytest.mark.parametrize("sql", [one for one in QUERIES if not any(word in one for word in ("LIMIT", "tumble", "hop"))])
@given(state=STATES, moments=MOMENTS)
@settings(max_examples=times(3, 300), deadline=None)
def test_the_time_is_the_moment_of_the_refresh(sql: str, state: State, moments: Moments) -> None:
    check_plan(sql, state, moments)


@given(query=queries(base=BASE), state=STATES, moments=MOMENTS)
@settings(max_examples=times(10, 10_000, 60), deadline=None, suppress_health_check=list(HealthCheck))
def test_a_plan_is_what_random_sql_says(query: tuple[str, Columns], state: State, moments: Moments) -> None:
    sql = query[0].replace("any_value", "min")
    assume(not any(word in sql for word in ("LIMIT", "row_number", "lag", "first_value", "arg_m", "string_agg")))
    check_plan(sql, state, moments)


def check_plan(sql: str, state: State, moments: Moments) -> None:
    """The plan at a moment is what DuckDB says of the SQL with that moment written out."""
    now = f"(TIMESTAMPTZ '{moments[0]:%Y-%m-%d %H:%M:%S.%f}+00')"
    said = sql.replace("now()", now).replace("localtimestamp", f"CAST({now} AS TIMESTAMP)")
    said = said.replace("current_date", f"CAST({now} AS DATE)").replace("today()", f"CAST({now} AS DATE)")
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        sources = Tables(connection, [state, state], KNOWN)
        for name in KNOWN:
            connection.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM {name}_0")
        found, _ = with_sums(plan(sql, TABLES), TABLES, connection)
        whole = Refresh(connection, found, sources, moments).whole(BEFORE)
        assert bag(connection, f"SELECT {', '.join(found.root.columns)} FROM ({whole})") == bag(connection, said)
