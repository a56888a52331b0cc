"""What a change of its sources changes in a view: the rows that go and those that come, by the operators of its plan.

The rule, for each operator: the rows that may differ are those of the join values, groups or partitions that a change
below it touches; these are computed for the cut before and the cut after, and what both have is left out. Nothing is
kept between two refreshes but what the view itself holds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count

import duckdb

from firn_sql.parse_tree import parse
from firn_sql.views import bags, first_rows, pushed_down, rendered, time_changes
from firn_sql.views.algebra import (
    Expression,
    Filter,
    Group,
    Hops,
    Join,
    Operator,
    Plan,
    Project,
    Query,
    Scan,
    Sessions,
    Top,
    Union,
    Window,
    alone_in,
    column,
    quoted,
    reads_now,
)
from firn_sql.views.clock import NEVER, Moments, at, query_at
from firn_sql.views.join_values import alike
from firn_sql.views.refresh_port import AFTER, BEFORE, NOTHING, Delta, Sources, Span, Within, listed, named, through

__all__ = ["AFTER", "BEFORE", "NOTHING", "Refresh", "Within"]


class Refresh:
    """One refresh of a view, on a connection that it makes temporary tables in. Raises duckdb.Error where an expression
    fails. moments: what now() is before and after."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, plan: Plan, sources: Sources, moments: Moments = NEVER
    ) -> None:
        self._connection = connection
        self._plan = plan
        self._sources = sources
        self._moments = moments
        self._numbers = count()
        self._made: list[str] = []
        self._some: dict[str, str] = {}
        self._near: dict[tuple[int, Within], tuple[Mapping[int, str], Within]] = {}

    def delta(self) -> Delta | None:
        """What changes in the view: rows with Plan.stored. None if nothing does."""
        root, group = self._plan.root, self._plan.group
        if isinstance(root, Top):
            return self._of_first(root)
        return self._delta(root) if group is None else self._of_groups(group)

    def whole(self, cut: int) -> str:
        """A SELECT of all rows of the view at a cut, with Plan.stored."""
        group = self._plan.group
        rows = self._rows(group or self._plan.root, cut, None)
        return rows if group is None else rendered.above_groups(self._plan, group, rows)

    def rows_of(self, node: Operator) -> str:
        """A SELECT of all rows of one of its operators."""
        return self._rows(node, AFTER, None)

    def close(self) -> None:
        """Drop what it made."""
        for one in self._made:
            self._connection.execute(f"DROP TABLE IF EXISTS {one}")
        self._made.clear()

    # Groups that are the rows of the view, which holds what they were

    def _of_groups(self, group: Group) -> Delta | None:
        below = self._delta(group.input)
        if below is None:
            return None
        both = [f"SELECT * FROM {one}" for one in (below.gone, below.come)]
        touched = Within(
            tuple(map(column, group.ids)),
            self._values(group.keys, both) if group.keys else self._table("SELECT 1 AS w0"),
        )
        if self._plan.sums:  # all else that the view shows of them follows from these
            before = f"SELECT * FROM {self._table(self._sources.held(group.columns, touched))}"
            held = rendered.above_groups(self._plan, group, before)
            rows = rendered.summed(group, touched.table, before, *(rendered.grouped(group, one) for one in both))
        else:
            keys = Within(group.keys, touched.table) if group.keys else None
            held = self._sources.held(self._plan.stored, touched)
            rows = rendered.grouped(group, self._rows(group.input, AFTER, keys))
        return self._net(self._plan.stored, held, rendered.above_groups(self._plan, group, rows))

    # First rows that are the rows of the view

    def _of_first(self, node: Top) -> Delta | None:
        if (held := self._sources.all_held(self._plan.stored)) is None:
            return self._delta(node)
        below = self._delta(node.input)
        if below is None:
            return None
        before = self._table(held)
        now = first_rows.by_change(self._connection, node, before, below)
        now = now or rendered.top(node, self._rows(node.input, AFTER, None))
        return self._net(self._plan.stored, f"SELECT * FROM {before}", now)

    def _asked(self, node: Query, cut: int) -> str:
        """A SELECT of what a query gives at a cut, with the columns' own names."""
        tables = []
        for scan, name in zip(node.tables, node.names, strict=True):
            columns = [f"{one} AS {quoted(scan.names[one])}" for one in scan.columns]
            tables.append(f"{name} AS (SELECT {listed(columns)} FROM ({self._rows(scan, cut, None)}))")
        return f"WITH {', '.join(tables)} SELECT * FROM ({query_at(node.sql, self._moments[min(cut, AFTER)])})"

    # Rows at a cut

    def _rows(self, node: Operator, cut: int, within: Within | None) -> str:
        """A SELECT of `every` of an operator's rows at a cut, of those in `within`."""
        if isinstance(node, Scan):
            return self._scan(node, cut, within)
        if isinstance(node, Filter):
            rows = self._rows(node.input, cut, within)
            return (
                f"SELECT {listed(node.every)} FROM ({rows}) WHERE {at(node.condition, self._moments[min(cut, AFTER)])}"
            )
        if isinstance(node, Project):
            below = through(within, (*node.ids, *node.columns), (*map(column, node.ids), *node.values))
            return self._outside(within, below, rendered.projected(node, self._rows(node.input, cut, below)), node)
        if isinstance(node, Join):
            return self._joined(node, cut, within)
        if isinstance(node, Group):
            below = through(within, node.ids, node.keys) if within else None
            return self._outside(within, below, rendered.grouped(node, self._rows(node.input, cut, below)), node)
        if isinstance(node, Window):
            below = self._only(within, lambda one: one in node.partition)
            rows = rendered.windowed(node, self._rows(node.input, cut, below))
            return self._outside(within, below if below is within else None, rows, node)
        if isinstance(node, Hops):
            rows = rendered.hopped(node, self._rows(node.input, cut, self._of_hops(node, within)))
            return self._outside(within, None, rows, node)
        if isinstance(node, Sessions):
            below = self._only(within, lambda one: one in node.keys)
            rows = rendered.in_sessions(node, self._rows(node.input, cut, below))
            return self._outside(within, below if below is within else None, rows, node)
        if isinstance(node, Top):
            return self._outside(within, None, rendered.top(node, self._rows(node.input, cut, None)), node)
        if isinstance(node, Query):
            equal = f"row_number() OVER (PARTITION BY {', '.join(node.columns)}) AS {node.ids[-1]}"
            rows = f"SELECT *, {equal} FROM ({self._asked(node, cut)}) AS firn_asked({', '.join(node.columns)})"
            return self._outside(within, None, rows, node)
        if isinstance(node, Union):
            narrowed = self._narrowed(node, within)
            parts = [self._rows(one, cut, each) for one, each in zip(node.branches, narrowed, strict=True)]
            return self._outside(within, narrowed[0], rendered.united(node, parts), node)
        raise AssertionError(type(node))

    def _scan(self, node: Scan, cut: int, within: Within | None) -> str:
        days = time_changes.of_days(within, self._connection, lambda: self._rows(node, NOTHING, None), self._table)
        of_columns = self._only(days, lambda one: one.column is not None)
        asked = self._sources.rows(
            node.source, cut, [node.names[one] for one in node.every], named(of_columns, node.names)
        )
        rows = _renamed(node, asked)
        return rows if within is None else within.semi_join(rows, node.every)

    def _only(self, within: Within | None, keeps: Callable[[Expression], bool]) -> Within | None:
        """A condition by some of its values alone, which more rows may be in; None if it is by none of them."""
        if within is None:
            return None
        kept = [i for i, one in enumerate(within.values) if keeps(one)]
        if len(kept) in (0, len(within.values)):
            return within if kept else None
        listing = ", ".join(f"w{i} AS w{place}" for place, i in enumerate(kept))
        asked = f"SELECT DISTINCT {listing} FROM {within.table}"
        if asked not in self._some:  # the same for both cuts
            self._some[asked] = self._table(asked)
        return Within(tuple(within.values[i] for i in kept), self._some[asked])

    def _of_hops(self, node: Hops, within: Within | None) -> Within | None:
        """A condition on rows and windows as one on the rows that may be in these."""
        start, columns = node.columns[-2], frozenset(node.input.every)
        found = self._only(within, lambda one: one.column == start or one.columns <= columns)
        if found is None or all(one.column != start for one in found.values):
            return found
        if isinstance(found, Span) and node.number > 1:
            return None
        newest = Expression(parse(f"SELECT {node.newest}")["select_list"][0])
        values = tuple(newest if one.column == start else one for one in found.values)
        if node.number == 1:
            return replace(found, values=values)
        listing = ", ".join(
            f"w{i} + {node.hop.times('firn_n.n')} AS w{i}" if one.column == start else f"w{i}"
            for i, one in enumerate(found.values)
        )
        every = f"SELECT DISTINCT {listing} FROM {found.table}, range({node.number}) firn_n(n)"
        return Within(values, self._table(every))

    def _narrowed(self, node: Union, within: Within | None) -> Sequence[Within | None]:
        """The condition for each branch. Where a branch has another type, as what the union makes of it."""
        if within is None:
            return [None] * len(node.branches)
        rows = [self._rows(one, NOTHING, None) for one in node.branches]
        united = self._kinds(node.columns, rendered.united(node, rows))
        found = []
        for one, its in zip(node.branches, rows, strict=True):
            kinds = zip(one.columns, self._kinds(one.columns, its), united, strict=True)
            values = [column(name) if own == kind else _cast(name, kind) for name, own, kind in kinds]
            found.append(through(within, node.columns, values))
        return found

    def _kinds(self, columns: Sequence[str], rows: str) -> Sequence[str]:
        return list(map(str, self._connection.sql(f"SELECT {listed(columns)} FROM ({rows})").types))

    def _outside(self, within: Within | None, below: Within | None, rows: str, node: Operator) -> str:
        """Rows that `below` has narrowed already, or that are narrowed here."""
        return rows if within is None or below is not None else within.semi_join(rows, node.every)

    def _joined(self, node: Join, cut: int, within: Within | None) -> str:
        if within is None:
            return rendered.join(node, self._rows(node.left, cut, None), self._rows(node.right, cut, None))
        found = pushed_down.near_side(node, within.values, self._sources.count)
        if found is None:
            return within.semi_join(self._joined(node, cut, None), node.every)
        near, values = found
        own = self._only(within, values.__contains__) or within
        key = (id(node), own)
        if cut not in self._near.get(key, ({}, own))[0]:
            self._near[key] = self._near_rows(node, near, cut, own)
        here, joining = self._near[key]
        pair = (f"SELECT * FROM {here[cut]}", self._rows(node.inputs()[1 - near], cut, joining))
        rows = rendered.join(node, *(pair if near == 0 else pair[::-1]))
        return rows if own is within else within.semi_join(rows, node.every)

    def _near_rows(self, node: Join, near: int, cut: int, within: Within) -> tuple[Mapping[int, str], Within]:
        """Tables of the rows of a join's side, and a condition on those of the other side that they may join. Who
        looks at the cut before looks at the one after too, and both are looked up by the same condition: once."""
        keys = (node.left_keys, node.right_keys)
        cuts = (BEFORE, AFTER) if cut == BEFORE else (cut,)
        here = {one: self._table(self._rows(node.inputs()[near], one, within)) for one in cuts}
        wanted = self._values(keys[near], [f"SELECT * FROM {one}" for one in here.values()])
        return here, self._joining(node.inputs()[1 - near], keys[1 - near], wanted)

    # Changes

    def _delta(self, node: Operator) -> Delta | None:
        if isinstance(node, Scan):
            found = self._sources.changes(node.source, [node.names[one] for one in node.every])
            return None if found is None else self._net(node.every, *(_renamed(node, one) for one in found))
        if isinstance(node, Join):
            return self._join_delta(node)
        if isinstance(node, Union):
            return self._union_delta(node)
        if isinstance(node, Query):
            return self._net(node.every, *(self._rows(node, cut, None) for cut in (BEFORE, AFTER)))
        below = self._delta(node.inputs()[0])
        if isinstance(node, Filter):
            return self._filter_delta(node, below)
        if below is None:
            return None
        both = [f"SELECT * FROM {one}" for one in (below.gone, below.come)]
        if isinstance(node, Project):
            return self._net(node.every, *(rendered.projected(node, one) for one in both))
        if isinstance(node, Hops):
            return self._net(node.every, *(rendered.hopped(node, one) for one in both))
        if isinstance(node, Sessions):
            touched = Within(node.keys, self._values(node.keys, both)) if node.keys else None
            return self._net(
                node.every,
                *(rendered.in_sessions(node, self._rows(node.input, cut, touched)) for cut in (BEFORE, AFTER)),
            )
        if isinstance(node, Group):
            touched = Within(node.keys, self._values(node.keys, both)) if node.keys else None
            return self._net(
                node.every, *(rendered.grouped(node, self._rows(node.input, cut, touched)) for cut in (BEFORE, AFTER))
            )
        if isinstance(node, Window):
            touched = Within(node.partition, self._values(node.partition, both)) if node.partition else None
            return self._net(
                node.every, *(rendered.windowed(node, self._rows(node.input, cut, touched)) for cut in (BEFORE, AFTER))
            )
        if isinstance(node, Top):
            return self._net(
                node.every, *(rendered.top(node, self._rows(node.input, cut, None)) for cut in (BEFORE, AFTER))
            )
        raise AssertionError(type(node))

    def _filter_delta(self, node: Filter, below: Delta | None) -> Delta | None:
        is_timed = reads_now(node.condition.node)
        some = time_changes.spans(self._connection, node, self._moments, self._table) if is_timed else []
        if below is None and not some:
            return None
        rows = partial(self._rows, node.input, AFTER)
        return self._net(node.every, *time_changes.sides(node, self._moments, below, some, rows, self._table))

    def _join_delta(self, node: Join) -> Delta | None:
        sides = [(node.left, node.left_keys), (node.right, node.right_keys)]
        deltas = [self._delta(one) for one, _ in sides]
        names = [f"w{i}" for i in range(len(node.left_keys))]
        changed = [
            (side, f"SELECT {', '.join(f'({key.sql}) AS w{i}' for i, key in enumerate(keys))} FROM {table}")
            for side, (delta, (_, keys)) in enumerate(zip(deltas, sides, strict=True)) if delta is not None
            for table in (delta.gone, delta.come)
        ]  # fmt: skip
        if not changed:
            return None
        alone = alone_in(node.kind, [one is not None for one in deltas])
        values = alike(self._connection, names, [self._no_values(*one) for one in sides], [one for _, one in changed])
        within = []
        for side, (one, keys) in enumerate(sides):
            asked = [each for (its, _), each in zip(changed, values, strict=True) if side != alone or its != side]
            within.append(self._joining(one, keys, self._joined_by(names, asked)) if asked else None)
        at = []
        for cut in (BEFORE, AFTER):
            parts = []
            for side, ((one, keys), delta, its) in enumerate(zip(sides, deltas, within, strict=True)):
                rows = [] if its is None else [self._rows(one, cut, its)]
                if delta is not None:
                    table = (delta.gone, delta.come)[cut]
                    own = f"SELECT {listed(one.every)} FROM {table}"
                    if side == alone:
                        rows.append(own if its is None else its.anti_join(f"SELECT * FROM {table}", one.every))
                    elif alone is None:  # a null equals nothing, so these rows have no others to look at
                        rows.append(f"{own} WHERE {' OR '.join(f'({key.sql}) IS NULL' for key in keys)}")
                parts.append(" UNION ALL ".join(rows))
            at.append(rendered.join(node, *parts))
        return self._net(node.every, *at)

    def _joined_by(self, names: Sequence[str], values: Sequence[str]) -> str:
        """A table of the different values by which changed rows join: a null joins with nothing."""
        there = " AND ".join(f"{one} IS NOT NULL" for one in names)
        return self._table(f"SELECT DISTINCT {', '.join(names)} FROM ({' UNION ALL '.join(values)}) WHERE {there}")

    def _joining(self, side: Operator, keys: Sequence[Expression], table: str) -> Within:
        """A condition on one side of a join, by values of which some are of the other one. A text is compared with what
        is none as that is, and one that says no such thing is no reason to fail: the query may leave it out."""
        names = [f"w{i}" for i in range(len(keys))]
        own = self._kinds(names, self._no_values(side, keys))
        kinds = zip(keys, own, self._kinds(names, f"SELECT * FROM {table}"), strict=True)
        return Within(
            tuple(_cast(f"({key.sql})", kind, "TRY_CAST") if mine == "VARCHAR" != kind else key
                  for key, mine, kind in kinds), table,
        )  # fmt: skip

    def _no_values(self, side: Operator, keys: Sequence[Expression]) -> str:
        """A SELECT of no values by which one side of a join joins, in their types."""
        listing = ", ".join(f"({key.sql}) AS w{i}" for i, key in enumerate(keys))
        return f"SELECT {listing} FROM ({self._rows(side, NOTHING, None)})"

    def _union_delta(self, node: Union) -> Delta | None:
        deltas = [self._delta(one) for one in node.branches]
        if all(one is None for one in deltas):
            return None
        nothing = [f"SELECT * FROM ({self._rows(one, NOTHING, None)}) LIMIT 0" for one in node.branches]
        gone, come = (
            [f"SELECT * FROM {each}" if each else none for each, none in zip(tables, nothing, strict=True)]
            for tables in ([one and one.gone for one in deltas], [one and one.come for one in deltas])
        )
        return self._net(node.every, rendered.united(node, gone), rendered.united(node, come))

    # Tables of the connection

    def _table(self, rows: str) -> str:
        name = f"firn_{id(self)}_{next(self._numbers)}"
        self._connection.execute(f"CREATE TEMP TABLE {name} AS {rows}")
        self._made.append(name)
        return name

    def _values(self, values: Sequence[Expression], rows: Sequence[str]) -> str:
        """The different values of expressions, as a table with the columns w0, w1, …"""
        named = ", ".join(f"({one.sql}) AS w{i}" for i, one in enumerate(values))
        return self._table(f"SELECT DISTINCT {named} FROM ({' UNION ALL '.join(rows)})")

    def _net(self, columns: Sequence[str], before: str, after: str) -> Delta | None:
        """The rows that only one of the two has, each as often as it has more of it."""
        found = self._table(bags.counted([before], [after], columns))
        ((most,),) = self._connection.execute(f"SELECT max(abs({bags.COUNT})) FROM {found}").fetchall()
        if most is None:
            return None
        return Delta(
            *(self._table(bags.repeated(f"FROM {found}", columns, sign, once=most == 1)) for sign in ("", "-"))
        )


def _cast(sql: str, kind: str, how: str = "CAST") -> Expression:
    return Expression(parse(f"SELECT {how}({sql} AS {kind})")["select_list"][0])


def _renamed(node: Scan, rows: str) -> str:
    return f"SELECT {', '.join(f'{quoted(node.names[one])} AS {one}' for one in node.every)} FROM ({rows})"
