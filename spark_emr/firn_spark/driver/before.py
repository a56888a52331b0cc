"""What the table and its memory say of the keys that a small range changes, looked up before anything is written."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from firn.changes.fields import HELD_TYPE
from firn.changes.fold import UNKNOWN, Key, Row, RowChange
from firn.changes.incremental import linked_keys
from firn.changes.placing import plain, total
from firn.changes.types import BINARY, TIMESTAMPTZ, Column
from firn.jobs.planning import HELD, POSITION, TIME
from firn.jobs.progress import HELD_IDS
from firn_spark.driver import lookup
from firn_spark.driver.deciding import Before
from firn_spark.driver.facts import DriverMemory
from firn_spark.driver.unfit import Unfit
from firn_spark.merge.mirror import Survey
from firn_spark.merge.moves import in_order
from firn_spark.tables.evolve import Table

# All changes of some keys that the staged log still holds, with their times (ms) by order. Raises Unfit.
Log = Callable[[Collection[Key]], tuple[list[RowChange], Mapping[bytes, int | None]]]
_POSITION, _TIME, _HELD = Column(POSITION, BINARY), Column(TIME, TIMESTAMPTZ), Column(HELD, HELD_TYPE)


@dataclass(frozen=True)
class Found:
    """`places`: file and row of each key that the table has; `times`: of orders that only the log knows (ms)."""

    before: Before
    places: Mapping[Key, tuple[str, int]]
    times: Mapping[bytes, int | None]


def look(
    spark: SparkSession,
    table: Table | None,
    memory: DriverMemory,
    columns: Sequence[Column],
    key: Sequence[Column],
    changes: Sequence[RowChange],
    seen: Survey,
    truncate: bytes,
    log: Log,
) -> Found:
    """`columns`: as the table will have them; `changes`: truncates left out; `truncate`: the order of the newest, b""
    for none.

    Raises Unfit (too much to look at), fence.LostRace, StorageUnavailable.
    """
    touched = {change.key for change in changes}
    creates = seen.creates_unavailable or memory.said.creates
    facts = memory.changes(key, None if creates else touched, seen.low)
    placed = [change for change in changes if plain(change.order)]
    new_truncate = [RowChange("t", (), truncate[1:46], truncate, None)] if plain(truncate) else []
    linked = linked_keys([*placed, *new_truncate], facts) if creates else set()
    wide = bool(seen.unavailable or linked or (table and table.state.properties.get(HELD_IDS)))
    rows, times, places = _rows(spark, table, columns, key, None if truncate else touched | linked, wide=wide)

    there = [(one, rows[one]) for one in linked if one in rows]
    late: Sequence[RowChange] = ()
    late_times: Mapping[bytes, int | None] = {}
    mine = [change for change in changes if change.key in linked]
    deletes = [change for change in facts if change.op == "d" and change.key in linked]
    if linked and not in_order([*mine, *new_truncate], [row for _, row in there], deletes):
        late, late_times = log(linked)
        for gone in memory.removed(table, columns, key, linked):
            there += zip(gone.keys(key), _as_rows(table, gone, columns), strict=True)
    before = Before(rows, times, facts, memory.said.truncated, linked, there, late)
    return Found(before, places, late_times)


def _rows(
    spark: SparkSession,
    table: Table | None,
    columns: Sequence[Column],
    key: Sequence[Column],
    keys: Collection[Key] | None,
    *,
    wide: bool,
) -> tuple[dict[Key, Row], dict[Key, int | None], dict[Key, tuple[str, int]]]:
    if table is None:
        return {}, {}, {}
    files = lookup.plan(spark, table, lookup.Wanted(key, keys))
    wanted = [*(columns if wide else ()), _POSITION, _TIME, _HELD]
    found = lookup.read(table, files, wanted)
    names = found.keys(key)
    rows = dict(zip(names, _as_rows(table, found, columns if wide else key), strict=True))
    if len(rows) < len(names):
        raise Unfit("a key has several rows")
    times = dict(zip(names, found.columns[TIME], strict=True))
    return rows, times, dict(zip(names, zip(found.paths, found.places, strict=True), strict=True))


def _as_rows(table: Table | None, found: lookup.Rows, columns: Sequence[Column]) -> list[Row]:
    names = {int(one["id"]): str(one["name"]) for one in table.state.fields} if table else {}
    rows = []
    data = [found.columns.get(column.name, []) for column in columns]
    for i, (position, held) in enumerate(
        zip(found.columns.get(POSITION, []), found.columns.get(HELD, []), strict=True)
    ):
        values: dict[str, Any] = {column.name: one[i] for column, one in zip(columns, data, strict=True)}
        orders = {names[number]: total(order) for number, order in held or () if number in names}
        rows.append(Row(values, total(position) if position else UNKNOWN, orders))
    return rows
