"""The hash of Iceberg's bucket transform: Murmur3, x86, 32 bits, seed 0. Every engine that reads Iceberg has it, and a
column's promotions (int to long, decimals to more digits) leave it as it is.

https://iceberg.apache.org/spec/#appendix-b-32-bit-hash-requirements, whose values are this module's test vectors;
https://github.com/aappleby/smhasher/blob/master/src/MurmurHash3.cpp
"""

from decimal import Decimal
from functools import lru_cache
from typing import Final

C1, C2, C3, C4, C5 = 0xCC9E2D51, 0x1B873593, 0xE6546B64, 0x85EBCA6B, 0xC2B2AE35
MASK: Final = 0xFFFFFFFF


_SHORT: Final = 64  # bytes of what is remembered: what somebody sends may be megabytes each


def murmur3(data: bytes) -> int:
    """The hash of bytes, 0 to 2**32 - 1."""
    return _remembered(data) if len(data) <= _SHORT else _hash(data)


@lru_cache(maxsize=65_536)
def _remembered(data: bytes) -> int:
    return _hash(data)


def _hash(data: bytes) -> int:
    def scrambled(block: int) -> int:
        block = block * C1 & MASK
        return ((block << 15 | block >> 17) & MASK) * C2 & MASK

    found, whole = 0, len(data) & ~3
    for place in range(0, whole, 4):
        found ^= scrambled(int.from_bytes(data[place : place + 4], "little"))
        found = ((found << 13 | found >> 19) & MASK) * 5 + C3 & MASK
    if len(data) > whole:
        found ^= scrambled(int.from_bytes(data[whole:], "little"))
    found ^= len(data)
    found = (found ^ found >> 16) * C4 & MASK
    found = (found ^ found >> 13) * C5 & MASK
    return found ^ found >> 16


def bytes_of_decimal(value: Decimal) -> bytes:
    """What is hashed of a decimal of its column's scale: the unscaled value, big-endian, in as few bytes as hold it."""
    number = unscaled(value)
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def unscaled(value: Decimal) -> int:
    """Exactly: arithmetic of decimals would round to 28 digits."""
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)))
    return -number if sign else number
