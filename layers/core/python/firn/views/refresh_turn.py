"""A job's turn at the views of a stream: those that are due, one by one, all at the same cuts.

What is about to be tried is noted before, so that a view of which jobs die is tried after the others, and less and
less often. Nothing here stops a table: what fails is noted, logged and tried again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from firn.config.names import TableName
from firn.config.views import View
from firn.log import layout
from firn.log.batches import FORMAT
from firn.log.store import Store
from firn.tables.failures import Failure
from firn.tables.outcome import Outcome
from firn.views import due, view_state
from firn.views.cut import ViewCut
from firn.views.due import Under, ViewStanding
from firn.views.view_state import ViewState, ViewStates

Tell = Callable[[dict[str, Any]], None]
Refresh = Callable[[View, ViewCut], Outcome | None]


@dataclass(frozen=True)
class Turn:
    """What a turn needs. `refresh`: Lake.refresh, which never raises an Exception; `tell`: takes log lines; `between`:
    called before each view but the first, -> whether to go on."""

    store: Store
    under: Under
    refresh: Refresh
    now: Callable[[], datetime]
    tell: Tell
    between: Callable[[], bool]

    def take(self, known: ViewStates, *, check: bool) -> list[View]:
        """Refreshes what is due -> the views that have a new snapshot. `known`: as noted last; `check`: those that are
        of their cut by what is noted are looked at too. Raises StorageUnavailable, UnknownOutcome if what is tried
        can't be noted."""
        begin = self.now()
        standings = self.under.standings(known)
        run = _Run(self, known, begin, {str(one.view.table): one.state for one in standings if _is_known(one, known)})
        current = {one.view.table for one in standings if not one.behind}
        behind = [one for one in standings if one.is_due(begin)]
        # Those that failed, or that a job died of, come last: they keep no other waiting.
        for some in ([one for one in behind if not one.state.tries], behind):
            for one in some:
                if one.view.table not in run.tried and self._is_ready(one, current) and run.refresh(one):
                    current.add(one.view.table)
        if check:
            for one in standings:
                if not one.behind and one.view.table not in run.tried:
                    run.check(one)
        run.note()
        return run.changed

    def _is_ready(self, one: ViewStanding, current: set[TableName]) -> bool:
        return all(below.table in current for below in self.under.sources.views_below(one.view))


class _Run:
    """What one turn has done so far. `noted`: the views' states, without those that nothing is known of."""

    def __init__(self, turn: Turn, known: ViewStates, begin: datetime, noted: Mapping[str, ViewState]) -> None:
        self._turn, self._known, self._begin = turn, known, begin
        self._noted = dict(noted)
        self._stopped = False
        self.tried: set[TableName] = set()
        self.changed: list[View] = []

    def refresh(self, one: ViewStanding) -> bool:
        """Tries a view that is due -> whether it is of its cut now."""
        name, turn = str(one.view.table), self._turn
        if not self._goes_on():
            return False
        self.tried.add(one.view.table)
        before = self._noted.get(name, ViewState())
        self._noted[name] = due.begun(before, turn.now(), turn.under.config)
        self.note()
        # By the moment at which the cuts were read: what came since is of the next turn.
        outcome = turn.refresh(one.view, replace(one.cut, now=self._begin))
        return self._settle(one, outcome, before, self._begin)

    def check(self, one: ViewStanding) -> None:
        """Looks at a view that ought to be of its cut, and of the moment that is noted."""
        if self._goes_on():
            self.tried.add(one.view.table)
            moment = one.state.refreshed_at or self._begin
            outcome = self._turn.refresh(one.view, replace(one.cut, now=moment, looks=True))
            if outcome is not None:
                self._settle(one, outcome, one.state, moment)

    def note(self) -> None:
        """Puts the states, if they are others. Raises StorageUnavailable, UnknownOutcome."""
        told = ViewStates(FORMAT, self._turn.under.seen, self._noted)
        if told.views != self._known.views:
            view_state.write(self._turn.store, self._turn.under.sources.stream, told)
            self._known = ViewStates(FORMAT, told.seen, dict(self._noted))

    def _goes_on(self) -> bool:
        """Whether another view may be begun."""
        if self.tried and not self._stopped:
            self._stopped = not self._turn.between()
        return not self._stopped

    def _settle(self, one: ViewStanding, outcome: Outcome | None, before: ViewState, moment: datetime) -> bool:
        name, turn = str(one.view.table), self._turn
        now = turn.now()
        if outcome is None or outcome.status != "failed":
            self._noted[name] = due.done(one, moment)
            if outcome is not None and outcome.status == "committed":
                self.changed.append(one.view)
        else:
            found = Failure(outcome.failure or "terminal", outcome.error or "it does not say why")
            self._noted[name] = due.failed(before, found, now, turn.under.config)
        if outcome is not None:
            told = self._noted[name]
            again = {"tries": told.tries, "next": layout.instant(told.due)} if told.due else {}
            turn.tell({"stream": turn.under.sources.stream, "cut": dict(one.cut.epochs)} | outcome.line() | again)
        return not self._noted[name].tries


def _is_known(one: ViewStanding, known: ViewStates) -> bool:
    return str(one.view.table) in known.views
