"""A table's commit by Spark: its changes as DataFrames."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from firn.changes.decode.row_decoder import Decoding
from firn.changes.merge.fold import RowChange
from firn.changes.merge.key_rows import Truncates
from firn.changes.merge.ordering import plain
from firn.tables.routing import Target, all_of
from firn.tables.table_plan import with_schemas
from firn.tables.table_state import by_number, fed_by
from firn_spark import append
from firn_spark.arrow import kept
from firn_spark.merge import affected_rows, by_key, delta, key_changes, mirror
from firn_spark.merge.deciding import Shape, decide, there
from firn_spark.merge.folding import NOTHING, same_key
from firn_spark.merge.memory import Memory, name_in
from firn_spark.staged.batch_facts import facts_of
from firn_spark.staged.frames import append_changes, mirror_changes
from firn_spark.staged.rejects import rejected
from firn_spark.table_commit import TableCommit
from firn_spark.tables.evolve import Table, Tables

_ONE_TASK = 20_000  # changes that one task decodes and folds faster than several exchange them
_FEW_RECORDS = 200_000
_FOR_MANY_ROWS = ("spark.sql.codegen.wholeStage", "spark.sql.adaptive.enabled")


@dataclass(frozen=True)
class _Merge:
    """What is known when a mirror table's rows are decided. `good`: the decoded changes; `new`: the new truncates;
    `truncates`: all that matter; `few`: what is asked of each row fits the driver."""

    table: Table
    good: DataFrame
    memory: Memory
    shape: Shape
    seen: mirror.Survey
    new: list[RowChange]
    truncates: Truncates
    few: bool


class SparkEngine:
    """Commits tables out of a range's changes (staged.packed), which its caller has persisted."""

    name = "spark"

    def __init__(self, raw: DataFrame, log: Callable[[Target], DataFrame]) -> None:
        """`log`: all raw changes for a target that the staged log still holds, up to the range's last epoch."""
        self._raw = raw
        self._log = log

    def commit(self, one: TableCommit) -> None:
        """As Engine says."""
        MODES[one.planned.mode.name](self, one)

    def mirror(self, one: TableCommit) -> None:
        """Each key's row as its newest changes leave it."""
        context, target, outcome, decoding = one.context, one.target, one.outcome, one.decoding
        mine = self._mine(one)
        ignored = target.events(outcome.progress, "t")
        truncates = mirror.truncates_in(mine, decoding.names) if ignored else []
        outcome.ignored = ignored + (0 if decoding.snapshot_reads else target.events(outcome.progress, "r"))
        facts = name_in(one.table.state.properties) if one.table else None
        memory = Memory(
            context.spark, context.tables, target.name, context.stream, context.warehouse, facts,
            numbers=by_number(context.config.order_by, one.plan.columns),
        )  # fmt: skip
        memory.look(one.planned.renames)
        with _surveyed(one, mine, mirror_changes) as (decoded, seen):
            outcome.ignored -= seen.truncates
            _bury(one, mine, decoded, seen.rejected)
            if one.is_empty(seen.changes - seen.rejected):
                mirror.remember_truncates(memory, truncates, context.last)
                return
            table, shape = mirror.shape_of(context.tables, one.ready(seen.nulls), one.plan, decoding.key, seen)
            few = seen.changes <= affected_rows.FEW and not truncates
            known = mirror.known_truncates(memory, truncates, seen, fed_by(table.state, target.fed))
            good = decoded.where(f.col("_code").isNull())
            merge = _Merge(table, good, memory, shape, seen, truncates, known, few)
            with self._decided(one, merge) as found, kept(found) as rows:
                _apply(one, merge, mine, rows)
        outcome.snapshot_id = _snapshot(one)

    def append(self, one: TableCommit) -> None:
        """A row for each change."""
        context, outcome, mine = one.context, one.outcome, self._mine(one)
        with _surveyed(one, mine, append_changes) as (decoded, seen):
            _bury(one, mine, decoded, seen.rejected)
            if one.is_empty(seen.changes - seen.rejected):
                return
            table = one.ready(seen.nulls)
            good = append.identified(decoded.where(f.col("_code").isNull()), context.stream)
            new = append.new_rows(context.spark, table, good, one.plan.columns, context.stream)
            with kept(new) as rows:
                with outcome.stage("lookup"):
                    outcome.merged = rows.count()
                outcome.ignored = outcome.events - seen.changes
                outcome.superseded = seen.changes - seen.rejected - outcome.merged
                with outcome.stage("write"):
                    append.apply(context.spark, table, rows, one.summary(), context.stream)
        outcome.snapshot_id = _snapshot(one)

    def _mine(self, one: TableCommit) -> DataFrame:
        """The changes of the target's sources in the epochs that it lacks."""
        mine = self._raw.where(f.col("table").isin(*one.target.sources) & (f.col("epoch") > one.above))
        # One partition needs no shuffle: most tables change little in one range.
        return mine.coalesce(1) if one.outcome.events <= _ONE_TASK else mine

    @contextmanager
    def _decided(self, one: TableCommit, merge: _Merge) -> Iterator[DataFrame]:
        """What becomes of each row (deciding.decide). Good inside the `with` only."""
        spark, table, good, memory, shape = one.context.spark, merge.table, merge.good, merge.memory, merge.shape
        log = self._log_of(one, all_of(one.target, table.state, one.context.config))
        if merge.truncates.several and merge.truncates.newest:
            one.outcome.way["lookup"] = "by key"
            with by_key.decided_by_key(spark, table, good, memory, shape, merge.truncates, merge.seen, log) as rows:
                yield rows
            return
        changes = mirror.folded(spark, table, good, memory, shape, merge.seen, merge.truncates, log)
        newest = max((each.order for each in merge.truncates.new), default=b"")
        truncate = (plain(newest) or NOTHING) if newest else None
        with kept(changes) as changes:
            yield decide(changes, _there(one, merge, changes, truncate), shape, truncate)

    def _log_of(self, one: TableCommit, target: Target) -> key_changes.Log:
        """Decoded changes of some keys out of the whole staged log: what the table alone can't tell any more."""

        def log(keys: DataFrame) -> DataFrame:
            raw = self._log(target)
            every = with_schemas(one.decoding, target, facts_of(raw))
            mine = raw.where(f.col("table").isin(*target.sources) & f.col("fact").isNull())
            decoded = mirror_changes(mine, every).where(f.col("_code").isNull())
            return decoded.join(f.broadcast(keys), same_key(decoded, keys, one.decoding.key), "left_semi")

        return log


MODES = {"mirror": SparkEngine.mirror, "append": SparkEngine.append}


def is_small(tables: Tables, target: Target) -> bool:
    """Whether there are so few changes and rows that plans for few rows suit the table (`light`)."""
    if target.events(0) > _ONE_TASK:
        return False
    try:
        table = tables.load(target.name)
    except Exception:  # noqa: BLE001 (its commit will say what is wrong with it, and of no other table)
        return False
    return table is None or table.state.records <= _FEW_RECORDS


@contextmanager
def light(spark: SparkSession) -> Iterator[None]:
    """Plans for few rows: to compile code for them takes longer than to interpret it. A setting of the session."""
    for name in _FOR_MANY_ROWS:
        spark.conf.set(name, "false")
    try:
        yield
    finally:
        for name in _FOR_MANY_ROWS:
            spark.conf.unset(name)


@contextmanager
def _surveyed(
    one: TableCommit, mine: DataFrame, decode: Callable[[DataFrame, Decoding], DataFrame]
) -> Iterator[tuple[DataFrame, mirror.Survey]]:
    """The decoded changes, and what one pass over them tells. Good inside the `with` only."""
    with kept(decode(mine, one.decoding)) as decoded:
        required = [i for i, column in enumerate(one.plan.columns) if column.required]
        with one.outcome.stage("read"):
            seen = mirror.survey(decoded, required)
        yield decoded, seen


def _there(one: TableCommit, merge: _Merge, changes: DataFrame, truncate: bytes | None) -> DataFrame:
    """The table's rows that the changes may concern."""
    spark, table, shape, outcome = one.context.spark, merge.table, merge.shape, one.outcome
    if table.head() is None:
        outcome.way["lookup"] = "none"
        return there(spark, table, shape).where(f.lit(False))
    if truncate is not None:
        outcome.way["lookup"] = "all"
        return there(spark, table, shape)
    with outcome.stage("fold"):
        keys = affected_rows.keys_of(changes, table, shape, few=merge.few)
    outcome.way |= {"lookup": keys.way, "keys": keys.count}
    return affected_rows.found(spark, table, shape, keys)


def _apply(one: TableCommit, merge: _Merge, mine: DataFrame, rows: DataFrame) -> None:
    context, outcome, shape = one.context, one.outcome, merge.shape
    floor = merge.memory.said.floor
    with outcome.stage("lookup"):
        numbers = mirror.count(rows, floor, few=merge.few)
    if numbers.too_old:
        late = mirror.too_old(merge.good, rows, floor, shape)
        _bury(one, mine, late, late.select("_batch", "_index").distinct().count())
        rows = rows.where(~mirror.below(floor))
        numbers = mirror.count(rows, floor, few=merge.few)
    outcome.decided(numbers.told)
    with outcome.stage("facts"):
        head = merge.table.head()
        looked = head.snapshotId() if head else None
        mirror.remember(merge.memory, one.plan, merge.good, shape, merge.seen, merge.new, looked, context.last)
    write = one.target.rule.write
    delta.apply(context.spark, merge.table, rows, shape, numbers, write, context.stream, one.summary(), outcome)


def _bury(one: TableCommit, mine: DataFrame, decoded: DataFrame, count: int) -> None:
    one.bury(rejected(mine, decoded) if count else (), count)


def _snapshot(one: TableCommit) -> int | None:
    table = one.context.tables.load(one.target.name)
    return table.state.snapshot_id if table else None
