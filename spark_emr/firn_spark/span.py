"""What raw changes say about their source's time, told on the executors by the rule of firn.jobs.quarantine."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firn.jobs.quarantine import COMMIT, IN_TIME, High, Span, limit, span_of

SPANS = pa.schema({"top": pa.binary(), "newest": pa.int64(), "low": pa.binary(), "low_ts": pa.int64()})


def span_of_all(batches: Iterable[pa.RecordBatch], high: High | None) -> Span:
    """The same for changes (packed.CHANGES) that are in this process."""
    return together([of_row(row) for changes in batches for row in span_row(changes, high).to_pylist()])


def together(spans: Sequence[Span]) -> Span:
    """The span of changes whose parts have these."""
    return Span(
        top=max((span.top for span in spans if span.top is not None), default=None),
        newest=max((span.newest for span in spans if span.newest is not None), default=None),
        low=min((span.low for span in spans if span.low is not None), default=None),
    )


def of_row(row: Mapping[str, Any]) -> Span:
    """A row of SPANS as a Span."""
    top = None if row["top"] is None else bytes(row["top"])
    return Span(top, row["newest"], None if row["low"] is None else (bytes(row["low"]), row["low_ts"]))


def span_row(changes: pa.RecordBatch, high: High | None) -> pa.RecordBatch:
    """The span of some changes as one row of SPANS: quarantine.span_of by columns."""
    pos, ts = changes["pos"], changes["ts"]
    told = pc.and_(pc.is_valid(pos), pc.and_(pc.is_valid(ts), pc.is_valid(changes["order"])))
    told = pc.and_(told, pc.is_in(changes["connector"], value_set=pa.array(IN_TIME)))
    told = pc.and_(told, pc.not_equal(changes["op"], "r"))
    told = pc.and_(
        told, pc.not_equal(pc.binary_slice(pos, COMMIT.start, COMMIT.stop), bytes(COMMIT.stop - COMMIT.start))
    )
    there = pa.table([pos, ts], names=["pos", "ts"]).filter(told)
    above, low = there, None
    if high is not None:
        top = bytes.fromhex(high[0])
        above = there.filter(pc.greater(there["pos"], top))
        late = there.filter(pc.greater(there["ts"], limit(high)))
        found = span_of(zip(late["pos"].to_pylist(), late["ts"].to_pylist(), strict=True), high)  # few, if any
        low = found.low
    row = {"top": pc.max(there["pos"]).as_py(), "newest": pc.max(above["ts"]).as_py()}
    row |= {"low": low[0] if low else None, "low_ts": low[1] if low else None}
    return pa.RecordBatch.from_pylist([row], SPANS)
