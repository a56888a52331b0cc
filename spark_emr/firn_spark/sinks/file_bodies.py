"""Rows as the body of a file: Parquet, or a JSON object a line. The same rows always give the same bytes."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firn.config.file_sinks import FileSink
from firn_sql.nano_texts import has_nanoseconds

_ROWS_AT_ONCE: Final = 8_192
_ROWS_IN_GROUP: Final = 1_000_000


def body_of(parts: Sequence[pa.Table], sink: FileSink) -> bytes:
    """The file of these rows, one or more tables of one schema."""
    return _parquet(parts, sink) if sink.format == "parquet" else _json(parts, sink)


def rows_in(body: bytes, sink: FileSink) -> int:
    """How many rows such a file holds. Raises ValueError if it is not one."""
    try:
        if sink.format == "parquet":
            return int(pq.ParquetFile(pa.BufferReader(body)).metadata.num_rows)
        if sink.compression == "none":
            return body.count(b"\n")
        with pa.input_stream(pa.BufferReader(body), compression=sink.compression) as lines:
            return sum(part.count(b"\n") for part in iter(lambda: lines.read(1_000_000), b""))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"not {sink.format} with compression {sink.compression} ({error})") from error


def _parquet(parts: Sequence[pa.Table], sink: FileSink) -> bytes:
    out = pa.BufferOutputStream()
    with pq.ParquetWriter(out, parts[0].schema, compression=sink.compression) as writer:
        writer.write_table(pa.concat_tables(parts), row_group_size=_ROWS_IN_GROUP)
    return bytes(out.getvalue().to_pybytes())


def _json(parts: Sequence[pa.Table], sink: FileSink) -> bytes:
    out = pa.BufferOutputStream()
    lines = out if sink.compression == "none" else pa.CompressedOutputStream(out, sink.compression)
    encoder = msgspec.json.Encoder(enc_hook=_other, decimal_format="number")
    for part in parts:
        for batch in part.to_batches(max_chunksize=_ROWS_AT_ONCE):
            lines.write(encoder.encode_lines(_objects(_told(batch))))
    if lines is not out:
        lines.close()
    return bytes(out.getvalue().to_pybytes())


def _objects(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows. Maps are objects where all keys in a column are texts, else arrays of pairs: streams read both."""
    columns = list(map(_values, batch.columns))
    return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.Array) -> list[Any]:
    kind = column.type
    maps: Any = "lossy" if _has_texts_for_keys(kind) else None
    if not has_nanoseconds(kind):
        try:
            found: list[Any] = column.to_pylist(maps_as_pydicts=maps)
            return found
        except OverflowError:  # a time after the year 9999 within it
            pass
    return [_with_times(value, kind) for value in column.cast(_as_texts(kind)).to_pylist(maps_as_pydicts=maps)]


def _as_texts(kind: pa.DataType) -> pa.DataType:
    """The type with its times as texts."""
    if pa.types.is_list(kind):
        return pa.list_(_as_texts(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_as_texts(kind.key_type), _as_texts(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(one.name, _as_texts(one.type)) for one in kind])
    return pa.string() if pa.types.is_timestamp(kind) or pa.types.is_date(kind) else kind


def _with_times(value: Any, kind: pa.DataType) -> Any:
    """A value of `_as_texts(kind)`, its times as JSON has them."""
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        return value.replace(" ", "T", 1)
    if pa.types.is_list(kind):
        return [_with_times(one, kind.value_type) for one in value]
    if pa.types.is_struct(kind):
        return {one.name: _with_times(value[one.name], one.type) for one in kind}
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else value
        told = [[_with_times(key, kind.key_type), _with_times(one, kind.item_type)] for key, one in pairs]
        return dict(told) if isinstance(value, dict) else told
    return value


def _has_texts_for_keys(kind: pa.DataType) -> bool:
    """Whether no map in it has other keys."""
    if pa.types.is_map(kind) and not pa.types.is_string(kind.key_type):
        return False
    parts = (kind.field(n).type for n in range(kind.num_fields))
    return all(map(_has_texts_for_keys, parts))


def _told(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Times as text, as Arrow writes them: Python has none after the year 9999."""
    columns = []
    for column in batch.columns:
        if pa.types.is_timestamp(column.type):
            column = pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)
        elif pa.types.is_date(column.type):
            column = column.cast(pa.string())
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _other(value: Any) -> Any:
    """What JSON has no word for, as text."""
    return str(value)
