"""Several queue messages, or values of records, read as one batch. Pure."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from firn.changes.change import COLUMNS, Parsed, Rejected
from firn.changes.envelopes.json_text import count_alone
from firn.changes.envelopes.limits import NO_LIMITS, EventLimits
from firn.changes.envelopes.registry import KNOWN
from firn.changes.record import Record
from firn.config.model import StreamConfig
from firn.errors import EventError, RequestError
from firn.ingest import reading

if TYPE_CHECKING:
    from firn.config.writers import Writer


class Received(NamedTuple):
    """A queue message, or the value of a record, as `accept_messages` is told of it."""

    body: bytes
    table: str | None
    record: Record | None
    writer: "Writer | None"
    refused: EventError | None


def together(
    messages: Sequence[Received], settings: StreamConfig, batch: str, limits: EventLimits
) -> tuple[Parsed, list[int]]:
    """What all messages hold, and the number of each one's first event."""
    columns: dict[str, list[object]] = {name: [] for name in COLUMNS}
    ignored: Counter[str] = Counter()
    rejected: list[Rejected] = []
    starts: list[int] = []
    start = 0
    for body, table, record, writer, refused in messages:
        starts.append(start)
        try:
            if refused is not None:
                raise refused
            parsed = reading.read(body, settings, "auto", limits, batch, table, start, record)
            limits.check_tables(len(set(parsed.table)))
            if writer is not None:
                from firn.ingest.writer_scope import within  # few streams have writers

                parsed = within(parsed, settings, writer, limits)
        except (RequestError, EventError) as error:
            rejected.append(Rejected(start, error.code, str(error), body, table=table, record=record))
            # Rows that come back one day get numbers of their own (reprocess.py).
            start += _numbers(body, settings)
            continue
        for name in COLUMNS:
            columns[name] += getattr(parsed, name)
        columns["index"][len(columns["index"]) - len(parsed) :] = [start + i for i in parsed.index]
        ignored.update(parsed.ignored)
        rejected += [msgspec.structs.replace(r, index=start + r.index) for r in parsed.rejected]
        start += len(parsed) + sum(parsed.ignored.values()) + len(parsed.rejected)
    return Parsed(**columns, ignored=dict(ignored), rejected=rejected), starts  # type: ignore[arg-type]


def _numbers(message: bytes, settings: StreamConfig) -> int:
    """How many numbers a message that is refused whole takes: at least as many as what it holds may count by."""
    if KNOWN.bare(settings.envelope):
        return max(1, count_alone(message, NO_LIMITS))
    return max(1, message.count(b"{")) if KNOWN.may_lack_order(settings.envelope) else 1
