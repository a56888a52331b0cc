"""One mirror table in one job: survey, fold, decide, remember, commit. The rules are those of changes.merge.decide."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from firn.changes.merge import decoded_rows
from firn.changes.merge.fold import RowChange
from firn.changes.merge.key_rows import Truncates
from firn.changes.merge.ordering import plain
from firn.changes.metadata_columns import HELD_METADATA, SOURCE
from firn.tables.planning import ColumnPlan
from firn.tables.table_state import HELD_IDS, are_several, of_unnamed
from firn_spark.merge import key_changes
from firn_spark.merge.deciding import Shape
from firn_spark.merge.folding import fold_changes, same_key
from firn_spark.merge.memory import Memory, newest_of
from firn_spark.staged.frames import changes_in
from firn_spark.tables.deletes import Places, by_file
from firn_spark.tables.evolve import Table, Tables
from firn_spark.tables.fence import unmoved

TOO_OLD = (
    "the table does not have this key, and the memory of its deletes does not reach back to this change: it may "
    "have been deleted since; if it was not, take a new snapshot of the source under a new generation"
)


@dataclass(frozen=True)
class Survey:
    """What one pass over decoded changes tells.

    changes, rejected    how many there are, and how many of them are dead letters; `truncates`: of these
    unavailable          ordinals that updates leave out; `creates_unavailable`: whether creates leave some out too
    nulls                required columns that hold a null
    newest_fact          `_ord` of the newest change that is to be remembered, b"" if there is none
    low                  `_ord` of the oldest change, b"" if there is none
    """

    changes: int
    rejected: int
    truncates: int
    unavailable: tuple[int, ...]
    creates_unavailable: bool
    nulls: tuple[int, ...]
    newest_fact: bytes
    low: bytes


def survey(decoded: DataFrame, required: Sequence[int]) -> Survey:
    """One Spark job over `decoded` (persisted by the caller); `required`: ordinals to look for nulls in."""
    good = f.col("_code").isNull()
    gaps = good & f.col("_unavail").isNotNull()
    row = decoded.agg(
        f.count("*").alias("changes"),
        f.count(f.when(~good, 1)).alias("rejected"),
        f.count(f.when(~good & (f.col("_op") == "t"), 1)).alias("truncates"),
        f.array_distinct(f.flatten(f.collect_set(f.when(gaps & (f.col("_op") == "u"), f.col("_unavail"))))).alias(
            "gaps"
        ),
        f.count(f.when(gaps & (f.col("_op") == "c"), 1)).alias("creates"),
        f.max(f.when(good & _is_fact(), f.col("_ord"))).alias("fact"),
        f.min(f.when(good, f.col("_ord"))).alias("low"),
        *(f.max(good & (f.col("_op") != "d") & f.col(f"c{i}").isNull()).alias(f"n{i}") for i in required),
    ).collect()[0]
    return Survey(
        changes=row["changes"],
        rejected=row["rejected"],
        truncates=row["truncates"],
        unavailable=tuple(sorted(row["gaps"] or ())),
        creates_unavailable=row["creates"] > 0,
        nulls=tuple(i for i in required if row[f"n{i}"]),
        newest_fact=bytes(row["fact"] or b""),
        low=bytes(row["low"] or b""),
    )


def _is_fact() -> Column:
    late = (f.col("_op") == "d") | ((f.col("_op") == "c") & f.col("_unavail").isNotNull())
    return late & f.col("_pos").isNotNull()


def truncates_in(raw: DataFrame, names: Mapping[str, str]) -> list[RowChange]:
    """The truncates among raw changes (packed), each once. `names`: as Decoding has them."""
    wanted = ("op", "fault", "pos", "ord", "table")
    found = changes_in(raw, wanted).where((f.col("op") == "t") & f.col("fault").isNull()).distinct()
    return decoded_rows.truncates(found.toArrow().to_pylist(), names)


def known_truncates(memory: Memory, new: Sequence[RowChange], seen: Survey, sources: Sequence[str | None]) -> Truncates:
    """The truncates that matter to what was surveyed. `sources`: table_state.fed_by."""
    low = min([*([seen.low] if seen.low else []), *(one.order for one in new)], default=b"")
    again = seen.creates_unavailable or memory.said.creates  # keys may be folded again from the beginning
    earlier = memory.truncates() if memory.said.truncated > (b"" if again else low) else []
    return Truncates(earlier, new, are_several((*sources, *(one.source for one in (*earlier, *new)))))


def shape_of(tables: Tables, table: Table, plan: ColumnPlan, key: Sequence[int], seen: Survey) -> tuple[Table, Shape]:
    """The table, with a place for held columns if these changes need one, and its shape."""
    ids = {field["name"]: int(field["id"]) for field in table.state.fields}
    known = {int(text) for text in table.state.properties.get(HELD_IDS, "").split(",") if text}
    held = known | {ids[plan.columns[i].name] for i in seen.unavailable}
    if held:
        ready = tables.evolve(table, ColumnPlan(plan.columns), (HELD_METADATA,))
        table = unmoved(table, tables.set_properties(ready, {HELD_IDS: ",".join(map(str, sorted(held)))}))
    gaps = tuple(i for i, column in enumerate(plan.columns) if ids[column.name] in held and i not in key)
    return table, Shape(
        columns=plan.columns,
        key=tuple(key),
        gaps=gaps,
        held_ids={i: ids[plan.columns[i].name] for i in gaps},
        extras=tuple(sorted(plan.unwritable)),
        several=SOURCE in ids,
        unnamed=of_unnamed(table.state.sources),
    )


def folded(
    spark: SparkSession,
    table: Table,
    changes: DataFrame,
    memory: Memory,
    shape: Shape,
    seen: Survey,
    truncates: Truncates,
    log: key_changes.Log,
) -> DataFrame:
    """The good decoded changes as one row a key, what the facts know counted in (folding.fold_changes and `_whole`).
    No truncate has met a table that several source tables feed (by_key)."""
    width = len(shape.columns)
    newest = truncates.newest
    linked = key_changes.find(changes, memory, shape, seen.creates_unavailable, truncates.new)
    moved = None
    if linked:
        moved = key_changes.fold_again(spark, table, changes, memory, shape, linked, log, truncates, shape.unnamed)
        changes = changes.join(f.broadcast(moved.keys), same_key(changes, moved.keys, shape.key), "left_anti")
    # A create or a read holds real values, whatever they look like, unless it is the second half of a move.
    mine = changes.select(
        "_op", "_ord", "_ts", "_table", f.when(f.col("_op") == "u", f.col("_unavail")).alias("_unavail"),
        *(f"c{i}" for i in range(width)),
    )  # fmt: skip
    known = memory.deletes_above(seen.low, mine, shape.columns, shape.key) if seen.low else None
    if known is not None:
        mine = mine.unionByName(known, allowMissingColumns=True)
    rows = fold_changes(mine, width, shape.key, shape.gaps, newest or None, several=shape.several)
    rows = rows.withColumn("_whole", f.lit(False))
    return rows if moved is None else rows.unionByName(moved.rows)


@dataclass(frozen=True)
class Numbers:
    """Of `deciding.decide`'s rows: how many are written and removed, how many changes decided a row, and how many would
    make a row at or below the floor. `places`: the removed rows by data file, if they are few."""

    written: int
    removed: int
    told: int
    too_old: int
    places: Places | None = None


def count(rows: DataFrame, floor: bytes, *, few: bool) -> Numbers:
    """One Spark job over `rows` (persisted by the caller). `few`: what is asked of each row fits the driver."""
    told = f.col("_told") & (f.col("_write") | f.col("_remove"))
    flags = [f.col("_write"), f.col("_remove"), told, below(floor)]
    if not few:
        found = rows.agg(*(f.count(f.when(flag, 1)) for flag in flags)).collect()[0]
        return Numbers(found[0], found[1], found[2], found[3])
    named = [flag.alias(f"f{i}") for i, flag in enumerate(flags)]
    each = rows.select(*named, *(f.when(f.col("_remove"), f.col(name)).alias(name) for name in ("t_file", "t_row")))
    answers = each.toArrow()
    written, removed, decisive, old = (pc.sum(answers.column(i)).as_py() or 0 for i in range(len(flags)))
    return Numbers(written, removed, decisive, old, by_file(answers.column("t_file"), answers.column("t_row")))


def below(floor: bytes) -> Column:
    """Of `deciding.decide`'s rows: it would make a row, and a delete of it may have been forgotten."""
    return f.lit(bool(floor)) & f.col("_write") & f.col("_late") & (f.col("_order") <= f.lit(floor))


def too_old(good: DataFrame, rows: DataFrame, floor: bytes, shape: Shape) -> DataFrame:
    """The decoded changes at or below the floor of keys that the table does not have, marked as rejected."""
    keys = rows.where(below(floor)).select(*(f"c{i}" for i in shape.key))
    late = good.join(f.broadcast(keys), same_key(good, keys, shape.key), "left_semi")
    return late.where(f.col("_ord") <= f.lit(b"\1" + floor)).withColumns(
        {"_code": f.lit("too_old"), "_message": f.lit(TOO_OLD)}
    )


def remember(
    memory: Memory,
    plan: ColumnPlan,
    good: DataFrame,
    shape: Shape,
    seen: Survey,
    truncates: Sequence[RowChange],
    looked: int | None,
    last: int,
) -> None:
    """Writes the facts of the good decoded changes before the table's own commit. `looked`: the snapshot that has the
    rows which they remove.

    Raises fence.LostRace, fence.CommitUnknown.
    """
    placed = [one for one in truncates if plain(one.order)]
    newest = max(seen.newest_fact, newest_of(placed))
    if not newest:
        return
    facts = good.where(_is_fact()).select("_op", "_ord", "_ts", "_table", *(f"c{i}" for i in shape.key))
    memory.write(plan, shape.key, facts, looked, placed, newest, seen.creates_unavailable, last)


def remember_truncates(memory: Memory, truncates: Sequence[RowChange], last: int) -> None:
    """The same for truncates of a table that is not there yet: its older changes may still come."""
    placed = [one for one in truncates if plain(one.order)]
    if placed:
        memory.write(ColumnPlan(()), (), None, None, placed, newest_of(placed), False, last)
