"""What a stream's log holds and its tables may not have yet: every batch that was acknowledged, sealed or not.

Batches never change, so what was read of one is kept while the process lives: a second look reads what is new.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from firn.changes.decode.row_decoder import Decoding
from firn.changes.merge import decoded_rows
from firn.changes.merge.fold import Key, RowChange
from firn.changes.merge.ordering import Order
from firn.changes.redelivery import Early, Placed, early, lowest
from firn.commit import table_limit
from firn.commit.job_context import judged, shards_beside
from firn.commit.lake import place_of
from firn.commit.staged_changes import facts_of, raw_changes, said_by
from firn.config.model import Config, StreamConfig
from firn.config.names import TableName
from firn.config.pipelines import Pipeline
from firn.config.views import View
from firn.errors import FirnError, TerminalError
from firn.log import cuts, epochs, holds, published_configs, shard_maps
from firn.log.batches import UnreadableBatch
from firn.log.epochs import Epoch, EpochBatch
from firn.log.generations import Generations
from firn.log.holds import Quarantines
from firn.log.published_configs import CurrentConfig
from firn.log.store import Store, get
from firn.log.store_cache import Remembered
from firn.maintenance.launcher import feeding
from firn.quarantine.rules import tells_commits, waiting_for_release
from firn.tables.batch_facts import TableFacts
from firn.tables.routing import Target, mirrors_on, route
from firn.tables.table_plan import with_schemas
from firn_lake.fresh.coming_ranges import coming
from firn_lake.fresh.decoded_batch import Batch

MOST_CHANGES: Final = 500_000  # that wait, of one stream: from here on a commit is quicker than a look
_KEPT: Final = 500_000  # changes of batches that were read, of a store
_FETCHES_AT_ONCE: Final = 8


class NotFresh(TerminalError):
    """The newest changes can't be shown; the text says why, and what to do."""


@contextmanager
def told_apart(what: str) -> Iterator[None]:
    """A failure of this code that nothing is known of is one of `what`, and no other table's. Raises NotFresh."""
    try:
        yield
    except (FirnError, OSError, MemoryError):
        raise
    except Exception as error:
        raise NotFresh(
            f"{what} can't be shown ({type(error).__name__}): read the table without fresh; if the next commit "
            "(firn flush) does not take it either, firn status says why"
        ) from error


@dataclass(frozen=True)
class Pending:
    """What waits of one stream and is committed under the same `settings`: those of the configuration that the epochs
    name, or that the next seal will. `batches` by the epoch that each is or would be in, and where they go; `before`:
    those that are committed before; `number`: of the range; `newest`: the settings under which the stream's last is;
    `maps`: by epoch, the versions of the maps of sharded tables that it is or would be under, by their rests' names."""

    store: Store
    settings: StreamConfig
    places: "Places"
    known: Quarantines
    committed: int
    batches: Sequence[tuple[int, Batch]]
    targets: Mapping[TableName, Target]
    facts: Mapping[str, TableFacts]
    newest: StreamConfig
    number: int = 0
    before: Sequence[tuple[int, Batch]] = ()
    maps: Mapping[int, Mapping[str, int]] = field(default_factory=dict)

    def with_next(self, other: "Pending") -> "Pending":
        """The same with the range after it, under the settings of that."""
        batches = [*self.batches, *other.batches]
        facts = _facts(batches)
        return replace(other, batches=batches, facts=facts, targets=_targets(other.settings, facts), before=self.before)

    def is_alike(self, other: "Pending", table: TableName) -> bool:
        """Whether the settings of the other range make the same of what waits here for the table."""
        mine = self.targets[table]
        if _targets(other.settings, self.facts).get(table) != mine:
            return False
        if replace(self.settings, tables=(), pipelines=()) != replace(other.settings, tables=(), pipelines=()):
            return False
        through = [feed.pipeline.source for feed in mine.feeds if feed.pipeline is not None]
        return all(self.settings.rule_for(source) == other.settings.rule_for(source) for source in through)

    def above(self, epoch: int) -> list[Batch]:
        """The batches of epochs above `epoch`."""
        return [batch for n, batch in self.batches if n > epoch]

    def log(self, target: Target, decoding: Decoding) -> Callable[[Collection[Key]], list[RowChange]]:
        """All changes of some keys that the log still holds (decide.Ground.log). `target`: with all its source tables
        (routing.all_of)."""

        def changes(keys: Collection[Key]) -> list[RowChange]:
            sealed = epochs.read_range(self.store, self.settings.name, 1, self.committed)
            mine = [epoch for epoch in sealed if not self.known.leaves_out(str(target.name), epoch.n)]
            old = [batch for _, batch in self.places.read(self.places.of(mine), whole=False)]
            every = [*old, *(batch for _, batch in self.before), *self.above(0)]
            facts = facts_of({}, [fact for batch in every for fact in batch.said])
            decoder = decoded_rows.decoder(with_schemas(decoding, target, facts), mirror=True)
            found = [batch.decoded(target.sources, decoder).changes for batch in every]
            return [change for some in found for change in some if change.key in keys]

        return changes


class Look:
    """One look at the log of a store. Make it before the tables are loaded: what is committed in between is then in the
    tables and in the log, which counts once. All tables that it is asked for are as of the same moment."""

    def __init__(self, store: Store) -> None:
        """Raises ConfigError if no configuration is published, StorageUnavailable."""
        self.store = store
        self.config: Config = _configs.of(store).setdefault("current", CurrentConfig(store))()
        self._committed = {name: cuts.newest(store, name) for name in self.config.streams}
        self._pending: dict[str, Sequence[Pending]] = {}

    def streams(self, table: TableName, told: str | None, *, made: bool = True) -> list[str]:
        """The streams that feed a table, be it under a configuration that only sealed epochs name. `told`: the stream
        that the table itself names; `made`: whether it is there."""
        found = feeding(self.config, str(table))
        former = {told} - found if told is not None else set[str]() if made or found else {*self.config.streams}
        for stream in former & self.config.streams.keys():
            with suppress(NotFresh, UnreadableBatch):
                found |= {stream} if any(table in one.targets for one in self.pending(stream)) else set()
        if told is not None and told not in found:
            raise NotFresh(
                f"{table} is fed by the stream {told!r}, and the published configuration has no rule of it for the "
                "table: what waits for it can't be told. Read it without fresh, or correct firn.yaml"
            )
        return sorted(found)

    def tables(self) -> set[TableName]:
        """The tables that changes wait for, there or not, and all views; none of a stream whose changes can't be
        told."""
        found: set[TableName] = set()
        for stream in self.config.streams:
            with suppress(NotFresh, UnreadableBatch):
                for one in self.pending(stream):
                    mirrors = mirrors_on(one.newest)
                    found |= {*one.targets, *(target for _, base, target in mirrors if base in one.targets)}
        return found | {one.table for settings in self.config.streams.values() for one in settings.views}

    def mirror(self, table: TableName) -> tuple[Pipeline, TableName] | None:
        """The pipeline that makes the table a mirror, and its base; None if none does."""
        every = (one for settings in self.config.streams.values() for one in mirrors_on(settings))
        return next(((pipeline, base) for pipeline, base, target in every if target == table), None)

    def view(self, table: TableName) -> View | None:
        """The view that the table is; None if it is none."""
        every = (one for settings in self.config.streams.values() for one in settings.views)
        return next((one for one in every if one.table == table), None)

    def pending(self, stream: str) -> Sequence[Pending]:
        """What waits of a stream, by the ranges in which it will be committed; one at least. Raises NotFresh,
        StorageUnavailable, UnreadableBatch."""
        if stream not in self._pending:
            with told_apart(f"what waits of the stream {stream}"):
                self._pending[stream] = self._look(self.config.streams[stream])
        return self._pending[stream]

    def _look(self, settings: StreamConfig) -> Sequence[Pending]:
        store, stream, committed = self.store, settings.name, self._committed[settings.name]
        cut = cuts.read(store, stream, committed) if committed else None
        commits = tells_commits(cut.high if cut else None, settings.generation)
        settings = replace(settings, commits=commits)
        # What is free first, then what is sealed: a batch that is sealed in between is in both.
        free = epochs.candidates(store, stream, datetime.now(UTC), above=committed)
        known = holds.read_all(store, stream)
        if (held := known.held_stream(settings.generation)) is not None:
            raise NotFresh(f"the stream {stream} is held, and its changes with it: {held.message}; {held.advice}")
        numbers = [n for n in epochs.numbers(store, stream, committed) if n not in known.epochs]
        places = Places(store, settings, max([committed, *numbers[-1:]]))
        waiting_epochs = epochs.read_many(store, stream, numbers)
        where = places.of(waiting_epochs)
        sealed = {one.batch.id for one in where}
        waiting = [batch for batch in (*free.batches, *free.left) if batch.id not in sealed]
        last = max([free.next_n, *(n + 1 for n in numbers[-1:])])
        where += [
            Place(last, MOST_CHANGES + number, batch, places.log.of_batch(batch.id, None))
            for number, batch in enumerate(waiting)
        ]
        if len(waiting) > epochs.MAX_BATCHES:  # nobody has counted the changes of the others
            raise NotFresh(
                f"{len(waiting):,} requests of {stream} wait for their commit, and at most {epochs.MAX_BATCHES:,} are "
                "read at once: read the table without fresh, or commit them (firn flush)"
            )
        events = sum(one.batch.events for one in where)
        if events > MOST_CHANGES:
            raise NotFresh(
                f"{events:,} changes of {stream} wait for their commit, and at most {MOST_CHANGES:,} are read at once: "
                "read the table without fresh, or commit them (firn flush)"
            )
        # What was fixed is in the newest configuration: a job that tries again takes all under that one.
        again = waiting_for_release(cut, known) or known.outgrown(settings.generation, committed)
        under = {sha: self._under(sha, settings, cut, again=again) for sha in {one.config for one in waiting_epochs}}
        own = {one.n: under[one.config] for one in waiting_epochs}
        if waiting or again or not own:
            own[last] = settings
        maps = {n: one.shards for n, one in shard_maps.under({one.n: one for one in waiting_epochs}).items()}
        if waiting:
            maps[last] = shard_maps.newest(store, settings)
        ranges = coming(own)
        read: list[tuple[int, Batch]] = []
        for one in ranges:
            mine = [place for place in where if place.epoch in one.epochs]
            read += places.read(mine, whole=True, by=one.settings.order)
        batches = self._taken(settings, cut, known, waiting_epochs, read)
        found: list[Pending] = []
        for number, one in enumerate(ranges):
            here = [(n, batch) for n, batch in batches if n in one.epochs]
            before = [(n, batch) for n, batch in batches if n < min(one.epochs)]
            facts, newest = _facts(here), own[max(own)]
            targets = _targets(one.settings, facts)
            found.append(
                Pending(
                    store, one.settings, places, known, committed, here, targets, facts, newest, number, before, maps
                )
            )
        return found

    def _under(self, sha: str, settings: StreamConfig, cut: cuts.Cut | None, *, again: bool) -> StreamConfig:
        """What epochs of a configuration are committed under. `again`: by the newest, but for their own SQL."""
        own = published_configs.load(self.store, sha).streams.get(settings.name, settings)
        if again:
            return replace(settings, pipelines=own.pipelines)
        return replace(own, commits=tells_commits(cut.high if cut else None, own.generation))

    def _taken(
        self,
        settings: StreamConfig,
        cut: cuts.Cut | None,
        known: Quarantines,
        sealed: Sequence[Epoch],
        batches: Sequence[tuple[int, Batch]],
    ) -> list[tuple[int, Batch]]:
        """The batches without the changes of tables that are too many: a commit makes dead letters of them."""
        above = self._committed[settings.name]
        log: dict[int, tuple[StreamConfig, set[str]]] = {}
        for n, own, sources in judged(self.store, settings, self.config, {one.n: one for one in sealed}, known, above):
            log[n] = own, set(sources)
        for n, batch in batches:
            log.setdefault(n, (settings, set()))[1].update(batch.changes)
        known_to = cut.known - shards_beside(self.store, settings) if cut else ()
        refused = table_limit.refused(known_to, ((n, *judging) for n, judging in log.items()))
        return [(n, batch.without(refused[n]) if refused[n] else batch) for n, batch in batches]


def _facts(batches: Sequence[tuple[int, Batch]]) -> Mapping[str, TableFacts]:
    """What batches say of their source tables."""
    counts: Counter[tuple[str, int, str]] = Counter()
    for _, batch in batches:
        for what, number in batch.counts.items():
            counts[what] += number
    return facts_of(counts, [fact for _, batch in batches for fact in batch.said])


def _targets(settings: StreamConfig, facts: Mapping[str, TableFacts]) -> Mapping[TableName, Target]:
    return {target.name: target for target in route(settings, facts).targets}


_configs: Final = Remembered[str, CurrentConfig]()
_batches: Final = Remembered[tuple[str, int, int, Order], Batch]()


class Place(NamedTuple):
    """Where a batch is or would be: its epoch, its number in it, and the generation that it counts under."""

    epoch: int
    number: int
    batch: EpochBatch
    generation: int


class Places:
    """Reads batches of a stream, each change in the generation that it came under first."""

    def __init__(self, store: Store, settings: StreamConfig, last: int) -> None:
        """`last`: the newest epoch."""
        self.log = Generations(store, settings, last)
        self._store, self._by = store, settings.order

    def of(self, sealed: Sequence[Epoch]) -> list[Place]:
        """Where the batches of these epochs are."""
        generations = self.log.of(sealed)
        every = [(epoch.n, number, batch) for epoch in sealed for number, batch in enumerate(epoch.batches)]
        return [Place(n, number, batch, generations[batch.id]) for n, number, batch in every]

    def read(self, where: Sequence[Place], *, whole: bool, by: Order | None = None) -> list[tuple[int, Batch]]:
        """The batches with their epochs. `whole`: one that is missing is an error; `by`: how they are ordered, None: as
        the stream is now."""
        by = self._by if by is None else by
        found = _read(self._store, where, by, whole=whole)
        generations = {one.generation for one in where}
        until = self.log.until(generations)
        again = Early() if until is None else early(_placed(found), until)
        if not again.names:
            return found
        older = self.of(self.log.holding(again, generations))
        kept = lowest(again.names, _placed(_read(self._store, older, by, whole=False)))
        return _read(self._store, where, replace(by, kept=kept), whole=whole) if kept else found


def _placed(batches: Iterable[tuple[int, Batch]]) -> Iterator[Placed]:
    every = (one for _, batch in batches for changes in batch.changes.values() for one in changes)
    return ((one["table"], one["ord"], one["ts"]) for one in every)


def _read(store: Store, where: Sequence[Place], by: Order, *, whole: bool) -> list[tuple[int, Batch]]:
    """`by`: the stream's; the generation is the batch's own."""
    known = _batches.of(store)
    if sum([batch.size for batch in list(known.values())]) > _KEPT:
        known.clear()

    keys = [(one.batch.path, one.epoch, one.number, replace(by, generation=one.generation)) for one in where]
    found = [known.get(key) for key in keys]
    new = [place for place, batch in enumerate(found) if batch is None]
    # One waits for the storage while another is read: what is not waiting is quicker in one thread.
    with ThreadPoolExecutor(_FETCHES_AT_ONCE) as pool:
        each = pool.map if len(new) > 3 else map
        for place, body in zip(new, each(lambda place: get(store, where[place].batch.path), new), strict=True):
            (epoch, number, batch, _), order = where[place], keys[place][-1]
            if body is not None:
                made = _batch(raw_changes(body, epoch, batch.id, place_of(epoch, number), order), epoch, batch.id)
                found[place] = known[keys[place]] = made
            elif whole:
                raise NotFresh(
                    f"{batch.path} waits for its commit and is not in the storage (any more): look again; if it stays "
                    "away restore it, its sender was told 202"
                )
    return [(one.epoch, batch) for one, batch in zip(where, found, strict=True) if batch is not None]


def _batch(changes: Sequence[dict[str, Any]], epoch: int, batch: str) -> Batch:
    said = said_by(changes)
    tables: dict[str, list[Mapping[str, Any]]] = {}
    for one in changes:
        tables.setdefault(one["table"], []).append(one)
    counts = Counter((one["table"], epoch, one["op"]) for one in changes)
    return Batch(tables, counts, [fact | {"epoch": epoch, "batch": batch} for fact in said], len(changes))
