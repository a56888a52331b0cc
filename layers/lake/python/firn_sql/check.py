"""The whole check of a pipeline's SQL, where people write it and in the job that runs it.

DuckDB parses it, and everything in its parse tree must be on a list of what is allowed (firn_sql.allowed): what is not
there is refused, with line, column, the reason and what to write instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from firn.config.sql_text import SqlRefused, Token, names_in, tokens
from firn_sql import allowed
from firn_sql.joins import Join, joins_of, with_columns
from firn_sql.parse_tree import MAX_DEPTH, Node, Text, all_nodes, below, first_place, offset, parse, too_deep

__all__ = ["HIDDEN", "IS_NOW", "Checked", "SqlRefused", "check"]

HIDDEN: Final = "_firn_"
IS_NOW: Final = "firn_now"
"""What a node of the tree has that stands for the time of acceptance."""
MAX_SELECTS: Final = 30
_MOST_COPIES: Final = 10_000  # nodes of an expression with the aliases in it written out
_MODIFIERS: Final[Mapping[str, tuple[str, str]]] = {
    "ORDER_MODIFIER": ("ORDER BY sorts rows, and a table keeps no order", "leave it out, and order where you read"),
    "LIMIT_MODIFIER": ("LIMIT counts rows, and a pipeline sees each event alone", "write a WHERE"),
    "LIMIT_PERCENT_MODIFIER": ("LIMIT counts rows, and a pipeline sees each event alone", "write a WHERE"),
    "DISTINCT_MODIFIER": ("DISTINCT compares rows, and a pipeline sees each event alone", "leave it out"),
}
_CLAUSES: Final[Mapping[str, tuple[str, str]]] = {
    "group_expressions": ("GROUP BY looks at several rows, and a pipeline sees each event alone", "leave it out"),
    "group_sets": ("GROUP BY looks at several rows, and a pipeline sees each event alone", "leave it out"),
    "having": ("HAVING looks at groups of rows, and a pipeline sees each event alone", "write WHERE"),
    "qualify": ("QUALIFY looks at several rows, and a pipeline sees each event alone", "write WHERE"),
    "sample": ("a sample takes other rows each time", "write a WHERE, such as id % 10 = 0"),
}
_FROM: Final[Mapping[str, tuple[str, str]]] = {
    "JOIN": ("a join stands in a SELECT within another", "write it in the outermost: FROM (SELECT …) k JOIN … c ON …"),
    "TABLE_FUNCTION": ("a function stands in FROM", "write FROM and the source table, and UNNEST(…) after SELECT"),
    "EXPRESSION_LIST": ("VALUES makes rows that no event made", "write FROM and the source table"),
    "EMPTY": ("a SELECT without FROM makes rows that no event made", "write FROM and the source table"),
    "PIVOT": ("PIVOT looks at several rows, and a pipeline sees each event alone", "leave it out"),
    "SHOW_REF": ("this tells of tables, not of events", "write SELECT … FROM and the source table"),
}
_CLASSES: Final[Mapping[str, tuple[str, str]]] = {
    "SUBQUERY": ("a query within an expression reads a table of its own", "write a CASE, or FROM (SELECT …)"),
    "WINDOW": ("a window looks at several rows, and a pipeline sees each event alone", "write it where you read"),
    "PARAMETER": ("nobody fills in a parameter", "write the value itself"),
    "POSITIONAL_REFERENCE": ("#1 names a column by its place", "write its name"),
    "COLLATE": ("a collation depends on the library that has it", "write lower(…)"),
    "DEFAULT": ("DEFAULT has no meaning here", "write the value itself"),
}
_ANY_CLASS: Final = frozenset({"COMPARISON", "CONJUNCTION", "CASE", "BETWEEN", "CONSTANT", "LAMBDA_REF"})
_LISTS: Final = frozenset(one for one in allowed.NESTED if one.endswith(("filter", "transform", "apply", "reduce")))


@dataclass(frozen=True)
class Checked:
    """SQL that was checked.

    target       what INSERT INTO names; None for files
    source       what FROM names
    now, unnest  why the first use of each can't be in a mirror; None if it uses none
    tree         DuckDB's, of the SELECT
    joins        the tables that its rows are joined with, in their order
    """

    sql: str
    target: tuple[str, str] | None
    source: str
    now: SqlRefused | None
    unnest: SqlRefused | None
    tree: Node = field(repr=False, compare=False)
    text: Text = field(repr=False, compare=False)
    joins: tuple[Join, ...] = field(default=(), repr=False, compare=False)


def check(sql: str) -> Checked:
    """The SQL of a pipeline, checked but for the columns of its source. Raises SqlRefused."""
    found = tokens(sql)
    told = names_in(found)
    selects = [one for one in found if one.word == "SELECT"]
    if len(selects) > MAX_SELECTS:
        raise selects[MAX_SELECTS].refuse(f"there are more than {MAX_SELECTS} SELECTs", "write fewer")
    body = _query(sql, found)
    text = Text(body.encode())
    try:
        tree = parse(body)
    except RecursionError:
        raise too_deep(text, 0) from None
    checker = _Checker(text, told.source)
    checker.run(tree)
    _check_words(found)
    return Checked(sql, told.target, told.source, checker.now, checker.unnest, tree, text, checker.joins)


def _query(sql: str, found: Sequence[Token]) -> str:
    """The text with blanks in place of INSERT INTO and its target, so that every place stays where it is."""
    text = sql.replace("\r\n", " \n")
    if found[0].word != "INSERT":
        return text
    first = next(token for token in found if token.word in ("SELECT", "WITH") and token is not found[2])
    lines = text.split("\n")
    end = sum(len(line) + 1 for line in lines[: first.line - 1]) + first.column - 1
    return "".join(one if one in "\n\t" else " " for one in text[:end]) + text[end:]


def _check_words(found: Sequence[Token]) -> None:
    for token, after in pairwise(found):
        if token.word == "SELECT" and after.word in ("ALL", "DISTINCT"):
            raise after.refuse(f"{after.word} says nothing of one event", "leave it out")


class _Checker:
    """One walk over a tree. Each node is looked at with where it stands."""

    def __init__(self, text: Text, source: str) -> None:
        self._text = text
        self._source = source
        self.now: SqlRefused | None = None
        self.unnest: SqlRefused | None = None
        self.joins: tuple[Join, ...] = ()

    def run(self, tree: Node) -> None:
        for _, depth in all_nodes(tree):
            if depth > MAX_DEPTH * 2:
                raise too_deep(self._text, 0)
        self._query(tree, frozenset(), 0, top=True)

    def _refuse(self, at: int, reason: str, instead: str) -> SqlRefused:
        return self._text.refuse(at, reason, instead)

    def _query(self, node: Node, known: frozenset[str], at: int, *, top: bool = False) -> None:
        """`known`: the WITH tables that it may read, in lower case; `top`: whether it is the outermost."""
        if node["type"] != "SELECT_NODE":
            what = "UNION and its like put rows of several queries together"
            if "RECURSIVE" in node["type"]:
                raise self._refuse(
                    first_place(node, at), "a recursive WITH may never end", "write WITH without RECURSIVE"
                )
            raise self._refuse(first_place(node, at), what, "write a pipeline for each, with one target if they append")
        here = first_place(node, at)
        for one in node["modifiers"]:
            raise self._refuse(first_place(one, here), *_MODIFIERS.get(one["type"], _MODIFIERS["ORDER_MODIFIER"]))
        for key, (reason, instead) in _CLAUSES.items():
            if node.get(key):
                raise self._refuse(first_place({"type": "", "": node[key]}, here), reason, instead)
        if node.get("aggregate_handling") != "STANDARD_HANDLING":
            raise self._refuse(here, *_CLAUSES["group_expressions"])
        known = self._with(node["cte_map"]["map"], known, here)
        leaf, joins = joins_of(node["from_table"], known, self._text, here) if top else (node["from_table"], ())
        self._from(leaf, known, here)
        self._no_whole_row(node, here)
        self._select_list(node["select_list"], here)
        if node.get("where_clause"):
            self._expression(node["where_clause"], here)
        for one in joins:
            for name in (one.alias, *(key.column for key in one.keys)):
                self._own(name, here)
        self.joins = with_columns(joins, leaf, node, self._text, here) if joins else self.joins

    def _with(self, tables: Sequence[Node], known: frozenset[str], at: int) -> frozenset[str]:
        for one in tables:
            name, value = one["key"], one["value"]
            query = value.get("query_node") or value.get("query", {}).get("node")
            here = first_place(query, at)
            if name.lower() == self._source.rpartition(".")[2].lower():
                raise self._refuse(here, f"a WITH table has the name of the source, {name}", "give it another name")
            if value.get("aliases") or value.get("key_targets"):
                raise self._refuse(here, f"columns are named beside the WITH table {name}", "write AS in its SELECT")
            self._own(name, here)
            self._query(query, known, at)
            known |= {name.lower()}
        return known

    def _from(self, node: Node, known: frozenset[str], at: int) -> None:
        here = offset(node, at)
        if node["type"] in _FROM:
            name = node.get("function", {}).get("function_name", "")
            if name and name != "unnest":
                raise self._refuse(here, *allowed.refusal(name))
            raise self._refuse(here, *_FROM[node["type"]])
        self._own(node.get("alias", ""), here)
        if node.get("column_name_alias"):
            raise self._refuse(here, "columns are named beside a table", "write AS in the SELECT below")
        if node.get("sample") or node.get("at_clause"):
            raise self._refuse(here, *_CLAUSES["sample"])
        if node["type"] == "BASE_TABLE":
            path = node["qualified_name"]["path"]
            is_with = len(path) == 1 and path[0].lower() in known
            if not is_with and ".".join(path) != self._source:
                why = f"{'.'.join(path)[:60]!r} is not the source table {self._source}"
                raise self._refuse(here, why, f"write FROM {self._source}; a pipeline reads one source table")
        elif node["type"] == "SUBQUERY":
            query = node["subquery"]
            self._query(query.get("node", query), known, here)
        else:
            raise self._refuse(here, "this can't stand in FROM", "write FROM and the source table")

    def _no_whole_row(self, node: Node, at: int) -> None:
        """A table's name alone is its row to DuckDB: all columns, hidden ones and those of later events too."""
        table = node["from_table"]
        path = table.get("qualified_name", {}).get("path") or [""]
        name = (table.get("alias") or path[-1]).lower()
        for root in (*node["select_list"], *filter(None, [node.get("where_clause")])):
            for one, _ in all_nodes(root):
                parts = one.get("column_names", ())
                if one.get("class") == "COLUMN_REF" and len(parts) == 1 and parts[0].lower() == name:
                    why = f"{parts[0][:60]!r} alone is the whole row of the table of this name"
                    raise self._refuse(offset(one, at), why, f"write {parts[0][:60]}.column, or {{'a': a, 'b': b}}")

    def _select_list(self, items: Sequence[Node], at: int) -> None:
        stars = [one for one in items if one["class"] == "STAR"]
        if len(stars) > 1:
            raise self._refuse(offset(stars[1], at), "a second * gives the same columns again", "write one *")
        sizes: dict[str, int] = {}
        for one in items:
            here = offset(one, at)
            self._own(one.get("alias", ""), here)
            if one["class"] == "STAR":
                self._star(one, here)
            else:
                self._expression(one, here)
            size = 0
            for node, _ in all_nodes(one):
                parts = node.get("column_names", ())
                size += 1 + (sizes.get(parts[0].lower(), 0) if len(parts) == 1 else 0)
            if size > _MOST_COPIES:
                why = f"the columns above are written out {size:,} times in this one"
                raise self._refuse(here, why, "write FROM (SELECT …), and use its columns")
            if one.get("alias"):
                sizes[one["alias"].lower()] = size

    def _star(self, node: Node, at: int) -> None:
        if node.get("columns") or node.get("expr"):
            raise self._refuse(
                at, "COLUMNS(…) and * LIKE choose columns by a pattern", "write the columns, or * EXCLUDE"
            )
        for one in below(node):
            self._expression(one, at)

    def _own(self, name: str, at: int) -> None:
        if name.lower().startswith(HIDDEN):
            raise self._refuse(at, f"names that begin with {HIDDEN} are Firn's own", "write another name")

    def _expression(self, root: Node, at: int) -> None:
        pending = [(root, at, 1, False)]
        while pending:
            node, place, depth, in_lambda = pending.pop()
            here = offset(node, place)
            if depth > MAX_DEPTH:
                raise too_deep(self._text, here)
            self._node(node, here, in_lambda)
            if node.get("type") == "TYPE":
                continue
            is_lambda = node.get("class") == "LAMBDA" and node.get("syntax_type") != "SINGLE_ARROW"
            inside = in_lambda or is_lambda
            pending.extend((one, here, depth + 1, inside) for one in reversed(list(below(node))) if not _is_empty(one))

    def _node(self, node: Node, at: int, in_lambda: bool) -> None:
        kind = node.get("class")
        if kind == "FUNCTION":
            self._function(node, at)
        elif kind == "COLUMN_REF":
            self._column(node, at)
        elif kind == "CAST":
            self._type(node["type_expr"], at)
        elif kind == "TYPE":
            self._type(node, at)
        elif kind == "LAMBDA":
            if in_lambda and node.get("syntax_type") != "SINGLE_ARROW":
                raise self._refuse(at, "a lambda in a lambda can cost the square of a list", "write one of them")
        elif kind == "OPERATOR":
            if node["type"] not in allowed.OPERATORS:
                raise self._refuse(at, f"{node['type']} is not for pipelines", "write one that docs/pipelines.md lists")
        elif kind == "STAR":
            raise self._refuse(at, "* stands in an expression", "write the columns")
        elif kind not in _ANY_CLASS:
            reason, instead = _CLASSES.get(str(kind), (f"{node.get('type')} is not for pipelines", "leave it out"))
            raise self._refuse(at, reason, instead)

    def _function(self, node: Node, at: int) -> None:
        name = node["function_name"]
        low = name if name in allowed.FUNCTIONS else name.lower()
        if node.get("schema") or node.get("catalog"):
            raise self._refuse(at, f"{low} is called with a dot before it", f"write {low}(…), with the column in it")
        if node.get("filter") or node.get("distinct") or node["order_bys"]["orders"]:
            raise self._refuse(at, *allowed.refusal("count" if low in allowed.FUNCTIONS else low))
        if low in allowed.NOW and not node["arguments"]:
            self._mark_now(node, at)
            return
        if low not in allowed.FUNCTIONS:
            raise self._refuse(at, *allowed.refusal(low))
        if low == "unnest":
            self.unnest = self.unnest or self._refuse(at, *_UNNEST_IN_MIRROR)
            if len(node["arguments"]) != 1:
                raise self._refuse(at, "UNNEST takes one list here", "write UNNEST(items) AS item")
        if low in _LISTS:
            for one in node["arguments"]:
                inner = one["expression"]
                if inner.get("class") == "LAMBDA" and inner.get("syntax_type") == "SINGLE_ARROW":
                    raise self._refuse(offset(inner, at), "x -> … is JSON's arrow", "write lambda x: …")

    def _column(self, node: Node, at: int) -> None:
        parts = node["column_names"]
        for part in parts:
            self._own(part, at)
        if len(parts) > 1 or self._text.utf8[at : at + 1] == b'"':
            return
        low = parts[0].lower()
        if low in allowed.VALUES:
            raise self._refuse(at, *allowed.refusal(low))
        if low == "current_timestamp":
            self._mark_now(node, at)

    def _mark_now(self, node: Node, at: int) -> None:
        node[IS_NOW] = True
        self.now = self.now or self._refuse(at, *_NOW_IN_MIRROR)

    def _type(self, node: Node, at: int) -> None:
        for one, _ in all_nodes(node):
            if one.get("class") == "TYPE" and one["type_name"].upper() not in allowed.TYPES:
                raise self._refuse(
                    offset(one, at), f"{one['type_name'][:60]} is not a type of pipelines",
                    f"write one of {', '.join(sorted(allowed.TYPES))}",
                )  # fmt: skip
            if one.get("class") not in ("TYPE", "CONSTANT"):
                raise self._refuse(offset(one, at), "a type holds an expression", "write the type itself")


_NOW_IN_MIRROR: Final = (
    "now() would be another time at each recomputation, and a mirror is at every cut the SELECT over its base",
    "write mode: append, or take a time from the row",
)
_UNNEST_IN_MIRROR: Final = (
    "UNNEST makes several rows of one, and a mirror has one row for each key",
    "write mode: append, or keep the list",
)


def _is_empty(node: Node) -> bool:
    return node.get("type") == "ORDER_MODIFIER" and not node.get("orders")
