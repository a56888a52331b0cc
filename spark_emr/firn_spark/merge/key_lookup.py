"""What the table and its memory say of the keys that a small range changes, looked up before anything is written."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from firn.changes.decode.iceberg_fields import HELD_TYPE
from firn.changes.decode.row_decoder import Decoding
from firn.changes.decode.types import BINARY, TIMESTAMPTZ, Column
from firn.changes.merge import decide
from firn.changes.merge.decide import Before
from firn.changes.merge.fold import Key, Row, RowChange
from firn.changes.merge.key_rows import rank
from firn.changes.merge.ordering import plain, read_held, total
from firn.changes.metadata_columns import HELD, POSITION, SOURCE, SOURCE_METADATA, TIME
from firn.tables.table_state import HELD_IDS, are_several, of_unnamed
from firn_spark.files import row_lookup, values
from firn_spark.merge.column_decoder import key_names
from firn_spark.merge.delete_memory import DeleteMemory
from firn_spark.merge.emptied_rows import Highs, up_to
from firn_spark.tables import deletes
from firn_spark.tables.evolve import Table

# All changes of some keys that the staged log still holds, with their times (ms) by order. Raises Unfit.
Log = Callable[[Collection[Key]], tuple[list[RowChange], Mapping[bytes, int | None]]]
THERE, PATH, PLACE, HOLDS = "_there", "_path", "_place", "_holds"  # of Lookup.places
_POSITION, _TIME, _HELD = Column(POSITION, BINARY), Column(TIME, TIMESTAMPTZ), Column(HELD, HELD_TYPE)


@dataclass(frozen=True)
class Found:
    """`places`: file and row of each key that the table has; `times`: of its row's change (microseconds);
    `late_times`: of orders that only the log knows (ms); `spare`: the other rows of keys that others wrote several
    of."""

    before: Before
    places: Mapping[Key, tuple[str, int]]
    times: Mapping[Key, int | None]
    late_times: Mapping[bytes, int | None]
    spare: Sequence["Spare"] = ()


@dataclass(frozen=True)
class Spare:
    """A row that does not count, for the table has a newer one of its key; `place`: file and row."""

    key: Key
    row: Row
    place: tuple[str, int]


class PlainLookup(Protocol):
    """How the rows of plain changes are found. Raises Unfit (too much to look at), fence.LostRace,
    StorageUnavailable."""

    def places(self, newest: pa.Table, decoding: Decoding) -> pa.Table:
        """The rows that have the keys of `newest` (columnar_merge.newest): c… of the key, THERE (the order; null if it
        is below all of `newest`), PATH, PLACE and HOLDS (whether values are held)."""

    def newer(self, orders: pa.Table, decoding: Decoding) -> pa.Table:
        """Of keys (c…) and their `_order` the keys of which a newer fact is remembered."""


class Lookup(PlainLookup, Protocol):
    """How the rows of any changes are found. Raises as PlainLookup."""

    def emptied(self, decoding: Decoding, truncates: Sequence[RowChange]) -> "Emptied":
        """The rows that go with these new truncates."""

    def before(
        self, decoding: Decoding, changes: Sequence[RowChange], truncates: Sequence[RowChange], emptied: "Emptied"
    ) -> Found:
        """What the table and its memory say of these changes; truncates are left out of the first. `emptied`: of
        these truncates."""


@dataclass(frozen=True)
class Emptied:
    """`places` of rows that go with truncates, whatever is decided of their keys; `others`: the keys of those that stay
    and may lose values."""

    places: deletes.Places
    others: Collection[Key]


@dataclass
class Ground:
    """A table and its memory (decide.Ground), as they are looked up.

    key      its columns; `columns`: as the table will have them; `sources`: table_state.fed_by
    ids      row_lookup.ids_of
    files    where rows of some keys may be, None: of all that are more than to go with new truncates
    times    of the rows that were found (microseconds); `places`: file and row of each; `spare`: as Found has them
    The others are as decide.Ground has them.
    """

    key: Sequence[Column]
    columns: Sequence[Column]
    sources: Sequence[str | None]
    ids: Mapping[str, int]
    holds: bool
    creates: bool
    newest_truncate: bytes
    files: Callable[[Collection[Key] | None], row_lookup.Files]
    facts: Callable[[Collection[Key], bytes], Sequence[RowChange]]
    halves: Callable[[Collection[bytes]], Sequence[RowChange]]
    truncates: Callable[[], Sequence[RowChange]]
    removed: Callable[[Collection[Key]], Iterable[tuple[Key, Row]]]
    log: Callable[[Collection[Key]], Sequence[RowChange]]
    times: dict[Key, int | None] = field(default_factory=dict)
    places: dict[Key, tuple[str, int]] = field(default_factory=dict)
    spare: list[Spare] = field(default_factory=list)

    def rows(self, keys: Collection[Key] | None, columns: Collection[str] | None) -> Mapping[Key, Row]:
        """As decide.Ground says, and where each is: of a key the newest. Raises Unfit."""
        read = [column for column in self.columns if columns is None or column.name in columns]
        found = row_lookup.read(self.files(keys), self.ids, [*read, _POSITION, _TIME, _HELD, SOURCE_METADATA])
        names = found.keys(self.key)
        if columns and len(set(names)) < len(names):
            return self.rows(keys, None)  # which of equal ones counts, all their values tell
        return self.chosen(found, read or self.key)

    def chosen(self, found: row_lookup.Rows, columns: Sequence[Column]) -> dict[Key, Row]:
        """Of each key the row that counts, among those that were found."""
        names, places = found.keys(self.key), list(zip(found.paths, found.places, strict=True))
        rows = list(zip(names, self.as_rows(found, columns), strict=True))
        chosen = {key: number for number, key in enumerate(names)}
        if len(chosen) < len(rows):
            chosen = _newest(rows)
            others = set(range(len(rows))).difference(chosen.values())
            self.spare += [Spare(*rows[number], places[number]) for number in sorted(others)]
        self.times |= {key: found.columns[TIME][number] for key, number in chosen.items()}
        self.places |= {key: places[number] for key, number in chosen.items()}
        return {key: rows[number][1] for key, number in chosen.items()}

    def as_rows(self, found: row_lookup.Rows, columns: Sequence[Column]) -> list[Row]:
        """Rows that were found, with these columns."""
        names = {number: name for name, number in self.ids.items()}
        unnamed = of_unnamed(self.sources)
        rows = []
        data = [found.columns.get(column.name, []) for column in columns]
        own = [found.columns.get(name, []) for name in (POSITION, HELD, SOURCE)]
        for i, (position, held, source) in enumerate(zip(*own, strict=True)):
            values: dict[str, Any] = {column.name: one[i] for column, one in zip(columns, data, strict=True)}
            rows.append(Row(values, total(position), read_held(held, names), source or unnamed))
        return rows


def _newest(rows: Sequence[tuple[Key, Row]]) -> dict[Key, int]:
    """The number of each key's row that counts, in whatever order the files come: the newest, of equal ones that of
    the highest values."""

    def weight(number: int) -> tuple[Any, ...]:
        row = rows[number][1]
        return *rank(row), repr(sorted(row.held.items())), repr(sorted(row.values.items()))

    # Of a key the last in this order stays.
    return {rows[number][0]: number for number in sorted(range(len(rows)), key=weight)}


@dataclass(frozen=True)
class TableLookup:
    """A Lookup in a table of the catalog (None: it is not made). `columns`: as it will have them; `sources`:
    table_state.fed_by; `bounded`: whether it gives up where there is much to look through (row_lookup.ALONE)."""

    spark: SparkSession
    table: Table | None
    memory: DeleteMemory
    columns: Sequence[Column]
    sources: Sequence[str | None]
    log: Log
    bounded: bool

    def places(self, newest: pa.Table, decoding: Decoding) -> pa.Table:
        """As PlainLookup says."""
        key = [decoding.columns[i] for i in decoding.key]
        parts = []
        if self.table is not None and len(newest):
            some = [pc.unique(newest[name]) for name in key_names(decoding)]
            files = self._plan(self.table, row_lookup.Wanted(key, some=some))
            parts = row_lookup.read_columns(files, row_lookup.ids_of(self.table), POSITION, lowest(newest))
        return places_in(parts, key, decoding)

    def newer(self, orders: pa.Table, decoding: Decoding) -> pa.Table:
        """As PlainLookup says."""
        return self.memory.newer([decoding.columns[i] for i in decoding.key], orders)

    def emptied(self, decoding: Decoding, truncates: Sequence[RowChange]) -> Emptied:
        """As Lookup says."""
        if self.table is None or not truncates:
            return Emptied({}, ())
        key = [decoding.columns[i] for i in decoding.key]
        limits = row_lookup.EMPTIED if self.bounded else None
        files = row_lookup.plan(self.spark, self.table, row_lookup.Wanted(key), limits)
        highs = highs_of(truncates, self.sources)
        return Emptied(*up_to(files, row_lookup.ids_of(self.table), POSITION, highs))

    def before(
        self, decoding: Decoding, changes: Sequence[RowChange], truncates: Sequence[RowChange], emptied: Emptied
    ) -> Found:
        """As Lookup says."""
        some = {*emptied.others, *(change.key for change in changes)}
        ground, late_times = self._ground([decoding.columns[i] for i in decoding.key], some)
        before = decide.look(ground, changes, truncates, self.sources)
        return Found(before, ground.places, ground.times, late_times, ground.spare)

    def _plan(self, table: Table, wanted: row_lookup.Wanted) -> row_lookup.Files:
        return row_lookup.plan(self.spark, table, wanted, row_lookup.ALONE if self.bounded else None)

    def _ground(self, key: Sequence[Column], some: Collection[Key]) -> tuple[Ground, Mapping[bytes, int | None]]:
        """What is looked up, and the times of what the log tells, which come in later. `some`: the keys that are more
        than to go with new truncates."""
        table, memory, late_times = self.table, self.memory, dict[bytes, int | None]()

        def files(keys: Collection[Key] | None) -> row_lookup.Files:
            wanted = row_lookup.Wanted(key, some if keys is None else keys)
            return row_lookup.Files(wanted) if table is None else self._plan(table, wanted)

        def removed(keys: Collection[Key]) -> Iterator[tuple[Key, Row]]:
            for gone in memory.removed(table, self.columns, key, keys):
                yield from zip(gone.keys(key), ground.as_rows(gone, self.columns), strict=True)

        def log(keys: Collection[Key]) -> Sequence[RowChange]:
            late, times = self.log(keys)
            late_times.update(times)
            return late

        ids = row_lookup.ids_of(table) if table is not None else {}
        holds = table is not None and bool(table.state.properties.get(HELD_IDS))
        ground = Ground(
            key, self.columns, self.sources, ids, holds, memory.said.creates, memory.said.truncated, files,
            lambda keys, low: memory.changes(key, keys, low), lambda positions: memory.halves(key, positions),
            memory.truncates, removed, log,
        )  # fmt: skip
        return ground, late_times


def highs_of(truncates: Sequence[RowChange], sources: Sequence[str | None]) -> Highs:
    """Up to which positions new truncates remove rows. `sources`: those that feed the table (table_state.fed_by)."""
    newest: dict[str | None, bytes] = {}
    for one in sorted(truncates, key=lambda one: one.order):
        newest[one.source] = plain(one.order) or b""
    if not are_several((*sources, *newest)):
        return Highs(plain(max(one.order for one in truncates)) or b"")
    named = {source: high for source, high in newest.items() if source is not None}
    return Highs(newest.get(None), named, of_unnamed(sources))


def lowest(newest: pa.Table) -> bytes:
    """The least order of these changes."""
    return pc.min(newest["_order"]).as_py() or b""


def places_in(parts: Sequence[pa.Table], key: Sequence[Column], decoding: Decoding) -> pa.Table:
    """What Lookup.places says, out of row_lookup.read_columns."""
    names = [*key_names(decoding), THERE, PATH, PLACE, HOLDS]
    if not parts:
        kinds = [*(values.key_type(one.type) for one in key), pa.binary(), pa.string(), pa.int64(), pa.bool_()]
        return pa.table([pa.array([], kind) for kind in kinds], names=names)
    return pa.concat_tables(part.rename_columns(names) for part in parts).unify_dictionaries().combine_chunks()
