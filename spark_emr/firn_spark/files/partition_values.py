"""Which partition each row of a file belongs to, by Arrow: https://iceberg.apache.org/spec/#partition-transforms.

Values are texts, of which write.partitions makes what Iceberg has: days and moments are whole numbers, since texts of
dates end with the year 9999, and bytes hexadecimal digits.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.placement.murmur3 import C1, C2, C3, C4, C5, MASK, bytes_of_decimal, murmur3, unscaled
from firn.errors import TerminalError

_DAY: Final = 86_400_000_000  # microseconds
_HOUR: Final = 3_600_000_000
_DAYS_OF_400_YEARS: Final = 146_097
_FIRST: Final = date(1970, 1, 1).toordinal()
NULL: Final = "__HIVE_DEFAULT_PARTITION__"  # a text that Iceberg reads as null
_NANOSECONDS: Final = frozenset({"timestamp_ns", "timestamptz_ns"})
_STAMPS: Final = _NANOSECONDS | {"timestamp", "timestamptz"}
_WHOLE: Final = _STAMPS | {"int", "long", "date", "time"}
_NUMBERS: Final[Mapping[str, str]] = {"date": "int", "time": "long", **dict.fromkeys(_STAMPS, "long")}
_KNOWN: Final = frozenset({"identity", "bucket", "truncate", "year", "month", "day", "hour", "void"})
_JAVAS: Final[Mapping[str, str]] = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}  # texts of floats


def check(fields: Iterable[tuple[str, str]]) -> None:
    """Raises TerminalError for a field that nobody should write by. `fields`: (transform as Iceberg writes it, type of
    its column)."""
    for transform, kind in fields:
        name, _ = _parsed(transform)
        if name not in _KNOWN:
            raise TerminalError(f"partitioned by {transform}, which Firn does not know; partition the table otherwise")
        if name == "identity" and kind in _NANOSECONDS:
            raise TerminalError(
                f"partitioned by a column of type {kind} as it is, of which PyIceberg can't read the manifests; "
                "partition the table by hour or day of it"
            )
        if name == "identity" and kind.startswith("fixed"):
            # https://github.com/apache/iceberg/issues/17501
            raise TerminalError(
                f"partitioned by a column of type {kind} as it is, of which Iceberg 1.11 writes manifests that can't "
                "be read again; partition the table by bucket of it"
            )


def parts(
    rows: pa.Table, fields: Sequence[tuple[str, str, Sequence[str]]]
) -> Iterator[tuple[list[str | None], pa.Table]]:
    """The rows of each partition, in their order, with its values. `fields`: (transform, type of its column, the
    names on the way to it; none of a column that was dropped)."""
    columns = ((transform, kind, _column(rows, path)) for transform, kind, path in fields)
    texts = [_texts(column.combine_chunks(), transform, kind) for transform, kind, column in columns]
    names = [f"p{i}" for i in range(len(fields))]
    known = pa.table([*texts, pa.arange(0, len(rows))], names=[*names, "_row"])
    groups = known.group_by(names, use_threads=False).aggregate([("_row", "list")])
    numbers = groups["_row_list"].combine_chunks()
    for place, values in enumerate(zip(*(groups[name].to_pylist() for name in names), strict=True)):
        yield list(values), rows.take(numbers[place].values)


def _column(rows: pa.Table, path: Sequence[str]) -> pa.ChunkedArray:
    if not path:
        return pa.chunked_array([pa.nulls(len(rows))])
    column = rows[path[0]]
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column


def text_type(kind: str) -> str:
    """The Iceberg type of which org.apache.iceberg.DataFiles reads a text, and that has the Java class of `kind`, the
    type of a partition value. That of bytes reads none."""
    return _NUMBERS.get(kind, "string" if kind == "unknown" else kind)


def is_bytes(kind: str) -> bool:
    """Whether the values of a type are bytes: hexadecimal digits here."""
    return kind == "binary"


def in_folder(text: str | None, transform: str, kind: str) -> str:
    """A value in the name of a folder, for people: days as dates, if Python has them."""
    if text is None or not (transform == "day" or (transform == "identity" and kind == "date")):
        return "null" if text is None else text
    day = int(text) + _FIRST
    return date.fromordinal(day).isoformat() if 1 <= day <= date.max.toordinal() else text


def _parsed(transform: str) -> tuple[str, int]:
    name, _, size = transform.rstrip("]").partition("[")
    return name, int(size or 0)


def _texts(column: Any, transform: str, kind: str) -> Any:
    name, size = _parsed(transform)
    if name == "void" or kind == "void":
        return pa.nulls(len(column), pa.string())
    if name == "identity":
        return _identity(column, kind)
    if name == "bucket":
        return _bucket(column, size, kind).cast(pa.string())
    if name == "truncate":
        return _truncated(column, size, kind)
    if name == "hour":
        return _floor(_micros(column, kind), _HOUR).cast(pa.string())
    days = column.cast(pa.int32()).cast(pa.int64()) if kind == "date" else _floor(_micros(column, kind), _DAY)
    return (days if name == "day" else _months(days, as_years=name == "year")).cast(pa.string())


def _months(days: Any, *, as_years: bool) -> Any:
    """The months since 1970 of days, or as many years: Arrow knows none after the year 32767."""
    cycles = _floor(days, _DAYS_OF_400_YEARS)
    inside = pc.subtract(days, pc.multiply(cycles, _DAYS_OF_400_YEARS)).cast(pa.int32()).cast(pa.date32())
    years = pc.add(pc.subtract(pc.year(inside), 1970), pc.multiply(cycles, 400))
    return years if as_years else pc.add(pc.multiply(years, 12), pc.subtract(pc.month(inside), 1))


def _identity(column: Any, kind: str) -> Any:
    if kind == "uuid":
        return pa.array([None if one is None else str(_uuid(one)) for one in column.to_pylist()], pa.string())
    if is_bytes(kind):
        return _hex(column)
    if kind in _NUMBERS:
        return column.cast(pa.int32() if kind == "date" else pa.int64()).cast(pa.string())
    texts = column.cast(pa.string())
    for arrows, javas in _JAVAS.items() if kind in ("float", "double") else ():
        texts = pc.if_else(pc.equal(texts, arrows), javas, texts)
    return texts


def _hex(column: Any) -> Any:
    return pa.array([None if one is None else one.hex() for one in column.to_pylist()], pa.string())


def _micros(column: Any, kind: str) -> Any:
    """Moments as microseconds, as the transforms take them."""
    numbers = column.cast(pa.int64())
    return _floor(numbers, 1_000) if kind in _NANOSECONDS else numbers


def _truncated(column: Any, width: int, kind: str) -> Any:
    if kind == "string":
        return _identity(pc.utf8_slice_codeunits(column, 0, width), kind)
    if kind == "binary":
        return _hex(pc.binary_slice(column, 0, width))
    if kind in ("int", "long"):
        found = pc.multiply(_floor(column.cast(pa.int64()), width), width)
        # The last steps below zero go round, as Java's do.
        return (found.cast(pa.int32(), safe=False) if kind == "int" else found).cast(pa.string())
    # Decimals: the unscaled value is truncated.
    found = (None if one is None else unscaled(one) // width * width for one in column.to_pylist())
    return pa.array([None if one is None else f"{one}E-{column.type.scale}" for one in found], pa.string())


def _floor(numbers: Any, by: int) -> Any:
    """Divided, rounded down: Arrow rounds towards zero."""
    found = pc.divide(numbers, by)
    return pc.if_else(pc.greater(pc.multiply(found, by), numbers), pc.subtract(found, 1), found)


def _bucket(column: Any, size: int, kind: str) -> Any:
    """The 32-bit Murmur3 hash (x86, seed 0) without its sign, modulo `size`."""
    if kind in _WHOLE:
        numbers = column.cast(pa.int32()).cast(pa.int64()) if kind == "date" else _micros(column, kind)
        hashes = _hashes(numbers)
    else:
        coded = (column.storage if isinstance(column, pa.ExtensionArray) else column).dictionary_encode()
        values = coded.dictionary.to_pylist()
        known = [None if one is None else murmur3(_bytes(one, kind)) for one in values]
        hashes = pa.array(known, pa.uint32()).take(coded.indices)
    plain = pc.bit_wise_and(hashes, pa.scalar(0x7FFFFFFF, pa.uint32())).cast(pa.int64())
    return pc.subtract(plain, pc.multiply(pc.divide(plain, size), size))


def _bytes(value: Any, kind: str) -> bytes:
    if kind == "string":
        return bytes(value.encode())
    return bytes_of_decimal(value) if kind.startswith("decimal") else bytes(value)


def _uuid(value: Any) -> uuid.UUID:
    return value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=bytes(value))


def _hashes(numbers: pa.Array) -> pa.Array:
    """Of 64-bit numbers, little-endian, all at once: Arrow's unsigned integers wrap around."""

    def of(value: int) -> pa.Scalar:
        return pa.scalar(value, pa.uint32())

    def rotated(one: Any, by: int) -> Any:
        return pc.bit_wise_or(pc.shift_left(one, of(by)), pc.shift_right(one, of(32 - by)))

    def mixed(one: Any, by: int) -> Any:
        return pc.bit_wise_xor(one, pc.shift_right(one, of(by)))

    unsigned = numbers.view(pa.uint64())
    low = pc.bit_wise_and(unsigned, pa.scalar(MASK, pa.uint64())).cast(pa.uint32())
    high = pc.shift_right(unsigned, pa.scalar(32, pa.uint64())).cast(pa.uint32())
    found: Any = pa.repeat(of(0), len(numbers))
    for block in (low, high):
        block = pc.multiply(rotated(pc.multiply(block, of(C1)), 15), of(C2))
        found = pc.add(pc.multiply(rotated(pc.bit_wise_xor(found, block), 13), of(5)), of(C3))
    found = pc.bit_wise_xor(found, of(8))
    found = pc.multiply(mixed(found, 16), of(C4))
    found = pc.multiply(mixed(found, 13), of(C5))
    return mixed(found, 16)
