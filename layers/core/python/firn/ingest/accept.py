"""Taking changes in: one request, or one Lambda batch of queue messages, becomes one staged object.

The order of the writes is the promise. The receipt (if there is a key), then the dead letters, then the batch, then the
answer: a crash before the batch leaves nothing acknowledged, and a dead-letter object without its batch counts for
nothing.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from firn.changes.change import Parsed, Rejected
from firn.changes.envelopes.limits import LIMITS, EventLimits
from firn.changes.envelopes.registry import KNOWN
from firn.changes.envelopes.table_hint import table_named_in
from firn.changes.record import Record
from firn.config.model import Config, StreamConfig
from firn.errors import EventError, RequestError, StorageUnavailable
from firn.ingest import reading
from firn.ingest.bodies import Content
from firn.ingest.message_batch import Received, together
from firn.ingest.schema_check import versions
from firn.log import layout, published_configs, receipts
from firn.log.batches import FORMAT, BatchMeta, read_meta, write_batch
from firn.log.dead_letters.letters import DeadLetter, change_at, read_dead, rebuilt, staged_change, write_dead
from firn.log.store import Store, put_if_absent

if TYPE_CHECKING:
    from firn.config.writers import Writer

MAX_ERRORS: Final = 100  # listed in one answer; the dead letters hold them all
MAX_MESSAGE: Final = 1_000  # characters of what is said of one event, which may quote what it holds
MAX_NAME: Final = 1_000  # characters of a source table's name, which stands in the footer of its batch

Random = Callable[[int], bytes]


class RejectedEvent(msgspec.Struct, frozen=True):
    """An event in the answer that became a dead letter. `reason` is its code."""

    index: int
    reason: str
    message: str


class Accepted(msgspec.Struct, frozen=True):
    """The answer of a 202. Events received = accepted + rejected + sum(ignored)."""

    batch_id: str
    accepted: int
    rejected: int
    ignored: dict[str, int]
    duplicate: bool
    errors: list[RejectedEvent]  # at most MAX_ERRORS
    schema: dict[str, str] | msgspec.UnsetType = msgspec.UNSET  # source table -> version; only of streams with schemas


def accept(
    store: Store,
    config: Config,
    stream: str,
    body: bytes,
    *,
    now: datetime,
    content: Content = "auto",
    key: str | None = None,
    key_header: receipts.Header = "Idempotency-Key",
    limits: EventLimits = LIMITS,
    random: Random = os.urandom,
    table: str | None = None,
    writer: "Writer | None" = None,
) -> Accepted:
    """Stage one request. `body`: JSON or NDJSON, inflated. `key`: its idempotency key, from `key_header`. `now`: aware.
    `table`: the source table that the request names, of rows. `writer`: whom it is from, if that may write a part.

    Raises RequestError (400 unreadable, 403 outside of what the writer may write, 404 unknown stream or table, 409 key
    used for another body or table, 413 more than `limits`), StorageUnavailable or UnknownOutcome; after any of
    them nothing is acknowledged, and the sender may send again.
    """
    settings = stream_config(config, stream)
    # Judged before its key is used: a corrected body may come under the same key.
    try:
        made = _batch_of(
            config, settings, body, content, layout.batch_id(stream, now, random(8)), limits, table, writer
        )
    except RequestError:
        # Limits and envelope may be others than when it was taken: its sender was told 202, and is told so again.
        before = accepted_before(store, stream, body, key, key_header, table, writer) if key else None
        if before is None:
            raise
        return before
    if key is None:
        return _stage(store, made, duplicate=False)
    claimed = _claimed(body, table)
    whose = _owner(writer)
    receipt, used = receipts.claim(store, key, claimed, made.meta.batch, key_header, config.sha, owner=whose)
    if not used:
        return _stage(store, made, duplicate=False)
    if meta := read_meta(store, layout.staged_path(receipt.batch)):
        return _answer_again(store, meta)
    if receipt.config not in ("", config.sha):
        # The first try died between its dead letters and its batch: the batch has to go with those letters.
        config = published_configs.load(store, receipt.config)
        settings = stream_config(config, stream)
    again = _batch_of(config, settings, body, content, receipt.batch, limits, table, writer)
    return _stage(store, again, duplicate=True)


def accepted_before(
    store: Store,
    stream: str,
    body: bytes,
    key: str,
    key_header: receipts.Header = "Idempotency-Key",
    table: str | None = None,
    writer: "Writer | None" = None,
) -> Accepted | None:
    """The answer that an earlier try of this request had, or should have had; None if it has to be staged yet.

    Writes nothing. Raises StorageUnavailable.
    """
    receipt = receipts.find(store, stream, key, _claimed(body, table), key_header, owner=_owner(writer))
    meta = None if receipt is None else read_meta(store, layout.staged_path(receipt.batch))
    return None if meta is None else _answer_again(store, meta)


def _owner(writer: "Writer | None") -> str:
    """Whose keys: one writer's are nothing to another's."""
    return "" if writer is None else writer.name


def _claimed(body: bytes, table: str | None) -> bytes:
    """What a key stands for: the same rows for another table are another request. No body is what two hashes are."""
    if table is None:
        return body
    return sha256(table.encode("utf-8", "surrogatepass")).digest() + sha256(body).digest()


def accept_messages(
    store: Store,
    config: Config,
    stream: str,
    messages: Sequence[bytes],
    *,
    tables: Sequence[str | None] = (),
    records: Sequence[Record] = (),
    writers: "Sequence[Writer | None]" = (),
    now: datetime,
    batch: str | None = None,
    refused: Mapping[int, EventError] | None = None,
    limits: EventLimits = LIMITS,
    random: Random = os.urandom,
) -> Accepted:
    """Stage the queue messages of one stream as one batch. A message that can't be read, or that holds more than
    `limits`, becomes one dead letter, whole.

    Events are numbered through all messages. `tables`: the source table that each names, if any does; it counts for
    rows. `records`: the record of a stream that each is the value of. `batch`: the id to stage them under (None: a new
    one). `writers`: whom each is from, if that may write a part of the stream: what is outside is a dead letter.
    `refused`: messages (by place) that are dead letters whatever is in them. Without receipts: ingest/queue.py
    adds them. `duplicate` in the answer means that another object was there first, and nothing was staged. Raises
    RequestError (404 unknown stream), StorageUnavailable, UnknownOutcome.
    """
    settings = stream_config(config, stream)
    batch = batch or layout.batch_id(stream, now, random(8))
    each = [
        Received(
            message,
            tables[place] if tables and KNOWN.bare(settings.envelope) else None,
            records[place] if records else None,
            writers[place] if writers else None,
            refused.get(place) if refused else None,
        )
        for place, message in enumerate(messages)
    ]
    whole, starts = together(each, settings, batch, limits)
    sent: Counter[str] = Counter()
    for one in each:
        if one.writer is not None:
            sent[one.writer.name] += len(one.body)
    made = _made(config, settings, whole, batch, None, sum(map(len, messages)), writers=sent)
    if sent:
        from firn.ingest.writer_scope import named

        letters = named(made.letters, [(start, one.writer) for start, one in zip(starts, each, strict=True)])
        made = made._replace(letters=letters)
    return _stage(store, made, duplicate=False)


def accept_part(store: Store, config: Config, stream: str, parsed: Parsed, batch: str, plan: str) -> Accepted:
    """Stage a part of a pull's plan as the batch that the plan says: its changes are read already. `plan`: its path.

    `duplicate` in the answer means that an earlier try of the same part was there first, and nothing was staged. Raises
    RequestError (404 unknown stream), StorageUnavailable, UnknownOutcome.
    """
    settings = stream_config(config, stream)
    size = sum(len(image or b"") for column in (parsed.before, parsed.after) for image in column)
    return _stage(store, _made(config, settings, parsed, batch, None, size, plan), duplicate=False)


def stream_config(config: Config, stream: str) -> StreamConfig:
    """The stream named `stream`. Raises RequestError 404."""
    if not layout.is_stream_name(stream) or stream not in config.streams:
        raise RequestError(
            404, "unknown_stream", f"there is no stream {stream!r}; add it to firn.yaml or correct the URL"
        )
    return config.streams[stream]


class _Made(NamedTuple):
    """A batch as it will be put: its account, its bytes, its dead letters."""

    meta: BatchMeta
    data: bytes
    letters: Sequence[DeadLetter]


def _batch_of(
    config: Config,
    settings: StreamConfig,
    body: bytes,
    content: Content,
    batch: str,
    limits: EventLimits,
    table: str | None,
    writer: "Writer | None",
) -> _Made:
    """The way of one body: its envelope recognised and read into changes, these routed by the tables' rules, and
    written as a batch with its dead letters. Raises RequestError 400, 403, 413."""
    parsed = reading.read(body, settings, content, limits, batch, table)
    if writer is None:
        return _made(config, settings, parsed, batch, limits, len(body))
    from firn.ingest.writer_scope import bound, named  # few streams have writers

    parsed = bound(parsed, settings, writer, limits)
    made = _made(config, settings, parsed, batch, limits, len(body), writers={writer.name: len(body)})
    return made._replace(letters=named(made.letters, [(0, writer)]))


def _made(
    config: Config,
    settings: StreamConfig,
    parsed: Parsed,
    batch: str,
    limits: EventLimits | None,
    size: int,
    plan: str | None = None,
    writers: Mapping[str, int] = {},
) -> _Made:
    """All bytes follow from the arguments, so that a repeat writes the same. `size`: of the JSON. Raises RequestError
    400, 413."""
    received = layout.time_of(batch)
    parsed, tables = routed(parsed, settings, limits)
    named = {*tables, *(one.table for one in parsed.rejected if one.table)} if settings.has_schemas else ()
    mixed = 0 < sum(writers.values()) < size
    meta = BatchMeta(
        FORMAT, settings.name, batch, layout.instant(received), config.sha,
        len(parsed), len(parsed.rejected), parsed.ignored, tables, json=size if settings.rate or mixed else 0,
        schemas=versions(settings, sorted(named)), plan=plan, writers=dict(writers),
    )  # fmt: skip
    try:
        data = write_batch(parsed, meta)
    except UnicodeError as error:
        raise RequestError(400, "not_utf8", f"the body is not UTF-8: {error}") from error
    return _Made(meta, data, dead_letters(parsed.rejected, settings, batch))


def _stage(store: Store, made: _Made, *, duplicate: bool) -> Accepted:
    """Dead letters, batch, answer."""
    meta, data, letters = made
    write_dead(store, layout.batch_dead_path(meta.batch), letters)
    path = layout.staged_path(meta.batch)
    if not put_if_absent(store, path, data):
        # With a key: a retry under a newer configuration met the first try's batch. That one stands. From a queue:
        # somebody took this batch for dead and made it void (ingest/queue.py).
        first = read_meta(store, path)
        if first is None:
            raise StorageUnavailable(f"{path} went away while it was read; try again")
        return _answer_again(store, first)
    return _answer(meta, letters, duplicate=duplicate)


def dead_letters(rejected: Sequence[Rejected], settings: StreamConfig, batch: str) -> list[DeadLetter]:
    """The rejected events of a batch as letters, with their table where it can be told."""
    return [
        DeadLetter(
            reason=r.code,
            message=r.message[:MAX_MESSAGE],
            stream=settings.name,
            table=_short(r.change.table if r.change else r.table or _named_in(r.original, settings)),
            batch=batch,
            index=r.index,
            received_at=layout.time_of(batch),
            original=r.original,
            change=staged_change(r.change) if r.change else None,
            generation=settings.generation,
            record=r.record,
            writer=r.writer,
        )
        for r in rejected
    ]


def _named_in(event: bytes, settings: StreamConfig) -> str | None:
    return None if KNOWN.bare(settings.envelope) else table_named_in(event)


def _short(name: str | None) -> str | None:
    return None if name is None else name[:MAX_NAME]


def routed(parsed: Parsed, settings: StreamConfig, limits: EventLimits | None = None) -> tuple[Parsed, dict[str, int]]:
    """`parsed` without the rows that neither rule nor pipeline takes, and the rows left of each source table.

    Rows of a table without either are ignored as `filtered_table`; rows whose table can't be told become rejected.
    Raises RequestError 413 over `limits`.
    """
    distinct = set(parsed.table)
    if limits is not None:
        limits.check_tables(len(distinct))
    counts = {parsed.table[0]: len(parsed)} if len(distinct) == 1 else dict(Counter(parsed.table))
    filtered: set[str] = set()
    refused: dict[str, EventError] = {}
    for table in distinct:
        try:
            if not settings.wants(table):
                filtered.add(table)
            elif len(table) > MAX_NAME:
                raise EventError("bad_table", f"the source table's name has {len(table):,} characters")
            elif (rule := settings.rule_for(table)) is not None:
                rule.target(table)
        except EventError as error:
            refused[table] = error
    if not filtered and not refused:
        return parsed, counts
    rejected = list(parsed.rejected)
    if limits is not None and refused:
        images = zip(parsed.table, parsed.before, parsed.after, strict=True)
        size = sum(len(before or b"") + len(after or b"") for table, before, after in images if table in refused)
        limits.check_rejected(size, str(next(iter(refused.values())))[:200])
    keep: list[int] = []
    for row, table in enumerate(parsed.table):
        if table in refused:
            why = refused[table]
            change = change_at(parsed, row)
            rejected.append(Rejected(parsed.index[row], why.code, str(why), rebuilt(staged_change(change)), change))
        elif table not in filtered:
            keep.append(row)
    ignored = dict(parsed.ignored)
    if filtered:
        ignored["filtered_table"] = sum(counts[table] for table in filtered)
    kept = {table: rows for table, rows in counts.items() if table not in filtered and table not in refused}
    return msgspec.structs.replace(parsed.at(keep, rejected), ignored=ignored), kept


def _answer_again(store: Store, meta: BatchMeta) -> Accepted:
    letters = read_dead(store, layout.batch_dead_path(meta.batch)) if meta.rejected else []
    return _answer(meta, letters, duplicate=True)


def _answer(meta: BatchMeta, letters: Sequence[DeadLetter], *, duplicate: bool) -> Accepted:
    errors = [RejectedEvent(x.index, x.reason, x.message) for x in letters[:MAX_ERRORS]]
    schema = meta.schemas or msgspec.UNSET
    return Accepted(meta.batch, meta.accepted, meta.rejected, meta.ignored, duplicate, errors, schema)
