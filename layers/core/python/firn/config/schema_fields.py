"""What a table rule's other settings may say of the fields of its schema."""

from collections.abc import Mapping, Sequence

from firn.changes.decode.row_schema import RowSchema
from firn.changes.decode.types import storable
from firn.config.model import ColumnDeclaration
from firn.config.problems import Section, shown


def check_fields(
    section: Section,
    schema: RowSchema | None,
    columns: Mapping[str, ColumnDeclaration],
    key: Sequence[str] | None,
) -> dict[str, ColumnDeclaration]:
    """The columns that the schema declares; what `columns` and `key` say otherwise is noted."""
    if schema is None:
        for name in key or ():
            kind = next((one for one in ("map", "variant") if name in columns and columns[name].type.holds(one)), None)
            if kind is not None:
                section.note("key", f"{shown(name)} is a {kind}, and a {kind} is no key; name other columns")
            elif name in columns and columns[name].type.holds("struct"):
                section.note("key", f"{shown(name)} is a struct, which can't be told apart from others; name its parts")
        return {}
    found = {field.name: field for field in schema.fields}
    for name in found.keys() & columns.keys():
        section.note("columns", f"{shown(name)} is a field of the schema too; keep it in one of them")
    if (others := [name for name in columns if name not in found]) and not section.problems.published:
        section.note(
            "columns",
            f"{shown(others[0])} is beside a schema, which rows are held to as they come and which lacks it; "
            "write it as a field of the schema",
        )
    for name in key or ():
        if name in found and found[name].type.holds("struct"):
            section.note("key", f"{shown(name)} is a struct, which can't be told apart from others; name another field")
        elif name not in found and schema.closed and name not in columns:
            section.note("key", f"{shown(name)} is not in the schema, and what is unknown is not kept; add the field")
    return {name: ColumnDeclaration(storable(field.type)) for name, field in found.items()}
