"""The overview, and the pages of a stream: epochs, batches, receipts, pipelines, sources."""

from typing import Literal

import msgspec

from firn.audit.batch_status import BatchStatus

Severity = Literal["critical", "warning", "info"]
EpochState = Literal["sealed", "committing", "committed", "held"]


class Need(msgspec.Struct, frozen=True):
    """Something that needs a person. `link`: the page that shows it, such as `streams/shop`, `tables/shop.orders`,
    `dead-letters?stream=shop`, `quarantine`, `jobs?stream=shop`; `command`: what to run in a
    terminal, if it is known."""

    severity: Severity
    kind: Literal[
        "stream_held", "epoch_held", "table_held", "view_held", "dead_letters", "job_failed", "source", "unfed",
        "behind", "paused", "note", "unreadable", "unconfigured",
    ]  # fmt: skip
    stream: str | None
    subject: str
    text: str
    link: str
    command: str | None = None


class Backlog(msgspec.Struct, frozen=True):
    """What waits for its commit: `staged` in no epoch, `sealed` in one and in no cut; `oldest_at`: when the oldest of
    it was accepted. `bytes`: as staged."""

    staged_batches: int
    staged_events: int
    staged_bytes: int
    sealed_batches: int
    sealed_events: int
    sealed_bytes: int
    sealed_epochs: int
    oldest_at: str | None


class Series(msgspec.Struct, frozen=True):
    """Events by when they were accepted and by when they were committed: `accepted[i]` and `committed[i]` lie in the
    `step_seconds` that begin at `start + i * step_seconds`. `whole`: false if the window holds more commits than are
    looked at, and the first steps lack some."""

    start: str
    step_seconds: int
    accepted: tuple[int, ...]
    committed: tuple[int, ...]
    whole: bool = True


class StreamRow(msgspec.Struct, frozen=True):
    """A stream in the overview. `state`: the worst that holds: held (something of it is quarantined), failing (its
    newest job failed), behind (its oldest change has waited for more than 15 minutes), busy (something waits), idle.
    `p50`, `p99`: lag from acceptance to commit over the window, seconds. `dead_waiting`: letters that no replay
    took, of those that were counted so far."""

    stream: str
    envelope: str
    state: Literal["held", "failing", "behind", "busy", "idle"]
    tables: int
    backlog: Backlog
    accepted_at: str | None
    committed_at: str | None
    committed_epoch: int
    p50: float | None
    p99: float | None
    events_per_second: float | None
    dead_waiting: int
    held: tuple[str, ...]
    series: Series


class Totals(msgspec.Struct, frozen=True):
    """All tables together, those that a job has looked at."""

    tables: int
    rows: int
    bytes: int
    held: int
    due: int


class Overview(msgspec.Struct, frozen=True):
    """GET /v1/console/overview?window=3600: what needs a person comes first, worst first. `window`: seconds, 300 to
    86,400. `unread`: streams whose part could not be read in time, with why; the others are there."""

    window_seconds: int
    needs: tuple[Need, ...]
    streams: tuple[StreamRow, ...]
    tables: Totals
    unread: dict[str, str] = {}


class Way(msgspec.Struct, frozen=True):
    """The way of a stream's changes. Over the window: accepted (into staged batches), committed (with what became of
    them: merged into tables, superseded, ignored, dead), dead (letters, of ingest and of commits). Now: staged, sealed,
    committing (epochs that a job is at work on, part of sealed)."""

    window_seconds: int
    accepted_batches: int
    accepted_events: int
    accepted_bytes: int
    staged_batches: int
    staged_events: int
    sealed_epochs: int
    sealed_events: int
    committing_epochs: int
    committing_events: int
    committed_events: int
    merged: int
    superseded: int
    ignored: int
    dead: int


class PipelineRow(msgspec.Struct, frozen=True):
    """A pipeline of firn.yaml. `kind`: append, mirror, files; `upto`: the epoch up to which its target has
    everything."""

    name: str
    source: str
    target: str
    kind: str
    sql: str
    upto: int | None


class SourceRow(msgspec.Struct, frozen=True):
    """A database that Firn reads. `lag`: bytes of WAL that are not read; `kept`: that the database keeps for the slot;
    `safe`: that may still come until the slot is lost (null: no limit). `seen_at`: when the pull looked last;
    `read_all_at`: when it had read everything last."""

    source: str
    slot: str
    seen_at: str | None
    read_all_at: str | None
    lag: int | None
    kept: int | None
    safe: int | None
    wal_status: str | None
    oldest_transaction_seconds: float | None
    stopped: str | None
    notes: tuple[str, ...]


class TargetRow(msgspec.Struct, frozen=True):
    """A table that the stream feeds. `oldest_at`: when its oldest uncommitted change was accepted, or
    earlier."""

    table: str
    snapshot: str | None
    upto: int
    held: str | None
    oldest_at: str | None


class StreamPage(msgspec.Struct, frozen=True):
    """GET /v1/console/streams/{stream}?window=3600."""

    row: StreamRow
    way: Way
    targets: tuple[TargetRow, ...]
    pipelines: tuple[PipelineRow, ...]
    sources: tuple[SourceRow, ...]
    notes: tuple[str, ...]


class EpochRow(msgspec.Struct, frozen=True):
    """An epoch. `tables`: events by source table; `cut`: the cut that has it, made at `committed_at`."""

    n: int
    state: EpochState
    sealed_at: str
    committed_at: str | None
    cut: int | None
    batches: int
    events: int
    bytes: int
    tables: dict[str, int]


class EpochPage(msgspec.Struct, frozen=True):
    """GET /v1/console/streams/{stream}/epochs?cursor=&limit=50, newest first."""

    epochs: tuple[EpochRow, ...]
    next: str | None


class BatchRow(msgspec.Struct, frozen=True):
    """A batch. `epoch`: None while it is staged only."""

    id: str
    received_at: str
    events: int
    bytes: int
    epoch: int | None
    state: Literal["staged", "sealed", "committing", "committed", "held"]


class BatchPage(msgspec.Struct, frozen=True):
    """GET /v1/console/streams/{stream}/batches?cursor=&limit=100, newest first."""

    batches: tuple[BatchRow, ...]
    next: str | None


BatchAnswer = BatchStatus
"""GET /v1/console/streams/{stream}/batches/{id}: what became of one batch, as GET /v1/batches/{id} answers it, with
snapshot ids as text."""


class ReceiptAnswer(msgspec.Struct, frozen=True):
    """GET /v1/console/streams/{stream}/receipts?key=…&header=Idempotency-Key: the batch that a key stands for."""

    batch: str
    received_at: str
    body_sha256: str
