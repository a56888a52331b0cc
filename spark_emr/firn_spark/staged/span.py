"""What raw changes say about their source's time, told on the executors by the rule of firn.quarantine.rules."""

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from firn.quarantine.rules import COMMIT, IN_TIME, TELLS_COMMIT, High, Span, floor, limit, span_of


def span_of_all(batches: Iterable[pa.RecordBatch], high: High | None) -> Span:
    """The same for changes (packed.CHANGES) that are in this process."""
    return together([span_of_batch(changes, high) for changes in batches])


def together(spans: Sequence[Span]) -> Span:
    """The span of changes whose parts have these."""
    top = max((span.top for span in spans if span.top is not None), default=None)
    return Span(
        top=top,
        newest=max((span.newest for span in spans if span.newest is not None and span.of(top)), default=None),
        low=min((span.low for span in spans if span.low is not None), default=None),
        bare=any(span.bare for span in spans),
    )


def span_of_batch(changes: pa.RecordBatch, high: High | None) -> Span:
    """The span of some changes (packed.CHANGES): quarantine.span_of by columns."""
    pos, ts = changes["pos"], changes["ts"]
    told = pc.and_(pc.is_valid(pos), pc.and_(pc.is_valid(ts), pc.is_valid(changes["order"])))
    told = pc.and_(told, pc.is_in(changes["connector"], value_set=pa.array(IN_TIME)))
    told = pc.and_(told, pc.not_equal(changes["op"], "r"))
    by_commit = pc.starts_with(changes["order"], TELLS_COMMIT)
    bare = bool(pc.any(pc.and_(told, pc.invert(by_commit))).as_py())
    told = pc.and_(told, by_commit)
    told = pc.and_(
        told, pc.not_equal(pc.binary_slice(pos, COMMIT.start, COMMIT.stop), bytes(COMMIT.stop - COMMIT.start))
    )
    there = pa.table([pos, ts], names=["pos", "ts"]).filter(told)
    top, low = pc.max(there["pos"]).as_py(), None
    above = there.filter(pc.greater(there["pos"], floor(top, high)))
    if high is not None:
        late = there.filter(pc.greater(there["ts"], limit(high)))
        low = span_of(zip(late["pos"].to_pylist(), late["ts"].to_pylist(), strict=True), high).low  # few, if any
    return Span(top, pc.max(above["ts"]).as_py(), low, bare)
