"""What the functions that take changes in count, by stream."""

from collections.abc import Mapping

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit


def count(metrics: Metrics, stream: str, counts: Mapping[str, int]) -> None:
    """Print one line: `counts` (name -> number) under the stream. What is named `bytes` counts bytes."""
    metrics.add_dimension("stream", stream)
    for name, value in counts.items():
        metrics.add_metric(name, MetricUnit.Bytes if name == "bytes" else MetricUnit.Count, value)
    metrics.flush_metrics()
