"""Thrift's compact protocol, in which Parquet's footers and page indexes are: what little of it is read and written
here."""

from collections.abc import Iterator, Sequence
from typing import Final

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
I32: Final = 5
I64: Final = 6
BINARY: Final = _BINARY
LIST: Final = _LIST
STRUCT: Final = _STRUCT
_MOST_BITS: Final = 63  # of a number, before its last seven


class Reader:
    """Goes through values of the compact protocol. `at`: the next byte. All it does raises ValueError or IndexError, or
    RecursionError, for bytes that are damaged or lie: before it does much for them."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self.at = at

    def fields(self) -> Iterator[tuple[int, int]]:
        """The fields of a struct: the id and the type; who asks for the next one has read the value."""
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else _signed(self._varint())
            yield field, head & 15

    def number(self) -> int:
        """A whole number."""
        return _signed(self._varint())

    def numbers(self) -> list[int]:
        """A list of whole numbers."""
        return [self.number() for _ in range(self.size())]

    def binaries(self) -> list[bytes]:
        """A list of bytes."""
        return [self.binary() for _ in range(self.size())]

    def rest(self) -> bytes:
        """All that follows."""
        return self._data[self.at :]

    def size(self) -> int:
        """How many a list has; its elements follow."""
        head = self._byte()
        found = self._varint() if head >> 4 == 15 else head >> 4
        if found > len(self._data) - self.at:  # each has a byte at least
            raise ValueError("a list is longer than all bytes")
        return found

    def binary(self) -> bytes:
        """Bytes."""
        size = self._varint()
        self.at += size
        if self.at > len(self._data):
            raise IndexError("a value is longer than all bytes")
        return self._data[self.at - size : self.at]

    def skip(self, kind: int) -> None:
        """Passes a value by."""
        if kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner)
        elif kind in (_LIST, _SET):
            inner = self._data[self.at] & 15
            for _ in range(self.size()):
                self.skip(_BYTE if inner in (_TRUE, _FALSE) else inner)
        elif kind == _BINARY:
            self.binary()
        elif kind in (_BYTE, _DOUBLE):
            self.at += 1 if kind == _BYTE else 8
        elif kind not in (_TRUE, _FALSE):
            self._varint()

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _varint(self) -> int:
        found = shift = 0
        while shift <= _MOST_BITS:
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7
        raise ValueError("no number has so many bytes")


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


def struct(*fields: tuple[int, int, bytes]) -> bytes:
    """A struct of fields in the order of their ids: id, type, value."""
    parts, before = [], 0
    for field, kind, value in fields:
        parts += [bytes([(field - before) << 4 | kind]), value]
        before = field
    return b"".join((*parts, b"\0"))


def number(value: int) -> bytes:
    """A whole number, which is not below zero."""
    return _varint(value << 1)


def binary(value: bytes) -> bytes:
    """Bytes."""
    return _varint(len(value)) + value


def structs(values: Sequence[bytes]) -> bytes:
    """A list of structs, of fewer than 15."""
    return b"".join((bytes([len(values) << 4 | _STRUCT]), *values))


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)
