"""Geometries as WKB of ISO (ISO/IEC 13249-3), out of what sources write: PostGIS's EWKB, which has the reference system
and the dimensions in flags of its own, or ISO's WKB as it is. Coordinates are kept to the bit. Pure.

Whatever has a geometry of this kind in bytes reads it: ST_GeomFromWKB of DuckDB, PostGIS, Sedona and Trino.
"""

import struct
from typing import Any, Final

import msgspec

from firn.changes.decode import values
from firn.changes.decode.values import mismatch

MAX_DEPTH: Final = 32  # collections in one another
_POINT: Final = 1
_LINES: Final = frozenset({2, 8})  # line string, circular string: points
_RINGS: Final = frozenset({3, 17})  # polygon, triangle: rings of points
# Collections of any kind, compound curves, curve polygons, multi-curves and -surfaces, polyhedral surfaces, tins.
_PARTS: Final = frozenset({4, 5, 6, 7, 9, 10, 11, 12, 15, 16})
_Z, _M, _SRID, _FLAGS = 0x8000_0000, 0x4000_0000, 0x2000_0000, 0xE000_0000
_COUNT: Final = {0: struct.Struct(">I"), 1: struct.Struct("<I")}
_CUT: Final = "the geometry ends too soon"


def iso_wkb(data: bytes) -> bytes:
    """The same geometry as ISO writes it: without its reference system, its dimensions in the number of its kind. Each
    part is looked at, and what is no geometry from the first to the last byte is Refused."""
    try:
        return _Walk(data).whole()
    except (IndexError, struct.error) as error:
        raise mismatch(_CUT) from error


class _Walk:
    """Once through the bytes. Each step is some bytes further, whatever the counts say."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0
        self._kept, self._pieces = 0, list[bytes]()

    def whole(self) -> bytes:
        """The geometry, and nothing behind it."""
        left = [1]  # geometries to come, of each collection that is open
        while left:
            if not left[-1]:
                left.pop()
                continue
            left[-1] -= 1
            if parts := self._one():
                left.append(parts)
                if len(left) > MAX_DEPTH:
                    raise mismatch(f"the geometry has collections more than {MAX_DEPTH} deep")
        if self._place != len(self._data):
            raise mismatch(_CUT if self._place > len(self._data) else "there are bytes behind the geometry")
        return b"".join([*self._pieces, self._data[self._kept :]]) if self._pieces else self._data

    def _one(self) -> int:
        """The next geometry but for its parts. -> how many these are."""
        order = self._data[self._place]
        count = _COUNT.get(order)
        if count is None:
            raise mismatch("the geometry is not WKB")
        (code,) = count.unpack_from(self._data, self._place + 1)
        dimensions, kind = divmod(code & ~_FLAGS, 1000)
        if dimensions > 3 or (dimensions and code & (_Z | _M)):
            raise mismatch("the geometry is of a kind that WKB does not have")
        z, m = bool(code & _Z) or dimensions in (1, 3), bool(code & _M) or dimensions in (2, 3)
        head = kind + 1000 * z + 2000 * m
        behind = self._place + (9 if code & _SRID else 5)
        if head != code:
            self._pieces += [self._data[self._kept : self._place + 1], count.pack(head)]
            self._kept = behind
        self._place = behind
        width = 8 * (2 + z + m)
        if kind == _POINT:
            self._place += width
        elif kind in _LINES:
            self._points(count, width)
        elif kind in _RINGS:
            for _ in range(self._number(count)):
                self._points(count, width)
        elif kind in _PARTS:
            return self._number(count)
        else:
            raise mismatch("the geometry is of a kind that WKB does not have")
        return 0

    def _points(self, count: struct.Struct, width: int) -> None:
        number = self._number(count)
        self._place += width * number

    def _number(self, count: struct.Struct) -> int:
        (number,) = count.unpack_from(self._data, self._place)
        self._place += 4
        return int(number)


def wkb_of(value: Any) -> bytes:
    """The geometry of a decoded JSON value, as iso_wkb has it: of Debezium's object with `wkb`, or that object's JSON
    in a string; or of (E)WKB in a string, in hexadecimal digits or in base64. Refused for all else."""
    if value.__class__ is str and value[:1] == "{":
        try:
            value = msgspec.json.decode(value)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise mismatch("the text is not the JSON of a geometry") from error
    if value.__class__ is dict:
        value = value.get("wkb")
    if value.__class__ is not str:
        raise mismatch("not an object with wkb in a string, nor WKB in a string")
    return iso_wkb(_bytes_of(value))


def _bytes_of(text: str) -> bytes:
    """The first byte is 0 or 1: in hexadecimal digits it begins with 0, in base64 with A."""
    if text[:1] == "0":
        return values.bytes_of_hex(text)
    return values.bytes_of_base64url(text) if "-" in text or "_" in text else values.bytes_of_base64(text)
