"""The query of a view as a plan: what it says is checked, and every name in it resolved."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from firn_sql import allowed
from firn_sql.check import HIDDEN
from firn_sql.parse_tree import MAX_DEPTH, Node, Text, all_nodes, below, first_place, offset, parse, too_deep, written
from firn_sql.views import algebra, functions
from firn_sql.views.algebra import Expression, Filter, Group, Join, Operator, Plan, Project, Scan, Top, Union, Window
from firn_sql.views.scope import Item, Scope, of_columns

Known = Mapping[str, tuple[Node, "Known"]]
"""WITH tables by name, each with those that it may read itself."""
_KINDS: Final = {"INNER": "INNER", "LEFT": "LEFT", "RIGHT": "RIGHT", "FULL": "FULL", "SEMI": "SEMI", "ANTI": "ANTI"}
_CLASSES: Final = frozenset({"COMPARISON", "CONJUNCTION", "CASE", "BETWEEN", "CONSTANT", "CAST", "COLUMN_REF", "TYPE"})
_ONE: Final[Node] = {
    "class": "CONSTANT", "type": "VALUE_CONSTANT", "alias": "", "literal": {"kind": "INTEGER", "text": "1"},
}  # fmt: skip
MOST_SELECTS: Final = 30
MOST_TABLES: Final = 40  # with those of a WITH table wherever it is read
MOST_BYTES: Final = 100_000


@dataclass(frozen=True)
class SourceTable:
    """A table that views may read.

    columns  name -> type, in DuckDB's words; SQL sees those that do not begin with _firn_
    key      the columns that tell its rows apart
    """

    columns: Mapping[str, str]
    key: tuple[str, ...]

    @property
    def seen(self) -> tuple[str, ...]:
        """The columns that SQL sees."""
        return tuple(one for one in self.columns if not one.lower().startswith(HIDDEN))


@dataclass(frozen=True)
class _Relation:
    operator: Operator
    items: tuple[Item, ...]


def plan(sql: str, tables: Mapping[str, SourceTable]) -> Plan:
    """The plan of a view. tables: by the names that SQL may say, in lower case. Raises SqlRefused."""
    text = Text(sql.encode())
    if len(text.utf8) > MOST_BYTES:
        raise text.refuse(0, f"it has more than {MOST_BYTES:,} bytes", "write a view over another one")
    try:
        tree = parse(sql)
    except RecursionError:
        raise too_deep(text, 0) from None
    selects = 0
    for one, depth in all_nodes(tree):
        selects += one.get("type") == "SELECT_NODE"
        if depth > MAX_DEPTH * 2:
            raise too_deep(text, 0)
    if selects > MOST_SELECTS:
        raise text.refuse(0, f"there are more than {MOST_SELECTS} SELECTs", "write a view over another one")
    planner = _Planner(text, tables)
    root, names = planner.query(tree, {}, None)
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen or not name.strip():
            raise text.refuse(0, f"it gives two columns {name[:60]!r}", "write AS another name")
        if name.lower().startswith(HIDDEN):
            raise text.refuse(0, f"names that begin with {HIDDEN} are Firn's own", "write AS another name")
        seen[name.lower()] = name
    return Plan(root, names)


class _Planner:
    """One query. Each column gets a number; a WITH table is planned wherever it is read."""

    def __init__(self, text: Text, tables: Mapping[str, SourceTable]) -> None:
        self._text = text
        self._tables = tables
        self._numbers = count()
        self._scans = 0

    def query(self, node: Node, known: Known, outer: Scope | None) -> tuple[Operator, tuple[str, ...]]:
        """What a query gives, and what it calls its columns. known: the WITH tables that it may read."""
        known = self._with(node, known)
        if node["type"] == "SET_OPERATION_NODE":
            root, names = self._union(node, known, outer)
        elif node["type"] == "SELECT_NODE":
            return self._select(node, known, outer)
        else:
            raise self._refuse(node, "a recursive WITH may never end", "write WITH without RECURSIVE")
        scope = Scope(self._text, of_columns("", names, root.columns))
        return self._modified(node, root, scope), names

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

    def _union(self, node: Node, known: Known, outer: Scope | None) -> tuple[Operator, tuple[str, ...]]:
        if node["setop_type"] != "UNION":
            what = "BY NAME" if "NAME" in node["setop_type"] else node["setop_type"]
            raise self._refuse(node, f"{what} is not kept by what changed", "write UNION ALL, EXISTS or NOT EXISTS")
        parts = [self.query(one, known, outer) for one in node["children"]]
        names = parts[0][1]
        for child, (_, own) in zip(node["children"], parts, strict=True):
            if len(own) != len(names):
                raise self._refuse(
                    child, f"{len(own)} columns stand below {len(names)}", "write as many in each SELECT"
                )
        columns = tuple(self._new() for _ in names)
        branches = tuple(one for one, _ in parts)
        ids = (self._new(), *(self._new() for one in branches for _ in one.ids))
        root: Operator = Union(columns, ids, branches)
        if not node["setop_all"]:
            root = self._distinct(root)
        return root, names

    def _select(self, node: Node, known: Known, outer: Scope | None) -> tuple[Operator, tuple[str, ...]]:
        if node.get("sample"):
            raise self._refuse(node, "a sample takes other rows each time", "write a WHERE, such as id % 10 = 0")
        root, scope = self._from(node, known, outer)
        names, values = self._values(node, scope)
        scope = scope.with_aliases({name.lower(): one for name, one in zip(names, values, strict=True)})
        having = scope.resolved(node["having"], alias_first=True) if node.get("having") else None
        qualify = scope.resolved(node["qualify"], alias_first=True) if node.get("qualify") else None
        everything = [*values, *filter(None, [having, qualify])]
        for one in everything:
            self._check(one.node)
        is_grouped = bool(node["group_sets"]) or node["aggregate_handling"] == "FORCE_AGGREGATES"
        is_grouped = is_grouped or having is not None or any(self._aggregates(one.node) for one in everything)
        if is_grouped:
            keys = self._keys(node, scope, values)
            root, swap = self._group(root, keys, everything)
            values = [swap(one) for one in values]
            having, qualify = (None if one is None else swap(one) for one in (having, qualify))
        if having is not None:
            root = Filter(root.columns, root.ids, root, having)
        windows = [one for each in (*values, *filter(None, [qualify])) for one in _calls(each.node, "WINDOW")]
        if windows:
            root, seen = self._window(root, windows)
            values = [_swapped(one, seen) for one in values]
            qualify = None if qualify is None else _swapped(qualify, seen)
        if qualify is not None:
            root = Filter(root.columns, root.ids, root, qualify)
        columns = tuple(self._new() for _ in values)
        root = Project(columns, root.ids, root, tuple(values))
        inner = Scope(self._text, of_columns("", names, columns))
        return self._modified(node, root, inner), tuple(names)

    def _modified(self, node: Node, root: Operator, scope: Scope) -> Operator:
        """DISTINCT, and ORDER BY with LIMIT."""
        orders: list[str] = []
        for one in node["modifiers"]:
            if one["type"] == "DISTINCT_MODIFIER":
                if one.get("distinct_on_targets"):
                    instead = "write QUALIFY row_number() OVER (PARTITION BY … ORDER BY …) = 1"
                    raise self._refuse(one, "DISTINCT ON takes any row of several", instead)
                root = self._distinct(root)
            elif one["type"] == "ORDER_MODIFIER":
                orders = [self._order(order, scope) for order in one["orders"]]
            elif one["type"] == "LIMIT_MODIFIER":
                limit, start = self._number(one.get("limit")), self._number(one.get("offset"))
                if limit is None or one.get("limit_type", "ROW_COUNT") != "ROW_COUNT":
                    raise self._refuse(one, "LIMIT is not a number", "write LIMIT 100")
                ties = [f"{algebra.quoted(name)} ASC NULLS LAST" for name in root.ids]
                root = Top(root.columns, root.ids, root, (*orders, *ties), limit, start or 0)
                orders = []
            else:
                raise self._refuse(one, "this is not kept by what changed", "leave it out")
        if orders:
            raise self._refuse(node, "ORDER BY sorts rows, and a table keeps no order", "leave it out, or add a LIMIT")
        return root

    def _order(self, order: Node, scope: Scope) -> str:
        node = order["expression"]
        place = self._number(node)
        if place is not None:
            if not 0 < place <= len(scope.items):
                raise self._refuse(node, f"there is no column {place}", "write the column's name")
            value = scope.items[place - 1].value
        else:
            value = scope.resolved(node)
        self._check(value.node)
        down = order["type"] == "DESCENDING"
        nulls = str(order["null_order"]).replace("_", " ")
        return f"{value.sql} {'DESC' if down else 'ASC'} {'NULLS FIRST' if 'FIRST' in nulls else 'NULLS LAST'}"

    def _number(self, node: Node | None) -> int | None:
        literal = (node or {}).get("literal", {})
        return int(literal["text"]) if literal.get("kind") == "INTEGER" else None

    def _distinct(self, root: Operator) -> Operator:
        ids = tuple(self._new() for _ in root.columns)
        return Group(ids, ids, root, tuple(algebra.column(one) for one in root.columns), ())

    # FROM and WHERE

    def _from(self, node: Node, known: Known, outer: Scope | None) -> tuple[Operator, Scope]:
        conditions: list[Node] = []
        relations = self._relations(node["from_table"], known, conditions)
        items = tuple(item for one in relations for item in one.items)
        self._one_name_each(node, items)
        scope = Scope(self._text, items, outer)
        conjuncts = _conjuncts(node.get("where_clause"))
        semis = [one for one in conjuncts if _subquery(one) is not None]
        plain = [*conditions, *(one for one in conjuncts if one not in semis)]
        root = self._joined(node, [one.operator for one in relations], self._conditions(plain, scope, "WHERE"))
        for one in semis:
            root = self._semi(root, scope, one, known)
        return root, scope

    def _conditions(self, nodes: Sequence[Node], scope: Scope, where: str) -> list[Expression]:
        """Conditions on single rows. Raises SqlRefused."""
        found = [scope.resolved(one) for one in nodes]
        for one in found:
            self._check(one.node)
            self._no_rows(one.node, where)
        return found

    def _relations(self, node: Node, known: Known, conditions: list[Node]) -> list[_Relation]:
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
            return [_Relation(root, of_columns(node.get("alias", ""), names, root.columns))]
        if kind == "EMPTY":
            raise self._refuse(node, "a SELECT without FROM reads no table", "write FROM and a table")
        raise self._refuse(node, f"{kind} can't stand in FROM of a view", "write tables, and joins of tables")

    def _table(self, node: Node, known: Known) -> _Relation:
        self._scans += 1
        if self._scans > MOST_TABLES:
            raise self._refuse(node, f"more than {MOST_TABLES} tables are read", "write a view over another one")
        path = node["qualified_name"]["path"]
        name, alias = ".".join(path), node.get("alias") or ""
        with_table = known.get(path[0].lower()) if len(path) == 1 else None
        if with_table is not None:
            root, names = self.query(with_table[0], with_table[1], None)
            return _Relation(root, of_columns(alias or name, names, root.columns))
        table = self._tables.get(name.lower())
        if table is None:
            known_names = ", ".join(sorted(self._tables)[:5]) or "no table"
            raise self._refuse(node, f"there is no table {name[:100]!r}", f"write one that Firn feeds: {known_names}")
        if not table.key:
            raise self._refuse(node, f"{name[:100]} has no key", "declare one, or write refresh: full")
        columns = {one: self._new() for one in dict.fromkeys((*table.seen, *table.key))}
        root = Scan(
            tuple(columns[one] for one in table.seen), tuple(columns[one] for one in table.key), name.lower(),
            {column: one for one, column in columns.items()},
        )  # fmt: skip
        return _Relation(root, of_columns(alias or path[-1], table.seen, root.columns))

    def _join(self, node: Node, known: Known, conditions: list[Node]) -> list[_Relation]:
        kind = _KINDS.get(node["join_type"])
        if kind is None or node["ref_type"] not in ("REGULAR", "CROSS"):
            what = node["ref_type"] if node["ref_type"] not in ("REGULAR", "CROSS") else node["join_type"]
            raise self._refuse(node, f"a join of the kind {what} is not kept", "write JOIN … ON a = b")
        using = node.get("using_columns") or []
        if kind == "INNER" and not using:
            both = [one for side in ("left", "right") for one in self._relations(node[side], known, conditions)]
            conditions.extend(_conjuncts(node.get("condition")))
            return both
        left, right = (self._whole(node[side], known) for side in ("left", "right"))
        here = Scope(self._text, (*left.items, *right.items))
        equal, items = self._using(node, left, right, kind) if using else ([], [])
        found = self._conditions(_conjuncts(node.get("condition")), here, "ON")
        root = self._pair(node, left.operator, right.operator, kind, [*equal, *found])
        if kind in ("SEMI", "ANTI"):
            return [_Relation(root, left.items)]
        names = {one.name.lower() for one in items}
        others = (replace(one, hidden=one.hidden or one.name.lower() in names) for one in here.items)
        return [_Relation(root, (*items, *others))]

    def _whole(self, node: Node, known: Known) -> _Relation:
        """A side of an outer join, as one operator."""
        conditions: list[Node] = []
        relations = self._relations(node, known, conditions)
        items = tuple(item for one in relations for item in one.items)
        scope = Scope(self._text, items)
        resolved = self._conditions(conditions, scope, "ON")
        return _Relation(self._joined(node, [one.operator for one in relations], resolved), items)

    def _using(self, node: Node, left: _Relation, right: _Relation, kind: str) -> tuple[list[Expression], list[Item]]:
        equal, items = [], []
        for name in node["using_columns"]:
            sides = [
                Scope(self._text, one.items).resolved({**algebra.column_node(name), "query_location": offset(node, 0)})
                for one in (left, right)
            ]
            equal.append(Expression(_comparison(*(one.node for one in sides))))
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
            pending.append(_filtered(one, own))
        root = pending.pop(0)
        while pending:
            for one in pending:
                here = frozenset((*root.columns, *one.columns))
                ready = [each for each in left if each.columns <= here]
                if _equalities(ready, root, one):
                    break
            else:
                raise self._refuse(
                    node, "two tables are joined that nothing makes equal: each change could touch all rows",
                    "write JOIN … ON a.x = b.y",
                )  # fmt: skip
            pending.remove(one)
            left = [each for each in left if each not in ready]
            root = self._pair(node, root, one, "INNER", ready)
        return _filtered(root, left)

    def _pair(
        self, node: Node, left: Operator, right: Operator, kind: str, conditions: Sequence[Expression]
    ) -> Operator:
        equal = _equalities(conditions, left, right)
        if not equal:
            why = "a join compares nothing with =: each change could touch all rows"
            raise self._refuse(node, why, "write ON a = b")
        used = {one.said for one, _, _ in equal}
        others = [one for one in conditions if one.said not in used]
        keys = tuple(dict.fromkeys((one, other) for _, one, other in equal))
        columns = left.columns if kind in ("SEMI", "ANTI") else (*left.columns, *right.columns)
        flags = (self._new() if kind in ("RIGHT", "FULL") else "", self._new() if kind in ("LEFT", "FULL") else "")
        ids = left.ids if kind in ("SEMI", "ANTI") else (*left.ids, *right.ids, *filter(None, flags))
        equals = tuple(one for one, _ in keys), tuple(other for _, other in keys)
        return Join(columns, ids, left, right, kind, *equals, _all(others), flags)

    def _semi(self, root: Operator, scope: Scope, node: Node, known: Known) -> Operator:
        """EXISTS, NOT EXISTS and IN, as joins."""
        negated, node = _subquery(node) or (False, node)
        query = node["subquery"]["node"] if "node" in node["subquery"] else node["subquery"]
        kind = "ANTI" if negated else "SEMI"
        if node["subquery_type"] == "EXISTS":
            if query["type"] != "SELECT_NODE" or query["group_sets"] or query.get("having") or query["modifiers"]:
                instead = "write EXISTS (SELECT 1 FROM … WHERE …)"
                raise self._refuse(node, "EXISTS looks into more than rows of tables", instead)
            inner_known = self._with(query, known)
            conditions: list[Node] = []
            relations = self._relations(query["from_table"], inner_known, conditions)
            inner = Scope(self._text, tuple(item for one in relations for item in one.items), scope)
            every = [*conditions, *_conjuncts(query.get("where_clause"))]
            strange = next((one for one in every if _subquery(one) is not None), None)
            if strange is not None:
                raise self._refuse(strange, "EXISTS stands within EXISTS", "write a join in it")
            between = [one for one in every if self._reads_outer(one, inner)]
            within = self._conditions([one for one in every if one not in between], inner, "WHERE")
            other = self._joined(query, [one.operator for one in relations], within)
            return self._pair(node, root, other, kind, self._conditions(between, inner, "WHERE"))
        if node["subquery_type"] != "ANY" or node.get("comparison_type") != "COMPARE_EQUAL":
            raise self._refuse(node, "a query stands within an expression", "join its result: JOIN (SELECT …) ON …")
        if negated:
            raise self._refuse(node, "NOT IN is unknown as soon as one value is null", "write NOT EXISTS (SELECT …)")
        other, _ = self.query(query, known, None)
        if len(other.columns) != 1:
            raise self._refuse(node, f"IN compares with {len(other.columns)} columns", "write one")
        child = scope.resolved(node["child"])
        self._check(child.node)
        equal = Expression(_comparison(child.node, algebra.column_node(other.columns[0])))
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

    # SELECT

    def _values(self, node: Node, scope: Scope) -> tuple[list[str], list[Expression]]:
        names: list[str] = []
        values: list[Expression] = []
        for one in node["select_list"]:
            if one["class"] == "STAR":
                if one.get("columns") or one.get("expr") or one.get("qualified_exclude_list"):
                    raise self._refuse(one, "this chooses columns by a pattern", "write the columns, or * EXCLUDE (a)")
                for name, value in scope.star(one):
                    names.append(name)
                    values.append(value)
                continue
            known = {name.lower(): value for name, value in zip(names, values, strict=True)}
            values.append(scope.with_aliases(known).resolved(one))
            names.append(one.get("alias") or _name(one))
        return names, values

    def _keys(self, node: Node, scope: Scope, values: Sequence[Expression]) -> list[Expression]:
        if len(node["group_sets"]) > 1:
            instead = "write UNION ALL of a SELECT for each"
            raise self._refuse(node, "GROUPING SETS, ROLLUP and CUBE are not kept", instead)
        if not node["group_sets"] and node["aggregate_handling"] == "FORCE_AGGREGATES":
            found = [one for one in values if not self._aggregates(one.node) and not _calls(one.node, "WINDOW")]
        else:
            found = []
            for one in node["group_expressions"]:
                place = self._number(one)
                if place is not None and not 0 < place <= len(values):
                    raise self._refuse(one, f"there is no column {place}", "write the column's name")
                found.append(values[place - 1] if place is not None else scope.resolved(one))
        for one in found:
            self._check(one.node)
            if self._aggregates(one.node) or _calls(one.node, "WINDOW"):
                raise self._refuse(one.node, "GROUP BY holds a function over rows", "write a column")
        return list({one.said: one for one in found}.values())

    def _group(
        self, root: Operator, keys: Sequence[Expression], values: Sequence[Expression]
    ) -> tuple[Operator, Callable[[Expression], Expression]]:
        """The groups, and how an expression over their rows is one over what they are. Raises SqlRefused."""
        ids = tuple(self._new() for _ in keys)
        calls: dict[str, Expression] = {}
        for value in values:
            for one in self._aggregates(value.node):
                functions.check_call(one, self._text)
                if any(inner is not one and functions.is_aggregate(inner) for inner, _ in all_nodes(one)):
                    raise functions.refusal_within(self._text, one)
                calls.setdefault(Expression(one).said, Expression(functions.settled(one, root.ids, self._text)))
        columns = {said: self._new() for said in calls}
        seen = {one.said: name for one, name in zip(keys, ids, strict=True)} | columns
        found = Group((*ids, *columns.values()), ids, root, tuple(keys), tuple(calls.values()))

        def swap(value: Expression) -> Expression:
            result = _swapped(value, seen)
            strange = result.columns - set(found.columns)
            if strange:
                where = next(one for one, _ in all_nodes(value.node) if one.get("column_names", [""])[0] in strange)
                raise self._refuse(where, "a column is neither in GROUP BY nor within a function over rows",
                                   "write it in GROUP BY, or any_value(…)")  # fmt: skip
            return result

        return found, swap

    def _window(self, root: Operator, calls: Sequence[Node]) -> tuple[Operator, Mapping[str, str]]:
        found: dict[str, Expression] = {}
        common: list[Expression] | None = None
        for one in calls:
            if any(inner is not one and inner.get("class") == "WINDOW" for inner, _ in all_nodes(one)):
                raise functions.refusal_within(self._text, one)
            found.setdefault(Expression(one).said, Expression(functions.settled_window(one, root.ids, self._text)))
            parts = [Expression(part) for part in one["partitions"]]
            common = parts if common is None else [part for part in common if part in parts]
        columns = {said: self._new() for said in found}
        every = (*root.columns, *columns.values())
        return Window(every, root.ids, root, tuple(common or ()), tuple(found.values())), columns

    def _aggregates(self, node: Node) -> list[Node]:
        """The calls of aggregates, but those that are windows; not those within one."""
        found, pending = [], [node]
        while pending:
            one = pending.pop()
            if functions.is_aggregate(one):
                found.append(one)
            else:
                pending.extend(reversed(list(below(one))))
        return found

    def _no_rows(self, node: Node, where: str) -> None:
        for one, _ in all_nodes(node):
            if one.get("class") in ("WINDOW", "SUBQUERY") or functions.is_aggregate(one):
                why = f"{where} holds a query or a function over rows"
                raise self._refuse(one, why, "write HAVING, QUALIFY or a join")

    def _check(self, root: Node) -> None:
        """That each node of a resolved expression is one that views have. Raises SqlRefused."""
        for node, _ in all_nodes(root):
            kind = node.get("class")
            if kind == "FUNCTION":
                name = node["function_name"]
                low = name if name in allowed.FUNCTIONS else name.lower()
                if low in allowed.AGGREGATES and not functions.is_aggregate(node):
                    why = f"{low} is not one of the functions over rows that views have"
                    raise self._refuse(node, why, "write one of " + ", ".join(sorted(functions.PLAIN)))
                if low not in allowed.FUNCTIONS and not functions.is_aggregate(node):
                    raise self._refuse(node, *allowed.refusal(low))
                if low == "unnest":
                    raise self._refuse(node, "UNNEST makes several rows of one", "write a pipeline that does it")
                if not functions.is_aggregate(node) and (node.get("filter") or node.get("distinct")):
                    raise self._refuse(node, f"{low} looks at one row", "leave out DISTINCT and FILTER")
            elif kind == "OPERATOR":
                if node["type"] not in allowed.OPERATORS:
                    why = f"{node['type']} is not for views"
                    raise self._refuse(node, why, "write one that docs/pipelines.md lists")
            elif kind == "SUBQUERY":
                raise self._refuse(node, "a query stands within an expression", "join its result: JOIN (SELECT …) ON …")
            elif kind is not None and kind not in _CLASSES and kind != "WINDOW":
                raise self._refuse(node, f"{node.get('type')} is not for views", "leave it out")


def _conjuncts(node: Node | None) -> list[Node]:
    if node is None:
        return []
    if node.get("type") == "CONJUNCTION_AND":
        return [each for one in node["children"] for each in _conjuncts(one)]
    if node.get("type") == "CONJUNCTION_OR":  # what each of its parts says holds anyhow
        arms = [_conjuncts(one) for one in node["children"]]
        common = [one for one in arms[0] if all(any(_same(one, each) for each in arm) for arm in arms[1:])]
        return [*(one for one in common if one.get("type") == "COMPARE_EQUAL"), node]
    return [node]


def _same(one: Node, other: Node) -> bool:
    return Expression(one).said == Expression(other).said


def _subquery(node: Node) -> tuple[bool, Node] | None:
    """Whether a condition is a query or the opposite of one, and that query."""
    if node.get("type") == "OPERATOR_NOT":
        found = _subquery(node["children"][0])
        return None if found is None else (not found[0], found[1])
    return (False, node) if node.get("class") == "SUBQUERY" else None


def _equalities(
    conditions: Sequence[Expression], left: Operator, right: Operator
) -> list[tuple[Expression, Expression, Expression]]:
    """Of these conditions the ones that say that something of the left side equals something of the right."""
    found = []
    sides = frozenset(left.columns), frozenset(right.columns)
    for one in conditions:
        if one.node.get("type") != "COMPARE_EQUAL":
            continue
        a, b = Expression(one.node["left"]), Expression(one.node["right"])
        for first, second in ((a, b), (b, a)):
            if first.columns and second.columns and first.columns <= sides[0] and second.columns <= sides[1]:
                found.append((one, first, second))
                break
    return found


def _filtered(root: Operator, conditions: Sequence[Expression]) -> Operator:
    condition = _all(conditions)
    return root if condition is None else Filter(root.columns, root.ids, root, condition)


def _all(conditions: Sequence[Expression]) -> Expression | None:
    unique = list({one.said: one for one in conditions}.values())
    if not unique:
        return None
    if len(unique) == 1:
        return unique[0]
    children = [one.node for one in unique]
    return Expression({"class": "CONJUNCTION", "type": "CONJUNCTION_AND", "alias": "", "children": children})


def _comparison(left: Node, right: Node) -> Node:
    return {"class": "COMPARISON", "type": "COMPARE_EQUAL", "alias": "", "left": left, "right": right}


def _calls(node: Node, kind: str) -> list[Node]:
    return [one for one, _ in all_nodes(node) if one.get("class") == kind]


def _swapped(value: Expression, columns: Mapping[str, str]) -> Expression:
    """An expression in which columns stand for what they were computed from."""

    def by(node: Node) -> Node | None:
        name = columns.get(Expression(node).said)
        return None if name is None else algebra.column_node(name)

    return Expression(algebra.replaced(node=value.node, by=by))


def _name(node: Node) -> str:
    """What DuckDB calls a column that has no AS."""
    if node.get("class") == "COLUMN_REF":
        return str(node["column_names"][-1])
    tree = copy.deepcopy(node)
    return written({**algebra.SELECT, "select_list": [tree]}).removeprefix("SELECT ")
