"""Says in a Parquet file's footer which of its columns are variants: Arrow writes their binaries and no word of it.

The footer is Thrift's compact protocol (parquet-format, parquet.thrift: FileMetaData, SchemaElement, LogicalType). What
is added are some bytes to the schema's elements; offsets in a file count from its beginning, and stay.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from firn_spark.files.compact_thrift import Reader
from firn_sql.variant_columns import is_variant

_END: Final = b"PAR1"
_VARIANT: Final = bytes([0x1C, 0x0C, 0x20, 0x13, 0x01, 0x00, 0x00])
"""After field 9 of a SchemaElement its field 10, `logicalType`: the union's field 16, VARIANT, of version 1."""

_NAME, _FIELD_ID = 4, 9
_SCHEMA: Final = 2


def annotated(body: pa.Buffer, fields: pa.Schema) -> pa.Buffer:
    """The file of these columns, with its variants told; one without any as it is."""
    names = [field.name.encode() for field in fields if is_variant(field)]
    if not names:
        return body
    size = int.from_bytes(body[body.size - 8 : body.size - 4].to_pybytes(), "little")
    begin = body.size - 8 - size
    footer = body[begin : begin + size].to_pybytes()
    parts, at = [], 0
    for end in _ends_of(footer, set(names)):
        parts += [footer[at:end], _VARIANT]
        at = end
    if len(parts) != 2 * len(names):
        raise AssertionError("the footer has other columns than were written")
    told = b"".join((*parts, footer[at:]))
    return pa.py_buffer(b"".join((body[:begin], told, len(told).to_bytes(4, "little"), _END)))


def _ends_of(footer: bytes, names: set[bytes]) -> Iterator[int]:
    """Where the elements of the columns of these names end: just before their last byte."""
    reader = Reader(footer)
    for field, kind in reader.fields():
        if field != _SCHEMA:
            reader.skip(kind)
            continue
        for number in range(reader.size()):
            name, last = b"", 0
            for last, inner in reader.fields():
                if last == _NAME:
                    name = reader.binary()
                else:
                    reader.skip(inner)
            if number and name in names and last == _FIELD_ID:  # of the parts of others, none has both
                names.remove(name)
                yield reader.at - 1
        return
