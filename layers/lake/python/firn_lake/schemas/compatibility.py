"""Whether rows of a schema can be written into a table as it is, and what would have to change: pure."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from firn.config.names import OWN
from firn_lake.schemas.field_tree import FieldTree
from firn_lake.schemas.type_text import BadType, text_of, type_of
from firn_lake.schemas.widening import widens

if TYPE_CHECKING:
    import pyarrow as pa


def reasons_against(table: Schema, rows: "pa.Schema | Schema | Mapping[str, str | IcebergType]") -> list[str]:
    """Why rows of this schema can't be written into a table of that one; empty if they can. Columns go by their names.

    rows  of Arrow, of Iceberg, or column -> type, which says nothing of nulls

    A column that the rows lack is null in them, and one of a smaller type (int for long) is widened as it is written.
    """
    told = _fields_of(rows)
    if isinstance(told, str):
        return [told]
    fields, tells_nulls = told
    return list(_Comparing(FieldTree(table), tells_nulls).struct(table.as_struct(), fields, ""))


def _fields_of(
    rows: "pa.Schema | Schema | Mapping[str, str | IcebergType]",
) -> tuple[tuple[NestedField, ...], bool] | str:
    """The rows' columns, and whether they say where null may be; or why they can't be columns of Iceberg."""
    if isinstance(rows, Schema):
        return rows.fields, True
    if isinstance(rows, Mapping):
        try:
            kinds = {name: type_of(kind) for name, kind in rows.items()}
        except BadType as error:
            return str(error)
        return tuple(NestedField(0, name, kind, False) for name, kind in kinds.items()), False
    from firn_lake.schemas.arrow_schemas import BadArrowType, to_iceberg

    try:
        return to_iceberg(rows).fields, True
    except BadArrowType as error:
        return str(error)


class _Comparing:
    def __init__(self, tree: FieldTree, tells_nulls: bool) -> None:
        self._tree = tree
        self._tells_nulls = tells_nulls

    def struct(self, table: StructType, rows: tuple[NestedField, ...], prefix: str) -> Iterator[str]:
        there = {field.name: field for field in table.fields}
        for field in rows:
            path = prefix + field.name
            if not prefix and field.name.startswith(OWN):
                yield f"{path} is Firn's own column, which only its jobs write: leave it out"
            elif field.name not in there:
                add = f"evolve(add={{{path!r}: {text_of(field.field_type)!r}}})"
                yield f"{self._tree.missing(path)}. To have it: {add}"
            else:
                yield from self._field(there[field.name], field, path)
        given = {field.name for field in rows}
        for field in table.fields:
            if field.required and field.name not in given:
                yield f"{prefix}{field.name} is required, and the rows do not have it"

    def _field(self, table: NestedField, rows: NestedField, path: str) -> Iterator[str]:
        if table.required and not rows.required and self._tells_nulls:
            advice = f"say that it is not, or evolve(make_optional=[{path!r}])"
            yield f"{path} is required, and may be null in the rows: {advice}"
        yield from self._type(table.field_type, rows.field_type, path)

    def _type(self, table: IcebergType, rows: IcebergType, path: str) -> Iterator[str]:
        if isinstance(table, StructType) and isinstance(rows, StructType):
            yield from self.struct(table, rows.fields, f"{path}.")
        elif isinstance(table, ListType) and isinstance(rows, ListType):
            yield from self._field(table.element_field, rows.element_field, f"{path}.element")
        elif isinstance(table, MapType) and isinstance(rows, MapType):
            yield from self._type(table.key_type, rows.key_type, f"{path}.key")
            yield from self._field(table.value_field, rows.value_field, f"{path}.value")
        elif not widens(rows, table):
            advice = "cast the values"
            if widens(table, rows):
                advice += f", or evolve(widen={{{path!r}: {text_of(rows)!r}}})"
            yield f"{path} is {text_of(table)} in the table and {text_of(rows)} in the rows: {advice}"
