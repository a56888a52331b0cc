"""Cells of one column, as msgspec decodes them from many images, to an Arrow array: at once where all are plain.

What a vector takes, it takes to the very value that the column's converter (decode/converters.py) gives; the rest it
leaves to the converter, one cell after the other. `tests/property/test_columnar.py` holds both to that.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, UnsetType

from firn.changes.decode import values
from firn.changes.decode.codec import NOT_PLAIN, RowCodec
from firn.changes.decode.converters import Convert
from firn.changes.decode.types import Encoding, Type
from firn_spark.tables.columns import arrow_type

# From cells of one Python class, nulls among them, to an array; None: look at each cell.
Vector = Callable[[list[Any]], pa.Array | None]

_NULL = type(None)
_UNITS = ("_days", "_ms", "_us", "_ns")
_TEXT = frozenset({"any", "string", "uuid", "bits", "decimal_text", "binary_base64", "binary_base64url", "binary_hex"})


class Column:
    """Makes the arrays of one column of a codec. Not thread-safe."""

    def __init__(self, codec: RowCodec, index: int) -> None:
        kind, source = codec.target[index].type, codec.sources[index]
        self._type = arrow_type(kind)
        self._convert: Convert = codec.converters[index]
        self._vector = _vector(kind, source) if codec.through[index] is None else None
        self._absent = codec.absent.get(index)

    def array(self, cells: list[Any], odd: set[int]) -> pa.Array:
        """The cells as an array; the places of those that only the codec can tell are added to `odd`, and null."""
        found = self._array(cells, odd)
        if self._absent is None or UNSET not in cells:
            return found
        default = pa.array([self._absent], self._type)[0]
        return pc.if_else(pa.array([cell is UNSET for cell in cells]), default, found)

    def _array(self, cells: list[Any], odd: set[int]) -> pa.Array:
        classes = set(map(type, cells))
        if UnsetType in classes:
            cells = [None if cell is UNSET else cell for cell in cells]
            classes = (classes - {UnsetType}) | {_NULL}
        if classes <= {_NULL}:
            return pa.nulls(len(cells), self._type)
        if self._vector is not None and classes <= {self._vector[0], _NULL}:
            try:
                found = self._vector[1](cells)
            except (pa.ArrowInvalid, OverflowError):
                found = None
            if found is not None:
                return found
        convert = self._convert
        try:
            return pa.array([None if cell is None else convert(cell) for cell in cells], self._type)
        except NOT_PLAIN:
            return pa.array(list(self._each(cells, odd)), self._type)

    def _each(self, cells: Sequence[Any], odd: set[int]) -> Any:
        for place, cell in enumerate(cells):
            try:
                yield None if cell is None else self._convert(cell)
            except NOT_PLAIN:
                odd.add(place)
                yield None


def _vector(kind: Type, source: Encoding) -> tuple[type, Vector] | None:
    """The class of the cells that the vector of this pair takes, and the vector."""
    target = arrow_type(kind)
    name, written = kind.name, source.kind
    if name == "boolean" and written in {"boolean", "any"}:
        return bool, lambda cells: pa.array(cells, target)
    if name in {"int", "long"} and (written in {"integer", "any"} or written.endswith(_UNITS)):
        return int, lambda cells: pa.array(cells, target)
    if name == "double" and written in {"float64", "float32", "any"}:
        return float, lambda cells: pa.array(cells, target)
    if name == "string" and written in _TEXT:
        return str, lambda cells: pa.array(cells, target)
    if name == "uuid" and written in {"uuid", "string", "any"}:
        return str, _uuids
    if name == "date" and written == "date_days":
        return int, lambda cells: _within(pa.array(cells, pa.int32()), values.FIRST_DAY, values.LAST_DAY, target)
    if name == "date" and written == "date_text":
        return str, _dates
    if name == "decimal" and written == "decimal_text":
        return str, _decimals(kind, target)
    if name in {"timestamp", "timestamptz"} and source.zoned in {name == "timestamptz", None}:
        return _timestamps(written, target, zoned=name == "timestamptz")
    if name in {"timestamp_ns", "timestamptz_ns"} and source.zoned in {name == "timestamptz_ns", None}:
        return _nanoseconds(written, target, zoned=name == "timestamptz_ns")
    return None


_PER_UNIT = {"timestamp_ns": 1, "timestamp_us": 1_000, "timestamp_ms": 1_000_000}


def _nanoseconds(written: str, target: pa.DataType, *, zoned: bool) -> tuple[type, Vector] | None:
    if written in _PER_UNIT:
        unit = pa.scalar(_PER_UNIT[written], pa.int64())
        return int, lambda cells: pc.multiply_checked(pa.array(cells, pa.int64()), unit).cast(target)
    if written == "timestamp_text":
        # Of the years that nanoseconds hold whole; Arrow counts beyond them without a word.
        form = r"^(1[7-9]|2[01])\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,9})?" + (r"(Z|\+00)$" if zoned else "$")

        def of_text(cells: list[Any]) -> pa.Array | None:
            texts = pa.array(cells, pa.string())
            return texts.cast(target) if _all_like(texts, form) else None

        return str, of_text
    return None


def _timestamps(written: str, target: pa.DataType, *, zoned: bool) -> tuple[type, Vector] | None:
    first, last = values.FIRST_US, values.LAST_US
    if written == "timestamp_us":
        return int, lambda cells: _within(pa.array(cells, pa.int64()), first, last, target)
    if written == "timestamp_ms":

        def of_millis(cells: list[Any]) -> pa.Array | None:
            millis = pa.array(cells, pa.int64())
            return _within(pc.multiply_checked(millis, 1000), first, last, target)

        return int, of_millis
    if written == "timestamp_text":
        # As ISO 8601 has it, or PostgreSQL where its time zone is UTC.
        form = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?" + (r"(Z|\+00)$" if zoned else "$")

        def of_text(cells: list[Any]) -> pa.Array | None:
            texts = pa.array(cells, pa.string())
            if not _all_like(texts, form):
                return None
            micros = texts.cast(target).cast(pa.int64())
            return _within(micros, first, last, target)

        return str, of_text
    return None


def _within(numbers: pa.Array, first: int, last: int, target: pa.DataType) -> pa.Array | None:
    ends = pc.min_max(numbers)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    return numbers.cast(target) if first <= low and high <= last else None


def _dates(cells: list[Any]) -> pa.Array | None:
    texts = pa.array(cells, pa.string())
    if not _all_like(texts, r"^\d{4}-\d\d-\d\d$"):
        return None
    return _within(texts.cast(pa.date32()).cast(pa.int32()), values.FIRST_DAY, values.LAST_DAY, pa.date32())


def _decimals(kind: Type, target: pa.DataType) -> Vector:
    scale = kind.scale or 0
    whole = max((kind.precision or 0) - scale, 1)
    form = rf"^-?[0-9]{{1,{whole}}}" + (rf"(\.[0-9]{{1,{scale}}})?$" if scale else "$")

    def of_text(cells: list[Any]) -> pa.Array | None:
        texts = pa.array(cells, pa.string())
        return texts.cast(target) if _all_like(texts, form) else None

    return of_text


def _uuids(cells: list[Any]) -> pa.Array | None:
    texts = pa.array(cells, pa.string())
    return pc.ascii_lower(texts) if _all_like(texts, r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$") else None


def _all_like(texts: pa.Array, form: str) -> bool:
    return pc.all(pc.match_substring_regex(texts, form)).as_py() is not False
