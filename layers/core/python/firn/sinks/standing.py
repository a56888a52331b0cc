"""How each file sink of a stream stands before a job's turn: what is planned, what is open, what waits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from firn.config.model import Config, StreamConfig
from firn.config.pipelines import Pipeline
from firn.log import epochs, layout, published_configs
from firn.log.cuts import Cut
from firn.log.epochs import Epoch
from firn.log.holds import Quarantines
from firn.log.store import Store
from firn.sinks import plans
from firn.sinks.file_rows import events_of
from firn.sinks.plans import Plan, Progress
from firn.sinks.rolling import WaitingEpoch
from firn.sinks.state import SinkState, SinkStates


class Configs:
    """The stream as the configurations say that its epochs name."""

    def __init__(self, store: Store, stream: str, known: Iterable[Config] = ()) -> None:
        self._store, self._stream = store, stream
        self._known = {one.sha: one.streams.get(stream) for one in known}

    def settings(self, sha: str) -> StreamConfig | None:
        """The stream; None if that configuration has none of this name. Raises ConfigError, StorageUnavailable."""
        if sha not in self._known:
            self._known[sha] = published_configs.load(self._store, sha).streams.get(self._stream)
        return self._known[sha]

    def sinks(self, sha: str) -> dict[str, tuple[StreamConfig, Pipeline]]:
        """Its pipelines to files, by name."""
        settings = self.settings(sha)
        return {one.name: (settings, one) for one in settings.pipelines if one.files} if settings is not None else {}


@dataclass(frozen=True)
class SinkStanding:
    """One sink. `begin`: the epoch that it begins behind; `progress`: its plans; `waiting`: the epochs above them that
    hold something for it; `last`: the epoch up to which that was looked at; `ended`: no configuration names it now."""

    name: str
    begin: int
    progress: Progress
    waiting: Sequence[WaitingEpoch]
    last: int
    ended: bool

    @property
    def planned(self) -> int:
        """The last epoch that needs no new plan, whatever comes."""
        return max(self.begin, self.progress.planned)

    @property
    def upto(self) -> int:
        """The epoch up to which its files have everything."""
        if self.progress.open:
            return max(self.begin, self.progress.written)
        return self.waiting[0].n - 1 if self.waiting else max(self.planned, self.last)


@dataclass(frozen=True)
class SinkLog:
    """The log of one stream, as its sinks see it. `known`: its quarantines."""

    store: Store
    stream: str
    configs: Configs
    known: Quarantines

    def standings(
        self, before: Cut | None, sealed: Mapping[int, Epoch], last: int, states: SinkStates
    ) -> list[SinkStanding]:
        """All sinks of a stream that are not done. `before`: the newest cut; `sealed`: the epochs above it up to
        `last`, quarantined ones left out. Raises ConfigError, StorageUnavailable, UnreadableBatch."""
        start = before.n if before else 0
        begins = dict(before.files) if before else {}
        current: Mapping[str, object] = {}
        for n in sorted(sealed):
            current = self.configs.sinks(sealed[n].config)
            for name in current:
                begins.setdefault(name, max(start, n - 1))
        if not begins:
            return []
        gone = begins.keys() - current.keys() if sealed else frozenset[str]()
        return [
            self.standing(name, begin, last, ended=name in gone, done=states.sinks.get(name, SinkState()).done)
            for name, begin in sorted(begins.items())
        ]

    def standing(self, name: str, begin: int, last: int, *, ended: bool, done: int = 0) -> SinkStanding:
        """One sink. `done`: as for plans.progress."""
        progress = plans.progress(self.store, self.stream, name, done)
        waiting = self.waiting(name, max(begin, progress.planned), last)
        return SinkStanding(name, begin, progress, waiting, last, ended)

    def waiting(self, name: str, above: int, last: int) -> list[WaitingEpoch]:
        """The epochs above `above` up to `last` that hold something for the sink."""
        found = []
        for epoch in epochs.read_range(self.store, self.stream, above + 1, last) if above < last else ():
            one = None if epoch.n in self.known.epochs else self._waiting(name, epoch)
            found += [] if one is None else [one]
        return found

    def _waiting(self, name: str, epoch: Epoch) -> WaitingEpoch | None:
        settings, pipeline = self.configs.sinks(epoch.config).get(name, (None, None))
        if settings is None or pipeline is None or pipeline.files is None:
            return None
        events = events_of(settings, pipeline, epoch)
        if not events:
            return None
        # Which of its batches hold them the epoch does not say.
        size = sum(batch.bytes for batch in epoch.batches if batch.events) * events // max(epoch.events, 1)
        since = min((layout.time_of(batch.id) for batch in epoch.batches if batch.events), default=epoch.time)
        return WaitingEpoch(epoch.n, epoch.config, events, size, since, pipeline.files)

    def left_out(self, name: str, taken: Sequence[int], progress: Progress) -> list[str]:
        """The batches of the epochs `taken` that a plan before has: a quarantined epoch's are sealed once more."""
        again = {n for n in self.known.epochs if n < max(taken)}
        had, plan = set[str](), progress.plan
        while again and plan is not None and plan.last >= min(again):
            had |= self._batches([n for n in plan.epochs if n in again])
            plan = plans.read_plan(self.store, self.stream, name, plan.n - 1) if plan.n > 1 else None
        return sorted(had & self._batches(taken)) if had else []

    def _batches(self, some: Sequence[int]) -> set[str]:
        return {batch.id for epoch in epochs.read_many(self.store, self.stream, some) for batch in epoch.batches}

    def epochs_of(self, plan: Plan) -> dict[int, Epoch]:
        """The epochs of a plan, with the batches that it brings. Raises UnreadableBatch if one is gone."""
        out = frozenset(plan.left_out)
        found = {}
        for epoch in epochs.read_many(self.store, self.stream, plan.epochs):
            batches = [batch for batch in epoch.batches if batch.id not in out]
            found[epoch.n] = epoch if len(batches) == len(epoch.batches) else _with(epoch, batches)
        return found


def _with(epoch: Epoch, batches: list[epochs.EpochBatch]) -> Epoch:
    return msgspec.structs.replace(epoch, batches=batches)
