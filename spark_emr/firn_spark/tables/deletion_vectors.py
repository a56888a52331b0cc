"""Deletion vectors as bytes: which rows of a data file are gone, as a bitmap in a Puffin file. Pure.

https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type and #file-structure. All numbers of a Puffin file
are little-endian, and those that frame a vector are big-endian.
"""

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyroaring import BitMap64

_PUFFIN: Final = b"PFA1"
_MAGIC: Final = b"\xd1\xd3\x39\x64"
_KIND: Final = "deletion-vector-v1"
_POSITION: Final = 2147483645  # id of `pos`, the field that a vector is said to be of
_FRAME: Final = 12  # bytes beside the bitmap: its length, the magic, and a checksum
_LAST: Final = 2**63 - 1  # position that readers know


class DamagedVector(ValueError):
    """Bytes that are no deletion vector; the text says why."""


@dataclass(frozen=True)
class Blob:
    """Where one vector is in a Puffin file: `offset` and `length` in bytes; and how many `rows` it takes."""

    offset: int
    length: int
    rows: int


def encoded(rows: pa.Array) -> tuple[bytes, int]:
    """The vector of these rows (int64, from 0, in any order), and how many they are, each counted once."""
    plain = pa.concat_arrays([rows.cast(pa.uint64())])
    held = memoryview(plain.buffers()[1] or b"").cast("Q") if len(plain) else ()
    bitmap = BitMap64(held[plain.offset : plain.offset + len(plain)])
    bitmap.run_optimize()
    inside = _MAGIC + bitmap.serialize()
    return struct.pack(">I", len(inside)) + inside + struct.pack(">I", zlib.crc32(inside)), len(bitmap)


def decoded(vector: bytes, count: int) -> pa.Array:
    """The rows that a vector takes, which has so many by its manifest: int64, rising. Raises DamagedVector."""
    if len(vector) < _FRAME or vector[4:8] != _MAGIC:
        raise DamagedVector("no deletion vector")
    inside = vector[4:-4]
    if (len(inside),) != struct.unpack_from(">I", vector) or struct.pack(">I", zlib.crc32(inside)) != vector[-4:]:
        raise DamagedVector("a deletion vector whose length or checksum is wrong")
    try:
        bitmap = BitMap64.deserialize(inside[len(_MAGIC) :])
    except ValueError as error:
        raise DamagedVector("a deletion vector that holds no bitmap") from error
    if len(bitmap) != count:  # before they are spread out: some bytes may stand for billions
        raise DamagedVector(f"a deletion vector of {len(bitmap)} rows, where the table says {count}")
    if count and bitmap.max() > _LAST:
        raise DamagedVector("a deletion vector with a row beyond all files")
    return pa.array(bitmap.to_array(), pa.int64())


def puffin(places: Mapping[str, pa.Array]) -> tuple[bytes, dict[str, Blob]]:
    """A Puffin file with a vector for each data file (path -> rows), and where in it each is."""
    body, found, told = bytearray(_PUFFIN), {}, []
    for path, rows in places.items():
        vector, count = encoded(rows)
        blob = found[path] = Blob(len(body), len(vector), count)
        body += vector
        told.append(
            {
                "type": _KIND,
                "fields": [_POSITION],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": blob.offset,
                "length": blob.length,
                "properties": {"referenced-data-file": path, "cardinality": str(count)},
            }
        )
    footer = json.dumps({"blobs": told}, separators=(",", ":"), ensure_ascii=False).encode()
    body += _PUFFIN + footer + struct.pack("<i", len(footer)) + bytes(4) + _PUFFIN
    return bytes(body), found
