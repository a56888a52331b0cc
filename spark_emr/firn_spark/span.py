"""What raw changes say about their source's time, told on the executors by the rule of firn.jobs.quarantine."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from firn.jobs.quarantine import IN_TIME, High, Span, span_of
from firn_spark.arrow import map_in_arrow
from firn_spark.packed import packed_changes, unpacked

_SPANS = pa.schema({"top": pa.binary(), "newest": pa.int64(), "low": pa.binary(), "low_ts": pa.int64()})
_TOLD_BY = ("op", "order", "connector", "pos", "ts")


def span_in(raw: DataFrame, high: High | None) -> Span:
    """The span of all changes of `raw` (columns packed.PACKED). One Spark job, of which a few rows come back."""

    def spans(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for changes in unpacked(batches):
            yield span_row(changes, high)

    rows = map_in_arrow(packed_changes(raw), spans, _SPANS).collect()
    return _together([row.asDict() for row in rows])


def span_of_all(batches: Iterable[pa.RecordBatch], high: High | None) -> Span:
    """The same for changes (packed.CHANGES) that are in this process."""
    return _together([row for changes in batches for row in span_row(changes, high).to_pylist()])


def _together(rows: Sequence[Mapping[str, Any]]) -> Span:
    lows = [(bytes(row["low"]), row["low_ts"]) for row in rows if row["low"] is not None]
    return Span(
        top=max((bytes(row["top"]) for row in rows if row["top"] is not None), default=None),
        newest=max((row["newest"] for row in rows if row["newest"] is not None), default=None),
        low=min(lows, default=None),
    )


def span_row(changes: pa.RecordBatch, high: High | None) -> pa.RecordBatch:
    """The span of some changes as one row of _SPANS."""
    told = zip(*(changes.column(name).to_pylist() for name in _TOLD_BY), strict=True)
    found = span_of(
        (
            (pos, ts)
            for op, order, connector, pos, ts in told
            if op != "r" and order is not None and connector in IN_TIME and pos is not None and ts is not None
        ),
        high,
    )
    low, low_ts = found.low or (None, None)
    row = {"top": found.top, "newest": found.newest, "low": low, "low_ts": low_ts}
    return pa.RecordBatch.from_pylist([row], _SPANS)
