"""The commit job's port over Spark and Iceberg."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from threading import Lock
from typing import Any

from pyspark.sql import SparkSession

from firn.commit.lake import Range
from firn.commit.progress_tracker import ProgressTracker, RangeProgress, silent
from firn.config.maintenance import Care
from firn.config.model import StreamConfig
from firn.config.names import TableName
from firn.config.pipelines import Pipeline
from firn.config.reach import databases_of
from firn.config.views import View
from firn.log import holds, table_health
from firn.log.epochs import Epoch, read_back
from firn.log.generations import Generations
from firn.log.store import Store
from firn.sinks.file_rows import FileRows, SinkRange
from firn.tables.failures import Failure
from firn.tables.map_in_log import tables_of
from firn.tables.outcome import Outcome
from firn.tables.routing import Target
from firn.tables.table_state import TableState
from firn.views.cut import ViewCut
from firn_spark import local_files
from firn_spark import session as sessions
from firn_spark.driver.small_files import merge
from firn_spark.failures import failure_of
from firn_spark.following import follow
from firn_spark.maintenance.cold_files import fence
from firn_spark.maintenance.expiry import Expired, expire_all
from firn_spark.maintenance.inline_compaction import Turn
from firn_spark.merge.facts_table import KEEP, facts_beside
from firn_spark.not_eligible import Unfit
from firn_spark.ranges import Ranges, Sealed
from firn_spark.running_tasks import running_tasks
from firn_spark.staged.kept_generations import batches_of
from firn_spark.staged.read import SealedBatch
from firn_spark.table_commit import RangeContext
from firn_spark.tables.evolve import Table, Tables
from firn_spark.tables.fence import LostRace
from firn_spark.views.row_changes import SharedChanges

_LOOKS_AT_ONCE = 8
_MANY = 2  # ranges: who commits so many stays


class SparkLake:
    """A Lake. The session is built at its first use, unless one is given."""

    def __init__(
        self,
        store: Store,
        staging: str,
        warehouse: str,
        catalog_uri: str,
        spark: SparkSession | None = None,
        driver_events: int | None = None,
        progress: ProgressTracker | None = None,
    ) -> None:
        """`driver_events`: as for Ranges; `progress`: who is told how far its ranges are."""
        self._store = store
        self._staging = staging
        self._ranges = Ranges(store, staging, driver_events)
        self._warehouse = warehouse
        self._catalog_uri = catalog_uri
        self._given = spark
        self._progress = progress
        self._looked: dict[TableName, TableState | None] = {}
        self._changes = SharedChanges()
        self._told = Lock()
        self._ranges_begun = 0

    @cached_property
    def _spark(self) -> SparkSession:
        return self._given or sessions.build(self._catalog_uri, self._warehouse)

    @cached_property
    def _tables(self) -> Tables:
        return Tables(self._spark)

    @property
    def warehouse(self) -> str:
        """URL below which this deployment's tables lie."""
        return self._warehouse

    @property
    def databases(self) -> Sequence[str]:
        """Patterns of the namespaces that this deployment may use; none: all."""
        return databases_of(os.environ)

    @property
    def looks_at_once(self) -> int:
        """Each waits for a few requests, one after the other. The catalog is made here, in the caller's thread, whose
        session Spark asks for its settings."""
        return _LOOKS_AT_ONCE if self._tables else 1

    def expect(self, settings: StreamConfig, epochs: Mapping[int, Epoch]) -> None:
        """Readers read while Spark starts."""
        self._ranges.expect(settings, epochs)

    def state(self, table: TableName) -> TableState | None:
        """The table as the catalog has it now; None if there is none."""
        found = self._tables.load(table)
        self._looked[table] = found.state if found else None
        return self._looked[table]

    def open(self, stream: str, settings: StreamConfig, epochs: Mapping[int, Epoch], last: int) -> Range:
        """Read these epochs. Raises what Spark raises if a staged object is missing or broken."""
        # Each change in the generation that the tables have it in: else a move would meet its older half too late.
        log = Generations(self._store, settings, last)

        def back(target: Target) -> list[SealedBatch]:
            # Beyond the memory of deletes the table's own rows tell what was.
            sealed = read_back(self._store, stream, last, KEEP)
            known = holds.read_all(self._store, stream)
            mine = (epoch for epoch in sealed if not known.leaves_out(str(target.name), epoch.n))
            return batches_of({epoch.n: epoch for epoch in mine if set(target.sources) & set(epoch.tables)}, log)

        progress = self._begun(stream, epochs, last)
        self._ranges_begun += 1

        def context() -> RangeContext:
            spark, looked = self._spark, self._looked.items()
            if self._ranges_begun == _MANY and self._warehouse.startswith("file:"):
                local_files.without_processes(spark)
            seen = {name: state.progress(stream) for name, state in looked if state is not None}
            return RangeContext(
                spark, self._store, stream, settings, self._warehouse, epochs, last, self._tables, seen,
                staging=self._staging,
                progress=progress,
            )  # fmt: skip

        try:
            return self._ranges.open(Sealed(settings, epochs, log, back, progress=progress), context)
        except BaseException:
            progress.end()
            raise

    def _begun(self, stream: str, epochs: Mapping[int, Epoch], last: int) -> RangeProgress:
        if self._progress is None:
            return silent()
        rows = sum(epoch.events for epoch in epochs.values())
        # Not before there is a session: a progress starts none.
        return self._progress.begin(stream, min(epochs, default=last), last, rows, running_tasks)

    def follow(self, stream: str, settings: StreamConfig, pipeline: Pipeline, base: TableName) -> Outcome | None:
        """Brings a pipeline's mirror to where its base is."""
        context = RangeContext(self._spark, self._store, stream, settings, self._warehouse, {}, 0, self._tables)
        return follow(context, pipeline, base)

    def refresh(self, stream: str, settings: StreamConfig, view: View, at: ViewCut) -> Outcome | None:
        """Brings a view to a cut."""
        from firn_spark.views.refreshed import refresh  # loads DuckDB

        context = RangeContext(self._spark, self._store, stream, settings, self._warehouse, {}, 0, self._tables)
        return refresh(context, view, at, self._changes)

    def files(self, sink: SinkRange) -> FileRows:
        """The rows of a file sink, made in this process."""
        from firn_spark.sinks.sink_rows import SinkRows  # loads DuckDB

        return SinkRows(self._store, self._staging, self._warehouse, sink)

    def care(self, stream: str, table: TableName, care: Care, now: datetime) -> Iterator[dict[str, Any]]:
        """Merges the small files of a table and of its facts, and gives them a turn (care.turn)."""
        try:
            found = self._tables.load(table)
            if found is None or found.key() is None:
                return  # a table that Firn did not make is its owner's to care for
            facts = facts_beside(self._tables, found)
            yield from self._expired(found, care, now)
            known = table_health.read(self._store, stream)
            cold = fence(self._store, table, care)
            turns = []
            places = tables_of(self._store, stream, table, found.state)
            shards = [one for name in places if name != table and (one := self._tables.load(name))]
            for shard in shards:
                yield from self._expired(shard, care, now)
            for one in (found, *([facts] if facts else ()), *shards):
                yield from self._merged(stream, one)
                turns.append(Turn(self._spark, self._tables, stream, care, now, cold))
                yield from turns[-1].take(one, known.get(str(one.name)))
            with self._told:  # one object for all tables of a stream
                table_health.write(self._store, stream, [turn.health for turn in turns if turn.health is not None])
        except Exception as error:  # noqa: BLE001 (the edge: the rows are in, and stay so)
            yield {"status": "not compacted", "error": failure_of(error).text}

    def _expired(self, table: Table, care: Care, now: datetime) -> Iterator[dict[str, Any]]:
        """Old snapshots of a table and of its facts go, once they are many."""
        began = time.monotonic()
        try:
            for one in expire_all(self._spark, self._store, table, care.expiry, now, busy=True):
                if isinstance(one, Expired) and (one.snapshots or one.carried):
                    seconds = round(time.monotonic() - began, 2)
                    yield {"status": "expired", "table": one.table, "seconds": seconds} | one.line()
        except LostRace as why:
            yield {"status": "not expired", "table": str(table.name), "error": str(why)}

    def _merged(self, stream: str, table: Table) -> Iterator[dict[str, Any]]:
        began = time.monotonic()
        try:
            done = merge(self._spark, table, stream)
        except (Unfit, LostRace) as why:
            yield {"status": "not compacted", "table": str(table.name), "error": str(why)}
            return
        if done is not None:
            seconds = round(time.monotonic() - began, 2)
            yield {"status": "compacted", "table": str(table.name), "seconds": seconds} | done.line()

    def failure(self, error: Exception) -> Failure:
        """What an exception of Spark, of Iceberg or of ours means."""
        return failure_of(error)
