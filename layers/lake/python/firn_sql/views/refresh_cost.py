"""How each part of a view is kept, and about what it costs: `firn views explain`. Pure; nothing is read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from firn_sql.parse_tree import Node
from firn_sql.views import pushed_down
from firn_sql.views.algebra import (
    Expression,
    Filter,
    Group,
    Hops,
    Join,
    Operator,
    Plan,
    Project,
    Scan,
    Sessions,
    Top,
    Union,
    Window,
    alone_in,
    reads_now,
    replaced,
)
from firn_sql.views.clock import compared
from firn_sql.views.time_changes import day_of

CHANGED: Final = 1_000
"""Rows that change in a table, for an estimate."""
ASSUMED: Final = 10
"""Rows of a value, where nothing says how many different ones there are."""
_MOST: Final = 10**15
_WORDS: Final = 60  # characters of an expression
_DEEPEST: Final = 3  # expressions in expressions
_LONGEST: Final = 5_000  # characters of a tree


@dataclass(frozen=True)
class Facts:
    """What is known of a table: its rows, its key, of some columns how many different values they have, and the bytes
    of its data files (0: not known)."""

    rows: int
    key: tuple[str, ...] = ()
    distinct: Mapping[str, int] = field(default_factory=dict)
    bytes: int = 0


@dataclass(frozen=True)
class Part:
    """An operator of a view, as people read it. depth: below how many others."""

    depth: int
    what: str
    kept: str


@dataclass(frozen=True)
class Cost:
    """What a refresh reads for CHANGED rows of one table: about so many rows of others, and of the view itself.
    by: of each of these tables the columns that its rows are looked up by, each time they are read; none: all are read.
    assumed: a number of different values was not known."""

    source: str
    reads: Mapping[str, int]
    by: Mapping[str, Sequence[Sequence[str]]]
    view: int
    assumed: bool


def parts(plan: Plan, *, sums: bool) -> list[Part]:
    """The operators from the view down to its tables; those that only compute columns are left out. sums: whether its
    groups are kept as such (firn_sql.views.sums)."""
    return list(_parts(plan.root, plan.group or plan.root, 0, sums=sums))


def _parts(node: Operator, root: Operator, depth: int, *, sums: bool) -> Iterator[Part]:
    if not isinstance(node, Project):
        yield Part(depth, _what(node), _kept(node, is_root=node is root, sums=sums))
        depth += 1
    for one in node.inputs():
        yield from _parts(one, root, depth, sums=sums)


def _what(node: Operator) -> str:
    if isinstance(node, Scan):
        return node.source
    if isinstance(node, Filter):
        return f"where {words(node.input, [node.condition])}"
    if isinstance(node, Join):
        pairs = zip(node.left_keys, node.right_keys, strict=True)
        on = " and ".join(f"{words(node.left, [a])} = {words(node.right, [b])}" for a, b in pairs)
        return f"{node.kind.lower()} join on {on}"[:200]
    if isinstance(node, Group):
        if not node.keys:
            return "one group of all rows"
        return f"{'group by' if node.aggregates else 'distinct'} {words(node.input, node.keys)}"
    if isinstance(node, Window):
        return f"window over {words(node.input, node.partition) if node.partition else 'all rows'}"
    if isinstance(node, Hops):
        return f"windows of time over {words(node.input, [node.time])}"
    if isinstance(node, Sessions):
        return f"sessions of {words(node.input, node.keys) if node.keys else 'all rows'}"
    if isinstance(node, Top):
        return f"the first {node.limit:,} rows" + (f" after {node.offset:,}" if node.offset else "")
    return f"union of {len(node.inputs())} queries"


def _kept(node: Operator, *, is_root: bool, sums: bool) -> str:
    if isinstance(node, Scan):
        return "what changed in it"
    if isinstance(node, Filter) and reads_now(node.condition.node):
        return _timed(node)
    if isinstance(node, Filter | Hops):
        return "row by row"
    if isinstance(node, Join):
        return "rows of touched join values, before and now"
    if isinstance(node, Group):
        if is_root and sums:
            return "sums of what changed"
        return "touched groups made again" if node.keys else "made again from all rows"
    if isinstance(node, Window):
        return "touched partitions made again" if node.partition else "made again from all rows"
    if isinstance(node, Sessions):
        return "sessions of touched keys made again" if node.keys else "made again from all rows"
    if isinstance(node, Top):
        if is_root and not node.offset:
            return "what changed in it, or all rows where others come up"
        return "made again from all rows"
    return "each query by itself"


def _timed(node: Filter) -> str:
    """How a filter is kept that goes by the time."""
    found = compared(node.condition)
    if found is None:
        return "all rows at each refresh: write a column > now() - INTERVAL …, with now() on one side alone"
    origins = [(one.value, _origin(node.input, day_of(one.value) or one.value)) for one in found]
    told = ", ".join(dict.fromkeys(words(node.input, [value]) for value, _ in origins))
    if all(origin is not None for _, origin in origins):
        return f"row by row, and as time passes rows whose {told} it has passed"
    return f"row by row, and as time passes of all rows those whose {told} it has passed"


def words(node: Operator, values: Sequence[Expression]) -> str:
    """Expressions with the names that tables have for columns."""
    text = ", ".join(Expression(_shown(node, one.node, 0)).sql for one in values).replace('"…"', "…")
    return text if len(text) <= _WORDS else text[: _WORDS - 1] + "…"


def _shown(node: Operator, value: Node, depth: int) -> Node:
    """An expression over an operator's columns as one over columns of tables."""

    def named(one: Node) -> Node | None:
        if one.get("class") != "COLUMN_REF":
            return None
        if (found := _origin(node, Expression(one))) is not None:
            return {**one, "column_names": [found[0].source.rpartition(".")[2], found[1]]}
        below, made = _made(node, one["column_names"][0])
        if made is None or depth >= _DEEPEST or len(made.said) > _LONGEST:
            return {**one, "column_names": ["…"]}
        return _shown(below, made.node, depth + 1)

    found: Node = replaced(value, named)
    return found


def _made(node: Operator, name: str) -> tuple[Operator, Expression | None]:
    """What a column is computed from, and of which operator's columns."""
    while True:
        below = node.inputs()
        made: Sequence[Expression] = ()
        columns: Sequence[str] = ()
        if isinstance(node, Project):
            made, columns = node.values, node.columns
        elif isinstance(node, Group):
            made, columns = (*node.keys, *node.aggregates), node.columns
        elif isinstance(node, Window):
            made, columns = node.functions, node.columns[len(node.columns) - len(node.functions) :]
        if name in columns:
            return below[0], made[columns.index(name)]
        found = next((one for one in below if name in one.every), None)
        if found is None or isinstance(node, Union):
            return node, None
        node = found


def _origin(node: Operator, value: Expression) -> tuple[Scan, str] | None:
    """The column of a table that a value is, if it is one."""
    while (name := value.column) is not None:
        if isinstance(node, Scan):
            return (node, node.names[name]) if name in node.names else None
        if isinstance(node, Union):
            return None
        if isinstance(node, Project) and name in node.columns:
            value = node.values[node.columns.index(name)]
        elif isinstance(node, Group):
            if name not in node.ids:
                return None
            value = node.keys[node.ids.index(name)]
        below = next((one for one in node.inputs() if value.columns <= frozenset(one.every)), None)
        if below is None:
            return None
        node = below
    return None


def costs(plan: Plan, facts: Mapping[str, Facts], *, sums: bool) -> list[Cost]:
    """What a refresh reads, by the table that changes. facts: of each of plan.sources; sums: as for `parts`."""
    return [estimate(plan, facts, {source: CHANGED}, sums=sums) for source in plan.sources]


def estimate(plan: Plan, facts: Mapping[str, Facts], changed: Mapping[str, int], *, sums: bool) -> Cost:
    """The same where so many rows of each of these tables change."""
    return _Estimate(plan, facts, changed).cost(sums=sums)


class _Estimate:
    """One estimate, for so many changed rows of tables."""

    def __init__(self, plan: Plan, facts: Mapping[str, Facts], changes: Mapping[str, int]) -> None:
        self._plan = plan
        self._facts = facts
        self._changes = changes
        self._reads: dict[str, float] = {}
        self._by: dict[str, dict[tuple[str, ...], None]] = {}
        self._assumed = False
        self._known: dict[int, tuple[float, bool]] = {}

    def cost(self, *, sums: bool) -> Cost:
        group = self._plan.group
        if group is None:
            view = self._changed(self._plan.root)
        else:
            below = self._changed(group.input)
            view = min(below, self._distinct(group.input, group.keys))
            if not sums:
                self._touched(group.input, group.keys, below, 1)
        reads = {name: round(min(rows, _MOST)) for name, rows in self._reads.items()}
        by = {name: list(ways) for name, ways in self._by.items()}
        return Cost(", ".join(self._changes), reads, by, round(min(view, _MOST)), self._assumed)

    def _changed(self, node: Operator) -> float:
        """How many rows change in an operator, and what is read for it."""
        if isinstance(node, Scan):
            return self._changes.get(node.source, 0)
        below = [self._changed(one) for one in node.inputs()]
        if not any(below):
            return 0
        if isinstance(node, Join):
            return self._joined(node, below)
        changed = sum(below)
        if isinstance(node, Group):
            return self._touched(node.input, node.keys, changed, 2)
        if isinstance(node, Window):
            touched = self._touched(node.input, node.partition, changed, 2)
            rows = self._rows(node.input)
            return rows * touched / max(1, self._distinct(node.input, node.partition))
        if isinstance(node, Hops):
            return changed * node.number
        if isinstance(node, Sessions):
            touched = self._touched(node.input, node.keys, changed, 2)
            return self._rows(node.input) * touched / max(1, self._distinct(node.input, node.keys))
        if isinstance(node, Top):
            self._read(node.input, (), 1 if node is self._plan.root else 2)
            return min(changed, node.limit)
        return changed

    def _joined(self, node: Join, below: Sequence[float]) -> float:
        sides = ((node.left, node.left_keys), (node.right, node.right_keys))
        different = self._different(node)
        touched, alone = list(map(min, below, different)), alone_in(node.kind, list(map(bool, below)))
        of_value = []
        for number, ((side, keys), each) in enumerate(zip(sides, different, strict=True)):
            asked = sum(one for its, one in enumerate(touched) if number != alone or its != number)
            if asked:
                self._read(side, keys, 2 * min(1, asked / max(1, each)))
            of_value.append(self._rows(side) / max(1, each))
        left, right = below
        return left if node.kind in ("SEMI", "ANTI") else left * max(1, of_value[1]) + right * max(1, of_value[0])

    def _touched(self, node: Operator, values: Sequence[Expression], changed: float, cuts: int) -> float:
        """Groups or partitions that are made again, for which rows are read at so many cuts."""
        every = self._distinct(node, values)
        touched = min(changed, every)
        self._read(node, values, cuts * touched / max(1, every))
        return touched

    def _read(self, node: Operator, values: Sequence[Expression], share: float) -> None:
        """Reads a share of an operator's rows: of 2, all of them at two cuts. values: what they are chosen by, as far
        as that goes down to the tables (pushed_down); none: all are read."""
        if isinstance(node, Scan):
            kept, share = self._kept(node, node, values, share, pushed_down.looked_up_by(node, values))
            self._reads[node.source] = self._reads.get(node.source, 0) + self._rows(node) * share
            names = tuple(sorted({node.names[one.column or ""] for one in kept}))
            self._by.setdefault(node.source, {})[names] = None
        elif isinstance(node, Join):
            self._read_join(node, values, share)
        else:
            for one in node.inputs():
                self._read(one, *self._kept(node, one, values, share, pushed_down.through(node, one, values)))

    def _kept(
        self, node: Operator, below: Operator, values: Sequence[Expression], share: float, kept: Sequence[Expression]
    ) -> tuple[Sequence[Expression], float]:
        """What is kept of what an operator's rows are chosen by, and the share of those below that is read by it."""
        every = 2 if share > 1 else 1
        if not kept or len(kept) == len(values):
            return kept, share if kept else every
        return kept, min(every, share * self._distinct(node, values) / self._distinct(below, kept))

    def _read_join(self, node: Join, values: Sequence[Expression], share: float) -> None:
        sides = ((node.left, node.left_keys), (node.right, node.right_keys))
        near = pushed_down.near_side(node, values, lambda one: self._facts[one].rows) if values else None
        if near is None:
            for side, _ in sides:
                self._read(side, (), 2 if share > 1 else 1)
            return
        number, own = near
        (side, _), (other, keys) = sides[number], sides[1 - number]
        own, share = self._kept(node, side, values, share, own)
        self._read(side, own, share)
        found = self._rows(side) * share
        self._read(other, keys, min(max(share, 1), found / self._different(node)[1 - number]))

    def _rows(self, node: Operator) -> float:
        """About how many rows an operator has: at most, where conditions leave some out."""
        if id(node) not in self._known:
            before, self._assumed = self._assumed, False
            rows = self._counted(node)
            self._known[id(node)] = rows, self._assumed
            self._assumed = before
        rows, assumed = self._known[id(node)]
        self._assumed |= assumed
        return rows

    def _counted(self, node: Operator) -> float:
        if isinstance(node, Scan):
            return self._facts[node.source].rows
        if isinstance(node, Join):
            left, right = self._rows(node.left), self._rows(node.right)
            if node.kind in ("SEMI", "ANTI"):
                return left
            pairs = left * right / max(self._different(node))
            least = {"LEFT": left, "RIGHT": right, "FULL": max(left, right)}.get(node.kind, 0)
            return max(pairs, least)
        if isinstance(node, Group):
            return self._distinct(node.input, node.keys)
        if isinstance(node, Top):
            return min(node.limit, self._rows(node.input))
        return sum(map(self._rows, node.inputs())) * (node.number if isinstance(node, Hops) else 1)

    def _different(self, node: Join) -> list[float]:
        """The different values by which each side joins; one that is not known is no more than the other."""
        found = []
        before = self._assumed
        for side, keys in ((node.left, node.left_keys), (node.right, node.right_keys)):
            self._assumed = False
            found.append((self._distinct(side, keys), self._assumed))
        (left, left_assumed), (right, right_assumed) = found
        self._assumed = before or (left_assumed and right_assumed)
        if left_assumed != right_assumed:
            least = min(left, right)
            return [least, right] if left_assumed else [left, least]
        return [left, right]

    def _distinct(self, node: Operator, values: Sequence[Expression]) -> float:
        """About how many different values there are together; 1 of none."""
        rows = self._rows(node)
        found: dict[tuple[int, str], float] = {}
        whole: dict[int, set[str]] = {}
        product = 1.0
        for value in values:
            origin = _origin(node, value)
            if origin is None:
                self._assumed = True
                product *= max(1, rows / ASSUMED)
                continue
            scan, name = origin
            facts = self._facts[scan.source]
            whole.setdefault(id(scan), set()).add(name)
            if whole[id(scan)] >= set(facts.key) and facts.key:
                found = {key: one for key, one in found.items() if key[0] != id(scan)}
                found[id(scan), ""] = max(1, facts.rows)
            elif name in facts.distinct:
                found[id(scan), name] = max(1, facts.distinct[name])
            elif (id(scan), "") not in found:
                self._assumed = True
                found[id(scan), name] = max(1, facts.rows / ASSUMED)
        for one in found.values():
            product = min(product * one, _MOST)
        return max(1, min(product, rows)) if values else 1
