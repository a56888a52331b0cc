"""What becomes of the keys of a table of several shards: of most by columns, of the others one by one.

At a cut all shards together are one table: each key has one row in one of them. So its changes are decided as those of
one table are (merge.decision), whose rows are looked up in all shards, and then each row that is written goes where its
values say, and each that is removed goes where it was found. Of a shard that a job which died has left ahead of the cut
all goes that it holds now of the keys of the range, but for rows that stay there and are what they were. `decide_over`
is the specification.
"""

import sys
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from firn.changes.decode.row_decoder import Decoding
from firn.changes.decode.types import Column, Type
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
from firn_spark.merge.key_lookup import HOLDS, PATH, PLACE, THERE, Emptied, Found, Lookup, lowest, places_in
from firn_spark.tables import deletes
from firn_spark.tables.evolve import Table


class Shards(Lookup, Protocol):
    """How the rows of all shards are found. `ground`: those of what is decided one by one."""

    ground: ShardedGround
    shard_of: dict[str, str]  # the shard of each file in which `places` looked
    met: set[str]  # the shards in which it found a row
    present: dict[str, pa.Table]  # what those hold now of the keys that are brought on from where a job has left them


@dataclass(frozen=True)
class ColumnShards:
    """What was decided by columns, of the changes `whole`. By its rows: `enters`, the shard of what is written, and
    `leaves`, the one that has the row at the cut; `reached`: the shards that any of the changes may have been in;
    `present`: as Shards has it; `ahead`: all shards that are not as the cut has them; `key`: the key's columns."""

    whole: pa.Table
    decided: DecidedColumns
    enters: pa.Array
    leaves: pa.Array
    reached: frozenset[str]
    present: Mapping[str, pa.Table]
    ahead: Collection[str]
    key: Sequence[tuple[str, Type]]

    def of(self, shard: str) -> DecidedColumns:
        """The part of one shard, of which nothing is removed here if it is ahead: `gone` says what is."""
        write = pc.and_(self.decided.write, pc.equal(self.enters, shard))
        remove = pc.and_(self.decided.remove, self._lies_in(shard) if shard not in self.ahead else False)
        mine = pc.or_(write, remove)
        rows = self.decided.rows.filter(mine)
        return DecidedColumns(rows, write.filter(mine), remove.filter(mine), self.decided.apart)

    def gone(self, shard: str) -> deletes.Places:
        """The places of the rows that go from a shard that is ahead: of all keys, but for those whose row stays in
        it."""
        if shard not in self.present:
            return {}
        there = self.present[shard]
        rows = there.filter(by_columns.among(there, self.keys(pc.invert(pc.and_(self._stays, self._lies_in(shard))))))
        return deletes.by_file(rows[PATH], rows[PLACE])

    @cached_property
    def changed(self) -> pa.Table:
        """The keys whose row is another one than at the cut."""
        return self.keys(pc.invert(self._stays))

    def keys(self, which: Any) -> pa.Table:
        """Some of the keys, as they are found in files."""
        rows = self.decided.rows.filter(which)
        names = [name for name, _ in self.key]
        return pa.table([values.sought(rows[name], kind) for name, kind in self.key], names=names)

    @property
    def _stays(self) -> Any:
        return pc.invert(pc.or_(self.decided.write, self.decided.remove))

    def _lies_in(self, shard: str) -> Any:
        return pc.fill_null(pc.equal(self.leaves, shard), False)

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
    changes: Changes,
    memory: DeleteMemory,
    lookup: Shards,
    shards: ShardMap,
    placed: pa.Array,
    gaps: Sequence[str],
    ahead: Collection[str] = (),
    most: int = sys.maxsize,
) -> ShardedDecision:
    """What becomes of all keys, if nothing is truncated. `placed`: the shard that each change of `changes.whole` tells,
    `gaps`: those that the others by columns tell; `ahead`: the shards that are not as the cut has them. Raises what the
    look-ups raise, InTwoShards, and TooMany for more than `most` that are decided one by one."""
    found = decide_keys(changes, memory, lookup, one_by_one=False, most=most)
    rows, columns = found.rows, None
    if found.columns is not None:
        numbers = whole(found.columns.rows["_number"])
        written = placed.filter(pc.invert(whole(pc.equal(changes.whole["_op"], "d"))))
        reached = frozenset((*pc.unique(written).to_pylist(), *gaps, *lookup.met))
        leaves = _shards_of(found.columns.rows[PATH], lookup.shard_of)
        of = changes.decoding
        key = list(zip(key_names(of), (of.columns[i].type for i in of.key), strict=True))
        columns = ColumnShards(
            changes.whole, found.columns, placed.take(numbers), leaves, reached, lookup.present, ahead, key
        )
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
    """Shards in tables of the catalog. `tables`: of each shard that is made; `earlier`: of those that are ahead the
    snapshot of the cut, None: none; `brought`: those of them that are brought on from what they hold; `placed`: of
    which shard the key of each whole change is, None: it does not tell; `lanes`: how many are looked through at the
    same time."""

    spark: SparkSession
    tables: Mapping[str, Table]
    earlier: Mapping[str, int | None]
    brought: Collection[str]
    memory: DeleteMemory
    ground: ShardedGround
    sources: Sequence[str | None]
    late_times: Mapping[bytes, int | None]
    placed: pa.Array | None
    lanes: int
    shard_of: dict[str, str] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)
    present: dict[str, pa.Table] = field(default_factory=dict)

    def places(self, newest: pa.Table, decoding: Decoding) -> pa.Table:
        """As PlainLookup says."""
        key, low = [decoding.columns[i] for i in decoding.key], lowest(newest)
        own = None if self.placed is None else self.placed.take(whole(newest["_number"]))

        def look(name: str) -> list[pa.Table]:
            mine = newest if own is None else newest.filter(pc.equal(own, name))
            at, none = self.earlier.get(name), name in self.earlier and self.earlier[name] is None
            found = [] if none else self._found(name, at, mine, key, low, decoding)
            if any(map(len, found)):
                self.met.add(name)
            if name not in self.brought:
                return found
            self.present[name] = places_in(self._found(name, None, mine, key, low, decoding), key, decoding)
            return (
                [with_lost(places_in(found, key, decoding), self.present[name], key_names(decoding))] if found else []
            )

        with ThreadPoolExecutor(self.lanes) as pool:
            parts = [part for found in pool.map(look, sorted(self.tables)) for part in found]
        return places_in(parts, key, decoding)

    def _found(
        self, name: str, at: int | None, mine: pa.Table, key: Sequence[Column], low: bytes, decoding: Decoding
    ) -> list[pa.Table]:
        """row_lookup.read_columns of a shard, as it is or at a snapshot."""
        if not len(mine):
            return []
        table, some = self.tables[name], [pc.unique(mine[one]) for one in key_names(decoding)]
        files = row_lookup.plan(self.spark, table, row_lookup.Wanted(key, some=some, snapshot=at), None)
        self.shard_of.update(dict.fromkeys(files.files, name))
        return row_lookup.read_columns(files, row_lookup.ids_of(table), POSITION, low)

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


def with_lost(found: pa.Table, present: pa.Table, names: Sequence[str]) -> pa.Table:
    """Rows of a shard at the cut (Lookup.places), of which HOLDS also says that it has them no longer as they were, so
    that what stays of them is decided with all its values. `present`: what it holds now."""
    counts = present.group_by(names).aggregate([([], "count_all")])
    several = counts.filter(pc.greater(counts["count_all"], 1)).select(names)
    same = present.filter(pc.invert(pc.or_(by_columns.among(present, several), present[HOLDS])))
    by, numbers = [*names, THERE], pa.arange(0, len(found))
    both = found.select(by).append_column("_row", numbers).join(same.select(by), by, join_type="left semi")
    lost = pc.invert(pc.is_in(numbers, value_set=whole(both["_row"])))
    holds = pc.or_(found[HOLDS], pa.chunked_array([lost]))
    return found.set_column(found.column_names.index(HOLDS), HOLDS, holds)


def as_rows(changes: Changes) -> list[list[Any]]:
    """All of them as decoded rows."""
    plain = by_columns.together(changes.whole, changes.gaps)
    return [*changes.good, *by_columns.rows_of(plain, changes.decoding, changes.source)]
