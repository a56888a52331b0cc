"""The commit job's port over Spark and Iceberg."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cached_property, reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.storagelevel import StorageLevel

from firn.changes.placing import Order
from firn.jobs.facts import TableFacts
from firn.jobs.failures import Failure
from firn.jobs.lake import place_of
from firn.jobs.outcome import Outcome
from firn.jobs.progress import TableState
from firn.jobs.quarantine import High, Span
from firn.jobs.rebuilding import generations
from firn.jobs.rejects import by_table, write_rejects
from firn.jobs.targets import Target
from firn.staging.epochs import Epoch, read_back
from firn.staging.store import Store
from firn.streams.config import StreamConfig
from firn.streams.names import TableName, slug
from firn_spark import session as sessions
from firn_spark.evolve import Tables
from firn_spark.facts import facts_of
from firn_spark.failures import failure_of
from firn_spark.memory import KEEP
from firn_spark.read import SealedBatch, raw_changes
from firn_spark.rejects import refused
from firn_spark.span import span_in
from firn_spark.table_job import TableJob

_MOST_AT_ONCE = 8  # tables


class SparkLake:
    """A Lake. The session is built at its first use, unless one is given."""

    def __init__(
        self, store: Store, staging: str, warehouse: str, catalog_uri: str, spark: SparkSession | None = None
    ) -> None:
        self._store = store
        self._staging = staging
        self._warehouse = warehouse
        self._catalog_uri = catalog_uri
        self._given = spark

    @cached_property
    def _spark(self) -> SparkSession:
        return self._given or sessions.build(self._catalog_uri, self._warehouse)

    @cached_property
    def _tables(self) -> Tables:
        return Tables(self._spark)

    def state(self, table: TableName) -> TableState | None:
        """The table as the catalog has it now; None if there is none."""
        found = self._tables.load(table)
        return found.state if found else None

    def open(self, stream: str, settings: StreamConfig, epochs: Mapping[int, Epoch], last: int) -> "SparkRange":
        """Read these epochs. Raises what Spark raises if a staged object is missing or broken."""
        order = Order(settings.generation, settings.order_by)
        raw = raw_changes(self._spark, self._staging, batches_of(epochs), order).persist(StorageLevel.MEMORY_AND_DISK)

        def log(sources: Sequence[str]) -> DataFrame:
            # Beyond the memory of deletes the table's own rows tell what was.
            sealed = read_back(self._store, stream, last, KEEP)
            touched = {epoch.n: epoch for epoch in sealed if set(sources) & set(epoch.tables)}
            # Each change in the generation that the tables have it in: else a move would meet its older half too late.
            older = {n: epoch for n, epoch in touched.items() if n not in epochs}
            known = generations(self._store, stream, older, settings) | dict.fromkeys(epochs, settings.generation)
            parts = [
                raw_changes(
                    self._spark,
                    self._staging,
                    batches_of({n: epoch for n, epoch in touched.items() if known[n] == generation}),
                    Order(generation, settings.order_by),
                    whole=False,
                )
                for generation in sorted({known[n] for n in touched})
            ]
            return reduce(DataFrame.unionByName, parts)

        job = TableJob(self._spark, self._store, stream, settings, self._warehouse, epochs, last, log)
        return SparkRange(self._store, stream, epochs, raw, job)

    def failure(self, error: Exception) -> Failure:
        """What an exception of Spark, of Iceberg or of ours means."""
        return failure_of(error)


class SparkRange:
    """A Range: the changes of some epochs as one persisted DataFrame."""

    def __init__(self, store: Store, stream: str, epochs: Mapping[int, Epoch], raw: DataFrame, job: TableJob) -> None:
        self._store = store
        self._stream = stream
        self._epochs = epochs
        self._raw = raw
        self._job = job

    @cached_property
    def facts(self) -> Mapping[str, TableFacts]:
        """What the changes say about their tables, by source table. Two small Spark jobs."""
        return facts_of(self._raw)

    def span(self, high: High | None) -> Span:
        """What the changes say about their source's time."""
        return span_in(self._raw, high)

    def commit(self, target: Target, above: int = 0) -> Outcome:
        """Bring one table up to the range's last epoch, with the epochs above `above` that it lacks."""
        raw = self._raw.where(f.col("epoch") > above) if above else self._raw
        return self._job.commit(target.above(above), raw)

    def commit_all(self, targets: Sequence[tuple[Target, int]]) -> Iterator[Outcome]:
        """Several at once, those with few changes first: the job waits as often for the catalog as it computes."""
        cores = self._raw.sparkSession.sparkContext.defaultParallelism
        with ThreadPoolExecutor(max(2, min(cores, _MOST_AT_ONCE))) as pool:
            begun = [pool.submit(self.commit, target, above) for target, above in targets]
            try:
                for done in as_completed(begun):
                    yield done.result()
            finally:
                for one in begun:
                    one.cancel()

    def refuse(self, table: str, code: str, message: str) -> Mapping[str, Mapping[str, int]]:
        """Dead letters for all changes of a source table that can't be placed."""
        rows = refused(self._raw, table, code, message)
        return by_table(write_rejects(self._store, self._stream, f"refused-{slug(table)}", self._epochs, rows))

    def close(self) -> None:
        """Let go of the persisted rows."""
        self._raw.unpersist()


def batches_of(sealed: Mapping[int, Epoch]) -> list[SealedBatch]:
    """The batches of the epochs, in the order that they were sealed in."""
    in_order = [(n, number, batch) for n in sorted(sealed) for number, batch in enumerate(sealed[n].batches)]
    return [SealedBatch(n, place_of(n, number), batch.id, batch.path, batch.bytes) for n, number, batch in in_order]
