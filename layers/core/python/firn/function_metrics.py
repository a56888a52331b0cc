"""What the functions that take changes in count, by stream."""

from collections.abc import Mapping

from aws_lambda_powertools import Metrics

from firn.ingest.accept import Accepted
from firn.metrics import Metric


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
