"""Taking changes in: one request, or one Lambda batch of queue messages, becomes one staged object.

The order of the writes is the promise. The receipt (if there is a key), then the dead letters, then the batch, then the
answer: a crash before the batch leaves nothing acknowledged, and a dead-letter object without its batch counts for
nothing.
"""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from firn.changes.change import Parsed, Rejected
from firn.changes.envelopes import parse
from firn.errors import EventError, RequestError, StorageUnavailable
from firn.staging import layout, receipts
from firn.staging.batch import FORMAT, BatchMeta, read_meta, write_batch
from firn.staging.bodies import Content
from firn.staging.dead import DeadLetter, read_dead, write_dead
from firn.staging.store import Store, put_if_absent
from firn.streams.config import Config, StreamConfig

MAX_ERRORS: Final = 100  # listed in one answer; the dead letters hold them all

Random = Callable[[int], bytes]
_ROWS: Final = tuple(name for name in Parsed.__struct_fields__ if name not in ("ignored", "rejected"))


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


def accept(
    store: Store,
    config: Config,
    stream: str,
    body: bytes,
    *,
    now: datetime,
    content: Content = "auto",
    key: str | None = None,
    random: Random = os.urandom,
) -> Accepted:
    """Stage one request. `body`: JSON or NDJSON, inflated. `key`: its idempotency key. `now`: aware.

    Raises RequestError (400 unreadable, 404 unknown stream, 409 key used for another body), StorageUnavailable or
    UnknownOutcome; after any of them nothing is acknowledged, and the sender may send again.
    """
    settings = stream_config(config, stream)
    parsed = parse(body, settings.envelope, content)
    batch = layout.batch_id(stream, now, random(8))
    if key is not None:
        receipt, used = receipts.claim(store, key, body, batch)
        batch = receipt.batch
        if used and (meta := read_meta(store, layout.staged_path(batch))):
            return _answer_again(store, meta)
        return _stage(store, config, settings, parsed, batch, duplicate=used)
    return _stage(store, config, settings, parsed, batch, duplicate=False)


def accept_messages(
    store: Store, config: Config, stream: str, messages: Sequence[bytes], *, now: datetime, random: Random = os.urandom
) -> Accepted:
    """Stage the queue messages of one stream as one batch. A message that can't be read becomes one dead letter, whole.

    Events are numbered through all messages. Raises RequestError (404 unknown stream), StorageUnavailable,
    UnknownOutcome.
    """
    settings = stream_config(config, stream)
    columns: dict[str, list[object]] = {name: [] for name in _ROWS}
    ignored: Counter[str] = Counter()
    rejected: list[Rejected] = []
    start = 0
    for message in messages:
        try:
            parsed = parse(message, settings.envelope, "auto")
        except RequestError as error:
            rejected.append(Rejected(start, error.code, str(error), message))
            start += 1
            continue
        for name in _ROWS:
            columns[name] += getattr(parsed, name)
        columns["index"][len(columns["index"]) - len(parsed) :] = [start + i for i in parsed.index]
        ignored.update(parsed.ignored)
        rejected += [Rejected(start + r.index, r.code, r.message, r.original) for r in parsed.rejected]
        start += len(parsed) + sum(parsed.ignored.values()) + len(parsed.rejected)
    whole = Parsed(**columns, ignored=dict(ignored), rejected=rejected)  # type: ignore[arg-type]
    return _stage(store, config, settings, whole, layout.batch_id(stream, now, random(8)), duplicate=False)


def stream_config(config: Config, stream: str) -> StreamConfig:
    """The stream named `stream`. Raises RequestError 404."""
    if not layout.is_stream_name(stream) or stream not in config.streams:
        raise RequestError(
            404, "unknown_stream", f"there is no stream {stream!r}; add it to firn.yaml or correct the URL"
        )
    return config.streams[stream]


def _stage(
    store: Store, config: Config, settings: StreamConfig, parsed: Parsed, batch: str, *, duplicate: bool
) -> Accepted:
    """Dead letters, batch, answer. All bytes follow from the arguments, so that a repeat writes the same."""
    received = layout.time_of(batch)
    parsed, tables = routed(parsed, settings)
    meta = BatchMeta(
        FORMAT, settings.name, batch, layout.instant(received), config.sha,
        len(parsed), len(parsed.rejected), parsed.ignored, tables,
    )  # fmt: skip
    try:
        data = write_batch(parsed, meta)
    except UnicodeError as error:
        raise RequestError(400, "not_utf8", f"the body is not UTF-8: {error}") from error
    letters = [
        DeadLetter(r.code, r.message, settings.name, None, batch, r.index, received, r.original)
        for r in parsed.rejected
    ]
    write_dead(store, layout.batch_dead_path(batch), letters)
    path = layout.staged_path(batch)
    if not put_if_absent(store, path, data):
        # Only with a key: a retry under a newer configuration met the first try's batch. That one stands.
        first = read_meta(store, path)
        if first is None:
            raise StorageUnavailable(f"{path} went away while it was read; try again")
        return _answer_again(store, first)
    return _answer(meta, letters, duplicate=duplicate)


def routed(parsed: Parsed, settings: StreamConfig) -> tuple[Parsed, dict[str, int]]:
    """`parsed` without the rows that no rule takes, and the rows left of each source table.

    Rows of a table without a rule are ignored as `filtered_table`; rows whose table can't be told become rejected.
    """
    distinct = set(parsed.table)
    counts = {parsed.table[0]: len(parsed)} if len(distinct) == 1 else dict(Counter(parsed.table))
    filtered: set[str] = set()
    refused: dict[str, EventError] = {}
    for table in distinct:
        try:
            if (rule := settings.rule_for(table)) is None:
                filtered.add(table)
            else:
                rule.target(table)
        except EventError as error:
            refused[table] = error
    if not filtered and not refused:
        return parsed, counts
    rejected = list(parsed.rejected)
    keep: list[int] = []
    for row, table in enumerate(parsed.table):
        if table in refused:
            why = refused[table]
            rejected.append(Rejected(parsed.index[row], why.code, str(why), _original(parsed, row)))
        elif table not in filtered:
            keep.append(row)
    ignored = dict(parsed.ignored)
    if filtered:
        ignored["filtered_table"] = sum(counts[table] for table in filtered)
    columns = {name: [getattr(parsed, name)[row] for row in keep] for name in _ROWS}
    rejected.sort(key=lambda r: r.index)
    kept = {table: rows for table, rows in counts.items() if table not in filtered and table not in refused}
    return Parsed(**columns, ignored=ignored, rejected=rejected), kept


def _original(parsed: Parsed, row: int) -> bytes:
    """An event that was read well and then refused for its table, as an event of its own envelope that can be replayed.

    A flattened event is its image. The others are put together again from what is kept, as Debezium writes them.
    """
    image = parsed.after[row] or parsed.before[row]
    if parsed.flat[row] and image is not None:
        return image
    schema, _, table = parsed.table[row].rpartition(".")
    return msgspec.json.encode(
        {
            "before": msgspec.Raw(parsed.before[row] or b"null"),
            "after": msgspec.Raw(parsed.after[row] or b"null"),
            "source": {
                "connector": parsed.connector[row], "schema": schema or None, "table": table,
                "ts_ms": parsed.ts[row], "sequence": parsed.order[row],
            },
            "op": parsed.op[row],
        }
    )  # fmt: skip


def _answer_again(store: Store, meta: BatchMeta) -> Accepted:
    letters = read_dead(store, layout.batch_dead_path(meta.batch)) if meta.rejected else []
    return _answer(meta, letters, duplicate=True)


def _answer(meta: BatchMeta, letters: Sequence[DeadLetter], *, duplicate: bool) -> Accepted:
    errors = [RejectedEvent(x.index, x.reason, x.message) for x in letters[:MAX_ERRORS]]
    return Accepted(meta.batch, meta.accepted, meta.rejected, meta.ignored, duplicate, errors)
