"""Arrow's columns in the words of a Connect schema, and rows of it as row images."""

import gzip
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from firn.backfill.postgres_cells import Form
from firn.changes.decode.types import Type, storable, widen
from firn.errors import TerminalError
from firn.log.store import ObjectFile, Store

_ROWS: Final = 20_000  # that are made into images at a time
_BLOCK: Final = 4_000_000  # bytes of CSV; types are those that the first block shows
_INTS: Final = {"int8": "int32", "int16": "int32", "int32": "int32", "uint8": "int32", "uint16": "int32"}
_LONGS: Final = ("int64", "uint32")


class NoColumn(TerminalError):
    """A file has a column that no table has, or that fits no table."""


def schema_json(schema: pa.Schema, existing: Mapping[str, Type]) -> str:
    """The Connect schema of rows with these columns. `existing`: types of the table's columns, and those declared.

    Raises NoColumn.
    """
    fields = []
    for field in schema:
        form = _form(field.type, field.name)
        there = existing.get(field.name)
        if there is not None and not _fits(field.type, form, there):
            raise NoColumn(
                f"column {field.name[:100]} is {field.type} in the file and {there} in the table: write the files with "
                "the table's type"
            )
        fields.append({**form, "field": field.name})
    row = {"type": "struct", "field": "after", "optional": True, "fields": fields}
    return json.dumps({"type": "struct", "name": "firn.backfill.Envelope", "fields": [row]}, ensure_ascii=False)


def _fits(kind: pa.DataType, form: Mapping[str, Any], there: Type) -> bool:
    """Whether the values of a file's column all go into the table's."""
    if there.entry is not None and pa.types.is_map(kind):
        parts = (kind.key_type, form["keys"], there.entry[0]), (kind.item_type, form["values"], there.entry[1])
        return all(_fits(*part) for part in parts)
    if there.element is not None and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return _fits(kind.value_type, form["items"], there.element)
    if there.length is not None and pa.types.is_fixed_size_binary(kind):
        return bool(kind.byte_width == there.length)
    return storable(widen(there, Form(form, "").type)) == storable(there)


def _form(kind: pa.DataType, name: str) -> dict[str, Any]:
    text, optional = str(kind), {"optional": True}
    if text in _INTS:
        return {"type": "int32", **optional}
    if text in _LONGS:
        return {"type": "int64", **optional}
    if pa.types.is_boolean(kind):
        return {"type": "boolean", **optional}
    if pa.types.is_float16(kind) or pa.types.is_float32(kind):
        return {"type": "float", **optional}
    if pa.types.is_float64(kind):
        return {"type": "double", **optional}
    if pa.types.is_decimal(kind) or text == "uint64":
        precision, scale = (20, 0) if text == "uint64" else (kind.precision, kind.scale)
        parameters = {"precision": str(precision), "scale": str(scale)}
        return {"type": "string", "name": "firn.data.Decimal", "parameters": parameters, **optional}
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind):
        return {"type": "string", **optional}
    if pa.types.is_date(kind):
        return {"type": "string", "name": "io.debezium.time.IsoDate", **optional}
    if pa.types.is_time(kind):
        return {"type": "string", "name": "io.debezium.time.IsoTime", **optional}
    if pa.types.is_timestamp(kind):
        named = "ZonedTimestamp" if kind.tz else "IsoTimestamp"
        return {"type": "string", "name": f"io.debezium.time.{named}", **optional}
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return {"type": "bytes", **optional}
    if pa.types.is_dictionary(kind):
        return _form(kind.value_type, name)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {"type": "array", "items": _form(kind.value_type, name), **optional}
    if pa.types.is_map(kind):  # its JSON text, or what a declared map is read by
        return {"type": "map", "keys": _form(kind.key_type, name), "values": _form(kind.item_type, name), **optional}
    if pa.types.is_struct(kind):
        return {"type": "struct", **optional}  # its JSON text
    raise NoColumn(f"column {name[:100]} is {kind} in the file, which no table has")


def images_of_rows(rows: pa.Table) -> Iterator[bytes]:
    """Each row as the JSON that `schema_json` describes. Raises NoColumn for what it can't hold: nanoseconds."""
    try:
        plain = pa.table([_plain(column) for column in rows.columns], names=rows.column_names)
    except pa.ArrowInvalid as error:
        raise NoColumn(f"a value can't be kept: {str(error).splitlines()[0][:200]}") from None
    odd = [name for name, column in zip(plain.column_names, plain.columns, strict=True) if _has_words(column)]
    encode = msgspec.json.Encoder(decimal_format="string").encode
    for batch in plain.to_batches(max_chunksize=_ROWS):
        for row in _rows(batch):
            for name in odd:
                row[name] = _in_words(row[name])
            yield encode(row)


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    try:
        return batch.to_pylist()  # type: ignore[no-any-return]
    except (ValueError, OverflowError) as error:  # within lists and maps: nanoseconds, years that Python has none of
        raise NoColumn(f"a value can't be kept: {str(error)[:200]}") from None


_WORDS: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  # JSON has no numbers for these


def _has_words(column: pa.ChunkedArray) -> bool:
    if pa.types.is_nested(column.type):
        return _holds_floats(column.type)
    return pa.types.is_floating(column.type) and pc.all(pc.is_finite(column)).as_py() is False


def _holds_floats(kind: pa.DataType) -> bool:
    parts = (kind.field(place).type for place in range(kind.num_fields))
    return pa.types.is_floating(kind) or any(map(_holds_floats, parts))


def _in_words(value: Any) -> Any:
    """The value with words for the numbers that JSON has none for, within lists, maps and structs too."""
    if isinstance(value, list | tuple):
        return [_in_words(one) for one in value]
    if isinstance(value, dict):
        return {name: _in_words(one) for name, one in value.items()}
    return _WORDS.get(str(value), value) if isinstance(value, float) else value


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column as Python's values say all of it."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(column.cast(kind.value_type))
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", "UTC" if kind.tz else None))
    if pa.types.is_time(kind):
        return column.cast(pa.time64("us"))
    if pa.types.is_uint64(kind):
        return column.cast(pa.decimal128(20, 0))
    return column


_ARROW: Final = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "string": pa.string(), "uuid": pa.string(), "date": pa.date32(), "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}  # fmt: skip


def csv_reader(store: Store, path: str, existing: Mapping[str, Type]) -> pacsv.CSVStreamingReader:
    """A file of CSV with a header, packed by gzip or not. Columns that the table has are read as its types. Raises
    NoColumn if it can't be read."""
    types = {
        name: pa.decimal128(kind.precision or 38, kind.scale or 0) if kind.name == "decimal" else _ARROW[kind.name]
        for name, kind in existing.items()
        if kind.name in _ARROW or kind.name == "decimal"
    }
    raw: Any = io.BufferedReader(ObjectFile(store, path), 1 << 20)
    file = gzip.GzipFile(fileobj=raw) if path.endswith(".gz") else raw
    try:
        return pacsv.open_csv(
            pa.PythonFile(file, "r"),
            read_options=pacsv.ReadOptions(block_size=_BLOCK),
            parse_options=pacsv.ParseOptions(newlines_in_values=True),
            convert_options=pacsv.ConvertOptions(column_types=types, strings_can_be_null=False),
        )
    except pa.ArrowInvalid as error:
        raise NoColumn(f"{path} can't be read as CSV: {str(error).splitlines()[0][:200]}") from None
