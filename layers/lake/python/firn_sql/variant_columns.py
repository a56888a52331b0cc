"""Columns of variants as Parquet files have them, and as JSON text: for whoever reads files, in the lake and in jobs.

A variant is a group of binaries, `metadata` and `value`; parts of it may be shredded into columns of their own
(`typed_value`; parquet-format, VariantEncoding.md and VariantShredding.md). Iceberg gives ids to none of them, by which
such a group is known from a struct of a table.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from firn.changes.decode import variant_text
from firn.changes.decode.types import DOUBLE, FLOAT
from firn.changes.decode.variant_bytes import variant_of
from firn.changes.decode.variant_text import BadVariant, Names

_ID: Final = b"PARQUET:field_id"
_METADATA, _VALUE, _TYPED = "metadata", "value", "typed_value"
_DEEPEST: Final = 100  # shredded columns in one another
_Texts = list[str | None]

GROUP: Final = pa.struct(
    [pa.field(_METADATA, pa.binary(), nullable=False), pa.field(_VALUE, pa.binary(), nullable=False)]
)
"""The type of a column of variants in files that Firn writes."""


def groups_of(texts: Iterable[str | None]) -> pa.StructArray:
    """The JSON texts as a column of a file. Raises BadVariant."""
    pairs = [None if one is None else dict(zip((_METADATA, _VALUE), variant_of(one), strict=True)) for one in texts]
    return pa.array(pairs, GROUP)


def is_variant(field: pa.Field) -> bool:
    """Whether the column of a file holds variants."""
    kind = field.type
    if not pa.types.is_struct(kind) or _ID not in (field.metadata or {}):
        return False
    parts = {one.name: one for one in kind}
    binary = _METADATA in parts and (pa.types.is_binary(of := parts[_METADATA].type) or pa.types.is_large_binary(of))
    return binary and len(parts) > 1 and parts.keys() <= {_METADATA, _VALUE, _TYPED} and not _has_ids(kind)


def _has_ids(kind: pa.DataType) -> bool:
    return any(_ID in (one.metadata or {}) for one in kind)


def as_texts(field: pa.Field) -> pa.Field:
    """The column as `texts` gives it: variants in it are strings."""
    return field.with_type(pa.string() if is_variant(field) else _type(field.type))


def _type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([as_texts(one) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(as_texts(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(as_texts(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, as_texts(kind.item_field))
    return kind


def ids_of(fields: Iterable[pa.Field]) -> Iterator[int]:
    """The ids of the variants among the columns of a file, and in them."""
    for field in fields:
        if is_variant(field):
            yield int(field.metadata[_ID])
        elif pa.types.is_nested(field.type):
            yield from ids_of(field.type.field(place) for place in range(field.type.num_fields))


def texts(array: pa.Array, field: pa.Field) -> pa.Array:
    """A column of a file with the JSON texts of the variants in it. Raises pa.ArrowInvalid for what is not one."""
    after = as_texts(field)
    if after.type == field.type:
        return array
    try:
        return _texts(array, field)
    except BadVariant as error:
        raise pa.ArrowInvalid(f"column {field.name} has a variant that can't be read: {error}") from error


def _texts(array: pa.Array, field: pa.Field) -> pa.Array:
    if is_variant(field):
        return pa.array(_of_group(array), pa.string())
    kind, after = field.type, as_texts(field).type
    if kind == after:
        return array
    lost = array.is_null() if array.null_count else None
    if array.offset:
        array = array.take(pa.arange(0, len(array)))  # from its beginning: its parts don't know of an offset
    if pa.types.is_struct(kind):
        parts = [_texts(array.field(place), one) for place, one in enumerate(kind)]
        return pa.StructArray.from_arrays(parts, fields=list(after), mask=lost)
    if pa.types.is_map(kind):
        items = _texts(array.items, kind.item_field)
        return pa.MapArray.from_arrays(array.offsets, array.keys, items, type=after, mask=lost)
    made = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
    return made.from_arrays(array.offsets, _texts(array.values, kind.value_field), type=after, mask=lost)


def groups_in(group: pa.StructArray) -> pa.StructArray:
    """A file's column as GROUP: its bytes as they are; where parts of it are shredded, those of its JSON texts. Raises
    pa.ArrowInvalid."""
    if {one.name for one in group.type} == {_METADATA, _VALUE} and group.field(_VALUE).null_count <= group.null_count:
        parts = [pa.array(group.field(name).fill_null(b"").cast(pa.binary())) for name in (_METADATA, _VALUE)]
        return pa.StructArray.from_arrays(parts, fields=list(GROUP), mask=group.is_null())
    return groups_of(texts_of(group))


def texts_of(group: pa.StructArray) -> _Texts:
    """The JSON text of each variant of a file's column. Raises pa.ArrowInvalid."""
    if not pa.types.is_struct(group.type):
        raise pa.ArrowInvalid(f"a column of variants is {group.type}")
    try:
        return _of_group(group)
    except BadVariant as error:
        raise pa.ArrowInvalid(f"a variant can't be read: {error}") from error


def _of_group(group: pa.StructArray) -> _Texts:
    metadata = group.field(_METADATA).to_pylist()
    there = group.is_valid().to_pylist()
    known: dict[bytes, Names] = {}
    names: list[Names | None] = []
    for one, valid in zip(metadata, there, strict=True):
        if not valid:
            names.append(None)
            continue
        if one is None:
            raise BadVariant("it has no metadata")
        if one not in known:
            known = {one: Names(one)}  # rows that follow one another mostly have the same
        names.append(known[one])
    found = _fragments(group, names, 0)
    return [(one or "null") if valid else None for one, valid in zip(found, there, strict=True)]


def _fragments(group: pa.StructArray, names: Sequence[Names | None], depth: int) -> _Texts:
    """The text of each variant of a group, None where it is missing. `names`: of each, None where the whole is null."""
    if depth > _DEEPEST:
        raise BadVariant(f"it is shredded more than {_DEEPEST} deep")
    parts = {one.name for one in group.type}
    values: list[bytes | None] = group.field(_VALUE).to_pylist() if _VALUE in parts else [None] * len(group)
    if _TYPED not in parts:
        return [
            variant_text.json_of(of, one) if of is not None and one is not None else None
            for of, one in zip(names, values, strict=True)
        ]
    typed = group.field(_TYPED)
    if pa.types.is_struct(typed.type):
        return _objects(typed, values, names, depth)
    lists = pa.types.is_list(typed.type) or pa.types.is_large_list(typed.type)
    found = _arrays(typed, names, depth) if lists else _primitives(typed)
    return [_one(*each) for each in zip(names, values, found, strict=True)]


def _one(names: Names | None, value: bytes | None, typed: str | None) -> str | None:
    if names is None or value is None:
        return typed
    if typed is not None:
        raise BadVariant("it has a value and a shredded one")
    return variant_text.json_of(names, value)


def _objects(
    typed: pa.StructArray, values: Sequence[bytes | None], names: Sequence[Names | None], depth: int
) -> _Texts:
    shredded = [(one.name, _fragments(_group(typed.field(n)), names, depth + 1)) for n, one in enumerate(typed.type)]
    found: _Texts = []
    for row, valid in enumerate(typed.is_valid().to_pylist()):
        of, value = names[row], values[row]
        if of is None or not valid:
            found.append(None if of is None or value is None else variant_text.json_of(of, value))
            continue
        members = {name: text for name, parts in shredded if (text := parts[row]) is not None}
        more = {} if value is None else variant_text.members_of(of, value)
        if members.keys() & more.keys():
            raise BadVariant("it has a member in its value and shredded")
        found.append(variant_text.json_object(members | more))
    return found


def _arrays(typed: Any, names: Sequence[Names | None], depth: int) -> _Texts:
    offsets, there = typed.offsets.to_pylist(), typed.is_valid().to_pylist()
    first = offsets[0]
    spans = [(begin - first, end - first) for begin, end in pairwise(offsets)]
    owners = [of for of, (begin, end) in zip(names, spans, strict=True) for _ in range(end - begin)]
    inside = _fragments(_group(typed.values.slice(first, len(owners))), owners, depth + 1)
    items = ["null" if one is None else one for one in inside]
    return [
        variant_text.json_array(items[begin:end]) if valid else None
        for (begin, end), valid in zip(spans, there, strict=True)
    ]


def _group(array: Any) -> pa.StructArray:
    parts = {one.name for one in array.type} if pa.types.is_struct(array.type) else set()
    if not parts or not parts <= {_VALUE, _TYPED}:
        raise BadVariant("a shredded part is not a group of value and typed_value")
    return array


def _primitives(array: Any) -> _Texts:
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        array, kind = array.storage, kind.storage_type
    types = pa.types
    if types.is_date32(kind):
        return _each(array.cast(pa.int32()), variant_text.of_days)
    if types.is_timestamp(kind) and kind.unit in ("us", "ns"):
        of = variant_text.of_nanos if kind.unit == "ns" else variant_text.of_micros
        return _each(array.cast(pa.int64()), lambda one: of(one, zoned=kind.tz is not None))
    if types.is_time64(kind) and kind.unit == "us":
        return _each(array.cast(pa.int64()), variant_text.of_time)
    if types.is_boolean(kind):
        return _each(array, lambda one: "true" if one else "false")
    if types.is_signed_integer(kind):
        return _each(array, str)
    if types.is_floating(kind) and kind.bit_width >= 32:
        of_kind = FLOAT if kind.bit_width == 32 else DOUBLE
        return _each(array, lambda one: variant_text.of_float(one, of_kind))
    if types.is_decimal(kind) and kind.bit_width <= 128:
        return _each(array, variant_text.of_decimal)
    if types.is_string(kind) or types.is_large_string(kind):
        return _each(array, variant_text.quoted)
    if types.is_fixed_size_binary(kind) and kind.byte_width == 16:
        return _each(array, variant_text.of_uuid)
    if types.is_binary(kind) or types.is_large_binary(kind):
        return _each(array, variant_text.of_bytes)
    raise BadVariant(f"it is shredded as {kind}, which variants have no type for")


def _each(array: Any, text: Any) -> _Texts:
    return [None if one is None else text(one) for one in array.to_pylist()]
