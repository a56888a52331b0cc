"""The views over what a flush has committed: they are waited for too, and those with `every` are asked for."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from firn.log import cuts, published_configs
from firn.views import view_state
from firn.views.due import Under, ViewStanding
from firn.views.view_sources import ViewSources, sources_of

if TYPE_CHECKING:
    from firn.log.store import Store

_ASK_SECONDS: Final = 5.0  # between two calls of dispatch, which finds a job that is at work

Dispatch = Callable[[str], Mapping[str, Any]]
"""Asks for a job of a stream -> what dispatch says of the stream."""


def unfinished(
    sources: ViewSources, standings: Sequence[ViewStanding], flushed: Mapping[str, int], now: datetime
) -> tuple[list[ViewStanding], dict[str, str]]:
    """The views that are not of what was flushed (stream -> its cut) yet: those that a job is to refresh, and why the
    others stay behind. Pure. `standings`: of all views of a stream, in the order of Under.standings."""
    waits, left = list[ViewStanding](), dict[str, str]()
    for one in standings:
        of = sources.streams_below(one.view).intersection(flushed)
        if not of or not one.behind or _is_of(one, {name: flushed[name] for name in of}):
            continue
        below = next((each.table for each in sources.views_below(one.view) if str(each.table) in left), None)
        if below is not None or one.due is None:
            left[str(one.view.table)] = f"it waits for {below or one.waits_for}"
        elif view_state.is_failing(one.state) and one.due > now:
            why = one.state.error or "its jobs died while they refreshed it"
            left[str(one.view.table)] = f"it is quarantined: {why}"
        else:
            waits.append(one)
    return waits, left


def _is_of(one: ViewStanding, flushed: Mapping[str, int]) -> bool:
    """Whether a view that is behind by now was refreshed since the flush: changes go on coming."""
    state = one.state
    reached = all(state.epochs.get(stream, 0) >= n for stream, n in flushed.items())
    return reached and state.sql == one.view.sha and not state.tries


@dataclass
class FlushedViews:
    """The views over what a flush has committed, `flushed`: stream -> its cut. `report`: takes the stream that
    refreshes views, and what is waited for."""

    store: "Store"
    flushed: Mapping[str, int]
    dispatch: Dispatch
    report: Callable[[str, str], None]
    now: Callable[[], datetime]
    _asked: dict[str, float] = field(default_factory=dict)

    def wait(self, deadline: float, poll: float) -> dict[str, dict[str, str]]:
        """-> of each flushed stream the views that stay behind its cut, and why: of a view over several, the first.
        `deadline`: on the steady clock. Raises StorageUnavailable, UnknownOutcome, and what `dispatch` raises."""
        config = published_configs.find(self.store)
        homes = [] if config is None else [found for name in config.streams if (found := sources_of(config, name))]
        behind: dict[str, dict[str, str]] = {}
        while homes and config is not None:
            is_over = time.monotonic() > deadline
            for sources in list(homes):
                left = self._left(sources, config.sha, is_over=is_over)
                if left is None:
                    continue
                homes.remove(sources)
                for view in sources.views:
                    if why := left.get(str(view.table)):
                        first = min(sources.streams_below(view).intersection(self.flushed))
                        behind.setdefault(first, {})[str(view.table)] = why
            if homes:
                time.sleep(poll)
        return behind

    def _left(self, sources: ViewSources, config: str, *, is_over: bool) -> dict[str, str] | None:
        """The views of one stream that stay behind, and why; None while there are some to wait for."""
        if not any(sources.streams_below(view).intersection(self.flushed) for view in sources.views):
            return {}
        states, now = view_state.read(self.store, sources.stream), self.now()
        newest = {name: cut for name in sources.streams if (cut := cuts.last(self.store, name)) is not None}
        waits, left = unfinished(sources, Under(sources, newest, config).standings(states), self.flushed, now)
        if not waits:
            return left
        names = [str(one.view.table) for one in waits]
        if is_over:
            return left | dict.fromkeys(names, "its refresh goes on, see firn status")
        self.report(sources.stream, f"refreshing {', '.join(names[:3])}{' …' if len(names) > 3 else ''}")
        if time.monotonic() - self._asked.get(sources.stream, -_ASK_SECONDS) >= _ASK_SECONDS:
            self._asked[sources.stream] = time.monotonic()
            view_state.ask(self.store, sources.stream, [str(one.view.table) for one in waits if one.view.every])
            if why := _no_job(self.dispatch(sources.stream)):
                return left | dict.fromkeys(names, why)
        return None


def _no_job(answer: Mapping[str, Any]) -> str:
    """Why no job comes for views, by what dispatch says; "" if one does or may."""
    if answer.get("error"):
        return f"no job can be started for it: {answer['error']}"
    if answer.get("paused"):
        return "commits are paused (firn resume)"
    if answer.get("held"):
        return f"the stream {answer['stream']} is quarantined: {answer['held']}"
    if answer.get("pending") is not None and not (answer.get("run") or answer.get("waits_for")):
        return "no job was started for it, see firn status"
    return ""
