"""`now()` in the query of a view: one moment for all of a refresh, and what of a condition goes by it.

In a plan the time is always the one call `now()`, whatever the SQL calls it. `at` puts a moment in its place.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from firn.config.sql_clock import CALLS, WORDS
from firn_sql.parse_tree import Node, Text, all_nodes, below, offset, parse, written
from firn_sql.views.algebra import NOW, SELECT, Expression, is_now, reads_now, replaced
from firn_sql.views.expressions import name_of

Moments = tuple[datetime, datetime]
"""What `now()` is at the cut before, and at the one after."""
NEVER: Final[Moments] = (datetime(1970, 1, 1, tzinfo=UTC),) * 2
"""Of a plan without it, and where only types are asked for."""
_CASTS: Final = {
    "today": "DATE", "current_date": "DATE", "localtimestamp": "TIMESTAMP", "current_localtimestamp": "TIMESTAMP",
}  # fmt: skip
_EQUAL: Final = frozenset({
    "COMPARE_EQUAL", "COMPARE_NOTEQUAL", "COMPARE_DISTINCT_FROM", "COMPARE_NOT_DISTINCT_FROM",
})  # fmt: skip
_IN: Final = frozenset({"COMPARE_IN", "COMPARE_NOT_IN"})
_COMPARED: Final = _EQUAL | {
    "COMPARE_LESSTHAN", "COMPARE_LESSTHANOREQUALTO", "COMPARE_GREATERTHAN", "COMPARE_GREATERTHANOREQUALTO",
}  # fmt: skip


def with_one_name(tree: Node, text: Text, columns: Collection[str]) -> Node:
    """The tree of a query, in which all that asks for the time is `now()`, in UTC.

    columns  of the tables that it reads, as far as they are known, in lower case

    Raises SqlRefused where a word may be the time, and a column too.
    """
    nodes = [node for node, _ in all_nodes(tree)]
    names = {*columns, *(str(node.get("alias") or "").lower() for node in nodes)}
    for node in nodes:
        if (word := _word(node, text)) in names and word:
            why = f"{word} is the time here, and there is a column that is called so"
            raise text.refuse(offset(node, 0), why, f'write "{word}" for the column, or CAST(now() AS …)')
        for one in node.get("select_list", ()):
            if one.get("class") != "STAR" and not one.get("alias") and _asks(one, text):
                one["alias"] = name_of(one)

    def by(node: Node) -> Node | None:
        if (name := _asked(node, text)) is None:
            return None
        kind = _CASTS.get(name)
        made = parse(f"SELECT CAST({NOW}() AS {kind})" if kind else f"SELECT {NOW}()")["select_list"][0]
        for one, _ in all_nodes(made):
            one["query_location"] = offset(node, 0)
        return {**made, "alias": node.get("alias") or ""}

    found: Node = replaced(tree, by)
    return found


def _asks(node: Node, text: Text) -> bool:
    return any(_asked(one, text) for one, _ in all_nodes(node))


def _asked(node: Node, text: Text) -> str | None:
    """What a node asks for the time by, in lower case; None if it does not."""
    if node.get("class") == "FUNCTION" and not node["arguments"]:
        name = str(node["function_name"]).lower()
        return name if name in CALLS else None
    return _word(node, text)


def _word(node: Node, text: Text) -> str | None:
    path = node.get("column_names", ())
    if node.get("class") != "COLUMN_REF" or len(path) != 1 or path[0].lower() not in WORDS:
        return None
    at = offset(node, 0)
    return None if text.utf8[at : at + 1] == b'"' else str(path[0]).lower()


def at(value: Expression, moment: datetime) -> str:
    """The SQL of an expression at a moment."""
    if not reads_now(value.node):
        return value.sql
    made = _at(value.node, moment)
    return written({**SELECT, "select_list": [made]}).removeprefix("SELECT ")


def query_at(sql: str, moment: datetime) -> str:
    """The SQL of a whole query at a moment."""
    tree = parse(sql)
    return written(_at(tree, moment)) if reads_now(tree) else sql


def _at(tree: Node, moment: datetime) -> Node:
    text = moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f+00")
    constant = parse(f"SELECT CAST('{text}' AS TIMESTAMP WITH TIME ZONE)")["select_list"][0]

    def by(node: Node) -> Node | None:
        return {**constant, "alias": node.get("alias") or ""} if is_now(node) else None

    found: Node = replaced(tree, by)
    return found


@dataclass(frozen=True)
class Compared:
    """A comparison of something of the rows with something of the time: it says the same at two moments unless `value`
    lies between what `time` is at the one and at the other; `equal`: unless it is one of the two, whose order may be
    another one than the values' (a text that equals a number)."""

    value: Expression
    time: Expression
    equal: bool


def compared(condition: Expression) -> Sequence[Compared] | None:
    """The comparisons by which a condition goes by the time; None if it goes by it in another way too."""
    found: dict[tuple[str, str, bool], Compared] = {}
    pending = [condition.node]
    while pending:
        node = pending.pop()
        if is_now(node):
            return None
        equal = node.get("type") in _EQUAL | _IN
        for pair in _pairs(node):
            one = _compared(*pair, equal) or _compared(*pair[::-1], equal)
            if one is not None:
                found[one.value.said, one.time.said, equal] = one
            else:
                pending += filter(reads_now, pair)
        if not _pairs(node):  # it is of what it holds, whatever it makes of that
            pending += filter(reads_now, below(node))
    return tuple(found.values())


def _pairs(node: Node) -> list[tuple[Node, Node]]:
    """What a node compares."""
    kind = node.get("type")
    if kind in _COMPARED:
        return [(node["left"], node["right"])]
    if kind == "COMPARE_BETWEEN":
        return [(node["input"], node["lower"]), (node["input"], node["upper"])]
    if kind in _IN:
        return [(node["children"][0], one) for one in node["children"][1:]]
    return []


def _compared(value: Node, time: Node, equal: bool) -> Compared | None:
    one = Compared(Expression(value), Expression(time), equal)
    return None if reads_now(value) or not reads_now(time) or one.time.columns else one
