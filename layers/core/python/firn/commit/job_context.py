"""What a commit job finds when it begins: epochs, configuration, the cut before, quarantines, the tables' states."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from firn.commit import table_limit
from firn.commit.lake import Lake, states_of
from firn.commit.range_parts import Part, bounded, by_map, events_of, parts
from firn.config.model import Config, StreamConfig
from firn.config.names import TableName
from firn.config.pipelines import Pipeline
from firn.errors import EventError, FirnError
from firn.log import cuts, epochs, holds, published_configs, shard_maps
from firn.log.epochs import RENUMBERED, Epoch
from firn.log.holds import Quarantines
from firn.log.store import Store
from firn.quarantine import rules as rules
from firn.quarantine.rules import Standing
from firn.tables import ownership
from firn.tables.outcome import COUNTS
from firn.tables.routing import mirrors_on, targets_of
from firn.tables.shard_names import SHARD_OF
from firn.tables.table_state import TableState
from firn.tables.turns import in_turn

Counts = dict[str, dict[str, int]]
Pipelines = dict[str, tuple[Pipeline, ...]]  # of the stream, by the hash of the configuration


@dataclass(frozen=True)
class Work:
    """One job's view. `epochs`: those of its range that no cut covers and that are not quarantined; `touched`: the
    tables that they go to, each with the last epoch that does; `config`: the one that the last epoch was sealed under,
    `settings` its part for the stream, `pipelines` those of the configurations that were looked at; `states`,
    `standings`: of these tables and of those of the cut `before` that were looked at (tables/turns.py)."""

    store: Store
    lake: Lake
    stream: str
    last: int
    config: Config
    settings: StreamConfig
    before: cuts.Cut | None
    known: Quarantines
    epochs: Mapping[int, Epoch]
    touched: Mapping[TableName, int]
    states: Mapping[TableName, TableState | None]
    standings: Mapping[TableName, Standing]
    foreign: Mapping[TableName, str]  # tables that are not for this deployment, with why: nothing of them counts here
    parts: tuple[Part, ...] = ()  # the epochs in order, with the source tables that are refused
    pipelines: Pipelines = field(default_factory=dict)
    shards: Mapping[TableName, tuple[TableState, ...]] = field(default_factory=dict)  # shards_ahead, by their rests
    unseen: frozenset[str] = frozenset()  # tables of the cut before that were not looked at: the next says the same

    def under(self, epoch: Epoch) -> StreamConfig:
        """What the epoch is committed under: the settings, with the pipelines of its own configuration. Raises
        ConfigError, StorageUnavailable for an epoch before the range."""
        if epoch.config not in self.pipelines:
            config = published_configs.load(self.store, epoch.config)
            self.pipelines[epoch.config] = config.streams.get(self.stream, self.settings).pipelines
        return replace(self.settings, pipelines=self.pipelines[epoch.config])

    @property
    def mirrors(self) -> list[tuple[Pipeline, TableName, TableName]]:
        """The pipelines that make mirrors (routing.mirrors_on), but for those whose base is not for this deployment."""
        return [one for one in mirrors_on(self.settings) if one[1] not in self.foreign]

    def is_fed(self, table: TableName) -> bool:
        """Whether pipelines append to a table, whose rows may be joined with others."""
        every = (one for some in (self.settings.pipelines, *self.pipelines.values()) for one in some)
        return any(one.target == table and not one.is_mirror for one in every)

    def progress(self, table: TableName) -> int:
        """The last epoch in the table's ancestry."""
        state = self.states.get(table)
        return state.progress(self.stream) if state else 0

    def standing(self, table: TableName) -> Standing:
        """How the table stood; one that nothing was known of has nothing."""
        return self.standings.get(table, Standing(0, 0))

    def rows(self, table: TableName, sealed: Iterable[Epoch]) -> int:
        """Staged changes in the epochs that go to the table."""
        return sum(
            n for epoch in sealed for one, n in epoch.tables.items() if table in targets_of(self.under(epoch), one)
        )

    def sources(self, table: TableName) -> tuple[str, ...]:
        """The source tables of the range that go to the table."""
        names = {(source, epoch.config): epoch for epoch in self.epochs.values() for source in epoch.tables}
        found = {source for (source, _), epoch in names.items() if table in targets_of(self.under(epoch), source)}
        return tuple(sorted(found))

    def filtered(self) -> int:
        """Staged changes that neither rule nor pipeline takes."""
        return sum(
            rows
            for epoch in self.epochs.values()
            for table, rows in epoch.tables.items()
            if not self._refuses(table) and not self.under(epoch).wants(table)
        )

    def refused(self) -> Counts:
        """Staged changes of source tables that can't be placed: they are dead letters, by source table."""
        found: dict[str, int] = {}
        for table, rows in self._rows():
            if self._refuses(table):
                found[table] = found.get(table, 0) + rows
        return {table: dict.fromkeys(COUNTS, 0) | {"events": rows, "dead": rows} for table, rows in found.items()}

    def _rows(self) -> Iterable[tuple[str, int]]:
        return (found for epoch in self.epochs.values() for found in epoch.tables.items())

    def _refuses(self, table: str) -> bool:
        try:
            rule = self.settings.rule_for(table)
            if rule is not None:
                rule.target(table)
        except EventError:
            return True
        return False


def look(store: Store, lake: Lake, stream: str, first: int, last: int) -> Work:
    """Looks around. Epochs before `first` that no cut covers belong to the range too: to leave one out would lose it.

    Raises FirnError (an epoch is not sealed, no such stream), StorageUnavailable, and what the catalog raises.
    """
    before = cuts.last(store, stream)
    known = holds.read_all(store, stream)
    sealed = _sealed(store, stream, min(first, 1 + (before.n if before else 0)), first, last, known)
    config = published_configs.load(store, sealed[max(sealed)].config)
    settings = config.streams.get(stream)
    if settings is None:
        raise FirnError(f"the configuration {config.sha[:12]} has no stream {stream}; epoch {last} was sealed under it")
    high = before.high if before else None
    settings = replace(settings, commits=rules.tells_commits(high, settings.generation))
    mine = shard_maps.under({n: epoch for n, epoch in sealed.items() if n > rules.covered(before)})
    lake.expect(settings, mine)
    sources = {n: frozenset(epoch.tables) for n, epoch in mine.items()}
    known_to = (before.known if before else frozenset()) - shards_beside(store, settings)
    log = list(judged(store, settings, config, mine, known, rules.covered(before)))
    refused = table_limit.refused(known_to, log)
    pipelines = {n: own.pipelines for n, own, _ in log}
    by_config = {epoch.config: pipelines[n] for n, epoch in mine.items()}
    own = {n: replace(settings, pipelines=pipelines[n]) for n in mine}
    taken = _touched(own, {n: some - refused[n] for n, some in sources.items()})
    resting = {name for _, base, target in mirrors_on(settings) for name in (base, target)}
    names = {*taken, *resting, *_looked_at(settings, before, known, known_to, last)}  # not at one that is too many
    closed = {name: why for name in names if (why := ownership.barred(name, lake.databases))}  # not even loaded
    found: dict[TableName, TableState | None] = dict.fromkeys(sorted(names))
    found |= states_of(lake, (name for name in found if name not in closed))
    found = _without_shards(settings, found)
    others = {
        name: why
        for name, state in found.items()
        if (why := ownership.refusal(store, config.streams, name, state, lake.warehouse)) is not None
    }
    foreign = closed | others
    states = {name: None if name in foreign else state for name, state in found.items()}
    standings = {}
    for name, state in states.items():
        # A table that may not be loaded is where the cut says: nothing shows that it was rolled back.
        unseen = before.progress.get(str(name), 0) if before and name in closed else 0
        stand = rules.standing(str(name), state.progress(stream) if state else unseen, before, known)
        standings[name] = replace(stand, done=max(stand.done, known.begun))
    touched, split = _touched(own, sources), parts(refused, sources, pipelines)
    if any(rule.shard for rule in settings.tables):
        split = by_map(split, {n: epoch.shards for n, epoch in mine.items()})
        split = bounded(split, {n: events_of(epoch) for n, epoch in mine.items()})
    return Work(
        store, lake, stream, last, config, settings, before, known, mine, touched, states, standings, foreign, split,
        by_config, unseen=frozenset(known_to) - {str(name) for name in names},
    )  # fmt: skip


def _looked_at(
    settings: StreamConfig, before: cuts.Cut | None, known: Quarantines, known_to: Collection[str], last: int
) -> frozenset[TableName]:
    """The tables of the cut before that a job looks at whatever its range touches: those that are or were held, the
    rests of shards, which stand for others, and of all others those whose turn it is."""
    every = frozenset(map(TableName.parse, known_to))
    if before is None or rules.covered(before) < before.n:
        return every
    rests = {TableName.parse(rule.to) for rule in settings.tables if rule.shard is not None}
    held = {*known.tables, *before.quarantined}
    return in_turn(every, before.n, last) | {name for name in every if name in rests or str(name) in held}


def _without_shards(
    settings: StreamConfig, found: Mapping[TableName, TableState | None]
) -> dict[TableName, TableState | None]:
    """Without shards by what they say of themselves: in a log that was begun anew no map names them."""
    rests = {rule.to for rule in settings.tables if rule.shard is not None}
    return {name: one for name, one in found.items() if one is None or one.properties.get(SHARD_OF) not in rests}


def shards_beside(store: Store, settings: StreamConfig) -> frozenset[str]:
    """The tables of shards, former ones too, but for their rests', which stand for them. Raises StorageUnavailable, and
    TerminalError for a map that can't be read."""
    sharded = [rule for rule in settings.tables if rule.shard is not None]
    first = {str(table) for rule in sharded if rule.shard is not None for table in rule.shard.tables.values()}
    return (shard_maps.ever(store, settings) | first) - {rule.to for rule in sharded}


def judged(
    store: Store, settings: StreamConfig, config: Config, mine: Mapping[int, Epoch], known: Quarantines, above: int
) -> Iterator[tuple[int, StreamConfig, Collection[str]]]:
    """The epochs of the range and those held among them, for table_limit.refused. `config`: that of `settings`;
    `above`: what the cut before covers. Raises ConfigError, StorageUnavailable, UnreadableBatch."""
    held = (n for n in known.epochs if above < n < max(mine, default=0))
    every = {n: epoch for n in held if (epoch := epochs.read(store, settings.name, n)) is not None} | dict(mine)
    by_config = {config.sha: settings}
    for n, epoch in every.items():
        if epoch.config not in by_config:
            by_config[epoch.config] = published_configs.load(store, epoch.config).streams.get(settings.name, settings)
        yield n, by_config[epoch.config], epoch.tables


def _sealed(store: Store, stream: str, start: int, first: int, last: int, known: Quarantines) -> dict[int, Epoch]:
    numbers = [n for n in epochs.numbers(store, stream, start - 1) if n <= last and n not in known.epochs]
    found = {n: epoch for n in numbers if (epoch := epochs.read(store, stream, n)) is not None}
    # The log was started over here: the numbers below were never given out.
    start = max([first, *(n for n, epoch in found.items() if epoch.nonce == RENUMBERED)])
    missing = [n for n in range(start, last + 1) if n not in found and n not in known.epochs]
    if missing:
        raise FirnError(f"epoch {missing[0]} of {stream} is not sealed; dispatch starts jobs only for sealed epochs")
    if not found:
        raise FirnError(f"epochs {first} to {last} of {stream} are quarantined; see firn status")
    return found


def _touched(own: Mapping[int, StreamConfig], sealed: Mapping[int, Collection[str]]) -> dict[TableName, int]:
    """The tables that the source tables of the epochs go to, each with the last epoch that touches it. `own`: what each
    epoch is committed under."""
    return {name: n for n in sorted(sealed) for source in sealed[n] for name in targets_of(own[n], source)}
