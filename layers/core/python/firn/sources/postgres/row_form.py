"""Rows of one version of a table as Firn stages them: an inline Connect schema, and images that it describes. Pure.

The same forms serve the stream (pgoutput's texts) and a copy of the table, so that a row is the same by either way.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from firn.changes.decode.source_encodings import DecodeSettings
from firn.changes.decode.unavailable import MARK, MARKED, UNAVAILABLE_AS
from firn.errors import EventError
from firn.sources.postgres.column_forms import Write, column_form
from firn.sources.postgres.type_catalog import TypeCatalog


@dataclass(frozen=True)
class SourceColumn:
    """A column as pgoutput's relation message and pg_attribute have it: `oid` of its type, `modifier`: atttypmod."""

    name: str
    oid: int
    modifier: int = -1


class Unchanged:
    """What stands for a value that an update left where it was, out of line (TOAST): PostgreSQL does not send it."""


UNCHANGED: Final = Unchanged()
Value = bytes | None | Unchanged  # the text of PostgreSQL's output function, in UTF-8; None: null


class RowForm:
    """The schema of these columns, and how their values' texts become row images.

    schema   the inline Connect schema of such rows, as JSON: what a staged row carries in `schema`
    """

    def __init__(self, columns: Sequence[SourceColumn], types: TypeCatalog, settings: DecodeSettings) -> None:
        """`settings`: the stream's, whose modes of decimals, bytes and intervals count."""
        self.columns = tuple(columns)
        forms = [column_form(types, one.oid, one.modifier, settings) for one in columns]
        fields = [{"field": one.name, **form.field} for one, form in zip(columns, forms, strict=True)]
        row = {"type": "struct", "field": "after", "optional": True, "fields": fields}
        parameters = {UNAVAILABLE_AS: MARKED}
        self.schema = msgspec.json.encode(
            {"type": "struct", "name": "firn.postgresql.Envelope", "parameters": parameters, "fields": [row]}
        )
        names = [msgspec.json.encode(one.name) + b":" for one in columns]
        self._parts = [(name, form.write) for name, form in zip(names, forms, strict=True)]

    def image(self, values: Sequence[Value]) -> bytes:
        """A row's JSON. `values`: one for each column. Raises EventError, which names the column and not the value."""
        if len(values) != len(self._parts):
            raise EventError("bad_image", f"the row has {len(values)} columns, and its table {len(self._parts)}")
        return self._image(zip(self._parts, values, strict=True))

    def image_of(self, places: Iterable[int], values: Sequence[Value]) -> bytes:
        """The JSON of the columns at these places alone: a key. Raises EventError."""
        return self._image((self._parts[place], values[place]) for place in places)

    def _image(self, cells: Iterable[tuple[tuple[bytes, Write], Value]]) -> bytes:
        found = []
        name = b""
        try:
            for (name, write), value in cells:
                if value is None:
                    found.append(name + b"null")
                elif isinstance(value, Unchanged):
                    found.append(name + MARK)
                else:
                    found.append(name + write(value))
        except (ValueError, OverflowError) as error:  # UnicodeError is a ValueError
            why = "its text is not UTF-8" if isinstance(error, UnicodeError) else str(error)
            column = msgspec.json.decode(name[:-1], type=str)[:100]
            raise EventError("bad_image", f"column {column}: {why}") from None
        return b"{" + b",".join(found) + b"}"
