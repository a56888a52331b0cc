"""The columns of all shards as one of them has them: by their names, since each table numbers its own."""

from collections.abc import Iterator
from itertools import count

from pyiceberg.exceptions import ResolveError
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundEqualTo,
    BoundGreaterThan,
    BoundGreaterThanOrEqual,
    BoundIn,
    BoundLessThan,
    BoundLessThanOrEqual,
    BoundLiteralPredicate,
    BoundNotNull,
    BoundPredicate,
    BoundSetPredicate,
    BoundStartsWith,
    BoundUnaryPredicate,
    Or,
    Reference,
)
from pyiceberg.schema import Schema, promote
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from firn_lake.reading.unreadable import UnreadableFile

_NEVER_NULL = (
    BoundEqualTo, BoundIn, BoundLessThan, BoundLessThanOrEqual, BoundGreaterThan, BoundGreaterThanOrEqual,
    BoundStartsWith, BoundNotNull,
)  # fmt: skip
"""What is true of no null."""


def as_shard_has(schema: Schema, there: Schema, table: str, unused: int) -> Schema:
    """The columns of `schema`, with the ids that those of these names have in the schema of a shard's table: what is
    read by it comes in the types of `schema`, null where the shard has no such column.

    unused  from which id on the table has no column

    Raises UnreadableFile if a column of the shard can't be read in its type.
    """
    ids = count(unused)
    fields = {field.name: field for field in there.fields}
    return Schema(*(_field(field, fields.get(field.name), ids, table) for field in schema.fields))


def _field(field: NestedField, its: NestedField | None, ids: Iterator[int], table: str) -> NestedField:
    kind = _kind(field.field_type, its.field_type if its else None, ids, f"{table} has {field.name}")
    if its is None:
        update = {"field_id": next(ids), "field_type": kind, "required": False, "initial_default": None}
        return field.model_copy(update=update)
    return field.model_copy(update={"field_id": its.field_id, "field_type": kind})


def _kind(kind: IcebergType, its: IcebergType | None, ids: Iterator[int], where: str) -> IcebergType:
    if isinstance(kind, StructType):
        fields = {one.name: one for one in its.fields} if isinstance(its, StructType) else {}
        if isinstance(its, StructType) or its is None:
            return StructType(*(_field(one, fields.get(one.name), ids, where) for one in kind.fields))
    elif isinstance(kind, ListType):
        if isinstance(its, ListType) or its is None:
            element = _field(kind.element_field, its.element_field if its else None, ids, where)
            return ListType(element.field_id, element.field_type, element_required=element.required)
    elif isinstance(kind, MapType):
        if isinstance(its, MapType) or its is None:
            key = _field(kind.key_field, its.key_field if its else None, ids, where)
            value = _field(kind.value_field, its.value_field if its else None, ids, where)
            return MapType(key.field_id, key.field_type, value.field_id, value.field_type, value.required)
    elif its is None or _holds(kind, its):
        return kind
    raise UnreadableFile(f"{where} as {its}, which is not read as {kind}: the next commit to it rewrites that")


def _holds(kind: IcebergType, its: IcebergType) -> bool:
    try:
        return kind == its or promote(its, kind) == kind
    except ResolveError:
        return False


def filter_in_shard(where: BooleanExpression, schema: Schema, there: Schema) -> BooleanExpression:
    """A filter for the files of a shard that lets through at least what `where` does. `where`: bound to `schema`, that
    of all shards, without NOT."""
    match where:
        case And():
            return And(filter_in_shard(where.left, schema, there), filter_in_shard(where.right, schema, there))
        case Or():
            return Or(filter_in_shard(where.left, schema, there), filter_in_shard(where.right, schema, there))
        case AlwaysTrue() | AlwaysFalse():
            return where
        case BoundPredicate():
            return _asked_of(where, schema, there)
    return AlwaysTrue()


def _asked_of(where: BoundPredicate, schema: Schema, there: Schema) -> BooleanExpression:
    field = where.term.ref().field
    if field not in schema.fields:  # of a column in a column
        return AlwaysTrue()
    its = next((one for one in there.fields if one.name == field.name), None)
    if its is None:
        return AlwaysFalse() if isinstance(where, _NEVER_NULL) else AlwaysTrue()
    # A narrower type rounds what it is compared with. A name with dots may mean a column in a column.
    if its.field_type != field.field_type or there.find_field(field.name).field_id != its.field_id:
        return AlwaysTrue()
    if isinstance(where, BoundSetPredicate):
        return where.as_unbound(Reference(field.name), where.literals)
    if isinstance(where, BoundLiteralPredicate):
        return where.as_unbound(Reference(field.name), where.literal)
    return where.as_unbound(Reference(field.name)) if isinstance(where, BoundUnaryPredicate) else AlwaysTrue()
