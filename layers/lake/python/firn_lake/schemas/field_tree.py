"""The fields of a schema as a tree: found by name or dotted path, with what holds each."""

import difflib
from collections.abc import Iterator, Sequence

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from firn.config.names import OWN, is_own_column


class FieldTree:
    """Fields by their full names (`address.city`, `items.element.price`) or the short ones that Iceberg knows too
    (`items.price`). Names may hold dots themselves."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._holders = dict(_holders(schema.as_struct(), None))

    def find(self, path: str) -> NestedField | None:
        """The field of this path; None if there is none."""
        try:
            return self._schema.find_field(path)
        except ValueError:
            return None

    def full(self, field: NestedField) -> str:
        """The field's full name."""
        return self._schema.find_column_name(field.field_id) or field.name

    def prefix(self, holder: int | None) -> str:
        """What the full names of the fields begin with that `holder` (None: the table) holds."""
        return "" if holder is None else f"{self._schema.find_column_name(holder)}."

    def holder(self, field: NestedField) -> int | None:
        """The id of the field that holds this one; None for a column of the table."""
        return self._holders[field.field_id]

    def held_by(self, holder: int | None) -> list[str]:
        """The names of the fields that `holder` (None: the table) holds, in their order."""
        return [self._schema.find_field(one).name for one, its in self._holders.items() if its == holder]

    def above(self, field_id: int) -> set[int]:
        """The ids of all fields that the field is in."""
        found: set[int] = set()
        holder = self._holders.get(field_id)
        while holder is not None:
            found.add(holder)
            holder = self._holders[holder]
        return found

    def is_part(self, field: NestedField) -> bool:
        """Whether it is a list's element, or a map's key or value."""
        holder = self.holder(field)
        return holder is not None and not isinstance(self._schema.find_field(holder).field_type, StructType)

    def is_own(self, field: NestedField) -> bool:
        """Whether it is Firn's own, or in a column that is."""
        return is_own_column(self.full(field))

    def missing(self, path: str) -> str:
        """That there is no such column, the nearest that is, and all there are: for the text of an error."""
        names = [name for name in self._schema.column_names if not name.startswith(OWN)]
        near = difflib.get_close_matches(path.casefold(), [name.casefold() for name in names], 1)
        meant = next((name for name in names if near and name.casefold() == near[0]), None)
        there = ", ".join(field.name for field in self._schema.fields if not field.name.startswith(OWN))
        return f"there is no column {path}{f' (do you mean {meant}?)' if meant else ''}; there are {there}"


def _holders(kind: IcebergType, holder: int | None) -> Iterator[tuple[int, int | None]]:
    """(field id, the id of the field that holds it) of all fields within a type, in their order."""
    fields: Sequence[NestedField] = ()
    if isinstance(kind, StructType):
        fields = kind.fields
    elif isinstance(kind, ListType):
        fields = (kind.element_field,)
    elif isinstance(kind, MapType):
        fields = (kind.key_field, kind.value_field)
    for one in fields:
        yield one.field_id, holder
        yield from _holders(one.field_type, one.field_id)
