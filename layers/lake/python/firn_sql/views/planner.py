"""The query of a view as a plan: what it says is checked, and every name in it resolved."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Final

from firn_sql.check import HIDDEN
from firn_sql.parse_tree import MAX_DEPTH, Node, Text, all_nodes, parse, too_deep
from firn_sql.views import algebra, functions
from firn_sql.views.algebra import Expression, Filter, Group, Operator, Plan, Project, Top, Union, Window
from firn_sql.views.clock import with_one_name
from firn_sql.views.expressions import aggregates, calls, check, name_of, swapped
from firn_sql.views.narrowed import narrowed
from firn_sql.views.relations import Known, Relations, SourceTable
from firn_sql.views.same_sums import same_sums
from firn_sql.views.scope import Perhaps, Scope, Undecided, of_columns
from firn_sql.views.time_windows import table_of

__all__ = ["SourceTable", "Undecided", "plan"]

MOST_SELECTS: Final = 30
MOST_BYTES: Final = 100_000
_MOST_GUESSES: Final = 1_000_000
_SOME: Final = "…"  # a column of an open table of which nothing is said


def plan(sql: str, tables: Mapping[str, SourceTable]) -> Plan:
    """The plan of a view. tables: by the names that SQL may say, in lower case.

    Raises SqlRefused; Undecided where that depends on columns of open tables.
    """
    text = Text(sql.encode())
    tree = parsed(sql, text, tables)
    is_open = any(one.open for one in tables.values())
    planner = _Planner(text, tables, _mentioned(tree) if is_open else ())
    root, names = planner.query(tree, {}, None)
    seen: dict[str, str] = {}
    for name in names:
        if isinstance(name, Perhaps):
            continue
        if name.lower() in seen or not name.strip():
            raise text.refuse(0, f"it gives two columns {name[:60]!r}", "write AS another name")
        if name.lower().startswith(HIDDEN):
            raise text.refuse(0, f"names that begin with {HIDDEN} are Firn's own", "write AS another name")
        seen[name.lower()] = name
    return Plan(same_sums(narrowed(root)), names)


def parsed(sql: str, text: Text, tables: Mapping[str, SourceTable]) -> Node:
    """The tree of a view's query, in which the time is now() alone. Raises SqlRefused where it is none, or too
    large."""
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
    return with_one_name(tree, text, {name.lower() for one in tables.values() for name in one.seen})


def _mentioned(tree: Node) -> Sequence[str]:
    """What a query says that may be a column's name. Raises Undecided for too much of it."""
    nodes = [node for node, _ in all_nodes(tree)]
    tables = {str(name).lower() for node in nodes for name in _table_names(node)}
    found: dict[str, None] = {_SOME: None}
    references = 0
    for node in nodes:
        for one in _names(node, tables):
            references += 1
            if not one.lower().startswith(HIDDEN):
                found[one.lower()] = None
    if references * len(found) > _MOST_GUESSES:
        raise Undecided
    return tuple(found)


def _table_names(node: Node) -> Iterator[str]:
    if node.get("type") in ("BASE_TABLE", "SUBQUERY"):
        yield from filter(None, (node.get("alias"), *node.get("qualified_name", {}).get("path", ())[-1:]))
    elif path := table_of(node):
        yield node.get("alias") or path[-1]


def _names(node: Node, tables: Set[str]) -> Iterator[str]:
    path = node.get("column_names", ())
    yield from path[1:] if len(path) > 1 and path[0].lower() in tables else path
    if node.get("type") == "JOIN":
        yield from node.get("using_columns") or ()
    if node.get("class") == "STAR":
        yield from node.get("exclude_list", ())
        yield from (one["key"] for one in node.get("replace_list", ()))
        yield from (one["key"]["column"] for one in node.get("rename_list", ()))


class _Planner(Relations):
    """One query."""

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

    def _union(self, node: Node, known: Known, outer: Scope | None) -> tuple[Operator, tuple[str, ...]]:
        if node["setop_type"] != "UNION":
            what = "BY NAME" if "NAME" in node["setop_type"] else node["setop_type"]
            raise self._refuse(node, f"{what} is not kept by what changed", "write UNION ALL, EXISTS or NOT EXISTS")
        parts = [self.query(one, known, outer) for one in node["children"]]
        names = parts[0][1]
        for child, (_, own) in zip(node["children"], parts, strict=True):
            if len(own) != len(names):
                if any(isinstance(one, Perhaps) for one in (*own, *names)):
                    raise Undecided
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
        scope = scope.with_aliases(names, values)
        having = scope.resolved(node["having"], alias_first=True) if node.get("having") else None
        qualify = scope.resolved(node["qualify"]) if node.get("qualify") else None
        everything = [*values, *filter(None, [having, qualify])]
        for one in everything:
            check(one.node, self._text, timed=one is having or one is qualify)
        is_grouped = bool(node["group_sets"]) or node["aggregate_handling"] == "FORCE_AGGREGATES"
        is_grouped = is_grouped or having is not None or any(aggregates(one.node) for one in everything)
        if is_grouped:
            keys = self._keys(node, scope, values)
            root, swap = self._group(root, keys, everything)
            values = [swap(one) for one in values]
            having, qualify = (None if one is None else swap(one) for one in (having, qualify))
        if having is not None:
            root = Filter(root.columns, root.ids, root, having)
        windows = [one for each in (*values, *filter(None, [qualify])) for one in calls(each.node, "WINDOW")]
        if windows:
            root, seen = self._window(root, windows)
            values = [swapped(one, seen) for one in values]
            qualify = None if qualify is None else swapped(qualify, seen)
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
                names = [item.name for item in scope.items]
                root = self._distinct(root)
                scope = Scope(self._text, of_columns("", names, root.columns))
            elif one["type"] == "ORDER_MODIFIER":
                orders = [self._order(order, scope) for order in one["orders"]]
            elif one["type"] == "LIMIT_MODIFIER":
                limit, start = self._number(one.get("limit")), self._number(one.get("offset"))
                if limit is None or one.get("limit_type", "ROW_COUNT") != "ROW_COUNT":
                    raise self._refuse(one, "LIMIT is not a number", "write LIMIT 100")
                if start is None and one.get("offset"):
                    raise self._refuse(one, "OFFSET is not a number", "write LIMIT 100 OFFSET 20")
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
        check(value.node, self._text)
        down = order["type"] == "DESCENDING"
        nulls = str(order["null_order"]).replace("_", " ")
        return f"{value.sql} {'DESC' if down else 'ASC'} {'NULLS FIRST' if 'FIRST' in nulls else 'NULLS LAST'}"

    def _number(self, node: Node | None) -> int | None:
        literal = (node or {}).get("literal", {})
        return int(literal["text"]) if literal.get("kind") == "INTEGER" else None

    def _distinct(self, root: Operator) -> Operator:
        ids = tuple(self._new() for _ in root.columns)
        return Group(ids, ids, root, tuple(algebra.column(one) for one in root.columns), ())

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
            values.append(scope.with_aliases(names, values).resolved(one))
            names.append(one.get("alias") or name_of(one))
        return names, values

    def _keys(self, node: Node, scope: Scope, values: Sequence[Expression]) -> list[Expression]:
        if len(node["group_sets"]) > 1:
            instead = "write UNION ALL of a SELECT for each"
            raise self._refuse(node, "GROUPING SETS, ROLLUP and CUBE are not kept", instead)
        if not node["group_sets"] and node["aggregate_handling"] == "FORCE_AGGREGATES":
            found = [one for one in values if not aggregates(one.node) and not calls(one.node, "WINDOW")]
        else:
            found = []
            for one in node["group_expressions"]:
                place = self._number(one)
                if place is not None and not 0 < place <= len(values):
                    raise self._refuse(one, f"there is no column {place}", "write the column's name")
                found.append(values[place - 1] if place is not None else scope.resolved(one))
        for one in found:
            check(one.node, self._text)
            if aggregates(one.node) or calls(one.node, "WINDOW"):
                raise self._refuse(one.node, "GROUP BY holds a function over rows", "write a column")
        return list({one.said: one for one in found}.values())

    def _group(
        self, root: Operator, keys: Sequence[Expression], values: Sequence[Expression]
    ) -> tuple[Operator, Callable[[Expression], Expression]]:
        """The groups, and how an expression over their rows is one over what they are. Raises SqlRefused."""
        ids = tuple(self._new() for _ in keys)
        calls: dict[str, Expression] = {}
        for value in values:
            for one in aggregates(value.node):
                check(one, self._text)
                functions.check_call(one, self._text)
                if any(inner is not one and functions.is_aggregate(inner) for inner, _ in all_nodes(one)):
                    raise functions.refusal_within(self._text, one)
                calls.setdefault(Expression(one).said, Expression(functions.settled(one, root.ids, self._text)))
        columns = {said: self._new() for said in calls}
        seen = {one.said: name for one, name in zip(keys, ids, strict=True)} | columns
        found = Group((*ids, *columns.values()), ids, root, tuple(keys), tuple(calls.values()))

        def swap(value: Expression) -> Expression:
            result = swapped(value, seen)
            strange = result.columns - set(found.columns)
            if strange:
                if any(one.guessed for one in (value, *keys)):
                    raise Undecided
                where = next(one for one, _ in all_nodes(value.node) if one.get("column_names", [""])[0] in strange)
                raise self._refuse(where, "a column is neither in GROUP BY nor within a function over rows",
                                   "write it in GROUP BY, or any_value(…)")  # fmt: skip
            return result

        return found, swap

    def _window(self, root: Operator, calls: Sequence[Node]) -> tuple[Operator, Mapping[str, str]]:
        found: dict[str, Expression] = {}
        common: list[Expression] | None = None
        for one in calls:
            check(one, self._text)
            if any(inner is not one and inner.get("class") == "WINDOW" for inner, _ in all_nodes(one)):
                raise functions.refusal_within(self._text, one)
            found.setdefault(Expression(one).said, Expression(functions.settled_window(one, root.ids, self._text)))
            parts = [Expression(part) for part in one["partitions"]]
            common = parts if common is None else [part for part in common if part in parts]
        columns = {said: self._new() for said in found}
        every = (*root.columns, *columns.values())
        return Window(every, root.ids, root, tuple(common or ()), tuple(found.values())), columns
