"""What stands in FROM of a view's query, and in its WHERE: tables, queries, joins, EXISTS and IN."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from firn_sql.check import HIDDEN
from firn_sql.parse_tree import Node, Text, all_nodes, first_place, offset
from firn_sql.views import algebra
from firn_sql.views.algebra import Expression, Hops, Join, Operator, Scan, Sessions, reads_now
from firn_sql.views.conditions import all_of, comparison, conjuncts, equalities, filtered, subquery
from firn_sql.views.expressions import check, no_rows
from firn_sql.views.scope import Item, Perhaps, Scope, Undecided, of_columns
from firn_sql.views.time_windows import END, NAMES, START, time_windows

Known = Mapping[str, tuple[Node, "Known"]]
"""WITH tables by name, each with those that it may read itself."""
MOST_TABLES: Final = 40  # with those of a WITH table wherever it is read
_KINDS: Final = frozenset({"INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"})


@dataclass(frozen=True)
class SourceTable:
    """A table that views may read.

    columns  name -> type, in DuckDB's words; SQL sees those that do not begin with _firn_
    key      the columns that tell its rows apart
    open     whether it may have more columns, of any name: where SQL is checked before there is a table
    """

    columns: Mapping[str, str]
    key: tuple[str, ...]
    open: bool = False

    @property
    def seen(self) -> tuple[str, ...]:
        """The columns that SQL sees."""
        return tuple(one for one in self.columns if not one.lower().startswith(HIDDEN))


def _gives_its_rows(query: Node) -> bool:
    """Whether a SELECT gives one row for each that FROM and WHERE leave, whatever it makes of them: no groups, which
    are there of no rows too, and nothing that takes rows away or makes several of one."""
    if query["group_sets"] or query["aggregate_handling"] != "STANDARD_HANDLING" or query["modifiers"]:
        return False
    if any(query.get(one) for one in ("having", "qualify", "sample")):
        return False
    listed = (node for one in query["select_list"] for node, _ in all_nodes(one))
    return all(node.get("class") != "FUNCTION" or node["is_operator"] for node in listed)


@dataclass(frozen=True)
class Relation:
    """An operator, and what its columns are called."""

    operator: Operator
    items: tuple[Item, ...]


class Relations(ABC):
    """Plans FROM and WHERE. Each column of a plan gets a number; a WITH table is planned wherever it is read."""

    def __init__(self, text: Text, tables: Mapping[str, SourceTable], mentioned: Sequence[str] = ()) -> None:
        """mentioned: what an open table may call its columns."""
        self._text = text
        self._tables = tables
        self._mentioned = mentioned
        self._numbers = count()
        self._scans = 0

    @abstractmethod
    def query(self, node: Node, known: Known, outer: Scope | None) -> tuple[Operator, tuple[str, ...]]:
        """What a query gives, and what it calls its columns. known: the WITH tables that it may read."""

    def _refuse(self, node: Node, reason: str, instead: str) -> Exception:
        return self._text.refuse(first_place(node, 0), reason, instead)

    def _new(self) -> str:
        return f"c{next(self._numbers)}"

    def _with(self, node: Node, known: Known) -> Known:
        for one in node["cte_map"]["map"]:
            name, value = one["key"], one["value"]
            query = value.get("query_node") or value.get("query", {}).get("node")
            if value.get("aliases") or value.get("key_targets"):
                raise self._refuse(query, f"columns are named beside the WITH table {name}", "write AS in its SELECT")
            known = {**known, name.lower(): (query, known)}
        return known

    def _from(self, node: Node, known: Known, outer: Scope | None) -> tuple[Operator, Scope]:
        conditions: list[Node] = []
        relations = self._relations(node["from_table"], known, conditions)
        items = tuple(item for one in relations for item in one.items)
        self._one_name_each(node, items)
        scope = Scope(self._text, items, outer)
        parts = conjuncts(node.get("where_clause"))
        semis = [one for one in parts if subquery(one) is not None]
        plain = [*conditions, *(one for one in parts if one not in semis)]
        root = self._joined(node, [one.operator for one in relations], self._conditions(plain, scope, "WHERE"))
        for one in semis:
            root = self._semi(root, scope, one, known)
        return root, scope

    def _conditions(self, nodes: Sequence[Node], scope: Scope, where: str) -> list[Expression]:
        """Conditions on single rows. Raises SqlRefused."""
        found = [scope.resolved(one) for one in nodes]
        for one in found:
            check(one.node, self._text, timed=where in ("WHERE", "ON"))
            no_rows(one.node, where, self._text)
        return found

    def _relations(self, node: Node, known: Known, conditions: list[Node]) -> list[Relation]:
        """What stands in FROM; the conditions of its inner joins are added to `conditions`."""
        kind = node["type"]
        if node.get("sample") or node.get("at_clause"):
            raise self._refuse(node, "a part or an earlier state of a table is not kept", "write the table alone")
        if kind == "JOIN":
            return self._join(node, known, conditions)
        if node.get("column_name_alias"):
            raise self._refuse(node, "columns are named beside a table", "write AS in the SELECT below")
        if kind == "BASE_TABLE":
            return [self._table(node, known)]
        if kind == "SUBQUERY":
            query = node["subquery"]
            root, names = self.query(query.get("node", query), known, None)
            return [Relation(root, of_columns(node.get("alias", ""), names, root.columns))]
        if kind == "TABLE_FUNCTION" and node["function"]["function_name"].lower() in NAMES:
            return [self._time_windows(node, known)]
        if kind == "EMPTY":
            raise self._refuse(node, "a SELECT without FROM reads no table", "write FROM and a table")
        raise self._refuse(node, f"{kind} can't stand in FROM of a view", "write tables, and joins of tables")

    def _table(self, node: Node, known: Known) -> Relation:
        self._scans += 1
        if self._scans > MOST_TABLES:
            raise self._refuse(node, f"more than {MOST_TABLES} tables are read", "write a view over another one")
        path = node["qualified_name"]["path"]
        name, alias = ".".join(path), node.get("alias") or ""
        with_table = known.get(path[0].lower()) if len(path) == 1 else None
        if with_table is not None:
            root, names = self.query(with_table[0], with_table[1], None)
            return Relation(root, of_columns(alias or name, names, root.columns))
        table = self._tables.get(name.lower())
        if table is None:
            known_names = ", ".join(sorted(self._tables)[:5]) or "no table"
            raise self._refuse(node, f"there is no table {name[:100]!r}", f"write one that Firn feeds: {known_names}")
        if not table.key:
            raise self._refuse(node, f"{name[:100]} has no key", "declare one, or write refresh: full")
        seen = table.seen
        if table.open:
            there = {one.lower() for one in seen}
            seen = (*seen, *(Perhaps(one) for one in self._mentioned if one not in there))
        columns = {one: self._new() for one in dict.fromkeys((*seen, *table.key))}
        root = Scan(
            tuple(columns[one] for one in seen), tuple(columns[one] for one in table.key), name.lower(),
            {column: one for one, column in columns.items()},
        )  # fmt: skip
        return Relation(root, of_columns(alias or path[-1], seen, root.columns))

    def _time_windows(self, node: Node, known: Known) -> Relation:
        name = node["function"]["function_name"].lower()
        call = time_windows(node, self._text)
        place = {"query_location": first_place(node["function"], offset(node, 0))}
        alias = node.get("alias") or call.path[-1]
        below = self._table({"qualified_name": {"path": call.path}, "alias": alias, **place}, known)
        if any(one.name.lower() in (START, END) and one.is_sure for one in below.items):
            instead = f"WITH x AS (SELECT … AS other FROM …), and {name}(x, …)"
            raise self._refuse(place, f"{alias[:60]!r} has a column {START} or {END} already", f"write {instead}")
        found = self._conditions([call.time, *call.keys], Scope(self._text, below.items), name)
        time, keys = found[0], tuple(dict.fromkeys(found[1:]))
        if not time.columns:
            raise self._refuse(call.time, "the time is not one of the rows", f"write a column: {NAMES[name]}")
        root, start, end = below.operator, self._new(), self._new()
        columns = (*root.columns, start, end)
        if call.number:
            made: Operator = Hops(columns, (*root.ids, start), root, time, call.hop, call.number)
        else:
            made = Sessions(columns, root.ids, root, time, call.hop, keys)
        items = [one for one in below.items if one.name.lower() not in (START, END)]
        return Relation(made, (*items, *of_columns(alias, (START, END), (start, end))))

    def _join(self, node: Node, known: Known, conditions: list[Node]) -> list[Relation]:
        kind = node["join_type"]
        if kind not in _KINDS or node["ref_type"] not in ("REGULAR", "CROSS"):
            what = node["ref_type"] if node["ref_type"] not in ("REGULAR", "CROSS") else node["join_type"]
            raise self._refuse(node, f"a join of the kind {what} is not kept", "write JOIN … ON a = b")
        using = node.get("using_columns") or []
        if kind == "INNER" and not using:
            both = [one for side in ("left", "right") for one in self._relations(node[side], known, conditions)]
            conditions.extend(conjuncts(node.get("condition")))
            return both
        left, right = (self._whole(node[side], known) for side in ("left", "right"))
        here = Scope(self._text, (*left.items, *right.items))
        equal, items = self._using(node, left, right, kind) if using else ([], [])
        found = self._conditions(conjuncts(node.get("condition")), here, "ON")
        root = self._pair(node, left.operator, right.operator, kind, [*equal, *found])
        if kind in ("SEMI", "ANTI"):
            return [Relation(root, left.items)]
        names = {one.name.lower() for one in items}
        others = (replace(one, hidden=one.hidden or one.name.lower() in names) for one in here.items)
        return [Relation(root, (*items, *others))]

    def _whole(self, node: Node, known: Known) -> Relation:
        """A side of an outer join, as one operator."""
        conditions: list[Node] = []
        relations = self._relations(node, known, conditions)
        items = tuple(item for one in relations for item in one.items)
        scope = Scope(self._text, items)
        resolved = self._conditions(conditions, scope, "ON")
        return Relation(self._joined(node, [one.operator for one in relations], resolved), items)

    def _using(self, node: Node, left: Relation, right: Relation, kind: str) -> tuple[list[Expression], list[Item]]:
        equal, items = [], []
        for name in node["using_columns"]:
            sides = [
                Scope(self._text, one.items).resolved({**algebra.column_node(name), "query_location": offset(node, 0)})
                for one in (left, right)
            ]
            equal.append(Expression(comparison(*(one.node for one in sides))))
            both = {"class": "OPERATOR", "type": "OPERATOR_COALESCE", "alias": "",
                    "children": [one.node for one in sides]}  # fmt: skip
            value = sides[kind == "RIGHT"] if kind != "FULL" else Expression(both)
            items.append(Item("", name, value))
        return equal, items

    def _joined(self, node: Node, parts: Sequence[Operator], conditions: Sequence[Expression]) -> Operator:
        """Inner joins of all parts: each next one is equal in something to those before it."""
        left = [*conditions]
        pending = []
        for one in parts:
            columns = frozenset(one.columns)
            own = [each for each in left if each.columns <= columns and each.columns]
            left = [each for each in left if each not in own]
            pending.append(filtered(one, own))
        root = pending.pop(0)
        while pending:
            for one in pending:
                here = frozenset((*root.columns, *one.columns))
                ready = [each for each in left if each.columns <= here]
                if equalities(ready, root, one):
                    break
            else:
                if any(one.guessed for one in conditions):
                    raise Undecided
                raise self._refuse(
                    node, "two tables are joined that nothing makes equal: each change could touch all rows",
                    "write JOIN … ON a.x = b.y",
                )  # fmt: skip
            pending.remove(one)
            left = [each for each in left if each not in ready]
            root = self._pair(node, root, one, "INNER", ready)
        return filtered(root, left)

    def _pair(
        self, node: Node, left: Operator, right: Operator, kind: str, conditions: Sequence[Expression]
    ) -> Operator:
        equal = equalities(conditions, left, right)
        if not equal:
            if any(one.guessed for one in conditions):
                raise Undecided
            why = "a join compares nothing with =: each change could touch all rows"
            raise self._refuse(node, why, "write ON a = b")
        used = {one.said for one, _, _ in equal}
        others = [one for one in conditions if one.said not in used]
        keys = tuple(dict.fromkeys((one, other) for _, one, other in equal))
        timed = [one for one in others if reads_now(one.node)]
        others = [one for one in others if one not in timed]
        if kind != "INNER" and timed:
            left, right = self._timed(node, left, right, kind, timed)
        columns = left.columns if kind in ("SEMI", "ANTI") else (*left.columns, *right.columns)
        flags = (self._new() if kind in ("RIGHT", "FULL") else "", self._new() if kind in ("LEFT", "FULL") else "")
        ids = left.ids if kind in ("SEMI", "ANTI") else (*left.ids, *right.ids, *filter(None, flags))
        equals = tuple(one for one, _ in keys), tuple(other for _, other in keys)
        root = Join(columns, ids, left, right, kind, *equals, all_of(others), flags)
        return filtered(root, timed) if kind == "INNER" else root

    def _timed(
        self, node: Node, left: Operator, right: Operator, kind: str, conditions: Sequence[Expression]
    ) -> tuple[Operator, Operator]:
        """The sides of a join, of which the one whose rows may be left out has conditions of its own, by the time."""
        side = {"LEFT": right, "RIGHT": left, "SEMI": right, "ANTI": right}.get(kind)
        if side is None or any(not one.columns <= frozenset(side.columns) for one in conditions):
            why = f"a {kind} join compares the time with what it also joins by"
            raise self._refuse(node, why, "write it in the WHERE of a side: JOIN (SELECT … WHERE created > now() …) ON")
        side = filtered(side, conditions)
        return (side, right) if kind == "RIGHT" else (left, side)

    def _semi(self, root: Operator, scope: Scope, node: Node, known: Known) -> Operator:
        """EXISTS, NOT EXISTS and IN, as joins."""
        negated, node = subquery(node) or (False, node)
        query = node["subquery"]["node"] if "node" in node["subquery"] else node["subquery"]
        kind = "ANTI" if negated else "SEMI"
        if node["subquery_type"] == "EXISTS":
            if query["type"] != "SELECT_NODE" or not _gives_its_rows(query):
                instead = "write EXISTS (SELECT 1 FROM … WHERE …)"
                raise self._refuse(node, "EXISTS looks into more than rows of tables", instead)
            inner_known = self._with(query, known)
            conditions: list[Node] = []
            relations = self._relations(query["from_table"], inner_known, conditions)
            inner = Scope(self._text, tuple(item for one in relations for item in one.items), scope)
            every = [*conditions, *conjuncts(query.get("where_clause"))]
            strange = next((one for one in every if subquery(one) is not None), None)
            if strange is not None:
                raise self._refuse(strange, "EXISTS stands within EXISTS", "write a join in it")
            between = [one for one in every if self._reads_outer(one, inner)]
            within = self._conditions([one for one in every if one not in between], inner, "WHERE")
            other = self._joined(query, [one.operator for one in relations], within)
            joined = self._conditions(between, inner, "WHERE")
            if any(one.guessed for one in within) and not equalities(joined, root, other):
                raise Undecided
            return self._pair(node, root, other, kind, joined)
        if node["subquery_type"] != "ANY" or node.get("comparison_type") != "COMPARE_EQUAL":
            raise self._refuse(node, "a query stands within an expression", "join its result: JOIN (SELECT …) ON …")
        if negated:
            raise self._refuse(node, "NOT IN is unknown as soon as one value is null", "write NOT EXISTS (SELECT …)")
        other, names = self.query(query, known, None)
        if any(isinstance(one, Perhaps) for one in names):
            raise Undecided
        if len(other.columns) != 1:
            raise self._refuse(node, f"IN compares with {len(other.columns)} columns", "write one")
        child = scope.resolved(node["child"])
        check(child.node, self._text)
        equal = Expression(comparison(child.node, algebra.column_node(other.columns[0])))
        return self._pair(node, root, other, kind, [equal])

    def _reads_outer(self, node: Node, scope: Scope) -> bool:
        return any(one.get("class") == "COLUMN_REF" and scope.is_outer(one) for one, _ in all_nodes(node))

    def _one_name_each(self, node: Node, items: Sequence[Item]) -> None:
        seen: dict[str, str] = {}
        for one in items:
            name = f"{one.table.lower()}.{one.name.lower()}"
            if one.table and seen.setdefault(name, one.value.said) != one.value.said:
                raise self._refuse(
                    node["from_table"], f"{one.table[:60]!r} stands twice in FROM", "write AS another name"
                )
