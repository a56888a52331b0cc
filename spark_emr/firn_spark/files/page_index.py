"""Pages of a Parquet file's columns, chosen by its page index, so that some rows don't cost whole columns.

Arrow reads whole columns of a row group. So the pages that are wanted become a small file of their own, in memory,
which Arrow reads: no value is decoded here. Whatever is not as it should be (no index, a nested column, damage) is read
as a whole column by who asks.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from firn_spark.files.compact_thrift import BINARY, I32, I64, LIST, STRUCT, Reader, binary, number, struct, structs
from firn_spark.tables.objects import DataFile

T = TypeVar("T")

_LEAST_ROWS: Final = 1_000  # for each row that is wanted: with fewer, nearly all pages would be read
_FOOTER_ROWS: Final = 8  # for each byte of a footer: of a file with fewer, columns are read sooner than its footer here
_MOST: Final = 0.6  # of a column's bytes: with more, all of it is read at no more cost
_PAGE_BYTES: Final = 300  # that what is known of a page takes in memory, beside its bounds
_TAIL: Final = 64 * 1024  # bytes before the footer, in which the page index is as a rule
_MAGIC: Final = b"PAR1"
_SCHEMA, _ROW_GROUPS, _WRITER = 2, 4, 6  # fields of FileMetaData
_NESTED: Final = 5  # of a SchemaElement: how many children it has
_COLUMNS: Final = 1  # of a RowGroup
_TYPE, _ENCODINGS, _PATH, _CODEC, _FIRST_PAGE, _DICTIONARY = 1, 2, 3, 4, 9, 11  # of ColumnMetaData
_METADATA, _OFFSETS, _BOUNDS = 3, (4, 5), (6, 7)  # of a ColumnChunk: places and lengths of its indexes
_VARINT: Final = rb"([\x80-\xff]{0,9}[\0-\x7f])"
_LOCATION: Final = re.compile(rb"\x16%b\x15%b\x16%b\0" % (_VARINT, _VARINT, _VARINT))
"""A PageLocation."""
_BROKEN: Final = (IndexError, ValueError, KeyError, OverflowError, RecursionError, pa.ArrowException)


@dataclass(frozen=True)
class Pages:
    """Some rows of a column: those of pages, each from its first row on. `each`: the values by page, of pages that are
    held: to put them together costs more than to look into each."""

    values: pa.ChunkedArray
    firsts: Sequence[int]
    counts: Sequence[int]
    each: Sequence[pa.Array] = ()

    def taken(self, places: Sequence[int]) -> pa.ChunkedArray:
        """The values of some rows, which all are in these pages."""
        if self.each:
            parts = []
            for page, some in groupby(places, lambda one: bisect_right(self.firsts, one) - 1):
                inside = pa.array([one - self.firsts[page] for one in some], pa.int64())
                parts.append(self.each[page].take(inside))
            return pa.chunked_array([pa.concat_arrays(parts)] if parts else [], self.values.type)
        before = [0, *accumulate(self.counts)]
        pages = (bisect_right(self.firsts, one) - 1 for one in places)
        inside = [before[page] + one - self.firsts[page] for page, one in zip(pages, places, strict=True)]
        return self.values.take(pa.array(inside, pa.int64()))

    def rows(self) -> pa.Array:
        """The place of each of the rows."""
        each = (pa.arange(first, first + count) for first, count in zip(self.firsts, self.counts, strict=True))
        return pa.concat_arrays([pa.array([], pa.int64()), *each])


def pays(wanted: int, rows: int) -> bool:
    """Whether a look at the pages may pay, for so many wanted ones of these rows."""
    return wanted * _LEAST_ROWS <= rows


def of_rows(file: pq.ParquetFile, group: int, name: str, places: pa.Array) -> pa.ChunkedArray | None:
    """The values of some rows of a column of a row group; None if it is better read as a whole."""
    if not pays(len(places), file.metadata.row_group(group).num_rows):
        return None

    def found(column: _Column) -> pa.ChunkedArray | None:
        wanted = places.to_pylist()
        pages = column.read(file, {bisect_right(column.firsts, one) - 1 for one in wanted})
        return None if pages is None else pages.taken(wanted)

    return _tried(file, group, name, found)


def with_values(file: pq.ParquetFile, group: int, name: str, wanted: Sequence[Any]) -> Pages | None:
    """The pages of a column of a row group that may hold wanted values, in their order: whole numbers, or bytes; None
    if it is better read as a whole."""
    return _tried(file, group, name, lambda column: column.read(file, column.holding(file, wanted)))


def _tried(file: pq.ParquetFile, group: int, name: str, what: Callable[["_Column"], T | None]) -> T | None:
    if not isinstance(file, DataFile) or file.metadata.serialized_size * _FOOTER_ROWS > file.metadata.num_rows:
        return None
    try:
        footer = _footer_of(file)
        try:
            column = footer.column(file, group, name)
            return None if column is None else what(column)
        finally:
            if file.held is not None:  # with what it knows by now
                file.held.put(file.path, -1, "footer", footer, footer.held_bytes)
    except _BROKEN:
        return None


def _footer_of(file: DataFile) -> "_Footer":
    """A file's footer, read once, or known since an earlier look-up."""
    if file.pages is None and file.held is not None:
        file.pages = file.held.get(file.path, -1, "footer")
    if file.pages is None:
        file.pages = _Footer(file)
    found: _Footer = file.pages
    return found


@dataclass(frozen=True)
class _Chunk:
    """Where a column of a row group is told of: its metadata in the footer, its indexes in the file."""

    metadata: int
    offsets: tuple[int, int] | None
    bounds: tuple[int, int] | None


class _Footer:
    """What a file's footer tells, and of columns that were asked for what their indexes tell. Threads share it."""

    def __init__(self, file: DataFile) -> None:
        self.size = int(file.metadata.serialized_size)
        self._columns = dict[tuple[int, str], _Column | None]()
        self._begin = max(0, file.bytes - 8 - self.size - _TAIL)
        tail = file.part(self._begin, file.bytes - 8 - self._begin)
        self._before, self.data = tail[: len(tail) - self.size], tail[len(tail) - self.size :]
        self.leaves, self.chunks, self.writer = list[bytes](), list[list[_Chunk]](), b""
        reader = Reader(self.data)
        for field, kind in reader.fields():
            if field == _SCHEMA:
                self.leaves = [one for one in (self._element(reader) for _ in range(reader.size())) if one]
            elif field == _ROW_GROUPS:
                self.chunks = [self._group(reader) for _ in range(reader.size())]
            elif field == _WRITER:
                self.writer = reader.binary()
            else:
                reader.skip(kind)

    @property
    def held_bytes(self) -> int:
        """About how many bytes it takes by now, with what the columns know of their pages."""
        columns = sum(one.held_bytes for one in list(self._columns.values()) if one is not None)
        return len(self._before) + 20 * self.size + columns

    def _element(self, reader: Reader) -> bytes:
        """One of the schema as it stands; b"" if it is none of a column of values."""
        begin, nested = reader.at, False
        for field, kind in reader.fields():
            nested = nested or field == _NESTED
            reader.skip(kind)
        return b"" if nested else self.data[begin : reader.at]

    def _group(self, reader: Reader) -> list[_Chunk]:
        found = list[_Chunk]()
        for field, kind in reader.fields():
            if field == _COLUMNS:
                found = [self._chunk(reader) for _ in range(reader.size())]
            else:
                reader.skip(kind)
        return found

    def _chunk(self, reader: Reader) -> _Chunk:
        at, numbers = 0, dict[int, int]()
        for field, kind in reader.fields():
            if field in (*_OFFSETS, *_BOUNDS):
                numbers[field] = reader.number()
                continue
            at = reader.at if field == _METADATA else at
            reader.skip(kind)
        offsets, bounds = (
            (numbers[one], numbers[other]) if one in numbers and other in numbers else None
            for one, other in (_OFFSETS, _BOUNDS)
        )
        return _Chunk(at, offsets, bounds)

    def index(self, file: DataFile, at: tuple[int, int]) -> Reader:
        """Something at a place of the file, of this length."""
        if min(at) <= 0 or sum(at) > file.bytes:
            raise ValueError("no such index")
        first, length = at[0] - self._begin, at[1]
        inside = first >= 0 and first + length <= len(self._before)
        return Reader(self._before[first : first + length] if inside else file.part(*at))

    def column(self, file: DataFile, group: int, name: str) -> "_Column | None":
        """A column that is no part of another one, if its pages are told."""
        if (group, name) not in self._columns:
            self._columns[group, name] = self._column(file, group, name)
        return self._columns[group, name]

    def _column(self, file: DataFile, group: int, name: str) -> "_Column | None":
        parts, rows = file.metadata.row_group(group), file.metadata.row_group(group).num_rows
        own = (i for i in range(parts.num_columns) if parts.column(i).path_in_schema == name)
        number = next(own, None)
        if number is None:
            return None
        kind, chunk = file.metadata.schema.column(number), self.chunks[group][number]
        if kind.max_repetition_level or kind.max_definition_level > 1 or chunk.offsets is None:
            return None
        index = self.index(file, chunk.offsets)
        field = file.schema_arrow.field(name)
        found = _Column(self, chunk, index, self.leaves[number], rows, group, field)
        return found if found.path == [name.encode()] and found.firsts[:1] == [0] else None


class _Column:
    """A column of a row group: its pages."""

    def __init__(
        self, footer: _Footer, chunk: _Chunk, index: Reader, leaf: bytes, rows: int, group: int, field: pa.Field
    ) -> None:
        self._footer, self._chunk, self._leaf, self._rows, self._kind = footer, chunk, leaf, rows, field.type
        self._group, self._name = group, field.name
        self.path, self._told, self._begin = list[bytes](), dict[int, tuple[int, bytes]](), 0
        reader = Reader(footer.data, chunk.metadata)
        for field, how in reader.fields():
            at = reader.at
            if field == _PATH:
                self.path = reader.binaries()
            elif field in (_FIRST_PAGE, _DICTIONARY):
                self._begin = min(self._begin or (1 << 62), reader.number())
            else:
                reader.skip(how)
            if field in (_TYPE, _ENCODINGS, _PATH, _CODEC):
                self._told[field] = how, footer.data[at : reader.at]
        self._ends: Sequence[tuple[Any, Any]] | None = None
        self._places, self._sizes, self.firsts = _locations(index)

    @property
    def held_bytes(self) -> int:
        """About how many bytes it takes by now."""
        bounds = 0 if self._ends is None or self._chunk.bounds is None else self._chunk.bounds[1]
        return _PAGE_BYTES * len(self.firsts) + bounds

    @cached_property
    def _counts(self) -> list[int]:
        return [after - first for first, after in zip(self.firsts, [*self.firsts[1:], self._rows], strict=True)]

    def _bounds_in(self, file: DataFile, read: Callable[[bytes], Any]) -> Sequence[tuple[Any, Any]]:
        if self._chunk.bounds is None:
            raise KeyError("no bounds")
        if self._ends is None:
            told = _bounds(self._footer.index(file, self._chunk.bounds))
            self._ends = [(read(low), read(high)) for low, high in told]
        return self._ends

    def holding(self, file: DataFile, wanted: Sequence[Any]) -> Collection[int]:
        """The pages whose bounds have wanted values, in their order, between them."""
        if not wanted:
            raise KeyError("no values")
        read: Callable[[bytes], Any] = bytes if isinstance(wanted[0], bytes) else _whole
        found = []
        for page, (low, high) in zip(range(len(self.firsts)), self._bounds_in(file, read), strict=True):
            at = bisect_left(wanted, low)
            if at < len(wanted) and wanted[at] <= high:
                found.append(page)
        return found

    def read(self, file: DataFile, some: Collection[int]) -> Pages | None:
        """These pages; None if all of the column is read at no more cost."""
        pages, counts = sorted(some), self._counts
        if not pages:
            return Pages(pa.chunked_array([], self._kind), [], [])
        ends = map(sum, zip(self._places, self._sizes, strict=True))
        if min(self._sizes) <= 0 or min(counts) <= 0 or pages[0] < 0 or max(ends) > file.bytes:
            raise ValueError("no such pages")
        held = None if isinstance(self._kind, pa.BaseExtensionType) else file.held
        known = {} if held is None else held.pages(file.path, self._group, self._name, pages)
        told = self._places[0] - self._begin if 0 < self._begin < self._places[0] else 0  # a dictionary
        new = [one for one in pages if one not in known]
        if told + sum(self._sizes[one] for one in new) > _MOST * (told + sum(self._sizes)):
            return None
        values = self._unpacked(file, new, told) if new else pa.chunked_array([], self._kind)
        if held is None:
            return Pages(values, [self.firsts[one] for one in pages], [counts[one] for one in pages])
        known |= _parted(values, new, counts)
        held.put_pages(file.path, self._group, self._name, {one: known[one] for one in new})
        every = [known[one] for one in pages]
        whole = pa.chunked_array(every, self._kind)
        return Pages(whole, [self.firsts[one] for one in pages], [counts[one] for one in pages], every)

    def _unpacked(self, file: DataFile, pages: Sequence[int], told: int) -> pa.ChunkedArray:
        """The values of pages that are not held, behind a dictionary of so many bytes."""
        counts = self._counts
        before = file.part(self._begin, told) if told else b""
        rows, body = sum(counts[one] for one in pages), b"".join(self._bodies(file, pages))
        footer = self._small_footer(rows, len(before), len(body))
        whole = b"".join((_MAGIC, before, body, footer, len(footer).to_bytes(4, "little"), _MAGIC))
        try:
            values = pq.ParquetFile(pa.BufferReader(whole)).read(use_threads=False).column(0)
        except OSError as error:  # so Arrow says it
            raise ValueError("no such pages") from error
        if len(values) != rows or values.type != self._kind:
            raise ValueError("other rows than were told")
        return values

    def _bodies(self, file: DataFile, pages: Sequence[int]) -> Iterator[memoryview]:
        """The bytes of pages, of those that are near each other by one request."""
        run = [pages[0]]
        for page in pages[1:]:
            if self._places[page] - self._places[run[-1]] - self._sizes[run[-1]] > file.gap:
                yield from self._run(file, run)
                run = []
            run.append(page)
        yield from self._run(file, run)

    def _run(self, file: DataFile, pages: Sequence[int]) -> Iterator[memoryview]:
        first, last = self._places[pages[0]], self._places[pages[-1]] + self._sizes[pages[-1]]
        data = memoryview(file.part(first, last - first))
        for page in pages:
            at = self._places[page] - first
            yield data[at : at + self._sizes[page]]

    def _small_footer(self, rows: int, before: int, size: int) -> bytes:
        """Of a file of this column alone, with a dictionary of so many bytes and pages of others."""
        begin = len(_MAGIC)
        fields = [(one, *self._told[one]) for one in (_TYPE, _ENCODINGS, _PATH, _CODEC)]
        fields += [(one, I64, number(told)) for one, told in ((5, rows), (6, before + size), (7, before + size))]
        fields.append((_FIRST_PAGE, I64, number(begin + before)))
        if before:
            fields.append((_DICTIONARY, I64, number(begin)))
        chunk = struct((2, I64, number(0)), (_METADATA, STRUCT, struct(*fields)))
        group = struct((_COLUMNS, LIST, structs([chunk])), (2, I64, number(before + size)), (3, I64, number(rows)))
        root = struct((4, BINARY, binary(b"schema")), (_NESTED, I32, number(1)))
        return struct(
            (1, I32, number(2)), (_SCHEMA, LIST, structs([root, self._leaf])), (3, I64, number(rows)),
            (_ROW_GROUPS, LIST, structs([group])), (_WRITER, BINARY, binary(self._footer.writer)),
        )  # fmt: skip


def _parted(values: pa.ChunkedArray, pages: Sequence[int], counts: Sequence[int]) -> dict[int, pa.Array]:
    """The values of pages, each in memory of its own."""
    found, first = {}, 0
    for page in pages:
        found[page] = pa.concat_arrays(values.slice(first, counts[page]).chunks)
        first += counts[page]
    return found


def _locations(reader: Reader) -> tuple[list[int], list[int], list[int]]:
    """Of an OffsetIndex: of each page where it is, how many bytes it has, and its first row. It has a lot of pages, so
    what is one field after the other to Reader is one expression here."""
    for field, kind in reader.fields():
        if field != 1:
            reader.skip(kind)
            continue
        count, rest = reader.size(), reader.rest()
        found = _LOCATION.findall(rest)[:count]
        if len(found) != count or not rest.startswith(b"".join(b"\x16%b\x15%b\x16%b\0" % one for one in found)):
            break
        places, sizes, firsts = ([_decoded(one) for one in some] for some in zip(*found, strict=True))
        return places, sizes, firsts
    raise ValueError("no pages are told")


def _decoded(varint: bytes) -> int:
    """A whole number, which is not below zero."""
    found = 0
    for byte in reversed(varint):
        found = found << 7 | byte & 127
    return found >> 1


def _bounds(reader: Reader) -> Iterator[tuple[bytes, bytes]]:
    """Of a ColumnIndex: of each page its least value and its greatest; both are empty where all of it is null."""
    found = {2: list[bytes](), 3: list[bytes]()}
    for field, kind in reader.fields():
        if field in found:
            found[field] = reader.binaries()
        else:
            reader.skip(kind)
    return zip(found[2], found[3], strict=True)


def _whole(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)
