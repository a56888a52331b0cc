"""Rows as the body of a file: Parquet, or a JSON object a line. The same rows always give the same bytes."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firn.config.file_sinks import FileSink
from firn_sql.nano_texts import row_values

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
            lines.write(encoder.encode_lines(row_values(_told(batch))))
    if lines is not out:
        lines.close()
    return bytes(out.getvalue().to_pybytes())


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
