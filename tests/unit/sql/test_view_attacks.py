"""Views of queries that random ones do not write: each is what DuckDB makes of its SQL, before a change and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from firn.config.sql_text import SqlRefused
from firn_sql.views.algebra import quoted
from firn_sql.views.planner import SourceTable, plan
from firn_sql.views.refresh import AFTER, BEFORE, NOTHING, Refresh, Within
from firn_sql.views.sums import with_sums
from tests.soak import few_cases

COLUMNS = {
    "t": {"id": "INTEGER", "a": "INTEGER", "b": "VARCHAR", "m": "DECIMAL(38,0)"},
    "u": {"id": "INTEGER", "a": "INTEGER", "c": "VARCHAR", "d": "DATE"},
}
TABLES = {name: SourceTable(columns, ("id",)) for name, columns in COLUMNS.items()}
Rows = Mapping[str, Sequence[tuple[Any, ...]]]
FEW: Rows = {
    "t": [(1, 1, "p", 1), (2, 1, "q", 2), (3, 2, "p", 3), (4, 2, "p", 4), (5, 3, "q", 5)],
    "u": [(1, 1, "p", None), (2, 3, "01", None)],
}


class Tables:
    """Sources as tables of a connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, states: Sequence[Rows]) -> None:
        self._connection = connection
        for name, columns in COLUMNS.items():
            for cut, state in enumerate(states):
                said = ", ".join(f"{one} {kind}" for one, kind in columns.items())
                connection.execute(f"CREATE TABLE {name}_{cut} ({said})")
                for row in state.get(name, ()):
                    connection.execute(f"INSERT INTO {name}_{cut} VALUES ({', '.join('?' * len(row))})", list(row))
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {name}_{AFTER}")

    def rows(self, source: str, cut: int, columns: Sequence[str], within: Within | None) -> str:
        rows = f"SELECT {', '.join(map(quoted, columns))} FROM {source}_{min(cut, AFTER)}"
        rows += " WHERE FALSE" * (cut == NOTHING)
        return rows if within is None else within.semi_join(rows, [quoted(one) for one in columns])

    def changes(self, source: str, columns: Sequence[str]) -> tuple[str, str] | None:
        before, after = (self.rows(source, cut, columns, None) for cut in (BEFORE, AFTER))
        found = f"{before} EXCEPT ALL {after}", f"{after} EXCEPT ALL {before}"
        return found if any(self._connection.execute(one).fetchall() for one in found) else None

    def held(self, columns: Sequence[str], within: Within) -> str:
        return within.semi_join("SELECT * FROM held", columns)

    def all_held(self, columns: Sequence[str]) -> str:
        return f"SELECT {', '.join(columns)} FROM held"

    def count(self, source: str) -> int:
        return len(self._connection.execute(f"SELECT 1 FROM {source}_1").fetchall())


def check(sql: str, before: Rows, after: Rows) -> None:
    """The plan is what DuckDB says of the SQL, and what a refresh changes leads there."""
    with duckdb.connect(config={"threads": 1}) as connection:
        found, _ = with_sums(plan(sql, TABLES), TABLES, connection)
        refresh = Refresh(connection, found, Tables(connection, [before, after]))

        def bag(rows: str, columns: Sequence[str]) -> Counter[str]:
            return Counter(map(repr, connection.execute(f"SELECT {', '.join(columns)} FROM ({rows})").fetchall()))

        assert bag(refresh.whole(AFTER), found.root.columns) == bag(sql, ["*"])
        connection.execute(f"CREATE TABLE held AS {refresh.whole(BEFORE)}")
        delta = refresh.delta()
        now = bag("SELECT * FROM held", found.stored)
        if delta is not None:
            now.subtract(bag(f"SELECT * FROM {delta.gone}", found.stored))
            now.update(bag(f"SELECT * FROM {delta.come}", found.stored))
        assert {row: count for row, count in now.items() if count} == bag(refresh.whole(AFTER), found.stored)


def check_or_refused(sql: str) -> None:
    """A query that views may refuse, but not answer otherwise."""
    try:
        plan(sql, TABLES)
    except SqlRefused:
        return
    check(sql, {}, FEW)


@pytest.mark.parametrize("start", ["1 + 1", "'2'", "2.0", "CAST(2 AS INTEGER)", "5000000000"])
def test_an_offset_that_is_no_plain_number_is_not_taken_for_none(start: str) -> None:
    check_or_refused(f"SELECT id FROM t ORDER BY id LIMIT 2 OFFSET {start}")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM u WHERE u.a = t.a",
        "SELECT 1 + max(u.id) FROM u WHERE u.a = t.a",
        "SELECT 1 FROM u WHERE u.a = t.a QUALIFY row_number() OVER (ORDER BY u.id) > 1",
        "SELECT unnest([]) FROM u WHERE u.a = t.a",
        "SELECT 1 FROM u WHERE u.a = t.a USING SAMPLE 0 ROWS",
    ],
)
def test_exists_of_what_is_no_plain_row_of_its_tables(query: str) -> None:
    check_or_refused(f"SELECT id FROM t WHERE EXISTS ({query})")


@pytest.mark.parametrize(
    "call",
    [
        "sum(m) OVER (ORDER BY a GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW)",
        "sum(m) OVER (ORDER BY a ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES)",
        "sum(m) OVER (ORDER BY a ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE GROUP)",
        "sum(m) OVER (ORDER BY a ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW)",
        "sum(m) OVER (ORDER BY a RANGE BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES)",
        "last_value(m) OVER (ORDER BY a)",
        "nth_value(m, 2) OVER (ORDER BY a)",
        "first_value(m) OVER (ORDER BY a RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)",
        "first_value(m) OVER (ORDER BY a GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW)",
        "first_value(m) OVER (ORDER BY a ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES)",
        "first_value(m) OVER (ORDER BY a)",
        "last_value(m) OVER (ORDER BY a RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
        "lag(m) OVER (ORDER BY a)",
    ],
)
def test_a_window_has_the_frame_that_its_sql_says(call: str) -> None:
    check_or_refused(f"SELECT id, {call} AS s FROM t")


def test_qualify_means_a_column_where_duckdb_does() -> None:
    check_or_refused("SELECT m AS a, count(*) OVER () AS n FROM t QUALIFY a > 2")


def test_distinct_rows_are_ordered_by_what_they_show() -> None:
    check("SELECT DISTINCT a FROM t ORDER BY a DESC LIMIT 2", {}, FEW)
    check("SELECT DISTINCT a, a + 1 AS n FROM t ORDER BY 2 DESC, n LIMIT 2 OFFSET 1", {}, FEW)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT CAST(t.b AS INTEGER) AS k, max(t.id) AS n FROM t JOIN u ON t.a = u.a GROUP BY 1",
        "SELECT CAST(t.b AS INTEGER) AS k, max(t.id) AS n FROM t WHERE EXISTS (SELECT 1 FROM u WHERE t.a = u.a) "
        "GROUP BY 1",
        "SELECT id, count(*) OVER (PARTITION BY CAST(b AS INTEGER)) AS n FROM t SEMI JOIN u ON t.a = u.a",
    ],
)
def test_rows_that_a_query_never_computes_of_do_not_end_its_refresh(sql: str) -> None:
    before = {"t": [(1, 1, "7", 1), (2, 5, "none", 2)], "u": [(1, 1, "", None)]}
    check(sql, before, {**before, "t": [*before["t"], (3, 1, "7", 2)]})


def test_rows_that_join_by_values_of_two_types_are_found_however_a_text_is_written() -> None:
    day = duckdb.sql("SELECT DATE '2020-01-01'").fetchall()[0][0]
    before: Rows = {"u": [(1, None, "2020-1-1", None)]}
    check("SELECT p.id, q.id AS z FROM u p JOIN u q ON p.d = q.c", before, {"u": [*before["u"], (2, None, None, day)]})
    before = {"t": [(1, 2, "", 1)], "u": [(1, 1, "01", None), (2, 1, "02", None)]}
    after: Rows = {"t": [(1, 1, "", 1)], "u": [(1, 1, "01", None), (2, 1, "3", None)]}
    check("SELECT t.id, u.id AS z FROM t LEFT JOIN u ON t.a = u.c", before, after)


@few_cases(2)
@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"])
@pytest.mark.parametrize("sides", [("t", "u"), ("u", "t")])
def test_several_texts_of_a_side_that_equal_one_number_of_the_other(join: str, sides: tuple[str, str]) -> None:
    left, right = sides
    other = f", {right}.id AS z" * (join[:4] not in ("SEMI", "ANTI"))
    sql = f"SELECT {left}.id{other} FROM {left} {join} {right} ON t.a = u.c"
    before: Rows = {"t": [(1, 1, "", 1)], "u": [(1, None, "1", None)]}
    after: Rows = {**before, "u": [*before["u"], (2, None, "01", None)]}
    for one in (sql, f"SELECT count(*) AS n, sum(id) AS s FROM ({sql})"):
        check(one, before, after)
        check(one, after, before)


@pytest.mark.parametrize("text", ["x", "01"])
def test_a_union_of_numbers_and_texts_goes_through_as_texts(text: str) -> None:
    sql = "SELECT k, max(id) AS n FROM (SELECT id, a AS k FROM t UNION ALL SELECT id, c AS k FROM u) GROUP BY k"
    before: Rows = {"t": [(1, 1, "", 1)], "u": [(1, 1, "1", None), (2, 1, "02", None)]}
    check(sql, before, {**before, "u": [(1, 1, "1", None), (2, 1, text, None)]})


def test_a_large_sum_takes_a_change_that_it_has_room_for() -> None:
    before, after = ({"t": [(1, 1, "", Decimal(digit).scaleb(37))]} for digit in (6, 7))
    check("SELECT sum(m) AS s FROM t", before, after)
    check("SELECT a, sum(m) AS s FROM t GROUP BY a", before, after)


@pytest.mark.parametrize(
    ("join", "changed", "asked"),
    [
        ("JOIN", "t", {"u"}), ("LEFT JOIN", "t", {"u"}), ("SEMI JOIN", "t", {"u"}), ("ANTI JOIN", "t", {"u"}),
        ("JOIN", "u", {"t"}), ("RIGHT JOIN", "u", {"t"}), ("RIGHT JOIN", "t", {"t", "u"}),
        ("FULL JOIN", "t", {"t", "u"}), ("LEFT JOIN", "u", {"t", "u"}),
    ],
)  # fmt: skip
def test_a_join_asks_no_rows_of_a_table_whose_own_changes_say_enough(join: str, changed: str, asked: set[str]) -> None:
    after = {"t": [*FEW["t"][1:], (9, None, "p", 1), (8, 7, "p", 1)], "u": FEW["u"]}
    if changed == "u":
        after = {"t": FEW["t"], "u": [FEW["u"][1], (3, 2, "p", None), (4, None, "q", None)]}
    sql = f"SELECT t.id, b {', c' * (join[:4] not in ('SEMI', 'ANTI'))} FROM t {join} u ON t.a = u.a"
    check(sql, FEW, after)
    with duckdb.connect(config={"threads": 1}) as connection:
        tables, seen = Tables(connection, [FEW, after]), set[str]()

        class Watched:
            changes, held = tables.changes, tables.held

            def rows(self, source: str, cut: int, columns: Sequence[str], within: Within | None) -> str:
                seen.update({source} if cut != NOTHING else ())
                return tables.rows(source, cut, columns, within)

        assert Refresh(connection, plan(sql, TABLES), Watched()).delta() is not None
    assert seen == asked
