"""Iceberg's types as people write them: `decimal(12,2)`, `list<string>`, `struct<city: string, zip: int required>`.

The words are Iceberg's own (the specification's "Schemas and Data Types"), those of format 3 among them. A struct's
fields are `name: type`, with `required` behind the type of one that is never null; a name with odd characters stands in
backquotes. Ids are numbered from 1 as they come: whoever adds the type to a table numbers it again.
"""

import itertools
import re
from collections.abc import Iterator
from typing import Final

from pyiceberg.exceptions import ValidationError
from pyiceberg.types import (
    DecimalType,
    FixedType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
)

from firn.changes.decode import types
from firn.errors import TerminalError
from firn_lake.variant_type import NAME, VariantType

_DECIMAL: Final = re.compile(r"decimal\(\s*(\d{1,4})\s*,\s*(\d{1,4})\s*\)")
_FIXED: Final = re.compile(r"fixed[\[(]\s*(\d{1,9})\s*[\])]")
_NESTED: Final = re.compile(r"(list|map|struct)\s*<(.*)>", re.DOTALL)
_FIELD: Final = re.compile(r"(?:`((?:[^`]|``)+)`|([^\s`:<>,]+))\s*:\s*(.+)", re.DOTALL)
_REQUIRED: Final = re.compile(r"\s+required\s*$")
_WRITTEN: Final = "struct<name: type, other: type required>"


class BadType(TerminalError):
    """The text is not a type of Iceberg; the message says what to write."""


def type_of(text: "str | IcebergType") -> IcebergType:
    """The type that the text names; a type is itself. Raises BadType."""
    return text if isinstance(text, IcebergType) else _parsed(text.strip(), itertools.count(1))


def text_of(kind: IcebergType) -> str:
    """The type as `type_of` reads it: without ids and docs."""
    if isinstance(kind, StructType):
        fields = (f"{_name(one.name)}: {text_of(one.field_type)}{_must(one.required)}" for one in kind.fields)
        return f"struct<{', '.join(fields)}>"
    if isinstance(kind, ListType):
        return f"list<{text_of(kind.element_type)}{_must(kind.element_required)}>"
    if isinstance(kind, MapType):
        return f"map<{text_of(kind.key_type)}, {text_of(kind.value_type)}{_must(kind.value_required)}>"
    return str(kind).replace(", ", ",")


def _parsed(text: str, ids: Iterator[int]) -> IcebergType:
    if found := _NESTED.fullmatch(text):
        parts = _parts(found[2])
        if found[1] == "struct":
            return StructType(*(_field(part, ids) for part in parts))
        if found[1] == "list" and len(parts) == 1:
            element, required = _optional(parts[0])
            return ListType(next(ids), _parsed(element, ids), required)
        if found[1] == "map" and len(parts) == 2:
            value, required = _optional(parts[1])
            return MapType(next(ids), _parsed(parts[0], ids), next(ids), _parsed(value, ids), required)
        raise BadType(f"'{text}' is not a type; write list<type> or map<type, type>")
    return _primitive(text)


def _field(text: str, ids: Iterator[int]) -> NestedField:
    found = _FIELD.fullmatch(text)
    if found is None:
        raise BadType(f"'{text}' is not a field of a struct; write {_WRITTEN}")
    name = found[2] if found[1] is None else found[1].replace("``", "`")
    kind, required = _optional(found[3].strip())
    return NestedField(next(ids), name, _parsed(kind, ids), required)


def _optional(text: str) -> tuple[str, bool]:
    plain = _REQUIRED.sub("", text)
    return plain.strip(), plain != text


def _primitive(text: str) -> PrimitiveType:
    if found := _DECIMAL.fullmatch(text):
        try:
            known = types.decimal(int(found[1]), int(found[2]))
        except ValueError as error:
            raise BadType(str(error)) from error
        return DecimalType(known.precision or 0, known.scale or 0)
    if text == NAME:
        return VariantType()
    if (found := _FIXED.fullmatch(text)) and int(found[1]) > 0:
        return FixedType(int(found[1]))
    try:
        kind = None if _FIXED.fullmatch(text) else IcebergType.model_validate(text)
    except (ValueError, ValidationError):
        kind = None
    if isinstance(kind, PrimitiveType):
        return kind
    try:
        types.parse(text)
    except ValueError as error:
        raise BadType(f"{error}; or fixed[length], struct<…>, map<…>") from error
    raise BadType(f"'{text}' is not a type")


def _parts(text: str) -> list[str]:
    """The text split at the commas that are in no brackets and no backquotes."""
    parts, depth, quoted = [""], 0, False
    for character in text:
        quoted ^= character == "`"
        depth += 0 if quoted else (character in "<([") - (character in ">)]")
        if character == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _must(required: bool) -> str:
    return " required" if required else ""


def _name(name: str) -> str:
    quoted = name.replace("`", "``")
    return name if re.fullmatch(r"\w+", name) else f"`{quoted}`"
