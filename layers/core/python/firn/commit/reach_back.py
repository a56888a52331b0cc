"""How far back a new pipeline into an append table goes: to where the log begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from firn.commit.job_context import Work
from firn.config.model import StreamConfig
from firn.config.names import TableName
from firn.log import epochs, layout
from firn.log.epochs import Epoch
from firn.log.store import paths
from firn.tables.outcome import Outcome
from firn.tables.routing import route, targets_of


@dataclass(frozen=True)
class Reach:
    """A table that no epoch came into yet, with the epochs before the range that it can have, and under what."""

    table: TableName
    settings: StreamConfig
    epochs: Mapping[int, Epoch]

    @property
    def is_joined(self) -> bool:
        """Whether its rows are joined with other tables, which are to be there then."""
        return any(one.joins for one in self.settings.pipelines if one.target == self.table)

    def bring(self, work: Work, last: int) -> list[Outcome]:
        """Brings the epochs into the table, which is at `last` then."""
        opened = work.lake.open(work.stream, self.settings, self.epochs, last)
        try:
            mine = [one for one in route(self.settings, opened.facts).targets if one.name == self.table]
            return [opened.commit(replace(target, back=True)) for target in mine]
        finally:
            opened.close()


def reaches(work: Work) -> Sequence[Reach]:
    """Of tables that nothing but new pipelines fill. Raises StorageUnavailable."""
    if work.before is None:
        return ()
    new = {name: settings for name in work.touched if (settings := _only_pipelines(work, name)) is not None}
    if not new:
        return ()
    there = set(paths(work.store, layout.staged_prefix(work.stream)))
    sealed = sorted(epochs.read_range(work.store, work.stream, 1, work.before.n), key=lambda epoch: epoch.n)
    gone = max((epoch.n for epoch in sealed if not _is_whole(epoch, there)), default=0)
    mine = [epoch for epoch in sealed if epoch.n > max(gone, work.known.begun) and epoch.n not in work.known.epochs]
    found = []
    for name, settings in new.items():
        some = {one.n: one for one in mine if any(name in targets_of(settings, source) for source in one.tables)}
        if some:
            found.append(Reach(name, settings, some))
    return found


def _only_pipelines(work: Work, name: TableName) -> StreamConfig | None:
    """What the first epoch of the range that goes to the table is committed under, if pipelines alone bring it and the
    table has nothing of the stream yet."""
    if work.progress(name) or name in work.foreign:
        return None
    for part in work.parts:
        settings = replace(work.settings, pipelines=part.pipelines)
        if not any(one.target == name for one in settings.pipelines):
            continue
        ruled = replace(settings, pipelines=())
        every = {source for n in part.epochs for source in work.epochs[n].tables}
        return None if any(name in targets_of(ruled, source) for source in every) else settings
    return None


def _is_whole(epoch: Epoch, there: set[str]) -> bool:
    return all(batch.path in there for batch in epoch.batches if batch.events)
