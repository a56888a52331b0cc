"""What time changes in a filter whose condition asks for it: rows for which it says something else than before."""

from collections.abc import Callable, Sequence
from typing import Final

import duckdb

from firn_sql.parse_tree import parse
from firn_sql.views.algebra import Expression, Filter
from firn_sql.views.clock import Moments, at, compared
from firn_sql.views.refresh_port import Delta, Span, Within, listed

Table = Callable[[str], str]
"""Makes a table of the connection out of a SELECT. -> what it is called"""
_TIMES: Final = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"})


def spans(connection: duckdb.DuckDBPyConnection, node: Filter, moments: Moments, table: Table) -> list[Within | None]:
    """Where the rows lie of which the condition of a filter may say another thing at the second moment than at the
    first: in any of these; [None] if anywhere, [] if nowhere. A comparison of rows with the time tells it by the two
    ends; no rule is asked for how the time is computed."""
    if moments[0] == moments[1]:
        return []
    comparisons = compared(node.condition)
    if comparisons is None:
        return [None]
    found: list[Within | None] = []
    for one in comparisons:
        before, now = (at(one.time, moment) for moment in moments)
        ends = f"SELECT least(a, b) AS w0, greatest(a, b) AS w1 FROM (SELECT {before} AS a, {now} AS b)"
        asked = f"SELECT a IS NULL OR b IS NULL, a IS NOT DISTINCT FROM b FROM (SELECT {before} AS a, {now} AS b)"
        ((none, same),) = connection.execute(asked).fetchall()
        if same:
            continue
        if none:
            return [None]
        found.append(Span((one.value,), table(ends), one.equal))
    return found


def of_days(
    within: Within | None, connection: duckdb.DuckDBPyConnection, rows: Callable[[], str], table: Table
) -> Within | None:
    """A condition on rows whose CAST(column AS DATE) lies between two as one on the column, which more rows may fit;
    others as they are. rows: a SELECT of such rows. A day of a text is not between the texts of days."""
    own = day_of(within.values[0]) if isinstance(within, Span) else None
    if within is None or own is None:
        return within
    kinds = [*connection.sql(f"SELECT {own.sql} FROM ({rows()})").types, *connection.sql(f"FROM {within.table}").types]
    if not {str(one) for one in kinds} <= _TIMES:
        return within
    return Span((own,), table(f"SELECT w0, w1 + INTERVAL 1 DAY AS w1 FROM {within.table}"))


def day_of(value: Expression) -> Expression | None:
    """The column of which an expression is the day."""
    if value.node.get("class") != "CAST":
        return None
    own = Expression(value.node["child"])
    its = Expression(parse(f"SELECT CAST({own.sql} AS DATE)")["select_list"][0])
    return own if own.column is not None and its.sql.lower() == value.sql.lower() else None


def sides(
    node: Filter,
    moments: Moments,
    below: Delta | None,
    some: Sequence[Within | None],
    rows: Callable[[Within | None], str],
    table: Table,
) -> tuple[str, str]:
    """SELECTs of rows of a filter that went, and of those that came; `below` or `some` there is.

    below  what changed in its input
    some   spans
    rows   a SELECT of the input's rows as they are now, in one of them
    """
    said = [at(node.condition, one) for one in moments]
    changed = () if below is None else (below.gone, below.come)
    found = [[f"SELECT {listed(node.every)} FROM {one} WHERE {its}"] for one, its in zip(changed, said, strict=False)]
    found = found or [[], []]
    if some:
        other = " <> ".join(f"coalesce(TRY({one}), FALSE)" for one in said)
        columns = listed(node.input.every)
        parts = []
        for i, one in enumerate(some):  # a row that lies in several is of the first
            left = "".join(f" ANTI JOIN {each.table} ON {each.holds}" for each in some[:i] if isinstance(each, Span))
            parts.append(f"SELECT {columns} FROM ({rows(one)}){left} WHERE {other}")
        stayed = " UNION ALL ".join(parts)
        if below is not None:
            stayed = f"({stayed}) EXCEPT ALL (SELECT {columns} FROM {below.come} WHERE {other})"
        name = table(stayed)
        for its, each in zip(said, found, strict=True):
            each.append(f"SELECT {listed(node.every)} FROM {name} WHERE {its}")
    gone, come = (" UNION ALL ".join(each) for each in found)
    return gone, come
