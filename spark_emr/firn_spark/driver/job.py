"""One table of a small range, without a Spark job: firn_spark.table_job with the changes in this process."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import SparkSession

from firn.changes.decode.row_decoder import Decoding
from firn.changes.merge import decoded_rows
from firn.changes.merge.fold import Key, RowChange
from firn.changes.merge.ordering import plain
from firn.changes.positions import WIDTH
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
from firn_spark.driver import append_commit, column_decoder
from firn_spark.driver import columnar_merge as by_columns
from firn_spark.driver import mirror_commit as by_rows
from firn_spark.driver.decision import MOST_ROWS, Changes, decision, decoded
from firn_spark.driver.delete_memory import DriverMemory
from firn_spark.driver.not_eligible import Unfit
from firn_spark.driver.staged_changes import Change, Part, Staged
from firn_spark.merge import mirror
from firn_spark.merge.memory import name_in, newest_of
from firn_spark.table_job import TableJob, together
from firn_spark.tables import fence
from firn_spark.tables.evolve import Table

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
        memory = DriverMemory(
            self._spark, self._tables, target.name, self._stream, self._warehouse,
            name_in(table.state.properties) if table else None,
            numbers=by_number(self._config.order_by, plan.columns),
        )  # fmt: skip
        memory.look(planned.renames)
        changes = self._changes(target, mine, decoding, memory, outcome)
        seen, truncates = changes.seen, changes.truncates
        log = self._log_in(all_of(target, table.state if table else None, self._config), decoding)
        sources = fed_by(table.state if table else None, target.fed)
        decided = decision(self._spark, table, plan, changes, memory, sources, log)
        outcome.way |= {"lookup": "driver", "by": decided.way}
        outcome.ignored = target.events(outcome.progress, "t") - seen.truncates
        outcome.ignored += 0 if decoding.snapshot_reads else target.events(outcome.progress, "r")
        self._bury_rows(target, changes.odd, _why(changes.bad), outcome)
        placed = [one for one in truncates if plain(one.order)]
        if table is None and seen.changes == seen.rejected:
            outcome.status = "empty"  # nothing that a table could be made from
            outcome.ignored = outcome.events - outcome.dead
            if placed:
                memory.write_facts(ColumnPlan(()), {}, [], None, placed, newest_of(placed), False, self._last)
            return
        snapshot = table.state.snapshot_id if table else None
        table = self._ready(target, table, plan, MIRROR_METADATA, outcome, seen.nulls, [column.name for column in key])
        table, shape = mirror.shape_of(self._tables, table, plan, decoding.key, seen)
        self._same(table, snapshot, outcome)
        if decided.rows.too_old:
            # Decoded again, with their batches: this is rare.
            upto = mine.rows_upto(memory.said.floor[:WIDTH])
            late = _late(decoded(upto, decoding, mirror=True)[0], decided.rows.too_old, memory.said.floor, decoding)
            self._bury_rows(target, upto, late, outcome)
        outcome.decided(decided.told)
        newest = max(seen.newest_fact, newest_of(placed))
        with ThreadPoolExecutor(1) as pool:
            facts = by_columns.facts(changes.plain, decoding, target.fed[0]), by_rows.facts(changes.good, decoding)
            told = (*facts, snapshot, placed, newest, seen.creates_unavailable, self._last)
            remembered = pool.submit(memory.write_facts, plan, *told) if newest else None
            by_rows.land(
                self._spark, table, plan.columns, decided.cells(table, plan, shape), decided.gone(), snapshot,
                outcome.summary(self._stream, self._epochs, self._last), self._stream,
                # Before the rows: a job that dies in between remembers too much, never too little.
                ready=remembered.result if remembered else bool,
            )  # fmt: skip
        outcome.snapshot_id = int(table.java.currentSnapshot().snapshotId())

    def _changes(
        self, target: Target, mine: Part, decoding: Decoding, memory: DriverMemory, outcome: Outcome
    ) -> Changes:
        """The changes decoded: the plain ones by columns and the others by rows, or all by rows. Raises Unfit."""
        if by_columns.can_be_looked_up(decoding) and not target.events(outcome.progress, "t"):
            split = mine.split(decoding, MOST_ROWS)
            found = Changes(split.plain, split.odd.to_pylist(), decoding, target.fed[0])
            if not len(split.plain) or memory.said.truncated <= found.seen.low:
                return found
        if mine.count > MOST_ROWS:
            raise Unfit(f"more than {MOST_ROWS} changes that are not plain")
        return Changes(column_decoder.schema(decoding).empty_table(), mine.rows, decoding, target.fed[0])

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
        good, bad = decoded(mine.rows, decoding, mirror=False)
        seen = by_rows.survey(good, bad, decoding, mirror=False)
        new = append_commit.new_rows(self._spark, table, good, self._stream)

        outcome.way["lookup"] = "driver"
        self._bury_rows(target, mine.rows, _why(bad), outcome)
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

    def _bury_rows(self, target: Target, changes: Sequence[Change], why: Why, outcome: Outcome) -> None:
        """Dead letters first: if the job dies after them, the rerun finds them written."""
        if why:
            rows = rejected(changes, why, self._staged.schemas)
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
