"""What an audit is told: everything that the log and the tables say about one stream. Reading it is here, judging it is
in audit/verdict.py.

It is read against the way of the data: cuts, tables, dead letters, epochs, staged batches. So whatever one of them
names was there before it was looked for, and an audit beside a running stream finds no difference that is none.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeVar

from firn.config.model import StreamConfig
from firn.config.names import TableName
from firn.errors import EventError, FirnError
from firn.log import cuts, epochs, holds, layout, published_configs
from firn.log.batches import BatchMeta, UnreadableBatch, read_meta
from firn.log.cuts import Cut
from firn.log.dead_letters import replay_marks
from firn.log.dead_letters.letters import Counts, count_dead
from firn.log.dead_letters.replay_marks import Replay
from firn.log.epochs import Epoch
from firn.log.holds import Quarantines
from firn.log.store import Store, exists, get, listing
from firn.tables.outcome import COUNTS
from firn.tables.routing import mirrors_on, targets_of
from firn.tables.table_state import epoch_of

T = TypeVar("T")
R = TypeVar("R")
Tick = Callable[[str, int, int], None]  # (what is read, done, of how many)
_AT_ONCE: Final = 32


@dataclass(frozen=True)
class Staged:
    """One staged object. `meta`: its footer; None if it can't be read, and `problem` says why."""

    path: str
    size: int
    meta: BatchMeta | None
    problem: str = ""


@dataclass(frozen=True)
class Letters:
    """One object of dead letters: how many, and by (source table, reason) where the footer says it (format 2).
    `problem`: why it can't be read; it counts for nothing then."""

    path: str
    count: int
    by: Counts
    problem: str = ""


@dataclass(frozen=True)
class Version:
    """One snapshot in a table's ancestry that carries epochs of the stream. `counts`: of outcome.COUNTS; empty if the
    summary has none."""

    snapshot: int
    epoch: int
    counts: Mapping[str, int]


@dataclass(frozen=True)
class History:
    """What a table's metadata says. `versions`: oldest first; `whole`: whether the ancestry reaches back to the table's
    first snapshot, none of it expired."""

    versions: tuple[Version, ...] = ()
    whole: bool = True

    @property
    def progress(self) -> int:
        """The highest epoch of the stream in the ancestry; 0 if there is none."""
        return max((version.epoch for version in self.versions), default=0)


Tables = Callable[[Iterable[str]], Mapping[str, History]]  # by name; those that do not exist are left out


@dataclass(frozen=True)
class Ledger:
    """All of one stream. `settings`: the stream's part of each configuration that an epoch was sealed under, by hash;
    `done`: the batches of replays that say of themselves that they were staged."""

    stream: str
    cuts: Mapping[int, Cut] = field(default_factory=dict)
    tables: Mapping[str, History] = field(default_factory=dict)
    known: Quarantines = field(default_factory=Quarantines)
    dead: Mapping[str, Letters] = field(default_factory=dict)
    replays: tuple[Replay, ...] = ()
    done: frozenset[str] = frozenset()
    epochs: Mapping[int, Epoch] = field(default_factory=dict)
    staged: Mapping[str, Staged] = field(default_factory=dict)
    settings: Mapping[str, StreamConfig] = field(default_factory=dict)


def history(stream: str, current: int | None, snapshots: Mapping[int, tuple[int | None, Mapping[str, str]]]) -> History:
    """The history that a table's snapshots (id -> parent, summary) tell, from the current one back. Pure."""
    found: list[Version] = []
    at = current
    while at is not None and at in snapshots:
        at_now, (at, summary) = at, snapshots[at]
        if epoch := epoch_of(stream, summary):
            counts = {name: int(summary[f"firn.{name}"]) for name in COUNTS if f"firn.{name}" in summary}
            found.append(Version(at_now, epoch, counts))
    return History(tuple(reversed(found)), whole=at is None)


def places_of(settings: StreamConfig, source: str) -> tuple[TableName | str | None, ...]:
    """Where a source table's changes go: tables; None, and nothing else, if neither rule nor pipeline takes it; "" if
    the commit job refuses it."""
    found: tuple[TableName | str | None, ...] = targets_of(settings, source)
    try:
        rule = settings.rule_for(source)
        if rule is not None:
            rule.target(source)
        return found or ((None,) if not settings.wants(source) else ())
    except EventError:
        return ("", *found)


def _silent(_what: str, _done: int, _of: int) -> None:
    """Nobody wants to know."""


def read(store: Store, stream: str, tables: Tables, tick: Tick = _silent) -> Ledger:
    """Everything about `stream`. `tables` reads tables of the catalog; `tick` hears how far it is.

    Raises StorageUnavailable, ConfigError (a configuration that an epoch names is gone), FirnError (it has no such
    stream), UnreadableBatch (a newer format), and what `tables` raises.
    """
    first_look = _epochs(store, stream, tick)
    settings = _settings(store, stream, first_look.values())
    found_cuts = _in_parallel("cuts", cuts.numbers(store, stream), lambda n: cuts.read(store, stream, n), tick)
    of_cuts = cuts.chain({cut.n: cut for cut in found_cuts if cut is not None})
    names = _targets(first_look.values(), settings)
    for cut in of_cuts.values():
        names |= {*cut.tables, *cut.progress, *cut.quarantined}
    histories = tables(sorted(names))
    known = holds.read_all(store, stream)
    dead = _dead(store, stream, tick)
    claims = [claim for of_object in replay_marks.of_stream(store, stream).values() for claim in of_object]
    done = [claim for claim in claims if exists(store, layout.replay_done_path(claim.dead, claim.n))]
    sealed = _epochs(store, stream, tick, first_look)
    settings |= _settings(store, stream, (epoch for n, epoch in sealed.items() if n not in first_look))
    staged = _staged(store, stream, sealed.values(), tick)
    finished = frozenset(claim.batch for claim in done)
    return Ledger(stream, of_cuts, histories, known, dead, tuple(claims), finished, sealed, staged, settings)


def _epochs(store: Store, stream: str, tick: Tick, before: Mapping[int, Epoch] | None = None) -> dict[int, Epoch]:
    """All sealed epochs; those of `before`, which never change, are not read again."""

    def look(n: int) -> Epoch | None:
        data = get(store, layout.epoch_path(stream, n))
        return None if data is None else epochs.decoded(stream, n, data)

    found = dict(before or {})
    new = [n for n in epochs.numbers(store, stream) if n not in found]
    found |= {epoch.n: epoch for epoch in _in_parallel("epochs", new, look, tick) if epoch is not None}
    return found


def _settings(store: Store, stream: str, sealed: Iterable[Epoch]) -> dict[str, StreamConfig]:
    found: dict[str, StreamConfig] = {}
    for sha, n in {epoch.config: epoch.n for epoch in sealed}.items():
        settings = published_configs.load(store, sha).streams.get(stream)
        if settings is None:
            raise FirnError(f"the configuration {sha[:12]} has no stream {stream}; epoch {n} was sealed under it")
        found[sha] = settings
    return found


def _targets(sealed: Iterable[Epoch], settings: Mapping[str, StreamConfig]) -> set[str]:
    sources = {(sha, source) for epoch in sealed for source in epoch.tables for sha in settings}
    found = {str(name) for sha, source in sources for name in targets_of(settings[sha], source)}
    return found | {str(target) for one in settings.values() for _, _, target in mirrors_on(one)}


def _dead(store: Store, stream: str, tick: Tick) -> dict[str, Letters]:
    def look(one: tuple[str, int]) -> Letters:
        try:
            return Letters(one[0], *count_dead(store, *one))
        except UnreadableBatch as error:
            return Letters(one[0], 0, Counter(), str(error))

    objects = [one for one in listing(store, layout.dead_prefix(stream)) if one[0].endswith(".parquet")]
    return {found.path: found for found in _in_parallel("dead letters", objects, look, tick)}


def _staged(store: Store, stream: str, sealed: Iterable[Epoch], tick: Tick) -> dict[str, Staged]:
    """The staged objects by batch; one that an epoch names and that the listing did not show is looked for by name."""

    def look(one: tuple[str, str, int | None]) -> tuple[str, Staged] | None:
        batch, path, size = one
        try:
            meta = read_meta(store, path, size)
        except UnreadableBatch as error:
            return batch, Staged(path, size or 0, None, str(error))
        return None if meta is None else (batch, Staged(path, size or 0, meta))

    objects: dict[str, tuple[str, str, int | None]] = {}
    for path, size in listing(store, layout.staged_prefix(stream)):
        batch = layout.staged_batch(path)
        if batch is not None:
            objects[batch] = (batch, path, size)
    for epoch in sealed:
        for held in epoch.batches:
            objects.setdefault(held.id, (held.id, held.path, None))
    found = _in_parallel("staged batches", list(objects.values()), look, tick)
    return dict(one for one in found if one is not None)


def _in_parallel(what: str, things: Sequence[T], look: Callable[[T], R], tick: Tick) -> list[R]:
    found: list[R] = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for answer in pool.map(look, things):
            found.append(answer)
            tick(what, len(found), len(things))
    return found
