"""Single values from their JSON text, by its digits: the slow way, for what a converter (converters.py) refused."""

import math
from decimal import Decimal
from typing import Any, Final

import msgspec

from firn.changes.decode import values
from firn.changes.decode.converters import converter, reads_text
from firn.changes.decode.types import Encoding, Type
from firn.changes.decode.values import Refused, mismatch

_decode_exactly: Final = msgspec.json.Decoder(float_hook=Decimal).decode
_decode_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_pairs: Final = msgspec.json.Decoder(list[tuple[msgspec.Raw, msgspec.Raw]]).decode
_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def convert_exactly(kind: Type, source: Encoding, text: bytes, *, nulls: bool) -> Any:
    """Convert one value from its JSON text (not null).

    Numbers come by their digits. `nulls`: a value that is out of range becomes null, inside arrays too; else Refused.
    """
    try:
        if kind.element is not None and source.element is not None and text[:1] == b"[":
            items = [bytes(item) for item in _decode_items(text)]
            inner = kind.element, source.element
            return [None if item == b"null" else convert_exactly(*inner, item, nulls=nulls) for item in items]
        if kind.entry is not None and source.element is not None and text[:1] in b"{[":
            return _entries_exactly(kind.entry, source, text, nulls=nulls)
        if kind.fields and source.members and text[:1] == b"{":
            return _members_exactly(kind, source, text, nulls=nulls)
        if reads_text(kind, source):
            return converter(kind, source)(text)
        return converter(kind, source)(_by_digits(kind, source, text))
    except Refused as refused:
        if nulls and refused.code == "out_of_range":
            return None
        raise


def _entries_exactly(kinds: tuple[Type, Type], source: Encoding, text: bytes, *, nulls: bool) -> list[tuple[Any, Any]]:
    """The entries of a map in their order, of keys that are there twice the last: from an object, whose names are the
    keys' texts, or from [key, value] pairs, as Connect writes maps whose keys are no strings."""
    of_key, of_value = source.key or Encoding("any"), source.element or Encoding("any")
    if text[:1] == b"{":
        told = [(msgspec.json.encode(name), cell) for name, cell in _decode_members(text).items()]
        if not of_key.kind.startswith("time_"):  # of which one has several texts, and a table has one of them
            of_key = _IN_NAMES.get(kinds[0].name, of_key)
    else:
        try:
            told = [(bytes(key), cell) for key, cell in _decode_pairs(text)]
        except msgspec.ValidationError as error:
            raise mismatch("a map is an object, or an array of [key, value]") from error
    found: dict[Any, Any] = {}
    for name, cell in told:
        key = None if name == b"null" else convert_exactly(kinds[0], of_key, name, nulls=False)
        if key is None:
            raise mismatch("a key of a map is null")
        value = None if bytes(cell) == b"null" else convert_exactly(kinds[1], of_value, bytes(cell), nulls=nulls)
        found.pop(key, None)  # its place is the last one's
        found[key] = value
    return list(found.items())


_IN_NAMES: Final = {
    "boolean": Encoding("decimal_text"), "int": Encoding("decimal_text"), "long": Encoding("decimal_text"),
    "decimal": Encoding("decimal_text"), "string": Encoding("string"),
}  # fmt: skip


def _members_exactly(kind: Type, source: Encoding, text: bytes, *, nulls: bool) -> dict[str, Any]:
    cells = {name: bytes(cell) for name, cell in _decode_members(text).items()}
    written = {member.name: member for member in source.members}
    if source.closed and (others := cells.keys() - written.keys()):
        raise values.unknown_member(min(others))
    found: dict[str, Any] = {}
    for name, part in kind.fields:
        member = written.get(name)
        cell = b"null" if member is None else cells.get(name, member.default or b"null")
        if cell != b"null" and member is not None:
            try:
                found[name] = convert_exactly(part, member.source, cell, nulls=nulls)
            except Refused as refused:
                raise Refused(refused.code, f"{name}: {refused.reason}") from refused
        elif member is not None and member.required:
            raise Refused("missing_field", f"{name}: {values.MISSING}")
        else:
            found[name] = None
    return found


def _by_digits(kind: Type, source: Encoding, text: bytes) -> Any:
    """The JSON value with its numbers in the class that the converter of `kind` takes, where nothing is lost by it."""
    value = _decode_exactly(text)
    if kind.name == "string" and source.kind == "any" and value.__class__ is not str:
        return text.decode()
    if value.__class__ is Decimal:
        if kind.name in {"float", "double"}:
            if math.isinf(float(value)):
                raise mismatch("the number does not fit double")
            return float(value)
        if kind.name in {"int", "long"} and value.adjusted() < 20 and value == value.to_integral_value():
            return int(value)
    if value.__class__ is int and value == 0 and kind.name in {"float", "double"}:
        return -0.0 if text[:1] == b"-" else 0.0
    return value
