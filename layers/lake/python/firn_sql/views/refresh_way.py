"""Whether a refresh goes by what changed, or runs the query whole and keeps of it what differs from what the view
holds: whichever is about to cost less. Pure: the same sizes give the same way."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from firn_sql.views.algebra import Group, Join, Operator, Plan, Query, Scan, Sessions, Top, Union, Window, operators
from firn_sql.views.refresh_cost import Facts, estimate

WAY: Final = "firn.view.way"  # in a snapshot's summary: Way.told
_STEP: Final = 200_000  # rows that are read whole while an operator compares what it was with what it is
_MOST: Final = 20_000_000  # rows of which all are read: what a view holds and what it is to hold are compared on disk
_BYTES: Final = 200  # of files that count for a row: of wide rows each counts for several
_LOOKED_THROUGH: Final = 4  # rows in which a value is looked for, while one is read
_STEPS: Final = (Join, Group, Window, Sessions, Top, Union, Query)
_ROUNDED: Final = ("FLOAT", "DOUBLE")


@dataclass(frozen=True)
class Way:
    """How a refresh is made, and why. whole: by the whole query; by_change, by_whole: what each costs, in rows that are
    read whole; 0: it was not estimated."""

    whole: bool
    why: str
    by_change: int = 0
    by_whole: int = 0

    @property
    def told(self) -> str:
        """In a few words."""
        return f"{'whole query' if self.whole else 'by change'}: {self.why}"


def way_of(
    plan: Plan, facts: Mapping[str, Facts], changed: Mapping[str, int], view: Facts, kinds: Collection[str]
) -> Way:
    """The way of a refresh.

    facts    of each of plan.sources; how many different values columns have is not looked at
    changed  how many rows of each have changed
    view     its own, as it is
    kinds    the types of its columns, in DuckDB's words
    """
    if not is_repeatable(plan, kinds):
        return Way(False, "sums of floating point go by the order of rows, and would differ each time")
    known = {name: replace(one, distinct={}) for name, one in facts.items()}
    root = plan.root
    # First rows follow from those that the view has, as a rule: that all are read, should others come up, is no reason.
    below = replace(plan, root=root.input) if isinstance(root, Top) and not root.offset else plan
    cost = estimate(below, known, changed, sums=plan.sums)
    looked_through = sum(known[name].rows for name, ways in cost.by.items() for way in ways if way)
    reads = sum(rows * all_of(known[name]) // max(1, known[name].rows) for name, rows in cost.reads.items())
    by_change = _STEP * _steps(plan.root, changed) + reads + looked_through // _LOOKED_THROUGH
    whole = all_of(view) + sum(all_of(known[one.source]) for one in operators(plan.root) if isinstance(one, Scan))
    costs = f"about as much as reading {by_change:,} rows, the whole query {whole:,}"
    if by_change > whole > _MOST:
        return Way(False, f"what changed costs {costs}, which are too many to compare", by_change, whole)
    return Way(whole < by_change, f"what changed costs {costs}", by_change, whole)


def all_of(table: Facts) -> int:
    """What to read all of a table costs, in rows."""
    return max(table.rows, table.bytes // _BYTES)


def is_repeatable(plan: Plan, kinds: Collection[str]) -> bool:
    """Whether the query run whole gives what a refresh by change gives, to the last digit."""
    if plan.sums or not any(isinstance(one, Group | Window) for one in operators(plan.root)):
        return True
    return not any(word in kind.upper() for kind in kinds for word in _ROUNDED)


def _steps(node: Operator, changed: Mapping[str, int]) -> int:
    """The operators above what changed that compare what was with what is."""
    if not any(isinstance(one, Scan) and changed.get(one.source) for one in operators(node)):
        return 0
    return isinstance(node, _STEPS) + sum(_steps(one, changed) for one in node.inputs())
