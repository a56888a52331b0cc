"""One row group of a Parquet file: its columns as they are asked for, and which of its rows have wanted keys."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firn.changes.decode.types import Column
from firn_spark.files import page_index, values
from firn_spark.tables.objects import DataFile

_WHOLE: Final = frozenset({"int", "long", "date"})
_BOUND: Final = frozenset({"int", "long", "string", "binary", "uuid"})  # whose bounds a page index tells in bytes
_UUID: Final = 16  # bytes
_MANY: Final = 50_000  # rows
_NO_PLACES: Final = pa.array([], pa.int64())
_MOST_RUNS: Final = 16  # of a row group that is searched rather than looked through
_RUNS_BYTES: Final = 2_000  # that they take in memory, and their name
_FIRST_ROWS: Final = 4_096  # that tell of most columns in no order that they are in none


class RowGroup:
    """One row group of a file, whose columns are read when they are asked for. `names`: column -> its name inside;
    `defaults`: row_lookup.defaults_in."""

    def __init__(
        self,
        file: pq.ParquetFile,
        number: int,
        names: Mapping[str, str | None],
        defaults: Mapping[str, pa.Field] = MappingProxyType({}),
    ) -> None:
        self._file = file
        self._number = number
        self._names = names
        self._defaults = defaults
        self._held, self._path = (file.held, file.path) if isinstance(file, DataFile) else (None, "")
        self._known: dict[str, pa.ChunkedArray] = {}
        self._some: dict[str, tuple[pa.Array, pa.ChunkedArray]] = {}  # places, and the values there
        self.rows = file.metadata.row_group(number).num_rows

    def is_below(self, name: str, low: bytes) -> bool:
        """Whether the file's statistics say so of all values of a column of bytes, but for nulls."""
        told = self._statistics(name)
        return told is not None and bytes(told.max) < low

    def ends(self, column: Column) -> tuple[Any, Any] | None:
        """The least and the greatest value of a column of whole numbers or uuids; None if the file doesn't tell, or of
        others: texts may be cut short there."""
        is_uuid = column.type.name == "uuid"
        told = self._statistics(column.name) if is_uuid or column.type.name in _WHOLE else None
        if told is None:
            return None
        fits = len(told.min) == len(told.max) == _UUID if is_uuid else isinstance(told.min, int)
        return (told.min, told.max) if fits else None

    def _statistics(self, name: str) -> Any:
        group = self._file.metadata.row_group(self._number)
        chunks = (group.column(i) for i in range(group.num_columns))
        chunk = next((one for one in chunks if one.path_in_schema == self._names[name]), None)
        told = chunk.statistics if chunk is not None else None
        return told if told is not None and told.has_min_max else None

    def column(self, name: str) -> pa.ChunkedArray | None:
        """Its values; None if all are null, for the file has no such column."""
        inside = self._names[name]
        if inside is None and name in self._defaults:
            return values.lacking(self.rows, self._defaults[name])
        if inside is not None and not self._is_known(name):
            found = self._file.read_row_group(self._number, columns=[inside], use_threads=False).column(0)
            self._known[name] = found
            if self._held is not None:
                self._held.put(self._path, self._number, inside, found, found.nbytes)
        return self._known.get(name)

    def _is_known(self, name: str) -> bool:
        """Whether a column is there without reading it: this time, or held since an earlier look-up."""
        inside = self._names[name]
        if name not in self._known and inside is not None and self._held is not None:
            found = self._held.get(self._path, self._number, inside)
            self._known |= {} if found is None else {name: found}
        return name in self._known

    def taken(self, name: str, places: pa.Array) -> pa.ChunkedArray | None:
        """The values of some of its rows; None if all are null, for the file has no such column."""
        inside = self._names[name]
        if inside is not None and not self._is_known(name):
            if (found := self._taken_before(name, places)) is None:
                found = page_index.of_rows(self._file, self._number, inside, places)
            if found is not None:
                self._some[name] = places, found
                return found
        data = self.column(name)
        return None if data is None else data.take(places)

    def _taken_before(self, name: str, places: pa.Array) -> pa.ChunkedArray | None:
        """The same, of rows whose values were taken last."""
        before, found = self._some.get(name, (_NO_PLACES, None))
        if found is None or len(places) > len(before):
            return None
        at = pc.index_in(places, value_set=before)
        return None if at.null_count else found.take(at)

    def candidates(
        self, key: Sequence[Column], wanted: Sequence[pa.Array], prefix: int | None = None
    ) -> pa.Array | None:
        """The places of the rows that have wanted values in each column of the key; None if no column can tell.
        `wanted`: of each of those columns (values.key_type); `prefix`: how many of their bytes count, None: all. Of
        each column only those rows are looked at that the columns before it have left."""
        found = None
        for some, kind in zip(wanted, key, strict=True):
            if (ends := self.ends(kind)) is not None:
                some = _within(some, *ends)
                if not len(some):  # the column need not be read
                    return _NO_PLACES
            told = self._of_all(kind, some, prefix) if found is None else self._of_some(kind, some, prefix, found)
            found = found if told is None else told
            if found is not None and not len(found):
                break
        return found

    def _of_all(self, kind: Column, some: pa.Array, prefix: int | None) -> pa.Array | None:
        """The places of the rows with some values of a column; None if it can't tell."""
        if prefix is None and (pages := self._pages(kind, some)) is not None:
            return pages.rows().take(_places_of(values.found(pages.values, kind.type).combine_chunks(), some))
        if (data := self.column(kind.name)) is None:  # a file from before the table had the column
            return None if some.null_count else _NO_PLACES
        plain = _plain(data, kind, prefix)
        # Arrow searches no decimals.
        if kind.type.name != "decimal" and (runs := self._runs_in(kind.name, plain, prefix)):
            return pa.concat_arrays(
                [_NO_PLACES, *(_searched(some.drop_null(), plain.slice(*run), run[0]) for run in runs)]
            )
        return _places_of(plain, some)

    def _runs_in(self, name: str, plain: pa.Array, prefix: int | None) -> Sequence[tuple[int, int]]:
        """The runs (_runs) of a column's values, none where they are many; held with the column."""
        inside, at = self._names[name], -2 - self._number  # no row group's number
        if self._held is None or inside is None or prefix is not None:
            return _runs(plain) or ()
        found: Sequence[tuple[int, int]] | None = self._held.get(self._path, at, inside)
        if found is None:
            found = _runs(plain) or ()
            self._held.put(self._path, at, inside, found, _RUNS_BYTES)
        return found

    def _of_some(self, kind: Column, some: pa.Array, prefix: int | None, places: pa.Array) -> pa.Array | None:
        """Those of the places that have some values of a column; None if it can't tell."""
        if (data := self.taken(kind.name, places)) is None:
            return None if some.null_count else _NO_PLACES
        return places.take(_places_of(_plain(data, kind, prefix), some))

    def _pages(self, column: Column, wanted: pa.Array) -> page_index.Pages | None:
        """Those pages of a column that may hold wanted values; None if all of it is better looked through."""
        inside = self._names[column.name]
        if inside is None or self._is_known(column.name) or column.type.name not in _BOUND or wanted.null_count:
            return None
        if not page_index.pays(len(wanted), self.rows):
            return None
        told = (one.encode() if isinstance(one, str) else one for one in wanted.to_pylist())
        return page_index.with_values(self._file, self._number, inside, sorted(told))


def _plain(data: pa.ChunkedArray, kind: Column, prefix: int | None) -> pa.Array:
    plain = values.found(data, kind.type).combine_chunks()
    return plain if prefix is None else pc.binary_slice(plain, 0, prefix)


def _places_of(column: pa.Array, some: pa.Array) -> pa.Array:
    """Where a column has some values. Of many rows Arrow's join finds them in a third of the time."""
    if len(column) < _MANY or some.null_count or not _is_joined(column.type):
        return pc.indices_nonzero(pc.is_in(column, value_set=some)).cast(pa.int64())
    rows = pa.table([column, pa.arange(0, len(column))], names=["value", "place"])
    found = rows.join(pa.table([some], names=["value"]), "value", join_type="left semi", use_threads=False)
    return found["place"].combine_chunks().sort()


def _is_joined(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_binary(kind) or pa.types.is_string(kind))


def _within(some: pa.Array, low: Any, high: Any) -> pa.Array:
    """Those of the values that are in a range: a small set is looked into faster than a large one."""
    inside = pc.and_(pc.greater_equal(some, low), pc.less_equal(some, high))
    return some.filter(pc.fill_null(inside, True))  # a null may be wanted, and be there


def _runs(column: pa.Array) -> list[tuple[int, int]] | None:
    """The runs (first place, length) in which each value is above the one before; None if they are many or hold nulls.
    Rows that were written in the order of their key are a run: to find values in it costs no look at each row."""
    if column.null_count or not len(column):
        return None
    if len(column) > _FIRST_ROWS and _runs(column.slice(0, _FIRST_ROWS)) is None:
        return None
    falls = pc.indices_nonzero(pc.greater_equal(column.slice(0, len(column) - 1), column.slice(1)))
    if len(falls) >= _MOST_RUNS:
        return None
    firsts = [0, *(place + 1 for place in falls.to_pylist()), len(column)]
    return [(first, end - first) for first, end in pairwise(firsts)]


def _searched(some: pa.Array, run: pa.Array, first: int) -> pa.Array:
    """Where some of the values are, of a run that begins at the place `first`."""
    inside = _within(some, run[0], run[-1])
    places = pc.search_sorted(run, inside).cast(pa.int64())
    return pc.add(places.filter(pc.equal(run.take(places), inside)), first)
