"""Bloom filters of Parquet files, as far as a look-up needs them: is this value surely not in that row group?

They are split blocks of 32 bytes with xxHash64, by https://github.com/apache/parquet-format/blob/master/BloomFilter.md.
Neither pyarrow nor PyIceberg can ask one. DuckDB can, of local files alone: the tests hold these answers against its.
A question reads the filter's header and the one block that the value belongs to.
"""

import re
import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from xxhash import xxh64_intdigest

_BLOCK: Final = 32  # bytes
_SALT: Final = (
    0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31,
)  # fmt: skip
# Thrift's compact protocol: the number of bytes, then one of one for each of algorithm, hash and compression. A filter
# of another kind has another header, and is not asked.
_HEADER: Final = re.compile(rb"\x15([\x80-\xff]{0,4}[\x00-\x7f])" + rb"\x1c\x1c\x00\x00" * 3 + rb"\x00")
_LONGEST_HEADER: Final = 19
_SOME: Final = 4  # values: for more the filter is read as a whole
_MOST_BYTES: Final = 16 * 1024 * 1024
_32: Final = 0xFFFFFFFF


@dataclass(frozen=True)
class BloomFilter:
    """The filter of one column in one row group. `start`: where its blocks begin in the file."""

    start: int
    blocks: int

    @classmethod
    def at(cls, file: Any, offset: int) -> "BloomFilter | None":
        """The filter whose header is at `offset` of the open file; None if it is of a kind that is not known here."""
        file.seek(offset)
        header = _HEADER.match(file.read(_LONGEST_HEADER))
        size = _number(header[1]) if header is not None else 0
        if header is None or size <= 0 or size % _BLOCK:
            return None
        return cls(offset + header.end(), size // _BLOCK)

    def may_hold(self, file: Any, values: Collection[bytes]) -> bool:
        """Whether one of the values (in Parquet's plain encoding, without a length before it) may be in the column.

        False is sure; True is wrong for one in twenty to a hundred values, by how the filter was made.
        """
        if len(values) > _SOME and self.blocks * _BLOCK > _MOST_BYTES:
            return True
        every = _read(file, self.start, self.blocks * _BLOCK) if len(values) > _SOME else None
        for value in values:
            hashed = xxh64_intdigest(value)
            place = ((hashed >> 32) * self.blocks >> 32) * _BLOCK
            block = _read(file, self.start + place, _BLOCK) if every is None else every[place : place + _BLOCK]
            if len(block) < _BLOCK or _has(block, hashed & _32):
                return True
        return False


def _has(block: bytes, low: int) -> bool:
    return all(
        word >> (((low * salt) & _32) >> 27) & 1 for word, salt in zip(struct.unpack("<8I", block), _SALT, strict=True)
    )


def _read(file: Any, start: int, size: int) -> bytes:
    file.seek(start)
    return bytes(file.read(size))


def _number(varint: bytes) -> int:
    """Thrift's zigzag number."""
    number = sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(varint))
    return (number >> 1) ^ -(number & 1)
