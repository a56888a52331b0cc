"""Ranges of epochs, read and ready to be committed table by table: by this process if they are small, else by Spark's
tasks."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from firn.changes.merge.ordering import Order
from firn.changes.redelivery import Early
from firn.commit.lake import Range
from firn.commit.progress_tracker import RangeProgress, silent
from firn.commit.rejects import by_table, write_refused
from firn.commit.staged_changes import rejected
from firn.config.model import StreamConfig
from firn.config.names import TableName
from firn.log.epochs import Epoch
from firn.log.generations import Generations
from firn.log.store import Store
from firn.quarantine.rules import High, Span
from firn.tables.batch_facts import TableFacts
from firn.tables.outcome import Outcome
from firn.tables.routing import Target
from firn_spark.arrow import kept
from firn_spark.committer import Committer
from firn_spark.driver.engine import DriverEngine
from firn_spark.driver.range import ALONE, MOST_BYTES, MOST_EVENTS, DriverRange, changes_by_table, small
from firn_spark.driver.reader_pool import Reading, Spread, cores, readers
from firn_spark.driver.staged_changes import Held, Staged
from firn_spark.driver.staged_log import HeldLog, SparkLog, StagedLog
from firn_spark.not_eligible import Unfit
from firn_spark.parallel import at_once
from firn_spark.slices.shared_changes import SharedChanges
from firn_spark.slices.slice_engine import SliceEngine
from firn_spark.staged.batch_facts import facts_of
from firn_spark.staged.frames import changes_in, schemas_in, span_in
from firn_spark.staged.kept_generations import batches_of, kept_here, raw_in_place
from firn_spark.staged.read import SealedBatch
from firn_spark.table_commit import RangeContext

_FEW = 20_000  # changes
_FOR_MANY_ROWS = ("spark.sql.codegen.wholeStage", "spark.sql.adaptive.enabled")


@dataclass(frozen=True)
class Sealed:
    """Epochs of a stream as they are staged.

    settings    how their changes are read and placed
    log         the generations of the stream's batches
    back        what the staged log still holds of a target's source tables, up to the last of the epochs
    whole       whether an object of `epochs` that is gone is an error
    back_whole  the same, of what `back` tells
    progress    who is told how far it is
    """

    settings: StreamConfig
    epochs: Mapping[int, Epoch]
    log: Generations
    back: Callable[[Target], list[SealedBatch]]
    whole: bool = True
    back_whole: bool = False
    progress: RangeProgress = field(default_factory=silent)


class Ranges:
    """Opens ranges of the staged log."""

    def __init__(self, store: Store, staging: str, driver_events: int | None = None) -> None:
        """`driver_events`: up to how many changes a range is the driver's alone, 0 for none; None: the environment's
        FIRN_DRIVER_EVENTS, or what was measured (driver.range)."""
        told = os.environ.get("FIRN_DRIVER_EVENTS", "") if driver_events is None else str(driver_events)
        self._driver_events = int(told or MOST_EVENTS)
        self._store = store
        self._staging = staging
        self._early: tuple[list[SealedBatch], Order, Reading] | None = None

    def expect(self, settings: StreamConfig, epochs: Mapping[int, Epoch]) -> None:
        """These epochs are going to be opened, most likely: readers read while Spark starts."""
        if small(epochs, self._driver_events) and _for_readers(epochs):
            log = Generations(self._store, settings, max(epochs))
            self._reading(batches_of(epochs, log), settings.order)

    def open(self, sealed: Sealed, context: Callable[[], RangeContext]) -> Range:
        """Reads these epochs. `context`: asked for once they are read, for it may start Spark. Raises what Spark raises
        if a staged object is missing or broken."""
        staged = self._read(sealed) if small(sealed.epochs, self._driver_events) else None
        if staged is None:
            return self._by_spark(sealed, context())
        opened: list[SparkRange] = []
        lock = Lock()
        known = context()

        def other(target: Target, above: int) -> Outcome:
            with lock:
                if not opened:
                    opened.append(self._by_spark(sealed, known))
            return opened[0].once(target, above)

        def close() -> None:
            if isinstance(staged, Spread):
                staged.close()
            for one in opened:
                one.close()

        engine = DriverEngine(staged, self._staged_before(sealed, known.spark))
        return DriverRange(known, staged, Committer(known, engine, other), close)

    def _staged_before(self, sealed: Sealed, spark: SparkSession) -> Callable[[Target], StagedLog]:
        """All changes for a target that the staged log still holds."""

        def back(target: Target) -> StagedLog:
            batches, whole = sealed.back(target), sealed.back_whole
            if sum(batch.bytes for batch in batches) <= MOST_BYTES:
                with suppress(Unfit):
                    return HeldLog(self._in_place(sealed, batches, lambda by: self._held(batches, by, whole=whole)))
            order = sealed.settings.order
            return SparkLog(raw_in_place(spark, self._staging, sealed.log, batches, order, whole=whole))

        return back

    def _read(self, sealed: Sealed) -> Staged | None:
        """The changes of a range that is for the driver, by the readers if they are many; None if it is not for it."""
        batches = batches_of(sealed.epochs, sealed.log)

        def read(by: Order) -> Staged:
            spread = sealed.whole and _for_readers(sealed.epochs)
            seen = sealed.progress.read
            if spread:
                return self._reading(batches, by).held(seen)
            return self._held(batches, by, whole=sealed.whole, seen=seen)

        try:
            return self._in_place(sealed, batches, read)
        except Unfit:
            return None
        finally:
            self._early = None

    def _held(
        self, batches: Sequence[SealedBatch], by: Order, *, whole: bool, seen: Callable[[int], None] = lambda _: None
    ) -> Staged:
        return Held(self._store, self._staging, [(batches, by)], whole=whole, seen=seen)

    def _in_place(self, sealed: Sealed, batches: Sequence[SealedBatch], read: Callable[[Order], Staged]) -> Staged:
        """What `read` gives, each change in the generation that it came under first. Raises Unfit too."""
        order, log = sealed.settings.order, sealed.log
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

    def _by_spark(self, sealed: Sealed, context: RangeContext) -> "SparkRange":
        spark, by, log = context.spark, sealed.settings.order, sealed.log
        batches = batches_of(sealed.epochs, log)
        raw = raw_in_place(spark, self._staging, log, batches, by, whole=sealed.whole)
        held = ExitStack()
        raw = held.enter_context(kept(raw))
        engine = SliceEngine(raw, self._staged_before(sealed, spark), SharedChanges(held))
        return SparkRange(context, raw, Committer(context, engine), held.close)


class SparkRange:
    """A Range: the changes of some epochs as one persisted DataFrame."""

    def __init__(self, context: RangeContext, raw: DataFrame, committer: Committer, close: Callable[[], None]) -> None:
        """`close`: lets go of all rows that are kept."""
        self._context = context
        self._raw = raw
        self._committer = committer
        self._close = close

    @cached_property
    def facts(self) -> Mapping[str, TableFacts]:
        """What the changes say about their tables, by source table. Two small Spark jobs."""
        with self._context.progress.counting():
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
        self._context.progress.plan(changes_by_table(targets))
        small = [one for one in targets if one[0].events(0) <= _FEW]
        with _light(spark):
            yield from at_once(self.commit, small, spark)
        yield from at_once(self.commit, [one for one in targets if one not in small], spark)

    def refuse(self, places: Mapping[str, TableName | str], code: str, message: str) -> Mapping[str, Mapping[str, int]]:
        """Dead letters for all changes of source tables that no table takes."""
        mine = changes_in(self._raw.where(f.col("table").isin(*places))).toArrow().to_pylist()
        why = {(one["batch"], one["index"]): (code, message) for one in mine}
        rows = rejected(mine, why, schemas_in(self._raw, {one["schema_id"] for one in mine} - {None}))
        return by_table(write_refused(self._context.store, self._context.stream, places, self._context.epochs, rows))

    def close(self) -> None:
        """Let go of the persisted rows."""
        self._context.progress.end()
        self._close()


@contextmanager
def _light(spark: SparkSession) -> Iterator[None]:
    """Plans for few rows: to compile code for them takes longer than to interpret it. A setting of the session."""
    for name in _FOR_MANY_ROWS:
        spark.conf.set(name, "false")
    try:
        yield
    finally:
        for name in _FOR_MANY_ROWS:
            spark.conf.unset(name)


def _for_readers(epochs: Mapping[int, Epoch]) -> bool:
    return cores() > 1 and sum(epoch.events for epoch in epochs.values()) > ALONE
