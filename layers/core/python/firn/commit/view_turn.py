"""The commit job's part in views: what they are to be of, and their turn once the cut is made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from firn.commit.lake import Lake
from firn.config.model import Config
from firn.config.names import TableName
from firn.config.views import View
from firn.log import cuts
from firn.log.cuts import Cut
from firn.log.store import Store
from firn.maintenance.compaction_trigger import is_due
from firn.metrics import Metric, emf
from firn.tables import ownership
from firn.tables.outcome import Outcome
from firn.views import view_state
from firn.views.cut import ViewCut
from firn.views.due import Under
from firn.views.refresh_turn import Turn
from firn.views.view_sources import ViewSources, sources_of
from firn.views.view_state import ViewStates

Log = Callable[[dict[str, Any]], None]


def _go_on() -> bool:
    return True


@dataclass
class ViewTurn:
    """The views of one stream, for as long as a job is up. Its first turn looks at all that do not wait: a view that
    was dropped, or rolled back, is found by it."""

    store: Store
    lake: Lake
    stream: str
    log: Log
    now: Callable[[], datetime]
    _looked: bool = False
    _ours: set[TableName] = field(default_factory=set)
    _cuts: dict[str, Cut] = field(default_factory=dict)

    def take(self, config: Config, between: Callable[[], bool] = _go_on) -> bool:
        """Refreshes what is due. `between`: called before each view but the first, -> whether to go on.

        -> whether any view has a new snapshot. Never raises an Exception: what could not even be noted, the next job
        finds."""
        try:
            sources = sources_of(config, self.stream)
            return sources is not None and self._take(config, sources, between)
        except Exception as error:  # noqa: BLE001 (the tables are in, and stay so)
            self.log({"stream": self.stream, "status": "no views refreshed", "error": self.lake.failure(error).text})
            return False

    def _take(self, config: Config, sources: ViewSources, between: Callable[[], bool]) -> bool:
        known = view_state.read(self.store, self.stream)
        under = Under(sources, self._newest(sources), config.sha)
        tried: dict[str, Outcome] = {}

        def refresh(view: View, at: ViewCut) -> Outcome | None:
            found = self._refresh(config, view, at, known)
            if found is not None:
                tried[found.table] = found
            return found

        changed = Turn(self.store, under, refresh, self.now, self.log, between).take(known, check=not self._looked)
        self._looked = True
        if tried:
            self.log(self._counts(tried))
        for view in changed:
            self._care(config, view.table)
        return bool(changed)

    def _newest(self, sources: ViewSources) -> Mapping[str, Cut]:
        """The newest cuts of the streams that have one."""
        for name in sources.streams:
            n = cuts.newest(self.store, name)
            before = self._cuts.get(name)
            cut = cuts.read(self.store, name, n) if n and (before is None or before.n != n) else None
            if cut is not None:
                self._cuts[name] = cut
        return {name: self._cuts[name] for name in sources.streams if name in self._cuts}

    def _refresh(self, config: Config, view: View, at: ViewCut, known: ViewStates) -> Outcome | None:
        try:
            why = self._foreign(view, known)
        except Exception as error:  # noqa: BLE001 (of the catalog: this view's alone)
            found = self.lake.failure(error)
            return _failed(view, found.text, "transient" if found.kind == "transient" else "terminal")
        if why is not None:
            return _failed(view, why, "terminal")
        return self.lake.refresh(self.stream, config.streams[self.stream], view, at)

    def _foreign(self, view: View, known: ViewStates) -> str | None:
        """Why the table that is there under the view's name is not for this deployment, or no view."""
        name = view.table
        if name in self._ours:
            return None
        why = ownership.barred(name, self.lake.databases)
        if why is None:
            noted = known.views.get(str(name))
            made = noted is not None and bool(noted.sql)
            why = ownership.refusal_of_view(name, self.lake.state(name), self.lake.warehouse, made=made)
        if why is None:
            self._ours.add(name)
        return why

    def _counts(self, tried: Mapping[str, Outcome]) -> dict[str, Any]:
        failed = sum(one.status == "failed" for one in tried.values())
        counts = {Metric.VIEWS_REFRESHED: len(tried) - failed, Metric.VIEWS_FAILED: failed}
        return emf({"stream": self.stream}, counts, self.now())

    def _care(self, config: Config, table: TableName) -> None:
        if is_due(table, self.lake.state(table)):
            for line in self.lake.care(self.stream, table, config.care_of(table), self.now()):
                self.log({"stream": self.stream, "table": str(table)} | line)


def _failed(view: View, error: str, kind: Any) -> Outcome:
    sources = tuple(map(str, view.sources))
    return Outcome(str(view.table), sources, mode="view", status="failed", error=error, failure=kind)
