"""What benchmarks/simulate.py reckons with: what a step costs, what services allow, and what they ask for it.

Each figure says where it comes from. "Measured": on two cores of a busy machine, by the page or program named. Pages of
others were looked up on 2026-11-26, in stored copies; no service was asked. "Assumed" is what nobody measured.
"""

from dataclasses import dataclass, replace
from typing import Final

from benchmarks import aws_cost
from benchmarks.cost import PRICES
from firn.usage import prices


@dataclass(frozen=True)
class Costs:
    """CPU seconds of a step, and what else it waits for. `cores`: of a job's worker.

    key         a staged object that a look lists: parsed, and held against the epochs. Measured: epochs.candidates over
                50,000 objects in memory, 12.2 to 13.8 µs
    state       a table that a round looks at: those that change, and some of the others in turn (tables/turns.py).
                Measured: benchmarks/tenants.py, by the CPU seconds of runs with 100 and 200 tables
    table       a commit of few changes, its memory of deletes and its part in the cut. Measured: docs/scale.md, 38 CPU
                seconds of a job for 629 of them, less what of this the other costs here say
    round       what a round costs whatever it holds. Measured: benchmarks/tenants.py, as `state`
    object      a staged object that is read, however small. Measured: driver.staged_changes.Held, 1.3 to 2.2 ms
    part        a table of which an object has changes: what it says of the table's columns. Measured: the same, 40
                tables an object, 4 to 8 ms
    held        a table of which some objects that are read together have changes. Measured: the same, 1,000 tables an
                object of 5,000 changes, 0.27 ms with `part`
    change      a change of a range in the job's own process. Measured: docs/benchmarks.md, commit, a million into ten
                million rows, 6.0 CPU seconds
    read        of that what each lane does with all changes, not its own alone. Measured: docs/performance.md, from
                staged bytes to columns, 3.0 µs
    sliced      a change of a larger range, by Spark's tasks. Measured: docs/performance.md, 18 µs
    sliced_read  of that what each lane does with all changes. Measured: docs/scale.md, read and place, 5.2 µs
    sliced_table  a table of such a range. Measured: ADR 15, five to ten small Spark jobs, about a second of two cores
    care        after every sixteenth commit of a table, once the cut is made. Measured: docs/performance.md,
                0.6 seconds and 0.3 for its facts, of sixteen commits of a thousand changes
    start       seconds until a new job works. aws_cost.START_SECONDS
    ingest      CPU seconds of a request of a megabyte. Measured: docs/benchmarks.md, ingest, 4.0 ms
    together    CPU seconds a second that commits of small tables get in one process, however many threads they have.
                Measured: docs/scale.md, a round of 40 tables 4.3 seconds, of 78 7.8
    spread      of a core that reading and Spark's tasks get. Measured: docs/benchmarks.md, 6.0 in 3.46 s on two
    speed       of a core of this machine, by one that nobody else uses
    request     seconds of one request to storage or catalog. Published: 0.1 to 0.2 for small objects (Amazon S3 user
                guide, "Best practices design patterns: optimizing Amazon S3 performance")
    in_a_row    requests of a table's commit that wait for each other. Assumed: half of aws_cost's 42, less the seven
                that footers make needless (ADR 111)
    """

    key: float = 13e-6
    state: float = 0.004
    table: float = 0.042
    round: float = 0.3
    object: float = 0.002
    part: float = 0.00016
    held: float = 0.0001
    change: float = 6.0e-6
    read: float = 3.0e-6
    sliced: float = 18e-6
    sliced_read: float = 5.2e-6
    sliced_table: float = 2.0
    care: float = 0.9
    start: float = aws_cost.START_SECONDS
    ingest: float = 0.004
    together: float = 0.51
    spread: float = 0.87
    speed: float = 1.0
    request: float = 0.1
    in_a_row: int = 17
    cores: int = 2


AWS: Final = Costs()
# The machine of the anchor: local files instead of requests, and cores that others use too.
HERE: Final = replace(AWS, request=0.0)

EVENT_BYTES: Final = 800  # of an envelope of six columns (docs/performance.md)
STAGED: Final = 0.1175  # of a body's bytes are staged: 117,511 of 999,692 (docs/benchmarks.md, ingest)
SMALL_EVENTS, SMALL_BYTES = 1_500_000, 128 * 1024 * 1024  # a range in the job's own process (driver/range.py)
POLL, LINGER, TICK = 0.5, 60.0, 60.0  # commit/warm_job.py, config/model.py, dispatch/dispatcher.py
# Tables at once: eight, but of those with more changes than FEW as many as there are cores, two at least (parallel.py).
THREADS, FEW = 8, 5_000
LOOKS_AT_ONCE: Final = 8  # tables that a round loads
TURN: Final = 50  # tables an epoch that are looked at though they did not change (tables/turns.py)
CARE_EVERY: Final = 16  # maintenance/compaction_trigger.py: on average, each table at a number of its own
ALONE: Final = 50_000  # changes that the job reads without readers (driver/range.py)
TOGETHER, PACKED = 2_000, 20_000  # changes of small objects that are read as one (staged/read.py, staged/packed.py)
# A look lists from 75 minutes before the newest epoch (epochs.OVERLAP), that of a job that stays most times from two.
LISTED_SECONDS: Final = 75 * 60.0
RECENT, LATE = 120.0, 60.0  # epochs.RECENT; commit/warm_job.py
SHORT_LISTS: Final = 8  # epochs, cuts, holds: aws_cost.LISTS_A_DISPATCH
MAX_BATCHES: Final = 5_000  # of an epoch, and each epoch is a listing of its own (log/epochs.py, dispatcher.seal_due)
FOOTERS_AT_ONCE: Final = 16  # of new batches, read before they are sealed (epochs._read_metas)
FETCHES_AT_ONCE: Final = 8  # by each process that reads staged objects (firn_spark/staged/read.py)
PAGE: Final = 1_000  # keys in an answer to LIST (Amazon S3 API reference, ListObjectsV2)
CUT_BYTES: Final = 73  # of a table in a cut: its snapshot and its progress, with names of 20 letters
SNAPSHOT_BYTES: Final = 1_000  # of a snapshot in a table's metadata (ADR 93: some kilobyte)
SNAPSHOTS, LEAST_SNAPSHOTS = 1_000, 100  # of a table, those of five days (config/maintenance.py, Expiry)
KEEP_SECONDS: Final = 5 * 86_400
MONTH: Final = 30 * 86_400.0


def round_alone(tables: int) -> float:
    """Seconds of a round of so many small tables where nothing else runs, from local files. Measured: docs/scale.md,
    4.3 of 40 and 7.8 of 78."""
    return 0.6 + 0.0925 * tables


@dataclass(frozen=True)
class Limit:
    """What a service takes. `said`: where that is published."""

    name: str
    most: float
    said: str


LIMITS: Final = {
    one.name: one
    for one in (
        Limit("S3 PUT a second and prefix", 3_500, "repost.aws/knowledge-center/s3-object-key-naming-pattern"),
        Limit("S3 GET a second and prefix", 5_500, "repost.aws/knowledge-center/s3-object-key-naming-pattern"),
        Limit("Lambda instances at once", 1_000, "docs.aws.amazon.com/lambda/latest/operatorguide/scaling-concurrency"),
        Limit("API requests a second", 10_000, "docs.aws.amazon.com/lambda/latest/operatorguide/service-quotas.html"),
        Limit("seconds of a dispatch", 60, "template.yaml, Timeout of Dispatch: one stream after the other"),
        Limit("jobs at once", 15, "template.yaml, MaxJobs; it may be 1,000"),
        Limit("SQS batches at once", 10, "template.yaml, MaximumConcurrency of IngestQueue; Lambda allows 1,000"),
        Limit("EMR Serverless vCPUs", 16, "docs/deploy-aws.md, quotas to raise; the user guide's endpoints-quotas"),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Used:
    """What a second of a deployment takes, and how much there is at once."""

    requests: float  # to ingest
    body: float  # bytes of one
    changes: float
    commits: float  # of tables
    lists: float
    jobs: int
    cores: int
    working: float  # of those jobs that are up, on average


def ingest_seconds(costs: Costs, body: float) -> float:
    """Of a request: the CPU, and receipt, batch and what else it waits for (three round trips: aws_cost)."""
    return costs.ingest * body / 1e6 / costs.speed + 3 * costs.request


def dollars(used: Used, costs: Costs) -> dict[str, float]:
    """A month, by what it is for. Prices: aws_cost and cost, with the days on which they were looked up."""
    staged = used.changes * EVENT_BYTES * STAGED
    worker = PRICES.worker_second(used.cores, 4 * used.cores)
    puts = used.requests * prices.PUTS_A_REQUEST + used.commits * aws_cost.PUTS_A_COMMIT + used.lists
    gets = used.requests * (1 + prices.GETS_A_REQUEST) + used.commits * aws_cost.GETS_A_COMMIT
    lambdas = prices.LAMBDA_REQUEST + (prices.INGEST_GB * ingest_seconds(costs, used.body) * prices.LAMBDA_GB_SECOND)
    kept = staged * aws_cost.STAGED_DAYS * 86_400 + used.changes * 40 * MONTH  # row_bytes of aws_cost.Size
    return {
        "EMR Serverless": used.jobs * used.working * worker * MONTH,
        "S3 requests": (puts * prices.S3_PUT + gets * prices.S3_GET) * MONTH,
        "S3 storage": kept / 1e9 * prices.S3_GB_MONTH,
        "API and Lambda": used.requests * (prices.API_REQUEST + lambdas) * MONTH,
    }
