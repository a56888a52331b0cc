"""What the functions that take changes in count, by stream."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
from aws_lambda_powertools import Metrics

from firn.ingest.accept import Accepted
from firn.metrics import Metric, emf

if TYPE_CHECKING:
    from firn.sources.poller import SourceStatus


def changes_of(done: Accepted) -> dict[Metric, int]:
    """What became of a batch's events."""
    return {
        Metric.ACCEPTED: done.accepted, Metric.REJECTED: done.rejected, Metric.IGNORED: sum(done.ignored.values())
    }  # fmt: skip


def count(metrics: Metrics, stream: str, values: Mapping[Metric, int]) -> None:
    """Print one line: `values` under the stream."""
    metrics.add_dimension("stream", stream)
    for metric, value in values.items():
        metrics.add_metric(metric.value, metric.unit, value)
    metrics.flush_metrics()


def print_source(stream: str, status: "SourceStatus | None") -> None:
    """Print how a source is, that feeds the stream; nothing where nobody has looked."""
    if status is None:
        return
    values: dict[Metric, float] = {Metric.PULL_STOPPED: int(bool(status.stopped))}
    if not (status.stopped or status.waits):
        values |= {Metric.SLOT_LAG: status.lag, Metric.SLOT_KEPT: status.kept}
    line = emf({"service": "pull", "stream": stream}, values, datetime.now(UTC), watched=True)
    print(msgspec.json.encode(line).decode(), flush=True)
