"""One table of a small range, without a Spark job: firn_spark.table_job with the changes in this process."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import SparkSession

from firn.changes.decode.row_decoder import Decoding
from firn.changes.merge import decoded_rows
from firn.changes.merge.decide import decide
from firn.changes.merge.fold import Key, RowChange
from firn.changes.merge.ordering import plain
from firn.commit.rejects import by_table, reasons
from firn.commit.staged_changes import rejected
from firn.config.model import StreamConfig
from firn.log.epochs import Epoch
from firn.log.store import Store
from firn.tables.outcome import Outcome
from firn.tables.planning import APPEND_METADATA, MIRROR_METADATA, ColumnPlan
from firn.tables.routing import Target, all_of
from firn.tables.table_plan import Planned, with_schemas
from firn.tables.table_state import by_number, fed_by
from firn_spark.driver import append_commit
from firn_spark.driver import columnar_merge as by_columns
from firn_spark.driver import mirror_commit as small
from firn_spark.driver.delete_memory import DriverMemory
from firn_spark.driver.key_lookup import look
from firn_spark.driver.not_eligible import Unfit
from firn_spark.driver.staged_changes import Part, Staged
from firn_spark.merge import mirror
from firn_spark.merge.memory import name_in, newest_of
from firn_spark.staged.columnar import typed
from firn_spark.staged.decode import decoded_schema
from firn_spark.table_job import TableJob, together
from firn_spark.tables import fence
from firn_spark.tables.evolve import Table

MOST_ROWS = 20_000  # changes of a table, decided one by one
_UNKEYED = frozenset({"float", "double", "list"})  # NaN is not a key of a dict, a list none at all
Why = Mapping[tuple[str, int], tuple[str, str]]


class DriverJob(TableJob):
    """Commits tables whose changes are in this process; what does not fit is committed by Spark."""

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        stream: str,
        config: StreamConfig,
        warehouse: str,
        epochs: Mapping[int, Epoch],
        last: int,
        staged: Staged,
        back: Callable[[Target], Staged],
        other: Callable[[Target, int], Outcome],
    ) -> None:
        """`back`: all changes for a target that the staged log still holds, raises Unfit; `other`: Spark's way."""
        super().__init__(spark, store, stream, config, warehouse, epochs, last, _no_frame)
        self._staged = staged
        self._back = back
        self._other = other
        self.spark = spark

    def once(self, target: Target, raw: Any) -> Outcome:
        """One try, which raises. `raw`: the number above which epochs count."""
        try:
            return super().once(target, raw)
        except Unfit as why:
            outcome = self._other(target, raw)
            outcome.way["driver"] = str(why)
            return outcome

    def _mine(self, target: Target, raw: Any, progress: int) -> Any:
        return self._staged.of(target.sources, max(raw, progress))

    def _mirror(
        self,
        target: Target,
        table: Table | None,
        planned: Planned,
        mine: Any,
        outcome: Outcome,
    ) -> None:
        plan, decoding = planned.columns, planned.decoding
        _fits(target, table, plan)
        key = [decoding.columns[i] for i in decoding.key]
        if (table and decoding.no_key) or any(column.type.name in _UNKEYED for column in key):
            raise Unfit("a key that rows can't be looked up by")
        facts = name_in(table.state.properties) if table else None
        memory = DriverMemory(
            self._spark, self._tables, target.name, self._stream, self._warehouse, facts,
            numbers=by_number(self._config.order_by, plan.columns),
        )  # fmt: skip
        memory.look(planned.renames)
        if self._by_columns(target, table, plan, decoding, memory, mine, outcome):
            return
        if mine.count > MOST_ROWS:
            raise Unfit(f"more than {MOST_ROWS} changes, not all of them plain")
        truncates = decoded_rows.truncates(mine.rows, decoding.names)
        good, bad = _decoded(mine, decoding, mirror=True)
        decoded = small.Decoded(good, [decoded_rows.row_change(row, decoding) for row in good])
        seen = small.survey(good, bad, decoding)
        log = self._log_in(all_of(target, table.state if table else None, self._config), decoding)
        sources = fed_by(table.state if table else None, target.fed)
        found = look(self._spark, table, memory, plan.columns, key, decoded.changes, truncates, sources, log)

        outcome.way |= {"lookup": "driver", "by": "rows"}
        outcome.ignored = target.events(outcome.progress, "t") - seen.truncates
        outcome.ignored += 0 if decoding.snapshot_reads else target.events(outcome.progress, "r")
        self._bury_rows(target, mine, _why(bad), outcome)
        if table is None and not good:
            outcome.status = "empty"  # nothing that a table could be made from
            outcome.ignored = outcome.events - outcome.dead
            if truncates := [one for one in truncates if plain(one.order)]:
                memory.write_facts(ColumnPlan(()), [], None, truncates, newest_of(truncates), False, self._last)
            return
        snapshot = table.state.snapshot_id if table else None
        table = self._ready(target, table, plan, MIRROR_METADATA, outcome, seen.nulls, [column.name for column in key])
        table, shape = mirror.shape_of(self._tables, table, plan, decoding.key, seen)
        self._same(table, snapshot, outcome)
        decided = decide(found.before, decoded.changes, memory.said.floor)
        if decided.too_old:
            self._bury_rows(target, mine, _late(good, decided.too_old, memory.said.floor, decoding), outcome)
        outcome.decided(decided.told)
        placed = [one for one in truncates if plain(one.order)]
        small.remember(memory, plan, decoded, decoding, seen, placed, snapshot, self._last)
        times = {row[decoded_rows.ORD]: row[decoded_rows.TS] for row in good}
        summary = outcome.summary(self._stream, self._epochs, self._last)
        small.apply(self._spark, table, decided, shape, found, times, snapshot, summary, self._stream)
        outcome.snapshot_id = int(table.java.currentSnapshot().snapshotId())

    def _by_columns(
        self,
        target: Target,
        table: Table | None,
        plan: ColumnPlan,
        decoding: Decoding,
        memory: DriverMemory,
        mine: Part,
        outcome: Outcome,
    ) -> bool:
        """The same for plain changes; False if they are not, and nothing was done."""
        good = mine.plain(decoding)
        if good is None or not len(good):
            return False
        seen = by_columns.survey(good, decoding)
        if not by_columns.in_order(table, memory, seen):
            return False
        decided = by_columns.decide(self._spark, table, good, decoding, memory.said.floor)
        if decided is None:
            return False
        outcome.way |= {"lookup": "driver", "by": "columns"}
        outcome.ignored = 0 if decoding.snapshot_reads else target.events(outcome.progress, "r")
        snapshot = table.state.snapshot_id if table else None
        key = [decoding.columns[i].name for i in decoding.key]
        table = self._ready(target, table, plan, MIRROR_METADATA, outcome, seen.nulls, key)
        self._same(table, snapshot, outcome)
        outcome.decided(decided.told)
        with ThreadPoolExecutor(1) as pool:
            last = self._last
            source = target.fed[0]
            remembered = pool.submit(by_columns.remember, memory, plan, good, decoding, seen, source, snapshot, last)
            written = by_columns.write(self._spark, table, decided, plan)
            remembered.result()  # before the rows: a job that dies in between remembers too much, never too little
        summary = outcome.summary(self._stream, self._epochs, self._last)
        by_columns.land(self._spark, table, written, snapshot, summary, self._stream)
        outcome.snapshot_id = int(table.java.currentSnapshot().snapshotId())
        return True

    def _append(
        self,
        target: Target,
        table: Table | None,
        plan: ColumnPlan,
        decoding: Decoding,
        key: Sequence[str],
        mine: Any,
        outcome: Outcome,
    ) -> None:
        _fits(target, table, plan)
        if mine.count > MOST_ROWS:
            raise Unfit(f"more than {MOST_ROWS} changes to append")
        good, bad = _decoded(mine, decoding, mirror=False)
        seen = small.survey(good, bad, decoding, mirror=False)
        new = append_commit.new_rows(self._spark, table, good, self._stream)

        outcome.way["lookup"] = "driver"
        self._bury_rows(target, mine, _why(bad), outcome)
        if table is None and not good:
            outcome.status = "empty"
            outcome.ignored = outcome.events - outcome.dead
            return
        snapshot = table.state.snapshot_id if table else None
        table = self._ready(target, table, plan, APPEND_METADATA, outcome, seen.nulls, key)
        self._same(table, snapshot, outcome)
        outcome.merged = len(new)
        outcome.ignored = outcome.events - seen.changes
        outcome.superseded = len(good) - outcome.merged
        summary = outcome.summary(self._stream, self._epochs, self._last)
        append_commit.apply(self._spark, table, new, plan.columns, summary, self._stream)
        outcome.snapshot_id = int(table.java.currentSnapshot().snapshotId())

    def _same(self, table: Table, snapshot: int | None, outcome: Outcome) -> None:
        """What was looked up must be what the table still is: else another committer's rows would be doubled."""
        if table.state.snapshot_id != snapshot or table.state.progress(self._stream) != outcome.progress:
            raise fence.LostRace(f"{table.name} moved while its rows were looked up")

    def _bury_rows(self, target: Target, mine: Part, why: Why, outcome: Outcome) -> None:
        """Dead letters first: if the job dies after them, the rerun finds them written."""
        if why:
            rows = rejected(mine.rows, why, self._staged.schemas)
            outcome.dead_by = together(outcome.dead_by, by_table(reasons(rows)))
            outcome.dead_new = together(outcome.dead_new, by_table(self._write_letters(target, rows)))
        outcome.dead += len(why)

    def _log_in(self, target: Target, decoding: Decoding) -> Any:
        """before.Log: what the table alone can't tell any more."""

        def log(keys: Collection[Key]) -> tuple[list[RowChange], Mapping[bytes, int | None]]:
            staged = self._back(target)
            every = with_schemas(decoding, target, staged.facts)
            good, _ = decoded_rows.decoded(staged.of(target.sources).rows, every, mirror=True)
            mine = [row for row in good if decoded_rows.key_of(row, every) in keys]
            return [decoded_rows.row_change(row, every) for row in mine], {
                row[decoded_rows.ORD]: row[decoded_rows.TS] for row in mine
            }

        return log


def _fits(target: Target, table: Table | None, plan: ColumnPlan) -> None:
    """Raises Unfit for a table that only Spark can write."""
    if table is None:
        if target.rule.partition_by:
            raise Unfit("partitioned")
        return
    if table.key() is None or plan.unwritable:
        raise Unfit("adopted")
    if target.rule.write == "copy-on-write":
        raise Unfit("copy-on-write")
    if plan.retyped:
        raise Unfit("a column changes its type")
    if table.state.partitioned_by or table.is_partitioned_anew(target.rule.partition_by):
        raise Unfit("partitioned")
    if table.state.properties.get("write.format.default", "parquet") != "parquet":
        raise Unfit("files that are not Parquet")


def _decoded(mine: Part, decoding: Decoding, *, mirror: bool) -> tuple[list[list[Any]], list[list[Any]]]:
    """told.decoded, where what can't be written is rejected as by the executors."""
    schema = decoded_schema(decoding, ())  # what is beside the columns came out of Arrow
    return decoded_rows.decoded(mine.rows, decoding, mirror=mirror, fit=lambda rows: typed(rows, schema))


def _why(bad: Sequence[Sequence[Any]]) -> Why:
    return {
        (row[decoded_rows.BATCH], row[decoded_rows.INDEX]): (row[decoded_rows.CODE], row[decoded_rows.MESSAGE])
        for row in bad
    }


def _late(good: Sequence[Sequence[Any]], keys: Collection[Key], floor: bytes, decoding: Decoding) -> Why:
    """The changes at or below the floor of keys that the table does not have."""
    late = (
        row for row in good if decoded_rows.key_of(row, decoding) in keys and row[decoded_rows.ORD] <= b"\1" + floor
    )
    return {(row[decoded_rows.BATCH], row[decoded_rows.INDEX]): ("too_old", mirror.TOO_OLD) for row in late}


def _no_frame(_: Target) -> Any:
    raise AssertionError("the driver's log is not a DataFrame")
