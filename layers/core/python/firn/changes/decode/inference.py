"""Columns from row images alone, for a source that sends no schema and a table that nobody declared.

JSON has fewer types than a database: a timestamp arrives as a number and stays one. Declare columns in firn.yaml to get
more out of them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any, Final

import msgspec

from firn.changes.decode import types
from firn.changes.decode.connect_schema import FLAT_METADATA
from firn.changes.decode.json_lines import joined
from firn.changes.decode.types import MAX_PRECISION, Column, Encoding, Type, decimal
from firn.changes.decode.values import SPECIAL_FLOATS

_decode: Final = msgspec.json.Decoder(float_hook=float).decode  # 1e400 is a number too
_ANY: Final = Encoding("any")
_INT64: Final = range(-(2**63), 2**63)
_MORE_NAMES: Final = 4  # that others have than the first image: each costs another look at what came before it
_UNKNOWN: Final = re.compile(r"unknown field `(.*?)`(?: - at `.*`)?$", re.DOTALL)
_EXACT_IN_DOUBLE: Final = range(-(2**53), 2**53 + 1)


def seen_in(images: Sequence[bytes], *, flat: bool = False) -> tuple[Column, ...]:
    """The columns that row images (JSON objects) show, in order of first appearance.

    true/false -> boolean, integers -> int53 (beyond 2^53 long, beyond 64 bits decimal(38,0), beyond 38 digits string),
    other numbers -> double, strings, objects and arrays -> string (JSON text), mixtures -> string; a column that is
    always null or absent is left out: nothing is known of it yet. Images that are no objects are passed over: decoding
    reports them. `flat`: leave out the metadata that flattening adds.
    """
    lines = joined(images)
    seen = None if lines is None else seen_in_lines(lines, len(images), flat=flat)
    return _columns(_cells(images), flat) if seen is None else seen


def seen_in_lines(lines: bytes, count: int, *, flat: bool = False) -> tuple[Column, ...] | None:
    """The same at a fraction of the cost, for images that are `count` lines (json_lines.one_a_line); None unless all
    are objects with columns of the first one and few others."""
    cells = _cells_of_equals(lines, count)
    return None if cells is None else _columns(cells, flat)


def _columns(cells: Mapping[str, Sequence[Any]], flat: bool) -> tuple[Column, ...]:
    hidden = FLAT_METADATA if flat else frozenset[str]()
    return tuple(Column(name, _type(seen), source=_ANY) for name, seen in cells.items() if name not in hidden)


def _cells(images: Iterable[bytes]) -> dict[str, list[Any]]:
    """The values of each column but nulls, in order of first appearance."""
    cells: dict[str, list[Any]] = {}
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
            if value is not None:
                (cells.get(name) or cells.setdefault(name, [])).append(value)
    return cells


def _cells_of_equals(lines: bytes, count: int) -> dict[str, list[Any]] | None:
    """The same of lines; None unless all are objects with columns of the first one and few others."""
    try:
        names = tuple(_decode(_line(lines, 0)))
        read = _rows(lines, names)
    except (msgspec.MsgspecError, UnicodeError, ValueError):  # a name that no struct can have is a ValueError
        return None
    if read is None or len(read[0]) != count:
        return None
    rows, names = read
    found: list[tuple[int, int, str, list[Any]]] = []
    orders: dict[int, list[str]] = {}
    for i, name in enumerate(names):
        cells = list(map(attrgetter(f"c{i}"), rows))
        first = next((row for row, cell in enumerate(cells) if cell is not None), None)
        if first is not None:
            order = orders.get(first) or orders.setdefault(first, list(_decode(_line(lines, first))))
            found.append((first, order.index(name), name, [cell for cell in cells if cell is not None]))
    return {name: cells for _, _, name, cells in sorted(found, key=itemgetter(0, 1))}


def _rows(lines: bytes, names: tuple[str, ...]) -> tuple[Sequence[Any], tuple[str, ...]] | None:
    """The lines with the names of all their members; None if many are not among `names`. A delete among plain
    rows has a member of its own."""
    for _ in range(_MORE_NAMES + 1):
        try:
            return _reader(names).decode_lines(lines), names
        except msgspec.ValidationError as error:
            found = _UNKNOWN.search(str(error))
            if found is None or found[1] in names:
                return None
            names = (*names, found[1])
    return None


def _line(lines: bytes, place: int) -> bytes:
    return lines.split(b"\n", place + 1)[place]


@lru_cache(maxsize=256)
def _reader(names: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """Reads objects with no other members than these, to a struct with the fields c0, c1, …"""
    fields = [(f"c{i}", Any, None) for i in range(len(names))]
    rename = {f"c{i}": name for i, name in enumerate(names)}
    row = msgspec.defstruct("Row", fields, rename=rename, forbid_unknown_fields=True, gc=False)
    return msgspec.json.Decoder(row, float_hook=float)


def _type(cells: Sequence[Any]) -> Type:
    """The type of a column that holds these values; there is at least one, and none is null."""
    classes = set(map(type, cells))
    if classes == {bool}:
        return types.BOOLEAN
    integers: Sequence[int] = cells if classes == {int} else ()
    if int in classes and len(classes) > 1:
        integers = [cell for cell in cells if cell.__class__ is int]
    low, high = min(0, min(integers, default=0)), max(0, max(integers, default=0))
    if classes == {int}:
        return _integer(low, high)
    only_special = all(cell in SPECIAL_FLOATS for cell in cells if cell.__class__ is str)
    if only_special and str in classes and classes <= {str, int}:
        if int not in classes:
            return types.SPECIAL
        return types.SPECIAL_INT53 if _integer(low, high) == types.INT53 else types.STRING
    numbers = classes - {str} if only_special else classes
    if float in numbers and numbers <= {int, float}:
        # 1, 1.5, 2 is how JavaScript writes doubles; past 2^53 the integers would no longer be exact.
        exact = low in _EXACT_IN_DOUBLE and high in _EXACT_IN_DOUBLE
        return types.DOUBLE if exact else types.STRING
    return types.STRING


def _integer(low: int, high: int) -> Type:
    if low in _EXACT_IN_DOUBLE and high in _EXACT_IN_DOUBLE:
        return types.INT53
    if low in _INT64 and high in _INT64:
        return types.LONG
    digits = max(len(str(-low)), len(str(high)))
    return decimal(MAX_PRECISION, 0) if digits <= MAX_PRECISION else types.STRING
