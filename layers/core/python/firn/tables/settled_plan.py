"""Which changes have a say in a table's columns: all that the table takes, and none that is a dead letter. Pure
(docs/types.md, "What gives a column its type").

A plan is first made of everything that was seen. Only if it would alter the table's columns is it asked which changes
it rejects; it is made again without these, until the changes it was made of are the changes that it takes. A change is
rejected for what it holds itself (its key, its images, a value of a declared column), so the plan that comes out is the
same however the changes are split. What is `too_old` is judged by the table's memory and not here: it counts.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from firn.changes.decode.row_decoder import ChangeId, Why
from firn.changes.decode.types import Column
from firn.changes.merge import decoded_rows
from firn.config.model import StreamConfig
from firn.tables.batch_facts import SAID_BY, TableFacts, collected, facts_in
from firn.tables.planning import TooManyColumns, check_width
from firn.tables.routing import Target
from firn.tables.table_plan import Planned, planned
from firn.tables.table_state import TableState


class Judge(Protocol):
    """The changes that a table is planned for: those of the target's source tables that it does not have yet."""

    def rejected(self, plan: Planned) -> Mapping[ChangeId, Why]:
        """Those that become dead letters when they are decoded by this plan."""

    def told(self, without: Collection[ChangeId]) -> Mapping[str, TableFacts]:
        """What the others say, by source table: of each the facts `seen`."""


def settled(target: Target, settings: StreamConfig, state: TableState | None, judge: Judge, *, exact: bool) -> Planned:
    """As table_plan.planned, of the changes that the table takes. `exact`: whether the target's facts are those of the
    judge's changes alone, and of no epoch that the table has already. Raises as `planned`, and TooManyColumns."""

    def without(places: Collection[ChangeId]) -> Planned:
        return planned(target.telling(judge.told(places)), settings, state)

    plan, bad = planned(target, settings, state), dict[ChangeId, Why]()
    if _too_wide(plan) is not None:
        # Nobody decodes by so many columns: those that can be at fault are there without what inference adds.
        bad = dict(judge.rejected(planned(target.showing(_needed(plan, state)), settings, state)))
        plan, exact = without(bad), True
        if (why := _too_wide(plan)) is not None:
            raise why
    elif target.unordered and not plan.mode.keyed:
        plan, exact = without(()), True
    seen = dict[str, Column]()
    while plan.alters or bad:
        found = judge.rejected(plan)
        if exact and found.keys() <= bad.keys():
            break
        bad, exact = {**found, **bad}, True
        seen = {column.name: column for column in plan.columns.columns} | seen
        # What is at fault in a column that the table does not get stays so: without it the value would be lost.
        plan = without(bad).beside(seen.values())
    return plan


def _too_wide(plan: Planned) -> TooManyColumns | None:
    try:
        check_width(plan.columns, len(plan.columns.columns) - len(plan.columns.added), plan.declared)
    except TooManyColumns as why:
        return why
    return None


def _needed(plan: Planned, state: TableState | None) -> set[str]:
    """The columns by which a change can be at fault, by any of their names."""
    names = {*plan.key, *plan.declared, *(str(one["name"]) for one in (state.fields if state else ()))}
    return names | {earlier for one in plan.columns.columns if one.name in names for earlier in one.earlier}


class RowJudge:
    """A Judge of raw changes (commit.staged_changes) in this process, one by one."""

    def __init__(self, batches: Iterable[Sequence[Mapping[str, Any]]]) -> None:
        """`batches`: the target's changes, batch by batch."""
        self._batches = [batch for batch in batches if batch]
        # The text of a schema stands on the first row that uses it, which may be a dead letter.
        every = (one for batch in self._batches for one in batch)
        self._texts = {one["schema_id"]: one["schema"] for one in every if one["schema"] is not None}

    def rejected(self, plan: Planned) -> Mapping[ChangeId, Why]:
        """As Judge says."""
        every = (change for batch in self._batches for change in batch)
        _, bad = decoded_rows.decoded(every, plan.decoding, mirror=plan.mode.keyed)
        return decoded_rows.why_of(bad)

    def told(self, without: Collection[ChangeId]) -> Mapping[str, TableFacts]:
        """As Judge says."""
        said: list[Mapping[str, Any]] = []
        for batch in self._batches:
            good = [one for one in batch if (one["batch"], one["index"]) not in without and self._is_known(one)]
            # What the table takes is no fault, though a mirror table would refuse it.
            told = {name: [one[name] for one in good] for name in SAID_BY if name not in ("fault", "schema")}
            told["fault"] = [None] * len(good)
            told["schema"] = [self._texts.get(one["schema_id"]) for one in good]
            facts, _ = facts_in(told)
            said += [fact | {"epoch": batch[0]["epoch"]} for fact in facts]
        return collected(said, ())

    def _is_known(self, one: Mapping[str, Any]) -> bool:
        """Whether its schema can be asked; a dead letter's may not."""
        return one["schema_id"] is None or one["schema_id"] in self._texts
