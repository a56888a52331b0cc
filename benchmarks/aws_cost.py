"""What Firn costs on AWS in a month, at three sizes: requests, seconds and gigabytes times list prices.

    python -m benchmarks.aws_cost      the table of docs/deploy-aws.md

Prices are those of firn.usage.prices. What a request and a job need is measured
(docs/benchmarks.md), or said beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.cost import PRICES, SMALLEST
from firn.usage.prices import (
    API_REQUEST,
    GETS_A_REQUEST,
    INGEST_GB,
    INGEST_SECONDS,
    LAMBDA_GB_SECOND,
    LAMBDA_REQUEST,
    LOG_LINES_BYTES,
    LOGS_GB,
    PUTS_A_REQUEST,
    S3_GB_MONTH,
    S3_GET,
    S3_PUT,
)

DAYS = 30
METRIC_MONTH, ALARM_MONTH = 0.30, 0.10

DISPATCH_GB, DISPATCH_SECONDS = 0.5, 0.6
LISTS_A_DISPATCH = 8  # of each stream: staged, epochs, cuts, quarantine
PUTS_A_COMMIT, GETS_A_COMMIT = 12, 30  # of each table: data, deletes, manifests, metadata
STAGED_DAYS = 14  # the staged log is kept so long
METRICS, ALARMS = 20, 7  # of a stream; of an environment
START_SECONDS = 75  # from the start of a worker until the job works


@dataclass(frozen=True)
class Size:
    """A workload. `requests`, `changes`: a day; `commits`: a day, each of all `tables`; `cpu`: CPU seconds of a million
    changes in commits of that size; `always`: so many `workers` stay all day, otherwise one starts for each
    commit. `bytes`: of a staged change, compressed; `row_bytes`: what a change adds to the tables for good."""

    name: str
    requests: int
    changes: int
    tables: int
    commits: int
    always: bool
    cpu: float
    streams: int = 1
    workers: int = 1
    bytes: int = 60
    row_bytes: int = 40


SIZES = (
    Size("small: a shop's database", 2_000, 100_000, 20, commits=48, always=False, cpu=610),
    Size("medium: a busy application", 200_000, 10_000_000, 50, commits=1_440, always=True, cpu=70),
    Size(
        "large: many databases", 5_000_000, 500_000_000, 400, commits=1_440, always=True, cpu=25, streams=10, workers=4
    ),
)


def parts(size: Size) -> dict[str, float]:
    """Dollars a month by what they are paid for."""
    requests, changes, commits = (n * DAYS for n in (size.requests, size.changes, size.commits))
    dispatches = 1_440 * DAYS
    puts = (
        requests * PUTS_A_REQUEST + dispatches * LISTS_A_DISPATCH * size.streams + commits * size.tables * PUTS_A_COMMIT
    )
    gets = requests * (GETS_A_REQUEST + 1) + commits * size.tables * GETS_A_COMMIT  # + 1: the job reads each batch
    stored = changes / DAYS * STAGED_DAYS * size.bytes + changes * size.row_bytes
    return {
        "API Gateway": requests * API_REQUEST,
        "Lambda": requests * (LAMBDA_REQUEST + INGEST_GB * INGEST_SECONDS * LAMBDA_GB_SECOND)
        + dispatches * (LAMBDA_REQUEST + DISPATCH_GB * DISPATCH_SECONDS * size.streams * LAMBDA_GB_SECOND),
        "EMR Serverless": worker_seconds(size) * PRICES.worker_second(*SMALLEST),
        "S3 requests": puts * S3_PUT + gets * S3_GET,
        "S3 storage": stored / 1e9 * S3_GB_MONTH,
        "CloudWatch": requests * LOG_LINES_BYTES / 1e9 * LOGS_GB
        + METRICS * size.streams * METRIC_MONTH
        + ALARMS * ALARM_MONTH,
    }


def worker_seconds(size: Size) -> float:
    """Seconds a month of workers of SMALLEST: those that work, and the one that waits or starts."""
    working = size.changes * DAYS / 1e6 * size.cpu / SMALLEST[0]
    standing = 86_400.0 * DAYS * size.workers if size.always else size.commits * DAYS * START_SECONDS
    return max(working, standing) if size.always else working + standing


def table(sizes: Sequence[Size] = SIZES) -> str:
    """The table of docs/deploy-aws.md, in Markdown."""
    found = [parts(size) for size in sizes]
    lines = [f"| dollars a month | {' | '.join(size.name for size in sizes)} |", "|---|" + "---:|" * len(sizes)]
    told = [
        ("changes a day", [f"{size.changes:,}" for size in sizes]),
        ("requests a day", [f"{size.requests:,}" for size in sizes]),
        ("commits a day, of tables", [f"{size.commits:,} of {size.tables}" for size in sizes]),
        ("worker hours", [f"{worker_seconds(size) / 3600:,.0f}" for size in sizes]),
    ]
    told += [(name, [f"{one[name]:,.2f}" for one in found]) for name in found[0]]
    told.append(("**together**", [f"**{sum(one.values()):,.2f}**" for one in found]))
    return "\n".join([*lines, *(f"| {name} | {' | '.join(values)} |" for name, values in told)])


if __name__ == "__main__":
    print(table())
