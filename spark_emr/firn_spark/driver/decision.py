"""What becomes of each key of a mirror table: of most by columns (columnar_merge), of the others one by one
(changes.merge.decide), in one commit.

One by one are decided the keys whose newest change is not plain, that a move with unavailable values may reach, or of
which the table or its memory tells more than what is new: a late change costs what its key costs, not the range.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from firn.changes.decode.row_decoder import Decoding
from firn.changes.merge import decide, decoded_rows
from firn.changes.merge.ordering import plain as order_of
from firn.tables.planning import ColumnPlan
from firn_spark.driver import columnar_merge as by_columns
from firn_spark.driver import mirror_commit as by_rows
from firn_spark.driver.delete_memory import DriverMemory
from firn_spark.driver.key_lookup import Found, Log, look
from firn_spark.driver.staged_changes import Change
from firn_spark.merge.deciding import Shape
from firn_spark.merge.mirror import Survey
from firn_spark.not_eligible import Unfit
from firn_spark.staged.columnar import typed
from firn_spark.staged.decode import decoded_schema
from firn_spark.tables.evolve import Table

MOST_ROWS = 20_000  # changes of a table that are decided one by one
Row = list[Any]  # changes.merge.decoded_rows


class Changes:
    """The changes of a range for one table, decoded. `plain`: by columns (column_decoder.split); `odd`: the others as
    they were staged; of these `good` and `bad`, decoded one by one. `source`: the source table of those that tell
    none."""

    def __init__(self, plain: pa.Table, odd: Sequence[Change], decoding: Decoding, source: str) -> None:
        self.source = source
        self.plain = plain
        self.odd = odd
        self.decoding = decoding
        self.good, self.bad = decoded(odd, decoding, mirror=True)
        self.truncates = decoded_rows.truncates(odd, decoding.names)

    @cached_property
    def seen(self) -> Survey:
        """What one pass over them tells."""
        others = by_rows.survey(self.good, self.bad, self.decoding)
        return by_rows.together(by_columns.survey(self.plain, self.decoding), others)


def decoded(changes: Sequence[Mapping[str, Any]], decoding: Decoding, *, mirror: bool) -> tuple[list[Row], list[Row]]:
    """decoded_rows.decoded, where what can't be written is rejected as by the executors."""
    schema = decoded_schema(decoding, ())  # what is beside the columns came out of Arrow
    return decoded_rows.decoded(changes, decoding, mirror=mirror, fit=lambda rows: typed(rows, schema))


@dataclass(frozen=True)
class Decision:
    """`columns`: what was decided by columns, None for nothing; `rows`: one by one, and `found`, what was looked up for
    that; `times`: of those changes' orders, in ms."""

    plain: pa.Table
    columns: by_columns.Decided | None
    rows: decide.Decided
    found: Found
    times: Mapping[bytes, int | None]

    @property
    def told(self) -> int:
        """How many keys a change decided."""
        return self.rows.told + (self.columns.told if self.columns else 0)

    @property
    def way(self) -> str:
        """How it was decided, for the log."""
        if self.columns is None:
            return "rows"
        return "both" if self.times else "columns"

    def cells(self, table: Table, plan: ColumnPlan, shape: Shape) -> tuple[dict[str, Any], dict[str, list[Any]]]:
        """The rows to write by name: as Arrow arrays, and as lists."""
        by_one = by_rows.cells(table, self.rows, shape, self.found, self.times)
        return by_columns.cells(table, self.plain, self.columns, plan) if self.columns else {}, by_one

    def gone(self) -> dict[str, list[int]]:
        """The places of the rows that go, by data file."""
        places = by_rows.gone(self.rows, self.found)
        for path, some in (by_columns.gone(self.columns) if self.columns else {}).items():
            places.setdefault(path, []).extend(some)
        return places


def decision(
    spark: SparkSession,
    table: Table | None,
    plan: ColumnPlan,
    changes: Changes,
    memory: DriverMemory,
    sources: Sequence[str | None],
    log: Log,
) -> Decision:
    """`plan`: the columns as the table will have them; `sources`: table_state.fed_by. Raises Unfit (too much to look
    at), fence.LostRace, StorageUnavailable."""
    decoding, plain = changes.decoding, changes.plain
    key = [decoding.columns[i] for i in decoding.key]
    rows, columns = changes.good, None
    if len(plain):
        last = by_columns.newest(plain, decoding)
        moving = _moving(changes, memory)
        rows = _open(changes, last, moving)
        mine = by_columns.keys_of({decoded_rows.key_of(row, decoding) for row in rows}, decoding)
        known = memory.newer(key, by_columns.orders(last, decoding))
        columns = by_columns.decide(
            spark, table, last, decoding, memory.said.floor, pa.concat_tables([mine, moving, known])
        )
        # Of a key that no move reaches, all that counts of its plain changes is the newest.
        numbers = pa.concat_arrays([columns.apart, by_columns.numbers_of(plain, moving)]).unique()
        rows = [*rows, *by_columns.rows_of(plain.take(numbers), decoding, changes.source)]
        if len(rows) > MOST_ROWS:
            raise Unfit(f"more than {MOST_ROWS} changes that are not plain")
    one_by_one = [decoded_rows.row_change(row, decoding) for row in rows]
    found = look(spark, table, memory, plan.columns, key, one_by_one, changes.truncates, sources, log)
    times = {row[decoded_rows.ORD]: row[decoded_rows.TS] for row in rows}
    return Decision(plain, columns, decide.decide(found.before, one_by_one, memory.said.floor), found, times)


def _moving(changes: Changes, memory: DriverMemory) -> pa.Table:
    """The keys that moves with unavailable values may connect: a half of them is new or remembered."""
    decoding = changes.decoding
    nothing = by_columns.keys_of((), decoding)
    if not (memory.said.creates or changes.seen.creates_unavailable):
        return nothing
    known = memory.changes([decoding.columns[i] for i in decoding.key], None, b"")
    halves = [*known, *(decoded_rows.row_change(row, decoding) for row in changes.good)]
    moves = {one.position for one in halves if one.position and one.op == "c" and one.unavailable}
    keys = {one.key for one in halves if one.position in moves}
    return pa.concat_tables([by_columns.keys_of(keys, decoding), by_columns.at(changes.plain, moves, decoding)])


def _open(changes: Changes, last: pa.Table, moving: pa.Table) -> list[Row]:
    """The changes that are not plain and that no newer whole row or delete of their key makes nothing of."""
    decoding = changes.decoding
    keys = [decoded_rows.key_of(row, decoding) for row in changes.good]
    newest = by_columns.orders_by_key(last, by_columns.keys_of(set(keys), decoding), decoding)
    for key in by_columns.tuples(moving, decoding):
        newest.pop(key, None)
    some = zip(changes.good, keys, strict=True)
    return [row for row, key in some if key not in newest or (order_of(row[decoded_rows.ORD]) or b"") >= newest[key]]
