"""What a table lacks that was released: epochs that the cut before holds for the others."""

from collections.abc import Collection, Iterator, Mapping
from itertools import groupby

from firn.commit.job_context import Work
from firn.config.model import StreamConfig
from firn.config.names import TableName
from firn.errors import ConfigError
from firn.log import epochs
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
    sealed = {epoch.n: epoch for epoch in epochs.read_range(work.store, work.stream, done + 1, upto)}
    if len(sealed) < upto - done:
        missing = next(n for n in range(done + 1, upto + 1) if n not in sealed)
        yield upto, _failed(table, f"epoch {missing} is no longer in the log", "expired")
        return
    try:
        parts = _parts(work, table, [sealed[n] for n in sorted(sealed) if n not in work.known.epochs])
    except ConfigError as error:
        yield upto, _failed(table, str(error), "terminal")
        return
    for number, (settings, some) in enumerate(parts, 1):
        last = upto if number == len(parts) else max(some)
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


def _parts(work: Work, table: TableName, sealed: Collection[Epoch]) -> list[tuple[StreamConfig, Mapping[int, Epoch]]]:
    """The epochs that hold something of the table, in parts in which it is made by the same SQL, with what each is
    committed under. Raises ConfigError, StorageUnavailable."""
    mine = [epoch for epoch in sealed if work.rows(table, [epoch])]

    def sql(epoch: Epoch) -> list[tuple[str, str]]:
        return [(one.name, one.sql) for one in work.under(epoch).pipelines if one.target == table]

    parts = [list(some) for _, some in groupby(mine, key=sql)]
    return [(work.under(some[-1]), {epoch.n: epoch for epoch in some}) for some in parts]


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
