"""The state of each stream, read from the log and the tables alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from firn.backfill import progress
from firn.changes.envelopes.registry import KNOWN
from firn.changes.positions import by_arrival
from firn.config.model import Config, StreamConfig
from firn.config.modes import KEYLESS
from firn.config.names import TableName
from firn.deployment.terminal import counted
from firn.errors import TerminalError
from firn.log import backlog, cuts, epochs, freshness, holds, published_configs, shard_maps, table_health
from firn.log.batches import UnreadableBatch
from firn.log.freshness import Commit, Freshness
from firn.log.store import Store, get
from firn.maintenance import unfed
from firn.maintenance.health_report import report
from firn.maintenance.launcher import feeding, is_unfed
from firn.sinks import report as report_of_sinks
from firn.status import letter_counts
from firn.status.view_status import ViewStatus, view_statuses
from firn.status.view_status import ages as view_ages
from firn.status.waiting import age, ages


class Retyped(Protocol):
    """A column that got another type; as text it says which, and when."""

    @property
    def column(self) -> str:
        """Its name."""


class Table(Protocol):
    """What of a table tells how its streams are: firn_lake's TableSummary."""

    @property
    def name(self) -> str:
        """For people."""

    @property
    def identifier(self) -> tuple[str, ...]:
        """Namespace and name."""

    @property
    def stream(self) -> str | None:
        """The stream that made it."""

    @property
    def mode(self) -> str | None:
        """mirror, append, …"""

    @property
    def key(self) -> tuple[str, ...]:
        """Its columns."""

    @property
    def retyped(self) -> "Sequence[Retyped]":
        """Newest last."""

    @property
    def pipelines(self) -> tuple[str, ...]:
        """Those that ever fed it."""


@dataclass(frozen=True)
class StreamStatus:
    """One stream. `pending`: staged and in no epoch; `sealed`: in an epoch, in no cut. `dead_waiting`:
    dead letters that no replay has taken. `oldest_seconds`: how long the oldest uncommitted change has waited, and
    `oldest_by_table` that of each table (at most: an epoch does not say which of its batches a table is in); None and
    left out where none waits; that of a view tells how long it is behind. `freshness` is that of the last hour's
    commits. `notes` are for people."""

    stream: str
    pending_events: int
    pending_batches: int
    sealed_events: int
    sealed_epochs: int
    committed_epoch: int
    committed_at: datetime | None
    dead_letters: int
    dead_waiting: int
    keyless_tables: tuple[str, ...]
    without_position: bool
    quarantined: tuple[str, ...]
    oldest_seconds: float | None
    oldest_by_table: dict[str, float]
    freshness: Freshness
    notes: tuple[str, ...]
    views: tuple[ViewStatus, ...] = ()


def commits_by_stream(store: Store, since: datetime) -> dict[str, list[Commit]]:
    """What each configured stream committed at `since` or later. Raises StorageUnavailable, UnreadableBatch."""
    config = published_configs.find(store)
    if config is None:
        return {}
    return {name: freshness.read_commits(store, name, since) for name in sorted(config.streams)}


def stream_statuses(
    store: Store, tables: Sequence[Table], now: datetime, window: timedelta = timedelta(hours=1)
) -> list[StreamStatus]:
    """The status of every configured stream, by name; [] if no configuration is published. `tables`: the lake's;
    `window`: of the freshness.

    Raises StorageUnavailable, UnreadableBatch.
    """
    found, unread = readable_statuses(store, tables, now, window)
    for error in unread.values():
        raise error
    return found


def readable_statuses(
    store: Store, tables: Sequence[Table], now: datetime, window: timedelta = timedelta(hours=1)
) -> tuple[list[StreamStatus], dict[str, UnreadableBatch]]:
    """As `stream_statuses`, and by stream why those are left out of which an object is damaged. Raises
    StorageUnavailable."""
    config = published_configs.find(store)
    found, unread = list[StreamStatus](), dict[str, UnreadableBatch]()
    if config is None:
        return found, unread
    for name in sorted(config.streams):
        its = [one for one in tables if one.stream == name]
        try:
            found.append(_status(store, config, config.streams[name], its, now, now - window))
        except UnreadableBatch as error:
            unread[name] = error
    return found, unread


def table_debts(store: Store, now: datetime) -> list[dict[str, Any]]:
    """How each table is, as a job saw it last, with what is due (health_report.py) and its `streams`; tables that
    no job has looked at yet are missing. Raises StorageUnavailable."""
    config = published_configs.find(store)
    if config is None:
        return []
    known = table_health.read_all(store, config.streams)
    if config.care.also.patterns:
        others = unfed.tables(table_health.read(store, unfed.HEALTH))
        known = {name: one for name, one in others.items() if is_unfed(config, name)} | known
    return [
        report(one, config.care_of(TableName.parse(name)), now) | {"streams": sorted(feeding(config, name))}
        for name, one in sorted(known.items())
    ]


def _status(
    store: Store, config: Config, settings: StreamConfig, tables: Sequence[Table], now: datetime, since: datetime
) -> StreamStatus:
    stream = settings.name
    views = view_statuses(store, config, stream, now)
    committed = cuts.newest(store, stream)
    cut = cuts.read(store, stream, committed) if committed else None
    known = holds.read_all(store, stream)
    # A quarantined epoch waits too, wherever the cut is; the batches of a lifted one are staged ones again.
    found = backlog.look(store, stream, now, held=True)
    letters = letter_counts.count(store, stream)
    dead, waiting = letters.letters.total(), letters.waiting.total()
    # Tables of plain rows are appended to because firn.yaml says so.
    keyless = () if _is_of_rows(settings) else tuple(one.name for one in tables if one.mode == KEYLESS and not one.key)
    positionless = without_position(store, settings, [batch.path for batch in found.free])
    notes = [
        f"{name} is quarantined ({case.reason}): {case.message}; {case.advice}"
        for name, case in known.all_held(settings.generation).items()
    ]
    notes += order_notes(settings, positionless=positionless)
    if keyless:
        notes.append(
            f"no key for {', '.join(keyless)}: every change is appended, with _firn_op (write key: […] in firn.yaml "
            "for a mirror)"
        )
    notes += [_retyped(one) for one in tables if one.retyped]
    notes += report_of_sinks.notes(store, settings)
    notes += [note for one in views if (note := one.note(stream)) is not None]
    notes += progress.notes(store, stream)
    notes += [note for one in tables if (note := fed_no_more(store, settings, one)) is not None]
    if waiting:
        notes.append(f"{counted(waiting, 'dead letter')} to replay: firn dead list {stream}")
    return StreamStatus(
        stream=stream,
        pending_events=sum(batch.events for batch in found.free),
        pending_batches=len(found.free),
        sealed_events=sum(batch.events for batch in found.sealed),
        sealed_epochs=found.epochs,
        committed_epoch=committed,
        committed_at=datetime.fromisoformat(cut.made_at) if cut else None,
        dead_letters=dead,
        dead_waiting=waiting,
        keyless_tables=keyless,
        without_position=positionless,
        quarantined=(*known.names(settings.generation), *(f"view {one.view}" for one in views if one.quarantined)),
        oldest_seconds=age(store, found.first, now),
        oldest_by_table=ages(store, settings, found, cut, now) | dict(view_ages(views)),
        freshness=freshness.measured(freshness.read_commits(store, stream, since)),
        notes=tuple(notes),
        views=tuple(views),
    )


def order_notes(settings: StreamConfig, *, positionless: bool) -> list[str]:
    """What to know of how the stream's changes are ordered."""
    notes = []
    if positionless:
        notes.append(
            "its events have no position, so changes count in their order of arrival: duplicated or delayed events can "
            "make older values win (give the stream order_by, if the rows hold a version; have MongoDB's flattened "
            "events tell ts_ns in add.fields; Maxwell has output_binlog_position, wal2json include-lsn, AWS DMS "
            "IncludeTransactionDetails)"
        )
    keyed = any(rule.keyed and not rule.ignore for rule in settings.tables)
    if _is_of_rows(settings) and not settings.order_by and keyed:
        notes += _order_of_rows(settings)
    return notes


def _is_of_rows(settings: StreamConfig) -> bool:
    return KNOWN.bare(settings.envelope) is not None


def _order_of_rows(settings: StreamConfig) -> list[str]:
    """What to know of the order of plain rows that say nothing of it themselves."""
    fed_by = settings.fed_by
    if fed_by.kafka is not None and fed_by.kafka.order == "offset":
        return [
            "its rows count by their offsets: a key that moves to another partition, because the topic got more of "
            "them, goes on at lower ones and its older row wins (before you add partitions write "
            "kafka: {order: timestamp}, or order_by, and raise generation)"
        ]
    if fed_by.kind is not None and not settings.ways:
        return []
    return [
        "its rows count by when they were accepted: of two rows of one key the later one wins (give the stream "
        "order_by, if the rows hold a time or a version)"
    ]


def _retyped(table: Table) -> str:
    newest = {one.column: one for one in table.retyped}
    told = "; ".join(map(str, newest.values()))
    return f"columns of {table.name} got another type: {told} (declare a column in firn.yaml to give it one for good)"


def fed_no_more(store: Store, settings: StreamConfig, table: Table) -> str | None:
    """That a table of the stream gets nothing any more, or nothing of a pipeline that is gone: its rows stay. Raises
    StorageUnavailable."""
    namespace, name = table.identifier if len(table.identifier) == 2 else ("", "")
    if not namespace:
        return None
    place = TableName(namespace, name)
    if not any(rule.feeds(place) for rule in settings.targets) and not _may_be_shard(store, settings, place):
        return (
            f"no rule and no pipeline of firn.yaml fills {table.name} any more: it stays as it is (write its rule or "
            "pipeline again, or drop the table)"
        )
    gone = sorted(set(table.pipelines) - {one.name for one in settings.pipelines if one.rule is not None})
    if not gone:
        return None
    which = f"the pipeline {gone[0]} is" if len(gone) == 1 else f"the pipelines {', '.join(gone)} are"
    return f"{which} gone; {'its' if len(gone) == 1 else 'their'} rows in {table.name} stay"


def without_position(store: Store, settings: StreamConfig, staged: Sequence[str]) -> bool:
    """Whether the newest batch (of those `staged`, else of the newest epoch) holds changes whose order fields say too
    little. Raises StorageUnavailable."""
    if settings.order_by:
        return False
    from arro3.io import read_parquet

    stream = settings.name
    path = staged[-1] if staged else _newest_sealed(store, stream)
    data = get(store, path) if path else None
    if data is None:
        return False
    rows = read_parquet(data).read_all()
    if "order" not in rows.column_names:  # null throughout
        return bool(rows.num_rows)
    nothing = [None] * rows.num_rows
    connectors = rows.column("connector").to_pylist() if "connector" in rows.column_names else nothing
    return any(map(by_arrival, connectors, rows.column("order").to_pylist()))


def _newest_sealed(store: Store, stream: str) -> str | None:
    sealed = epochs.numbers(store, stream)
    epoch = epochs.read(store, stream, sealed[-1]) if sealed else None
    return epoch.batches[-1].path if epoch and epoch.batches else None


def _may_be_shard(store: Store, settings: StreamConfig, table: TableName) -> bool:
    """Whether a map has a table, or had it; where one can't be read nobody knows."""
    if any(rule.shard and rule.shard.may_hold(table) for rule in settings.tables):
        return True
    try:
        return str(table) in shard_maps.ever(store, settings)
    except TerminalError:
        return True
