"""One table of a commit job, from raw changes to its snapshot."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.storagelevel import StorageLevel

from firn.changes.decode.row_decoder import Decoding
from firn.changes.decode.types import Column
from firn.changes.merge.fold import RowChange
from firn.changes.merge.key_rows import Truncates
from firn.changes.merge.ordering import plain
from firn.commit.rejects import by_table, reasons, write_rejects
from firn.config.model import StreamConfig
from firn.config.names import TableName
from firn.errors import TransientError
from firn.log.dead_letters.letters import Counts
from firn.log.epochs import Epoch
from firn.log.store import Store
from firn.tables import bloom_filters, partition_policy
from firn.tables.outcome import Outcome
from firn.tables.planning import APPEND_METADATA, MIRROR_METADATA, SOURCE_METADATA, ColumnPlan
from firn.tables.renames import renames_of
from firn.tables.routing import Target, all_of
from firn.tables.table_plan import Planned, planned, with_schemas
from firn.tables.table_state import (
    INFERRED_AS,
    NAMED_KEY,
    NO_FIRST_IDENTITY,
    are_several,
    by_number,
    fed_by,
    source_properties,
)
from firn_spark import append
from firn_spark.failures import failure_of
from firn_spark.merge import affected_rows, by_key, delta, key_changes, mirror
from firn_spark.merge.deciding import Shape, decide, there
from firn_spark.merge.folding import NOTHING, same_key
from firn_spark.merge.memory import Memory, name_in
from firn_spark.staged.batch_facts import facts_of
from firn_spark.staged.frames import append_changes, mirror_changes
from firn_spark.staged.rejects import rejected
from firn_spark.tables.alterations import rename, repartition
from firn_spark.tables.evolve import Table, Tables
from firn_spark.tables.fence import CommitUnknown, LostRace, unmoved
from firn_spark.tables.retype import finish, retype

_TRIES = 5
_ONE_TASK = 20_000  # changes that one task decodes and folds faster than several exchange them
_FEW_RECORDS = 200_000
_FOR_MANY_ROWS = ("spark.sql.codegen.wholeStage", "spark.sql.adaptive.enabled")
_REFUSED = ("ValidationException", "CommitFailedException", "AlreadyExistsException")


class TableJob:
    """Commits the tables of one range of epochs."""

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        stream: str,
        config: StreamConfig,
        warehouse: str,
        epochs: Mapping[int, Epoch],
        last: int,
        log: Callable[[Target], DataFrame],
    ) -> None:
        """`log`: all raw changes for a target that the staged log still holds, up to the epoch `last`."""
        self._log = log
        self._spark = spark
        self._store = store
        self._stream = stream
        self._config = config
        self._warehouse = warehouse
        self._epochs = epochs
        self._last = last
        self._tables = Tables(spark)
        self._seen: dict[TableName, int] = {}  # the progress that a table had when this job looked first

    def commit(self, target: Target, raw: Any) -> Outcome:
        """Brings the table up to the range's last epoch. Never raises: a failure is in the outcome."""
        started = time.monotonic()
        outcome = Outcome(str(target.name), target.sources)
        try:
            for left in reversed(range(_TRIES)):
                try:
                    outcome = self.once(target, raw)
                    break
                except Exception as error:
                    # Another writer won: nothing was applied, and a fresh look decides what is left to do.
                    if not left or not (isinstance(error, LostRace | CommitUnknown) or _was_refused(error)):
                        raise
        except Exception as error:  # noqa: BLE001 (one bad table must not stop the others)
            found = failure_of(error)
            outcome.status, outcome.error, outcome.failure = "failed", found.text, found.kind
        outcome.seconds = round(time.monotonic() - started, 3)
        return outcome

    def once(self, target: Target, raw: Any) -> Outcome:
        """One try, which raises. `raw`: as for `commit`."""
        table = self._tables.load(target.name)
        if table is not None:
            table = finish(self._spark, self._tables, table)
        progress = table.state.progress(self._stream) if table else 0
        if progress < self._seen.setdefault(target.name, progress):
            # Between two tries: what it lacks now is not all in this range. The next job looks at that first.
            raise TransientError(f"{target.name} was set back or made again while a job was at it")
        outcome = Outcome(str(target.name), target.sources, progress=progress)
        outcome.events = target.events(progress)
        if outcome.events == 0:
            outcome.status = "skipped"
            outcome.snapshot_id = table.state.snapshot_id if table else None
            return outcome

        plan = planned(target.above(progress), self._config, table.state if table else None)
        if table is not None and plan.renames:
            # Before its facts: the table remembers the names, so that whoever comes after a crash goes on with them.
            table = rename(self._spark, self._tables, table, plan.due, plan.renames.properties())
        target = replace(target, rule=plan.renames.rule(target.rule))
        outcome.mode = plan.mode
        mine = self._mine(target, raw, progress)
        if outcome.mode == "mirror":
            self._mirror(target, table, plan, mine, outcome)
        else:
            self._append(target, table, plan.columns, plan.decoding, plan.key, mine, outcome)
        return outcome

    def _mine(self, target: Target, raw: Any, progress: int) -> Any:
        """The changes of the target's sources in the epochs that it lacks."""
        mine = raw.where(f.col("table").isin(*target.sources) & (f.col("epoch") > progress))
        # One partition needs no shuffle: most tables change little in one range.
        return mine.coalesce(1) if target.events(progress) <= _ONE_TASK else mine

    def is_small(self, target: Target) -> bool:
        """Whether there are so few changes and rows that plans for few rows suit the table (`light`)."""
        if target.events(0) > _ONE_TASK:
            return False
        try:
            table = self._tables.load(target.name)
        except Exception:  # noqa: BLE001 (its commit will say what is wrong with it, and of no other table)
            return False
        return table is None or table.state.records <= _FEW_RECORDS

    @contextmanager
    def light(self) -> Iterator[None]:
        """Plans for few rows: to compile code for them takes longer than to interpret it. A setting of the session."""
        for name in _FOR_MANY_ROWS:
            self._spark.conf.set(name, "false")
        try:
            yield
        finally:
            for name in _FOR_MANY_ROWS:
                self._spark.conf.unset(name)

    def _mirror(
        self,
        target: Target,
        table: Table | None,
        planned: Planned,
        mine: Any,
        outcome: Outcome,
    ) -> None:
        plan, decoding = planned.columns, planned.decoding
        ignored = target.events(outcome.progress, "t")
        truncates = mirror.truncates_in(mine, decoding.names) if ignored else []
        outcome.ignored = ignored + (0 if decoding.snapshot_reads else target.events(outcome.progress, "r"))
        facts = name_in(table.state.properties) if table else None
        memory = Memory(
            self._spark, self._tables, target.name, self._stream, self._warehouse, facts,
            numbers=by_number(self._config.order_by, plan.columns),
        )  # fmt: skip
        memory.look(planned.renames)
        decoded = mirror_changes(mine, decoding).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            required = [i for i, column in enumerate(plan.columns) if column.required]
            with outcome.stage("read"):
                seen = mirror.survey(decoded, required)
            outcome.ignored -= seen.truncates
            self._bury(target, mine, decoded, seen.rejected, outcome)
            if table is None and not seen.changes - seen.rejected:
                outcome.status = "empty"  # nothing that a table could be made from
                outcome.ignored = outcome.events - outcome.dead
                mirror.remember_truncates(memory, truncates, self._last)
                return
            key = [plan.columns[i].name for i in decoding.key]
            table = self._ready(target, table, plan, MIRROR_METADATA, outcome, seen.nulls, key)
            table, shape = mirror.shape_of(self._tables, table, plan, decoding.key, seen)
            good = decoded.where(f.col("_code").isNull())
            log = self._log_of(all_of(target, table.state, self._config), decoding)
            few = seen.changes <= affected_rows.FEW and not truncates
            known = mirror.known_truncates(memory, truncates, seen, fed_by(table.state, target.fed))
            with self._decided(table, good, memory, shape, seen, known, few, log, outcome) as found:
                rows = found.persist(StorageLevel.MEMORY_AND_DISK)
                try:
                    self._apply_mirror(
                        target, table, plan, mine, good, rows, memory, shape, seen, few, truncates, outcome
                    )
                finally:
                    rows.unpersist()
        finally:
            decoded.unpersist()
        outcome.snapshot_id = self._snapshot(target)

    @contextmanager
    def _decided(
        self,
        table: Table,
        good: DataFrame,
        memory: Memory,
        shape: Shape,
        seen: mirror.Survey,
        truncates: Truncates,
        few: bool,
        log: key_changes.Log,
        outcome: Outcome,
    ) -> Iterator[DataFrame]:
        """What becomes of each row (deciding.decide). Good inside the `with` only."""
        if truncates.several and truncates.newest:
            outcome.way["lookup"] = "by key"
            with by_key.decided_by_key(self._spark, table, good, memory, shape, truncates, seen, log) as rows:
                yield rows
            return
        changes = mirror.folded(self._spark, table, good, memory, shape, seen, truncates, log)
        newest = max((one.order for one in truncates.new), default=b"")
        truncate = (plain(newest) or NOTHING) if newest else None
        changes = changes.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            yield decide(changes, self._there(table, changes, shape, truncate, few, outcome), shape, truncate)
        finally:
            changes.unpersist()

    def _there(
        self, table: Table, changes: DataFrame, shape: Shape, truncate: bytes | None, few: bool, outcome: Outcome
    ) -> DataFrame:
        """The table's rows that the changes may concern."""
        if table.head() is None:
            outcome.way["lookup"] = "none"
            return there(self._spark, table, shape).where(f.lit(False))
        if truncate is not None:
            outcome.way["lookup"] = "all"
            return there(self._spark, table, shape)
        with outcome.stage("fold"):
            keys = affected_rows.keys_of(changes, table, shape, few=few)
        outcome.way |= {"lookup": keys.way, "keys": keys.count}
        return affected_rows.found(self._spark, table, shape, keys)

    def _apply_mirror(
        self,
        target: Target,
        table: Table,
        plan: ColumnPlan,
        mine: DataFrame,
        good: DataFrame,
        rows: DataFrame,
        memory: Memory,
        shape: Shape,
        seen: mirror.Survey,
        few: bool,
        truncates: Sequence[RowChange],
        outcome: Outcome,
    ) -> None:
        floor = memory.said.floor
        with outcome.stage("lookup"):
            numbers = mirror.count(rows, floor, few=few)
        if numbers.too_old:
            late = mirror.too_old(good, rows, floor, shape)
            self._bury(target, mine, late, late.select("_batch", "_index").distinct().count(), outcome)
            rows = rows.where(~mirror.below(floor))
            numbers = mirror.count(rows, floor, few=few)
        outcome.decided(numbers.told)
        with outcome.stage("facts"):
            head = table.head()
            looked = head.snapshotId() if head else None
            mirror.remember(memory, plan, good, shape, seen, truncates, looked, self._last)
        write = target.rule.write
        summary = outcome.summary(self._stream, self._epochs, self._last)
        delta.apply(self._spark, table, rows, shape, numbers, write, self._stream, summary, outcome)

    def _log_of(self, target: Target, decoding: Decoding) -> key_changes.Log:
        """Decoded changes of some keys out of the whole staged log: what the table alone can't tell any more."""

        def log(keys: DataFrame) -> DataFrame:
            raw = self._log(target)
            every = with_schemas(decoding, target, facts_of(raw))
            mine = raw.where(f.col("table").isin(*target.sources) & f.col("fact").isNull())
            decoded = mirror_changes(mine, every).where(f.col("_code").isNull())
            return decoded.join(f.broadcast(keys), same_key(decoded, keys, decoding.key), "left_semi")

        return log

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
        decoded = append_changes(mine, decoding).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            required = [i for i, column in enumerate(plan.columns) if column.required]
            with outcome.stage("read"):
                seen = mirror.survey(decoded, required)
            self._bury(target, mine, decoded, seen.rejected, outcome)
            if table is None and not seen.changes - seen.rejected:
                outcome.status = "empty"
                outcome.ignored = outcome.events - outcome.dead
                return
            table = self._ready(target, table, plan, APPEND_METADATA, outcome, seen.nulls, key)
            good = append.identified(decoded.where(f.col("_code").isNull()), self._stream)
            rows = append.new_rows(self._spark, table, good, plan.columns, self._stream)
            rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
            try:
                with outcome.stage("lookup"):
                    outcome.merged = rows.count()
                outcome.ignored = outcome.events - seen.changes
                outcome.superseded = seen.changes - seen.rejected - outcome.merged
                summary = outcome.summary(self._stream, self._epochs, self._last)
                with outcome.stage("write"):
                    append.apply(self._spark, table, rows, summary, self._stream)
            finally:
                rows.unpersist()
        finally:
            decoded.unpersist()
        outcome.snapshot_id = self._snapshot(target)

    def _bury(self, target: Target, mine: DataFrame, decoded: DataFrame, count: int, outcome: Outcome) -> None:
        """Dead letters first: if the job dies after them, the rerun finds them written."""
        if count:
            rows = rejected(mine, decoded)
            outcome.dead_by = together(outcome.dead_by, by_table(reasons(rows)))
            outcome.dead_new = together(outcome.dead_new, by_table(self._write_letters(target, rows)))
        outcome.dead += count

    def _write_letters(self, target: Target, rows: Sequence[Mapping[str, Any]]) -> Counts:
        return write_rejects(self._store, self._stream, target.name, self._epochs, rows)

    def _ready(
        self,
        target: Target,
        table: Table | None,
        plan: ColumnPlan,
        metadata: Sequence[Column],
        outcome: Outcome,
        nulls: Sequence[int],
        key: Sequence[str],
    ) -> Table:
        """The table with all columns that the changes need. Raises LostRace if it is not what was planned for."""
        relaxed = [plan.columns[i].name for i in nulls]
        fed: dict[str, str] = {}
        if outcome.mode == "mirror":
            fed = source_properties(table.state if table else None, target.fed)
            if are_several(fed_by(table.state if table else None, target.fed)):
                metadata = (*metadata, SOURCE_METADATA)
        seen_as = {INFERRED_AS: json.dumps(plan.inferred, ensure_ascii=False, sort_keys=True)}
        if table is not None:
            table = retype(self._spark, self._tables, table, plan.retyped)
            table = unmoved(table, self._tables.evolve(table, plan, metadata, relaxed))
            if table.branch is None and table.is_partitioned_anew(target.rule.partition_by):
                table = repartition(self._spark, self._tables, table, target.rule.partition_by)
            wanted = bloom_filters.properties(target.rule.bloom, key, plan.columns, table.state.properties)
            # A branch is not the table's main, whose rows the property is about.
            wanted |= table.state.identities if outcome.mode == "append" and table.branch is None else {}
            if table.key() is None and target.rule.key is None and target.rule.mode == "mirror":
                wanted = wanted | {NAMED_KEY: json.dumps(key, ensure_ascii=False)}
            wanted |= fed | (seen_as if plan.inferred != table.state.inferred else {})
            table = unmoved(table, self._tables.set_properties(table, wanted))
            if table.state.progress(self._stream) != outcome.progress:
                raise LostRace(f"{table.name} moved while its columns were made ready")
            return table
        columns = [replace(c, required=c.required and c.name not in relaxed) for c in plan.columns]
        properties = {
            "firn.key": json.dumps(key, ensure_ascii=False),
            "firn.mode": outcome.mode,
            "firn.stream": self._stream,
            "firn.source": ", ".join(target.sources),
            **fed,
            **(seen_as if plan.inferred else {}),
            **(NO_FIRST_IDENTITY if outcome.mode == "append" else {}),
            **bloom_filters.properties(target.rule.bloom, key, columns, {}),
            **(partition_policy.asked(target.rule.partition_by) if target.rule.partition_by else {}),
            **renames_of(target.rule.renames, {}).properties(),
        }
        return self._tables.create(
            target.name, self._warehouse, columns, metadata, target.rule.partition_by, properties
        )

    def _snapshot(self, target: Target) -> int | None:
        table = self._tables.load(target.name)
        return table.state.snapshot_id if table else None


def together(one: Mapping[str, Mapping[str, int]], other: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Two counts by source table and reason as one."""
    result = {table: dict(counts) for table, counts in one.items()}
    for table, counts in other.items():
        for reason, number in counts.items():
            result.setdefault(table, {})[reason] = result.get(table, {}).get(reason, 0) + number
    return result


def _was_refused(error: BaseException) -> bool:
    """Whether Iceberg refused the commit because another one came first: nothing of it is in the table."""
    text = str(error)
    return any(f"org.apache.iceberg.exceptions.{name}" in text for name in _REFUSED) and "StateUnknown" not in text
