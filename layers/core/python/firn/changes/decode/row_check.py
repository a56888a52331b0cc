"""Whether rows fit their schema: what the codec says, found out quickly where all is well."""

from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from firn.changes.decode.exact_values import convert_exactly
from firn.changes.decode.image_cells import are_odd
from firn.changes.decode.poison import poison
from firn.changes.decode.row_schema import RowSchema, SchemaField, checker
from firn.changes.decode.source_encodings import DecodeSettings
from firn.changes.decode.sure_types import Sure, are_odd_moments, field_of, sure_decimal, sure_type
from firn.errors import EventError

_NOT_SURE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
_NULL: Final = b"null"


class RowCheck:
    """Judges the rows of one schema. `known`: names that rows may have beside its fields (RowSchema.others).

    Thread-safe once made.
    """

    def __init__(self, schema: RowSchema, settings: DecodeSettings, known: Collection[str]) -> None:
        self._codec = checker(schema, settings, known)
        self._of_deleted = checker(schema, settings, known, deleted=True)
        self._looks: list[tuple[Callable[[Any], Any], Sure]] = []
        self._one: Callable[[bytes], Any] | None = None
        self._moments = any(field.type.holds("timestamptz") for field in schema.fields)
        others = () if schema.others(known) is None else sorted(known - {field.name for field in schema.fields})
        if not are_odd([*(field.name for field in schema.fields), *others]):
            self._prepare(schema, others)

    def _prepare(self, schema: RowSchema, others: Sequence[str]) -> None:
        fields = [self._field(f"c{i}", field) for i, field in enumerate(schema.fields)]
        fields += [(f"x{i}", Raw, UNSET) for i, _ in enumerate(others)]
        rename = {f"c{i}": field.name for i, field in enumerate(schema.fields)}
        rename |= {f"x{i}": name for i, name in enumerate(others)}
        # In the order that rows are most likely to have: else each member is looked for among all fields.
        closed = schema.unknown == "reject"
        row = msgspec.defstruct("Row", fields, rename=rename, gc=False, kw_only=True, forbid_unknown_fields=closed)
        self._one = msgspec.json.Decoder(row).decode
        self._lines = msgspec.json.Decoder(row).decode_lines
        self._many = msgspec.json.Decoder(list[row]).decode  # type: ignore[valid-type]

    def _field(self, name: str, field: SchemaField) -> Any:
        """The field of the rows' struct. What msgspec has no type for is looked at by itself."""
        written = field.written
        kind = sure_type(field.type, written.source)
        if kind is None or (kind is Raw and written.required):
            self._looks.append((attrgetter(name), _look(field)))
            kind = Raw
        return field_of(name, kind, required=written.required, filled=written.default is not None)

    def fits(self, body: bytes, count: int, *, array: bool) -> bool:
        """Whether all `count` rows of a body, an array or one after another, fit for sure. No answer if not."""
        if self._one is None or (self._moments and are_odd_moments(body)):
            return False
        try:
            rows = self._many(body) if array else self._lines(body)
        except _NOT_SURE:
            return False
        return len(rows) == count and all(all(map(look, map(of, rows))) for of, look in self._looks)

    def misfits(self, rows: Sequence[bytes], deleted: Collection[int] = ()) -> dict[int, EventError]:
        """The places of the rows (JSON objects) that do not fit, with the reason. `deleted`: the places of those that
        are deleted."""
        found: dict[int, EventError] = {}
        for place, row in enumerate(rows):
            is_deleted = place in deleted
            if not is_deleted and self._fits(row):
                continue
            try:
                (self._of_deleted if is_deleted else self._codec).decode(row)
            except Exception as error:  # noqa: BLE001 (one row's failure is one dead letter)
                found[place] = poison(error)
        return found

    def _fits(self, row: bytes) -> bool:
        if self._one is None or (self._moments and are_odd_moments(row)):
            return False
        try:
            read = self._one(row)
        except _NOT_SURE:
            return False
        return all(look(of(read)) for of, look in self._looks)


def _look(field: SchemaField) -> Callable[[Any], bool]:
    """Whether a cell (Raw, or UNSET) is good for sure."""
    written = field.written
    sure = _exactly(field) if field.type.name != "decimal" else sure_decimal(field.type)

    def look(cell: Any) -> bool:
        if cell is UNSET:
            return True  # else the struct has no default for it
        text = bytes(cell)
        return not written.required if text == _NULL else sure(text)

    return look


def _exactly(field: SchemaField) -> Sure:
    def sure(text: bytes) -> bool:
        try:
            convert_exactly(field.type, field.written.source, text, nulls=False)
        except Exception as error:  # noqa: BLE001 (the codec says what it is)
            poison(error)
            return False
        return True

    return sure
