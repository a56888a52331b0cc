"""How the views of a stream are: what each is of, whether it is behind and for how long, and why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from firn.config.model import Config
from firn.config.names import TableName
from firn.log import cuts, layout
from firn.log.store import Store
from firn.views import view_state
from firn.views.due import Under, ViewStanding
from firn.views.view_sources import sources_of


@dataclass(frozen=True)
class ViewStatus:
    """One view. `cut`: of each stream that feeds it the cut that it is of; `behind_seconds`: since when there is a
    newer one that changes it, None if there is none; `due`: when a job is to refresh it, None: not before something
    else changes; `waits_for`: a table that is not there yet, or a view that is behind itself; `quarantined`: it fails,
    not by chance, with that `error`, after so many `tries`."""

    view: str
    cut: dict[str, int]
    refreshed_at: datetime | None
    behind_seconds: float | None
    due: datetime | None
    waits_for: str | None
    quarantined: bool
    tries: int
    error: str | None

    def note(self, stream: str) -> str | None:
        """What a person should know of it. `stream`: whose jobs refresh it."""
        if self.tries:
            how = "is quarantined" if self.quarantined else "could not be refreshed"
            tries = f"{self.tries} {'try' if self.tries == 1 else 'tries'}"
            after = f", the next after {layout.instant(self.due)}" if self.due else ""
            why = self.error or "its jobs died while they refreshed it"
            return (
                f"view {self.view} {how} ({tries}{after}): {why}; its rows stay as they were and no table waits for it "
                f"(firn resume {stream} {self.view} tries at once)"
            )
        if self.waits_for is not None:
            return f"view {self.view} waits for {self.waits_for}"
        return None


def view_statuses(
    store: Store, config: Config, stream: str, now: datetime, only: TableName | None = None
) -> list[ViewStatus]:
    """Those of a stream, in the order in which they are refreshed; `only` one of them. Raises StorageUnavailable."""
    sources = sources_of(config, stream)
    if sources is None:
        return []
    newest = {name: cut for name in sources.streams if (cut := cuts.last(store, name)) is not None}
    found = Under(sources, newest, config.sha).standings(view_state.read(store, stream))
    return [_status(store, one, now) for one in found if only in (None, one.view.table)]


def ages(views: Sequence[ViewStatus]) -> Iterator[tuple[str, float]]:
    """Of those that are behind, for how long."""
    return ((one.view, one.behind_seconds) for one in views if one.behind_seconds is not None)


def _status(store: Store, one: ViewStanding, now: datetime) -> ViewStatus:
    told = one.state
    since = _since(store, one) if one.behind else None
    return ViewStatus(
        view=str(one.view.table),
        cut=dict(told.epochs if one.behind else one.cut.epochs),
        refreshed_at=told.refreshed_at,
        behind_seconds=None if since is None else max(0.0, (now - since).total_seconds()),
        due=one.due if one.due is None or one.due > now else now,
        waits_for=None if one.waits_for is None else str(one.waits_for),
        quarantined=view_state.is_failing(told),
        tries=told.tries,
        error=told.error,
    )


def _since(store: Store, one: ViewStanding) -> datetime | None:
    """When the first cut was made that the view lacks."""
    lacking = [(name, one.state.epochs.get(name, 0)) for name, n in one.cut.epochs.items()]
    first = [cuts.covering(store, name, 1 + n) for name, n in lacking if n < one.cut.epochs[name]]
    return min((datetime.fromisoformat(cut.made_at) for cut in first if cut is not None), default=None)
