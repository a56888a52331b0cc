"""What a table lacks that was released: epochs that the cut before holds for the others."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby

from firn.commit.job_context import Work
from firn.commit.range_parts import Part, bounded, by_map, events_of
from firn.config.model import StreamConfig
from firn.config.names import TableName
from firn.errors import ConfigError
from firn.log import epochs, shard_maps
from firn.log.epochs import Epoch
from firn.tables.failures import Kind
from firn.tables.outcome import Outcome
from firn.tables.routing import route


def brought(
    work: Work, table: TableName, done: int, upto: int, late: Collection[str]
) -> Iterator[tuple[int, Outcome | None]]:
    """Brings the epochs above `done` up to `upto` into one table, each under the SQL that it names. `late`: tables that
    something of fails at present. -> step by step how far the table is, and how it went; None: it waits for a late
    one."""
    if table in work.foreign:
        yield upto, _failed(table, work.foreign[table], "terminal", work.sources(table))
        return
    sealed = shard_maps.under({one.n: one for one in epochs.read_range(work.store, work.stream, done + 1, upto)})
    if len(sealed) < upto - done:
        missing = next(n for n in range(done + 1, upto + 1) if n not in sealed)
        yield upto, _failed(table, f"epoch {missing} is no longer in the log", "expired")
        return
    try:
        parts = _parts(work, table, [sealed[n] for n in sorted(sealed) if n not in work.known.epochs], upto)
    except ConfigError as error:
        yield upto, _failed(table, str(error), "terminal")
        return
    for settings, some, last in parts:
        if any(str(name) in late for one in settings.pipelines if one.target == table for name in one.joins):
            yield done, None
            return
        outcome = _into(work, table, settings, some, done, last)
        if outcome is not None and outcome.failure == "terminal" and settings.pipelines != work.settings.pipelines:
            # SQL that can't run any more: whoever released the table has corrected it.
            outcome = _into(work, table, work.settings, some, done, last) or outcome
        if outcome is not None:
            yield last, outcome
        done = last


def _parts(
    work: Work, table: TableName, sealed: Sequence[Epoch], upto: int
) -> list[tuple[StreamConfig, Mapping[int, Epoch], int]]:
    """The epochs that hold something of the table, in parts in which it is made by the same SQL, with what each is
    committed under and how far the table is then. Raises ConfigError, StorageUnavailable."""
    mine = [epoch for epoch in sealed if work.rows(table, [epoch])]

    def sql(epoch: Epoch) -> list[tuple[str, str]]:
        return [(one.name, one.sql) for one in work.under(epoch).pipelines if one.target == table]

    if any(rule.shard and table == TableName.parse(rule.to) for rule in work.settings.tables):
        parts = _sharded(work, table, sealed, {epoch.n for epoch in mine})
    else:
        parts = [(list(some), 0) for _, some in groupby(mine, key=sql)]
    ends = [end or some[-1].n for some, end in parts[:-1]] + [upto]
    return [
        (work.under(some[-1]), {epoch.n: epoch for epoch in some}, end)
        for (some, _), end in zip(parts, ends, strict=False)
    ]


def _sharded(
    work: Work, table: TableName, sealed: Sequence[Epoch], mine: Collection[int]
) -> list[tuple[list[Epoch], int]]:
    """The same of a table of several shards: as much as one process decides, with the end of each. What a job that died
    has left in a shard is in the first part, wherever that job's ended."""
    ahead = max((state.progress(work.stream) for state in work.shards.get(table, ())), default=0)
    by = {epoch.n: epoch for epoch in sealed}
    whole = [Part(tuple(by), frozenset())] if by else []
    whole = list(by_map(whole, {n: one.shards for n, one in by.items()}))
    parts = [part.epochs for part in bounded(whole, {n: events_of(one) for n, one in by.items()}, ahead=ahead)]
    some = [([by[n] for n in part if n in mine], part[-1]) for part in parts]
    return [(found, end) for found, end in some if found]


def _into(
    work: Work, table: TableName, settings: StreamConfig, sealed: Mapping[int, Epoch], done: int, last: int
) -> Outcome | None:
    opened = work.lake.open(work.stream, settings, sealed, last)
    try:
        targets = route(settings, opened.facts).targets
        return next((opened.commit(target, done) for target in targets if target.name == table), None)
    finally:
        opened.close()


def _failed(table: TableName, error: str, failure: Kind, sources: tuple[str, ...] = ()) -> Outcome:
    return Outcome(str(table), sources, status="failed", error=error, failure=failure)
