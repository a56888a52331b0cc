"""What becomes of the keys of a table of several shards: of most by columns, of the others one by one.

At a cut all shards together are one table: each key has one row in one of them. So its changes are decided as those of
one table are (merge.decision), whose rows are looked up in all shards, and then each row that is written goes where its
values say, and each that is removed goes where it was found. That needs the shards to be as the cut names them; where a
job that died has left one ahead, `decide_over` decides, which is the specification of both.
"""

import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from firn.changes.decode.row_decoder import Decoding
from firn.changes.decode.types import Column
from firn.changes.merge import decide
from firn.changes.merge.fold import RowChange
from firn.changes.metadata_columns import POSITION
from firn.changes.placement.shard_decision import Decision, ShardedGround, gathered
from firn.changes.placement.shard_map import ShardMap
from firn_spark.driver.shard_places import places_of, whole
from firn_spark.files import row_lookup, values
from firn_spark.merge import columnar_merge as by_columns
from firn_spark.merge.columnar_merge import DecidedColumns, key_names
from firn_spark.merge.decision import Changes, decide_keys, way_of
from firn_spark.merge.delete_memory import DeleteMemory
from firn_spark.merge.key_lookup import PATH, Emptied, Found, Lookup, lowest, places_in
from firn_spark.tables.evolve import Table


class Shards(Lookup, Protocol):
    """How the rows of all shards are found. `ground`: those of what is decided one by one."""

    ground: ShardedGround
    shard_of: dict[str, str]  # the shard of each file in which `places` looked
    met: set[str]  # the shards in which it found a row


@dataclass(frozen=True)
class ColumnShards:
    """What was decided by columns, of the changes `whole`. By its rows: `enters`, the shard of what is written, and
    `leaves`, the one that has the row which goes; `reached`: the shards that any of the changes may have been in."""

    whole: pa.Table
    decided: DecidedColumns
    enters: pa.Array
    leaves: pa.Array
    reached: frozenset[str]

    def of(self, shard: str) -> DecidedColumns:
        """The part of one shard."""
        write = pc.and_(self.decided.write, pc.equal(self.enters, shard))
        remove = pc.and_(self.decided.remove, pc.fill_null(pc.equal(self.leaves, shard), False))
        mine = pc.or_(write, remove)
        rows = self.decided.rows.filter(mine)
        return DecidedColumns(rows, write.filter(mine), remove.filter(mine), self.decided.apart)

    def values_in(self, shard: str, column: str, columns: Sequence[Column]) -> set[Any]:
        """The values of a column in the rows that are written to a shard."""
        place = [one.name for one in columns].index(column)
        numbers = whole(self.decided.rows["_number"]).filter(pc.and_(self.decided.write, pc.equal(self.enters, shard)))
        each = pc.unique(self.whole[f"c{place}"].take(numbers))
        return set(values.decoded(pa.chunked_array([each]), columns[place].type))


@dataclass(frozen=True)
class ShardedDecision:
    """`rows`: what was decided one by one, of `changes`, whose orders have the times `times` (ms); `columns`: the
    others; None: there are none."""

    rows: Decision
    columns: ColumnShards | None
    changes: Sequence[RowChange]
    times: Mapping[bytes, int | None]

    @cached_property
    def reached(self) -> frozenset[str]:
        """As Decision says."""
        return self.rows.reached | (self.columns.reached if self.columns else frozenset())

    def values_in(self, shard: str, column: str, columns: Sequence[Column]) -> set[Any]:
        """The values of a column in the rows that were decided to be in a shard."""
        places = ((row, self.rows.map.place(row.values)) for row in self.rows.rows.values() if row is not None)
        found = {row.values.get(column) for row, place in places if place == shard}
        return found | (self.columns.values_in(shard, column, columns) if self.columns else set())

    @property
    def told(self) -> int:
        """How many keys a change decided."""
        return self.rows.told + (self.columns.decided.told if self.columns else 0)

    @property
    def way(self) -> str:
        """How it was decided, for the log."""
        return way_of(columns=self.columns is not None, rows=bool(self.times))


def decide_by_columns(
    changes: Changes, memory: DeleteMemory, lookup: Shards, shards: ShardMap, placed: pa.Array, gaps: Sequence[str]
) -> ShardedDecision:
    """What becomes of all keys, if no shard is ahead and nothing is truncated. `placed`: the shard that each change of
    `changes.whole` tells, `gaps`: those that the others by columns tell. Raises what the look-ups raise, and
    InTwoShards."""
    found = decide_keys(changes, memory, lookup, one_by_one=False, most=sys.maxsize)
    rows, columns = found.rows, None
    if found.columns is not None:
        numbers = whole(found.columns.rows["_number"])
        written = placed.filter(pc.invert(whole(pc.equal(changes.whole["_op"], "d"))))
        reached = frozenset((*pc.unique(written).to_pylist(), *gaps, *lookup.met))
        leaves = _shards_of(found.columns.rows[PATH], lookup.shard_of)
        columns = ColumnShards(changes.whole, found.columns, placed.take(numbers), leaves, reached)
    one_by_one = gathered(lookup.ground, shards, rows.found.before, rows.decided, rows.changes)
    return ShardedDecision(one_by_one, columns, rows.changes, rows.times)


def _shards_of(paths: pa.ChunkedArray, shard_of: Mapping[str, str]) -> pa.Array:
    encoded = paths if isinstance(paths.type, pa.DictionaryType) else paths.dictionary_encode()
    one = whole(encoded.unify_dictionaries())
    names = pa.array([shard_of.get(path) for path in one.dictionary.to_pylist()], pa.string())
    return names.take(one.indices)


def places_in_columns(part: pa.Table, shards: ShardMap, columns: Sequence[Column]) -> pa.Array:
    """The shard that each of some changes by columns tells."""
    place = [column.name for column in columns].index(shards.column)
    return places_of(shards, part[f"c{place}"], columns[place].type)


@dataclass
class ShardsLookup:
    """Shards in tables of the catalog. `tables`: of each shard that is made; `placed`: of which shard the key of each
    whole change is, None: it does not tell; `lanes`: how many are looked through at the same time."""

    spark: SparkSession
    tables: Mapping[str, Table]
    memory: DeleteMemory
    ground: ShardedGround
    sources: Sequence[str | None]
    late_times: Mapping[bytes, int | None]
    placed: pa.Array | None
    lanes: int
    shard_of: dict[str, str] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)

    def places(self, newest: pa.Table, decoding: Decoding) -> pa.Table:
        """As PlainLookup says."""
        key, low = [decoding.columns[i] for i in decoding.key], lowest(newest)
        own = None if self.placed is None else self.placed.take(whole(newest["_number"]))

        def look(name: str) -> list[pa.Table]:
            mine = newest if own is None else newest.filter(pc.equal(own, name))
            if not len(mine):
                return []
            table, some = self.tables[name], [pc.unique(mine[one]) for one in key_names(decoding)]
            files = row_lookup.plan(self.spark, table, row_lookup.Wanted(key, some=some), None)
            self.shard_of.update(dict.fromkeys(files.files, name))
            found = row_lookup.read_columns(files, row_lookup.ids_of(table), POSITION, low)
            if any(map(len, found)):
                self.met.add(name)
            return found

        with ThreadPoolExecutor(self.lanes) as pool:
            parts = [part for found in pool.map(look, sorted(self.tables)) for part in found]
        return places_in(parts, key, decoding)

    def newer(self, orders: pa.Table, decoding: Decoding) -> pa.Table:
        """As PlainLookup says."""
        return self.memory.newer([decoding.columns[i] for i in decoding.key], orders)

    def emptied(self, _decoding: Decoding, _truncates: Sequence[RowChange]) -> Emptied:
        """As Lookup says: nothing is truncated here."""
        return Emptied({}, ())

    def before(
        self, _decoding: Decoding, changes: Sequence[RowChange], truncates: Sequence[RowChange], _emptied: Emptied
    ) -> Found:
        """As Lookup says; where rows are and of what time, the shards tell."""
        ground: decide.Ground = self.ground
        return Found(decide.look(ground, changes, truncates, self.sources), {}, {}, self.late_times)


def as_rows(changes: Changes) -> list[list[Any]]:
    """All of them as decoded rows."""
    plain = by_columns.together(changes.whole, changes.gaps)
    return [*changes.good, *by_columns.rows_of(plain, changes.decoding, changes.source)]
