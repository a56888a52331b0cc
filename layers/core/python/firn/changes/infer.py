"""Columns from row images alone, for a source that sends no schema and a table that nobody declared.

JSON has fewer types than a database: a timestamp arrives as a number and stays one. Declare columns in firn.yaml to get
more out of them.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from firn.changes import types
from firn.changes.connect import FLAT_METADATA
from firn.changes.types import MAX_PRECISION, Column, Encoding, Type, decimal
from firn.changes.values import SPECIAL_FLOATS

_decode: Final = msgspec.json.Decoder(float_hook=float).decode  # 1e400 is a number too
_ANY: Final = Encoding("any")
_INT64: Final = range(-(2**63), 2**63)
_EXACT_IN_DOUBLE: Final = range(-(2**53), 2**53 + 1)


class _Seen:
    """What one column has held so far."""

    def __init__(self) -> None:
        self.classes: set[type] = set()
        self.low = 0
        self.high = 0
        self.special_floats_only = True

    def add(self, value: Any) -> None:
        kind = value.__class__
        self.classes.add(kind)
        if kind is int:
            self.low, self.high = min(self.low, value), max(self.high, value)
        elif kind is str and value not in SPECIAL_FLOATS:
            self.special_floats_only = False

    def type(self) -> Type:
        if self.classes == {bool}:
            return types.BOOLEAN
        if self.classes == {int}:
            return self._integer()
        if self.special_floats_only and str in self.classes and self.classes <= {str, int}:
            if int not in self.classes:
                return types.SPECIAL
            return types.SPECIAL_INT53 if self._integer() == types.INT53 else types.STRING
        numbers = self.classes - {str} if self.special_floats_only else self.classes
        if float in numbers and numbers <= {int, float}:
            # 1, 1.5, 2 is how JavaScript writes doubles; past 2^53 the integers would no longer be exact.
            exact = self.low in _EXACT_IN_DOUBLE and self.high in _EXACT_IN_DOUBLE
            return types.DOUBLE if exact else types.STRING
        return types.STRING

    def _integer(self) -> Type:
        if self.low in _EXACT_IN_DOUBLE and self.high in _EXACT_IN_DOUBLE:
            return types.INT53
        if self.low in _INT64 and self.high in _INT64:
            return types.LONG
        digits = max(len(str(-self.low)), len(str(self.high)))
        return decimal(MAX_PRECISION, 0) if digits <= MAX_PRECISION else types.STRING


def seen_in(images: Iterable[bytes], *, flat: bool = False) -> tuple[Column, ...]:
    """The columns that row images (JSON objects) show, in order of first appearance.

    true/false -> boolean, integers -> int53 (beyond 2^53 long,
    beyond 64 bits decimal(38,0), beyond 38 digits string), other numbers ->
    double, strings, objects and arrays -> string (JSON text), mixtures -> string; a column that is always null or
    absent is left out: nothing is known of it yet. Images that are no objects are passed over: decoding reports them.
    `flat`: leave out the metadata that flattening adds.
    """
    seen: dict[str, _Seen] = {}
    for image in images:
        try:
            row = _decode(image)
            if row.__class__ is str:
                row = _decode(row)
        except (msgspec.MsgspecError, UnicodeError):
            continue
        if row.__class__ is not dict:
            continue
        for name, value in row.items():
            if value is not None and not (flat and name in FLAT_METADATA):
                (seen.get(name) or seen.setdefault(name, _Seen())).add(value)
    return tuple(Column(name, column.type(), source=_ANY) for name, column in seen.items())
