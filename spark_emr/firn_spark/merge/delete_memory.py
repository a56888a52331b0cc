"""What a mirror table remembers beside its rows (firn_spark.merge.facts_table), read and written in this process."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from firn.changes.decode.iceberg_fields import HELD_TYPE
from firn.changes.decode.types import BINARY, STRING, TIMESTAMPTZ, Column
from firn.changes.merge.fold import Key, RowChange
from firn.changes.merge.ordering import plain, total
from firn.changes.metadata_columns import (
    AT,
    FACTS_METADATA,
    HELD,
    LOOKED,
    OP,
    POSITION,
    SOURCE,
    SOURCE_METADATA,
    TIME,
)
from firn.changes.positions import WIDTH
from firn.config.names import quoted
from firn.tables.planning import ColumnPlan
from firn_spark.arrow import spark_schema
from firn_spark.files import row_lookup, values
from firn_spark.files.write import Layout, NewFile, data_files, layout_of, write_cells
from firn_spark.merge.earlier import is_retyped, rows_at
from firn_spark.merge.facts_table import FactsTable, Remembered, newest_of, truncate_at
from firn_spark.not_eligible import ForeignFiles
from firn_spark.tables.evolve import Table

_OP, _POSITION, _HELD = Column(OP, STRING), Column(POSITION, BINARY), Column(HELD, HELD_TYPE)
_LOOKED, _TIME, _SOURCE = Column(LOOKED, STRING), Column(TIME, TIMESTAMPTZ), SOURCE_METADATA


@dataclass(frozen=True)
class DeleteMemory:
    """The facts of one mirror table, without a Spark job. `bounded`: as for key_lookup.TableLookup."""

    where: FactsTable
    bounded: bool

    @property
    def said(self) -> Remembered:
        """What the facts' metadata says."""
        return self.where.said

    def changes(self, key: Sequence[Column], keys: Collection[Key], low: bytes) -> list[RowChange]:
        """The deletes and the creates with unavailable values of these keys, newer than `low`. The creates name no
        values, and "?" as what they left out. Raises Unfit."""
        if self.where.table is None or self.said.newest <= low:
            return []
        wanted = row_lookup.Wanted(key, keys, plain(low) or None)
        return changes_in(self._plan(self.where.table, wanted), self.ids, key, low)

    def halves(self, key: Sequence[Column], positions: Collection[bytes]) -> list[RowChange]:
        """The creates with unavailable values, and the deletes at their positions and at these; as `changes` has them.
        Raises Unfit."""
        if self.where.table is None:
            return []
        creates: list[RowChange] = []
        if self.said.creates:
            creates = changes_in(self._plan(self.where.table, row_lookup.Wanted([_OP], {("c",)})), self.ids, key)
        at = {(position,) for position in (*positions, *(one.position for one in creates)) if position}
        wanted = row_lookup.Wanted([_POSITION], at, prefix=WIDTH)
        return changes_in(self._plan(self.where.table, wanted), self.ids, key)

    def truncates(self) -> list[RowChange]:
        """All truncates. Raises Unfit."""
        if self.where.table is None:
            return []
        files = self._plan(self.where.table, row_lookup.Wanted([_OP], {("t",)}))
        found = row_lookup.read(files, self.ids, [_POSITION, SOURCE_METADATA])
        named = zip(found.columns[POSITION], found.columns[SOURCE], strict=True)
        return [truncate_at(total(position), source) for position, source in named]

    def removed(
        self, table: Table | None, columns: Sequence[Column], key: Sequence[Column], keys: Collection[Key]
    ) -> list[row_lookup.Rows]:
        """The rows of these keys that deletes removed from the table, as far as it still has the snapshots before them:
        `columns`, `_firn_pos` and `_firn_held`. Raises Unfit."""
        rows, looked = self.deleted(columns, key, keys)
        if table is not None:
            there = [one for one in sorted(looked) if table.java.snapshot(one) is not None]
            rows += [self.at(table, one, columns, row_lookup.Wanted(key, keys, snapshot=one)) for one in there]
        return rows

    def deleted(
        self, columns: Sequence[Column], key: Sequence[Column], keys: Collection[Key]
    ) -> tuple[list[row_lookup.Rows], set[int]]:
        """What facts hold of the rows of these keys that deletes removed, and the snapshots in which the others are.
        Raises Unfit."""
        if self.where.table is None:
            return [], set()
        files = self._plan(self.where.table, row_lookup.Wanted(key, keys))
        found = row_lookup.read(files, self.ids, [*columns, _OP, _POSITION, _HELD, _LOOKED, SOURCE_METADATA])
        kept = found.where([op == "k" for op in found.columns[OP]])
        return [kept], {int(one) for one in found.columns[LOOKED] if one is not None}

    def at(self, table: Table, snapshot: int, columns: Sequence[Column], wanted: row_lookup.Wanted) -> row_lookup.Rows:
        """The wanted rows as a snapshot of the table has them: by a Spark job, where they are of other types or in
        files that are not read without."""
        try:
            if not is_retyped(self.where.spark, table, snapshot, columns):
                files = self._plan(table, wanted)
                return row_lookup.read(files, row_lookup.ids_of(table), [*columns, _POSITION, _TIME, _HELD, _SOURCE])
        except ForeignFiles:
            pass  # what is past is not rewritten
        found = earlier_rows(self.where.spark, table, snapshot, columns, wanted)
        cells = {name: [None] * len(found) for name in (HELD, SOURCE)}
        cells |= {one.name: values.decoded(found[one.name], one.type) for one in (*columns, _POSITION, _TIME)}
        cells |= {name: found[name].to_pylist() for name in (HELD, SOURCE) if name in found.column_names}
        return row_lookup.Rows(cells)

    def _plan(self, table: Table, wanted: row_lookup.Wanted) -> row_lookup.Files:
        return row_lookup.plan(self.where.spark, table, wanted, row_lookup.ALONE if self.bounded else None)

    def newer(self, key: Sequence[Column], rows: pa.Table) -> pa.Table:
        """The keys of those of `rows` (c… of the key, and `_order`) of which a newer fact is remembered. Raises
        Unfit."""
        names = [name for name in rows.column_names if name != "_order"]
        low = pc.min(rows["_order"]).as_py()
        if self.where.table is None or low is None or (plain(self.said.newest) or b"") <= low:
            return rows.select(names).slice(0, 0)
        some = [pc.unique(rows[name]) for name in names]
        files = self._plan(self.where.table, row_lookup.Wanted(key, low=low, some=some))
        return newer_in(files, row_lookup.ids_of(self.where.table), rows)

    @property
    def ids(self) -> Mapping[str, int]:
        """Those of the facts' columns."""
        return row_lookup.ids_of(self.where.table) if self.where.table is not None else {}

    def between(self, key: Sequence[Column], low: bytes, ends: tuple[Any, Any]) -> row_lookup.Files | None:
        """The files of facts above the order `low` of keys between these ends (row_lookup.Wanted); None if there is
        none above. Raises Unfit."""
        if self.where.table is None or (plain(self.said.newest) or b"") <= low:
            return None
        return self._plan(self.where.table, row_lookup.Wanted(key, low=low, between=ends))

    def layout(self, plan: ColumnPlan) -> Layout:
        """How files of facts are written, with all columns that these need. Raises fence.LostRace."""
        return layout_of(self.where.ready(plan))

    def write_facts(
        self,
        plan: ColumnPlan,
        deletes: Mapping[str, Any],
        facts: Sequence[dict[str, Any]],
        looked: int | None,
        truncates: Sequence[RowChange],
        newest: bytes,
        creates: bool,
        last: int,
        more: Sequence[NewFile] = (),
    ) -> None:
        """Appends facts in one snapshot that carries the stream's progress, unless a run before did so.

        deletes    some facts as Arrow arrays by name, `facts`: others as rows by name; metadata as the table has it,
                   without `_firn_at` and `_firn_looked`. `more`: files of facts that are written already
        looked     the snapshot that has the rows which these deletes remove; None if there was none
        truncates  the new ones, with a position; `newest`: order of the newest of all these facts
        Raises fence.LostRace, fence.CommitUnknown.
        """
        table = self.where.ready(plan)
        if table.state.progress(self.where.stream) >= last:
            return
        rows = [{**fact, LOOKED: _text(looked)} for fact in facts]
        rows += [{OP: "t", POSITION: plain(one.order), SOURCE: one.source} for one in truncates]
        columns = [*plan.columns, *FACTS_METADATA]
        told = {column.name: [row.get(column.name) for row in rows] for column in columns}
        told |= {AT: [time.time_ns() // 1000] * len(rows)}
        files = write_cells(self.where.spark, table, columns, whole_facts(deletes, looked), told if rows else {})
        files += data_files(self.where.spark, table, more)
        self.where.append(table, files, newest_of(truncates), newest, creates, last)


def earlier_rows(
    spark: SparkSession, table: Table, snapshot: int, columns: Sequence[Column], wanted: row_lookup.Wanted
) -> pa.Table:
    """The rows of the wanted keys (None: all) in a snapshot, as earlier.rows_at gives them. A Spark job."""
    rows = rows_at(spark, table, snapshot, columns)
    if wanted.keys is None:
        return rows.toArrow()
    parts = zip(*(wanted.keys or ()), strict=True)
    arrays = [values.typed(part, column.type) for part, column in zip(parts, wanted.key, strict=True)]
    named = pa.table(arrays, names=[f"k{i}" for i in range(len(arrays))])
    keys = spark.createDataFrame(named, spark_schema(named.schema))
    same = [rows[quoted(column.name)].eqNullSafe(keys[f"k{i}"]) for i, column in enumerate(wanted.key)]
    return rows.join(f.broadcast(keys), reduce(and_, same), "left_semi").toArrow()


def changes_in(
    files: row_lookup.Files, ids: Mapping[str, int], key: Sequence[Column], low: bytes = b""
) -> list[RowChange]:
    """What DeleteMemory.changes says, out of the files of facts that may tell it."""
    found = row_lookup.read(files, ids, [*key, _OP, _POSITION, SOURCE_METADATA])
    named = (found.columns[name] for name in (OP, POSITION, SOURCE))
    return [
        RowChange(op, one, position[:WIDTH], total(position), None, frozenset("?" if op == "c" else ""), source)
        for op, position, source, one in zip(*named, found.keys(key), strict=True)
        if op in "dc" and total(position) > low
    ]


def newer_in(files: row_lookup.Files, ids: Mapping[str, int], rows: pa.Table) -> pa.Table:
    """What DeleteMemory.newer says, out of the files of facts that may tell it."""
    names = [name for name in rows.column_names if name != "_order"]
    parts = row_lookup.read_columns(files, ids, POSITION, pc.min(rows["_order"]).as_py() or b"")
    if not parts:
        return rows.select(names).slice(0, 0)
    known = pa.concat_tables(part.select(range(len(names) + 1)) for part in parts).rename_columns([*names, "_fact"])
    keys = [values.sought(rows[name], one.type) for name, one in zip(names, files.wanted.key, strict=True)]
    mine = pa.table([*keys, rows["_order"], pa.arange(0, len(rows))], names=[*names, "_order", "_row"])
    both = mine.join(known, names, join_type="inner")
    late = pc.fill_null(pc.greater(both["_fact"], both["_order"]), False)
    return rows.select(names).take(pc.unique(both["_row"].filter(late)))


def whole_facts(deletes: Mapping[str, Any], looked: int | None) -> dict[str, Any]:
    """Deletes as write_facts takes them, with what is the same of all; none for none."""
    if not deletes:
        return {}
    now = pa.scalar(time.time_ns() // 1000, pa.timestamp("us", "UTC"))
    own = {LOOKED: pa.scalar(_text(looked), pa.string()), AT: now}
    return {**deletes, **{name: pa.repeat(one, len(deletes[OP])) for name, one in own.items()}}


def _text(looked: int | None) -> str | None:
    return None if looked is None else str(looked)
