"""Windows of time in FROM of a view: `tumble`, `hop` and `session`, called as functions of a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import duckdb

from firn_sql.parse_tree import Node, Text, all_nodes, first_place
from firn_sql.views.algebra import Expression, Length

NAMES: Final = {
    "tumble": "tumble(shop.orders, created, INTERVAL '1 hour')",
    "hop": "hop(shop.orders, created, INTERVAL '15 minutes', INTERVAL '1 hour')",
    "session": "session(shop.clicks, created, INTERVAL '30 minutes', user_id)",
}
"""What each is written like."""
START: Final = "window_start"
END: Final = "window_end"
MOST_WINDOWS: Final = 1_000  # that a row is in
_LONGEST: Final = Length(1_200, 36_525 * 86_400_000_000)  # a hundred years
_PARTS: Final = frozenset({"CONSTANT", "CAST", "TYPE", "FUNCTION"})


@dataclass(frozen=True)
class TimeWindows:
    """What a call says.

    path    the table, as it is named
    time    of a row
    hop     between the beginnings of two windows; of `session` the longest pause within one
    number  of windows that a row is in; 0: a session
    keys    whose sessions
    """

    path: tuple[str, ...]
    time: Node
    hop: Length
    number: int
    keys: tuple[Node, ...]


def table_of(node: Node) -> tuple[str, ...]:
    """The table that stands first in a call of one of NAMES; () for anything else in FROM, or anything else first."""
    call = node.get("function") or {}
    if node.get("type") != "TABLE_FUNCTION" or call.get("schema") or call["function_name"].lower() not in NAMES:
        return ()
    first = call["arguments"][0]["expression"] if call["arguments"] else {}
    return tuple(first["column_names"]) if first.get("class") == "COLUMN_REF" else ()


def time_windows(node: Node, text: Text) -> TimeWindows:
    """What a call in FROM says. Raises SqlRefused."""
    call = node["function"]
    name, arguments = call["function_name"].lower(), [one["expression"] for one in call["arguments"]]
    fixed = {"tumble": 3, "hop": 4}.get(name, 0)
    named = any(one["name"] for one in call["arguments"]) or call["filter"] or call["distinct"]
    if named or len(arguments) < 3 or (fixed and len(arguments) != fixed):
        what = {"tumble": "a time and a length", "hop": "a time, how far apart windows begin, and their length"}
        why = f"{name} takes a table, {what.get(name, 'a time, the longest pause, and whose sessions they are')}"
        raise text.refuse(first_place(node, 0), why, f"write {NAMES[name]}")
    path = table_of(node)
    if not path:
        why = f"the first thing that {name} takes is a table by its name"
        instead = f"write {NAMES[name]}; a query stands before it: WITH x AS (SELECT …)"
        raise text.refuse(first_place(arguments[0], first_place(node, 0)), why, instead)
    hop = _length(arguments[2], name, text)
    if name != "hop":
        return TimeWindows(path, arguments[1], hop, int(name == "tumble"), tuple(arguments[3:]))
    size = _length(arguments[3], name, text)
    if bool(hop.months) != bool(size.months) or size.months % (hop.months or 1) or size.micros % (hop.micros or 1):
        why = "the length of the windows is not so many times what lies between their beginnings"
        instead = f"write first how far apart they begin, then their length: {NAMES['hop']}"
        raise text.refuse(first_place(arguments[2], 0), why, instead)
    number = size.months // hop.months if hop.months else size.micros // hop.micros
    if number > MOST_WINDOWS:
        why = f"each row would be in {number:,} windows, and {MOST_WINDOWS:,} are the most"
        raise text.refuse(first_place(arguments[2], 0), why, "write windows that begin further apart")
    return TimeWindows(path, arguments[1], hop, number, ())


def _length(node: Node, name: str, text: Text) -> Length:
    place = first_place(node, 0)
    for one, _ in all_nodes(node):
        call = str(one.get("function_name", "trunc"))  # which INTERVAL 1 HOUR is made with
        if (one.get("class") or "TYPE") not in _PARTS or not (call.startswith("to_") or call == "trunc"):
            raise text.refuse(place, f"{name} takes a length of time here", f"write {NAMES[name]}")
    try:
        found = _measured(Expression(node).sql)
    except duckdb.Error as error:
        why = f"this is no length of time: {str(error).partition(chr(10))[0][:100]}"
        raise text.refuse(place, why, f"write {NAMES[name]}") from None
    if (found.months and found.micros) or min(found.months, found.micros) < 0 or not (found.months or found.micros):
        why = "a length of time is months alone, or days and less, and more than nothing"
        raise text.refuse(place, why, "write INTERVAL '1 month', or INTERVAL '30 days'")
    if found.months > _LONGEST.months or found.micros > _LONGEST.micros:
        raise text.refuse(place, "this is longer than a hundred years", "write a shorter time")
    return found


def _measured(sql: str) -> Length:
    row: Sequence[int | None] | None = (
        _connection()
        .cursor()
        .execute(f"""
        SELECT datepart('year', i) * 12 + datepart('month', i),
               datepart('day', i) * 86400000000 + datepart('hour', i) * 3600000000
               + datepart('minute', i) * 60000000 + datepart('microsecond', i)
        FROM (SELECT CAST({sql} AS INTERVAL) AS i)""")
        .fetchone()
    )
    months, micros = row or (0, 0)
    return Length(months or 0, micros or 0)


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config={"threads": "1", "enable_external_access": "false"})
