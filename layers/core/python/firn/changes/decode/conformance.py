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
from firn.changes.decode.sure_types import Cells, field_of, sure_cells, sure_type
from firn.errors import EventError

_NOT_SURE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
_NULL: Final = Raw(b"null")


class Conformance:
    """Judges the rows of one schema. `known`: names that rows may have beside its fields (RowSchema.others).

    Thread-safe once made.
    """

    def __init__(self, schema: RowSchema, settings: DecodeSettings, known: Collection[str]) -> None:
        self._codec = checker(schema, settings, known)
        self._of_deleted = checker(schema, settings, known, deleted=True)
        # How to get the cells of a field that is looked at by itself, whether they are JSON text, whether it must be
        # there, and what looks.
        self._looks: list[tuple[Callable[[Any], Any], bool, bool, Cells | None]] = []
        self._one: Callable[[bytes], Any] | None = None
        others = () if schema.others(known) is None else sorted(set(known) - {field.name for field in schema.fields})
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

    def _field(self, name: str, field: SchemaField) -> Any:
        """The field of the rows' struct. What msgspec has no type for is looked at by itself."""
        written = field.written
        together = sure_cells(field.type, written.source)
        kind, look = together or (sure_type(field.type, written.source), None)
        if kind is None:
            kind, look = Raw, _each(_exactly(field))
        if look is not None or (kind is Raw and written.required):
            self._looks.append((attrgetter(name), kind is Raw, written.required, look))
        return field_of(name, kind, required=written.required, filled=written.default is not None)

    def fits(self, lines: bytes, count: int) -> bool:
        """Whether lines are `count` rows that all fit for sure. No answer if not."""
        if self._one is None:
            return False
        try:
            rows = self._lines(lines)
        except _NOT_SURE:
            return False
        return len(rows) == count and self._look_good(rows)

    def misfits(self, rows: Sequence[bytes], deleted: Collection[int] = ()) -> dict[int, EventError]:
        """The places of the rows (JSON objects) that do not fit, with the reason. `deleted`: the places of those that
        are deleted."""
        if not deleted and self.fits(b"\n".join(rows), len(rows)):
            return {}
        found: dict[int, EventError] = {}
        for place, row in enumerate(rows):
            is_deleted = place in deleted
            if not is_deleted and self._fits(row):
                continue
            try:
                (self._of_deleted if is_deleted else self._codec).decode(row)
            except Exception as error:  # noqa: BLE001 (one row's failure is one dead letter)
                why = poison(error)
                found[place] = EventError(
                    why.code, str(why)
                )  # without the frames that the error holds: there may be many
        return found

    def _fits(self, row: bytes) -> bool:
        if self._one is None:
            return False
        try:
            read = self._one(row)
        except _NOT_SURE:
            return False
        return self._look_good([read])

    def _look_good(self, rows: Sequence[Any]) -> bool:
        for of, raw, required, look in self._looks:
            cells = list(map(of, rows))
            if not raw:
                cells = [cell for cell in cells if cell is not None and cell is not UNSET]
            elif required and any(cell is not UNSET and cell == _NULL for cell in cells):
                return False
            else:
                cells = [cell for cell in cells if cell is not UNSET and cell != _NULL]
            if look is not None and cells and not look(cells):
                return False
        return True


def _each(sure: Callable[[bytes], bool]) -> Cells:
    return lambda cells: all(map(sure, map(bytes, cells)))


def _exactly(field: SchemaField) -> Callable[[bytes], bool]:
    def sure(text: bytes) -> bool:
        try:
            convert_exactly(field.type, field.written.source, text, nulls=False)
        except Exception as error:  # noqa: BLE001 (the codec says what it is)
            poison(error)
            return False
        return True

    return sure
