"""The commit job's port over Spark and Iceberg."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from threading import Lock
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.storagelevel import StorageLevel

from firn.changes.merge.ordering import Order
from firn.changes.redelivery import Early
from firn.commit.lake import Range
from firn.commit.rejects import by_table, write_refused
from firn.config.maintenance import Care
from firn.config.model import StreamConfig
from firn.config.names import TableName
from firn.config.reach import databases_of
from firn.log import holds, table_health
from firn.log.epochs import Epoch, read_back
from firn.log.generations import Generations
from firn.log.store import Store
from firn.quarantine.rules import High, Span
from firn.tables.batch_facts import TableFacts
from firn.tables.failures import Failure
from firn.tables.outcome import Outcome
from firn.tables.routing import Target
from firn.tables.table_state import TableState
from firn_spark import session as sessions
from firn_spark.driver.engine import DriverEngine
from firn_spark.driver.range import ALONE, MOST_BYTES, MOST_EVENTS, DriverRange, small
from firn_spark.driver.reader_pool import Reading, Spread, cores, readers
from firn_spark.driver.small_files import merge
from firn_spark.driver.staged_changes import Held, Staged
from firn_spark.failures import failure_of
from firn_spark.maintenance.cold_files import fence
from firn_spark.maintenance.expiry import Expired, expire_all
from firn_spark.maintenance.inline_compaction import Turn
from firn_spark.merge.memory import KEEP, facts_beside
from firn_spark.not_eligible import Unfit
from firn_spark.parallel import at_once
from firn_spark.slices.slice_engine import SliceEngine
from firn_spark.spark_engine import SparkEngine, is_small, light
from firn_spark.staged.batch_facts import facts_of
from firn_spark.staged.frames import span_in
from firn_spark.staged.kept_generations import batches_of, kept_here, raw_in_place
from firn_spark.staged.read import SealedBatch
from firn_spark.staged.rejects import refused
from firn_spark.table_commit import Committer, Engine, RangeContext
from firn_spark.tables.evolve import Table, Tables
from firn_spark.tables.fence import LostRace


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
    ) -> None:
        """`driver_events`: up to how many changes a range is the driver's alone, 0 for none; None: the environment's
        FIRN_DRIVER_EVENTS, or what was measured (driver.range)."""
        told = os.environ.get("FIRN_DRIVER_EVENTS", "") if driver_events is None else str(driver_events)
        self._driver_events = int(told or MOST_EVENTS)
        self._store = store
        self._staging = staging
        self._warehouse = warehouse
        self._catalog_uri = catalog_uri
        self._given = spark
        self._early: tuple[list[SealedBatch], Order, Reading] | None = None

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

    def expect(self, settings: StreamConfig, epochs: Mapping[int, Epoch]) -> None:
        """Readers read while Spark starts."""
        if small(epochs, self._driver_events) and _for_readers(epochs):
            log = Generations(self._store, settings, max(epochs))
            self._reading(batches_of(epochs, log), settings.order)

    def state(self, table: TableName) -> TableState | None:
        """The table as the catalog has it now; None if there is none."""
        found = self._tables.load(table)
        return found.state if found else None

    def open(self, stream: str, settings: StreamConfig, epochs: Mapping[int, Epoch], last: int) -> Range:
        """Read these epochs. Raises what Spark raises if a staged object is missing or broken."""
        if not small(epochs, self._driver_events):
            return self._by_spark(stream, settings, epochs, last)
        staged = self._read(settings, epochs, last)
        if staged is None:
            return self._by_spark(stream, settings, epochs, last)
        opened: list[SparkRange] = []
        lock = Lock()
        back = self._staged_before(stream, settings, last)

        def other(target: Target, above: int) -> Outcome:
            with lock:
                if not opened:
                    opened.append(self._by_spark(stream, settings, epochs, last))
            return opened[0].once(target, above)

        def close() -> None:
            if isinstance(staged, Spread):
                staged.close()
            for one in opened:
                one.close()

        context = self._context(stream, settings, epochs, last)
        return DriverRange(context, staged, Committer(context, DriverEngine(staged, back), other), close)

    def _staged_before(self, stream: str, settings: StreamConfig, last: int) -> Callable[[Target], Staged]:
        """All changes for a target that the staged log still holds; raises Unfit."""

        def back(target: Target) -> Staged:
            log, batches = self._back(stream, settings, last, target)
            if sum(batch.bytes for batch in batches) > MOST_BYTES:
                raise Unfit("much of the staged log to read again")
            return self._in_place(log, batches, settings, lambda by: self._held(batches, by, whole=False))

        return back

    def _context(self, stream: str, settings: StreamConfig, epochs: Mapping[int, Epoch], last: int) -> RangeContext:
        return RangeContext(
            self._spark, self._store, stream, settings, self._warehouse, epochs, last, Tables(self._spark)
        )

    def _read(self, settings: StreamConfig, epochs: Mapping[int, Epoch], last: int) -> Staged | None:
        """The changes of a range that is for the driver, by the readers if they are many; None if it is not for it."""
        log = Generations(self._store, settings, last)
        batches = batches_of(epochs, log)

        def read(by: Order) -> Staged:
            spread = _for_readers(epochs)
            return self._reading(batches, by).held() if spread else self._held(batches, by, whole=True)

        try:
            return self._in_place(log, batches, settings, read)
        except Unfit:
            return None
        finally:
            self._early = None

    def _held(self, batches: Sequence[SealedBatch], by: Order, *, whole: bool) -> Staged:
        return Held(self._store, self._staging, [(batches, by)], whole=whole)

    def _in_place(
        self, log: Generations, batches: Sequence[SealedBatch], settings: StreamConfig, read: Callable[[Order], Staged]
    ) -> Staged:
        """What `read` gives, each change in the generation that it came under first. Raises Unfit too."""
        order = settings.order
        staged = read(order)
        until = log.until({batch.generation for batch in batches})
        found = Early() if until is None else staged.early(until)
        kept = kept_here(self._store, self._staging, log, batches, found, order, MOST_BYTES)
        if not kept and kept is not None:
            return staged
        if isinstance(staged, Spread):
            staged.close()
        if kept is None:
            raise Unfit("much of the staged log to look changes up in")
        return read(replace(order, kept=kept))

    def _reading(self, batches: list[SealedBatch], order: Order) -> Reading:
        """What reads these batches: begun before, if they are those that were expected."""
        if self._early is not None:
            expected, by, reading = self._early
            if expected == batches and by == order:
                return reading
            reading.drop()
        reading = readers().begin(self._staging, batches, order)
        self._early = batches, order, reading
        return reading

    def _by_spark(self, stream: str, settings: StreamConfig, epochs: Mapping[int, Epoch], last: int) -> "SparkRange":
        by, known = settings.order, Generations(self._store, settings, last)
        raw = raw_in_place(self._spark, self._staging, known, batches_of(epochs, known), by)
        raw = raw.persist(StorageLevel.MEMORY_AND_DISK)

        def log(target: Target) -> DataFrame:
            known, batches = self._back(stream, settings, last, target)
            return raw_in_place(self._spark, self._staging, known, batches, by, whole=False)

        context = self._context(stream, settings, epochs, last)
        slices = SliceEngine(raw, self._staged_before(stream, settings, last))
        return SparkRange(context, raw, slices, SparkEngine(raw, log))

    def _back(
        self, stream: str, settings: StreamConfig, last: int, target: Target
    ) -> tuple[Generations, list[SealedBatch]]:
        """What the staged log still holds of a target's source tables, up to `last`, less what it was not given."""
        # Beyond the memory of deletes the table's own rows tell what was.
        sealed = read_back(self._store, stream, last, KEEP)
        known = holds.read_all(self._store, stream)
        mine = (epoch for epoch in sealed if not known.leaves_out(str(target.name), epoch.n))
        touched = {epoch.n: epoch for epoch in mine if set(target.sources) & set(epoch.tables)}
        # Each change in the generation that the tables have it in: else a move would meet its older half too late.
        log = Generations(self._store, settings, last)
        return log, batches_of(touched, log)

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
            for one in (found, facts) if facts else (found,):
                yield from self._merged(stream, one)
                turns.append(Turn(self._spark, self._tables, stream, care, now, cold))
                yield from turns[-1].take(one, known.get(str(one.name)))
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


class SparkRange:
    """A Range: the changes of some epochs as one persisted DataFrame."""

    def __init__(self, context: RangeContext, raw: DataFrame, engine: Engine, otherwise: Engine) -> None:
        """`otherwise`: what takes the tables that `engine` is not made for."""
        self._context = context
        self._raw = raw
        self._committer = Committer(context, engine, Committer(context, otherwise).once)

    @cached_property
    def facts(self) -> Mapping[str, TableFacts]:
        """What the changes say about their tables, by source table. Two small Spark jobs."""
        return facts_of(self._raw)

    def span(self, high: High | None) -> Span:
        """What the changes say about their source's time."""
        return span_in(self._raw, high)

    def commit(self, target: Target, above: int = 0) -> Outcome:
        """Bring one table up to the range's last epoch, with the epochs above `above` that it lacks."""
        return self._committer.commit(target, above)

    def once(self, target: Target, above: int = 0) -> Outcome:
        """The same in one try, which raises: firn_spark.driver tries again."""
        return self._committer.once(target, above)

    def commit_all(self, targets: Sequence[tuple[Target, int]]) -> Iterator[Outcome]:
        """Several at once, small tables first."""
        spark = self._context.spark
        small = {str(target.name) for target, _ in targets if is_small(self._context.tables, target)}
        with light(spark):
            yield from at_once(self.commit, [one for one in targets if str(one[0].name) in small], spark)
        yield from at_once(self.commit, [one for one in targets if str(one[0].name) not in small], spark)

    def refuse(self, places: Mapping[str, TableName | str], code: str, message: str) -> Mapping[str, Mapping[str, int]]:
        """Dead letters for all changes of source tables that no table takes."""
        rows = refused(self._raw, list(places), code, message)
        return by_table(write_refused(self._context.store, self._context.stream, places, self._context.epochs, rows))

    def close(self) -> None:
        """Let go of the persisted rows."""
        self._raw.unpersist()


def _for_readers(epochs: Mapping[int, Epoch]) -> bool:
    return cores() > 1 and sum(epoch.events for epoch in epochs.values()) > ALONE
