"""Which views are behind, and when a job is to refresh them. Pure, but for what `is_due` reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Final

import msgspec

from firn.config.names import TableName
from firn.config.views import View
from firn.log import cuts
from firn.log.cuts import Cut
from firn.log.store import Store
from firn.tables.failures import Failure, Kind
from firn.views.cut import ViewCut
from firn.views.view_sources import ViewSources
from firn.views.view_state import ViewState, ViewStates

_TRANSIENT: Final = (timedelta(seconds=10), timedelta(minutes=10))  # the first pause and the longest
_TERMINAL: Final = (timedelta(minutes=1), timedelta(hours=1))
_DOUBLINGS: Final = 20
_LONGEST_ERROR: Final = 500
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class ViewStanding:
    """How a view stands.

    cut        what it is to be of, `digest` in short
    state      as noted
    behind     whether it is of something else
    due        when a job is to refresh it; None: not before something else changes. One that goes by the time is due
               though it is not behind
    waits_for  the table that it reads and that no cut names yet, or the view that it reads and that is behind itself
    """

    view: View
    cut: ViewCut
    digest: str
    state: ViewState
    behind: bool
    due: datetime | None = None
    waits_for: TableName | None = None

    def is_due(self, now: datetime) -> bool:
        """Whether a job has something to do."""
        return self.due is not None and self.due <= now


@dataclass(frozen=True)
class Under:
    """What views are judged by: the newest cuts of the streams that feed them, and the configuration's sha."""

    sources: ViewSources
    newest: Mapping[str, Cut]
    config: str

    @property
    def seen(self) -> dict[str, int]:
        """The cuts by number."""
        return {name: cut.n for name, cut in sorted(self.newest.items())}

    @cached_property
    def _cuts(self) -> dict[frozenset[str], ViewCut]:
        return {}

    def cut_of(self, view: View) -> ViewCut:
        """What the view is to be of. Views that the same streams feed share it: it names all tables of these."""
        streams = self.sources.streams_below(view)
        if streams not in self._cuts:
            self._cuts[streams] = self.sources.cut_of(view, self.newest)
        return self._cuts[streams]

    def standings(self, states: ViewStates) -> list[ViewStanding]:
        """Of each view, in the order in which they are refreshed: those that others read first."""
        found: dict[TableName, ViewStanding] = {}
        for view in self.sources.views:
            found[view.table] = self._standing(view, states.views.get(str(view.table), ViewState()), found)
        return list(found.values())

    def _standing(self, view: View, state: ViewState, below: Mapping[TableName, ViewStanding]) -> ViewStanding:
        cut = self.cut_of(view)
        digest = self.sources.digest(view, cut)
        missing = self.sources.missing(view, cut)
        if missing is not None:
            return ViewStanding(view, cut, digest, state, behind=True, waits_for=missing)
        # One that a job began and did not end may be of anything.
        behind = bool(state.tries) or (state.sql, state.digest) != (view.sha, digest)
        timed = [below[other.table] for other in self.sources.views_below(view) if self.sources.goes_by_clock(other)]
        behind = behind or any(_is_newer(one.state, state) for one in timed)
        if not behind:
            return ViewStanding(view, cut, digest, state, behind=False, due=self._due_by_time(view, state, timed))
        due, waits_for = self._due(view, state), None
        for one in (below[other.table] for other in self.sources.views_below(view)):
            if one.behind and one.due is None:
                return ViewStanding(view, cut, digest, state, behind=True, waits_for=one.view.table)
            if one.behind and one.due is not None:
                waits_for = one.view.table if one.due > due else waits_for
                due = max(due, one.due)
        return ViewStanding(view, cut, digest, state, behind=True, due=due, waits_for=waits_for)

    def _due_by_time(self, view: View, state: ViewState, below: Sequence[ViewStanding]) -> datetime | None:
        """When a view is due though nothing that it reads has changed. below: those that it reads and that go by the
        time: it follows them in the same turn."""
        own = self._due(view, state)
        found = [max(own, one.due) for one in below if one.due is not None]
        if view.by_clock and view.every:
            found.append(own)
        return min(found, default=None)

    def _due(self, view: View, state: ViewState) -> datetime:
        """When a view that is behind is due by itself."""
        due = _BEGINNING
        if state.refreshed_at is not None and state.sql == view.sha and not state.asked:
            due = next_turn(state.refreshed_at, view.every)
        fixed = state.kind not in (None, "transient") and state.under != self.config
        if state.tries and state.due is not None and not fixed:
            due = max(due, state.due)
        return due


def _is_newer(below: ViewState, state: ViewState) -> bool:
    """Whether a view was refreshed since one that reads it."""
    return below.refreshed_at is not None and (state.refreshed_at is None or state.refreshed_at < below.refreshed_at)


def is_due(store: Store, sources: ViewSources, config: str, cut: Cut | None, states: ViewStates, now: datetime) -> bool:
    """Whether a job has a view to refresh though no change is coming. `cut`: the newest of the views' own stream.
    Raises StorageUnavailable."""
    newest = {name: one for name in sources.streams if name != sources.stream and (one := cuts.last(store, name))}
    if cut is not None and sources.stream in sources.streams:
        newest[sources.stream] = cut
    return any(one.is_due(now) for one in Under(sources, newest, config).standings(states))


def next_turn(refreshed: datetime, every: int) -> datetime:
    """The first multiple of `every` seconds by the clock after a refresh; 0: at once. All views of one `every` have the
    same, so that they are read at the same cut."""
    if not every:
        return refreshed
    return _BEGINNING + timedelta(seconds=every) * ((refreshed - _BEGINNING) // timedelta(seconds=every) + 1)


def begun(state: ViewState, now: datetime, config: str) -> ViewState:
    """The state of a view while a try is under way: what is left if the job dies of it."""
    return _tried(state, _TRANSIENT, now, config, None, None)


def failed(state: ViewState, found: Failure, now: datetime, config: str) -> ViewState:
    """The state after a try that failed. `state`: that of before the try."""
    pauses = _TRANSIENT if found.kind == "transient" else _TERMINAL
    return _tried(state, pauses, now, config, found.text[:_LONGEST_ERROR], found.kind)


def done(one: ViewStanding, now: datetime) -> ViewState:
    """The state of a view that is of its cut, and of this moment."""
    return ViewState(one.view.sha, one.digest, dict(one.cut.epochs), now)


def _tried(
    state: ViewState, pauses: tuple[timedelta, timedelta], now: datetime, config: str, error: str | None,
    kind: Kind | None,
) -> ViewState:  # fmt: skip
    first, longest = pauses
    before = state.tries if state.under == config else 0
    pause = min(first * 2 ** min(before, _DOUBLINGS), longest)
    return msgspec.structs.replace(state, tries=before + 1, due=now + pause, error=error, kind=kind, under=config)
