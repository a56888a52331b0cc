"""A view's query run in parts is the query run over all rows, for random queries, tables and numbers of parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firn_sql.views.algebra import Plan, Scan, quoted
from firn_sql.views.planner import plan
from firn_sql.views.refresh import AFTER, Refresh, Within
from firn_sql.views.sums import with_sums
from firn_sql.views.view_parts import Input, NotInParts, Parts, parts_of
from tests.property.test_views import QUERIES, STATES, TABLES, Columns, State, Tables, bag, queries
from tests.soak import few_cases, times

SMALL = st.sets(st.sampled_from(["t", "u", "v"]))


class OfPart(Tables):
    """The rows of one part."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, state: State, inputs: Sequence[Input]) -> None:
        super().__init__(connection, [state, state])
        self._inputs = {one.scan.source: one for one in inputs}
        self.part, self.count_ = 0, 1

    def rows(self, source: str, cut: int, columns: Sequence[str], within: Within | None) -> str:
        one = self._inputs[source]
        rows = super().rows(one.source, cut, columns, within)
        if one.whole:
            return rows
        scan: Scan = one.scan
        named = ", ".join(f"{quoted(name)} AS {column}" for column, name in scan.names.items())
        every = f"SELECT {named}, row_number() OVER () AS firn_n FROM {one.source}_1"
        number = one.number if one.by else "firn_n"
        listed = ", ".join(f"{column} AS {quoted(name)}" for column, name in scan.names.items())
        here = f"SELECT {listed} FROM ({every}) WHERE {number} % {self.count_} = {self.part}"
        return f"SELECT {', '.join(map(quoted, columns))} FROM ({here})"


def check_parts(sql: str, state: State, small: Collection[str], count: int) -> Parts | None:
    """Whether it is run in parts."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found, _ = with_sums(plan(sql, TABLES), TABLES, connection)
        try:
            parts = parts_of(found, TABLES, connection, small.__contains__)
        except NotInParts:
            return None
        whole = bag(connection, stored(found, Refresh(connection, found, Tables(connection, [state, state]))))
        sources = OfPart(connection, state, parts.inputs)
        sources.count_ = count
        total: Counter[Any] = Counter()
        run = Refresh(connection, parts.plan, sources)
        for part in range(count):
            sources.part = part
            if parts.sums is None or parts.plan.group is None:
                total += bag(connection, stored(parts.plan, run))
            else:
                made = "CREATE TABLE sums AS" if part == 0 else "INSERT INTO sums"
                connection.execute(f"{made} {run.rows_of(parts.plan.group)}")
        if parts.sums is not None:
            total = bag(connection, parts.added_up("FROM sums"))
        assert total == whole, sql
        return parts


def stored(found: Plan, run: Refresh) -> str:
    return f"SELECT {', '.join(found.stored)} FROM ({run.whole(AFTER)})"


@given(query=queries(), state=STATES, small=SMALL, count=st.integers(1, 5))
@settings(max_examples=times(25, 20_000, 60), deadline=None, suppress_health_check=list(HealthCheck))
def test_random_queries_in_parts(query: tuple[str, Columns], state: State, small: set[str], count: int) -> None:
    check_parts(query[0], state, small, count)


@few_cases(12)
@pytest.mark.parametrize("sql", QUERIES)
@given(state=STATES, small=SMALL, count=st.integers(2, 4))
@settings(max_examples=times(4, 300), deadline=None)
def test_parts_are_the_whole(sql: str, state: State, small: set[str], count: int) -> None:
    check_parts(sql, state, small, count)


def test_the_sums_of_all_parts_are_added_up() -> None:
    state: State = {"t": {n: (n % 2, "p", 0.5, n) for n in range(8)}, "u": {}, "v": {}}
    for sql in ("SELECT count(*) AS n, sum(a) AS s, avg(m) AS v FROM t", "SELECT b, count(*) AS n FROM t GROUP BY b"):
        parts = check_parts(sql, state, (), 3)
        assert parts is not None
        assert parts.sums is not None
