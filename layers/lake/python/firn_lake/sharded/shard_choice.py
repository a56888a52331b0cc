"""The shards that a filter needs, by the map."""

from typing import Any, Final
from uuid import UUID

from pyiceberg.expressions import (
    AlwaysFalse,
    And,
    BooleanExpression,
    BoundEqualTo,
    BoundGreaterThan,
    BoundGreaterThanOrEqual,
    BoundIn,
    BoundIsNull,
    BoundLessThan,
    BoundLessThanOrEqual,
    BoundPredicate,
    Or,
)
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, IcebergType, IntegerType, LongType

from firn.changes.decode.types import Type
from firn.changes.placement.shard_map import ShardMap
from firn.changes.placement.shard_pruning import Sign, may_be, may_hold
from firn.changes.placement.shard_values import Comparable, comparable

_SIGNS: Final[dict[type[BoundPredicate], Sign]] = {
    BoundEqualTo: "=",
    BoundLessThan: "<",
    BoundLessThanOrEqual: "<=",
    BoundGreaterThan: ">",
    BoundGreaterThanOrEqual: ">=",
}


def shards_of(where: BooleanExpression, schema: Schema, shards: ShardMap) -> frozenset[str]:
    """The shards that may hold rows that fit a filter. `where`: bound to `schema`, that of all shards, without NOT."""
    match where:
        case And():
            return shards_of(where.left, schema, shards) & shards_of(where.right, schema, shards)
        case Or():
            return shards_of(where.left, schema, shards) | shards_of(where.right, schema, shards)
        case AlwaysFalse():
            return frozenset()
        case BoundPredicate():
            return _asked_of(where, schema, shards)
    return shards.shards


def may_fit(where: BooleanExpression, schema: Schema, shards: ShardMap, value: Any) -> bool:
    """Whether a row may fit a filter that has this value, as it came, in the map's column. `where`: as above."""
    match where:
        case And():
            return may_fit(where.left, schema, shards, value) and may_fit(where.right, schema, shards, value)
        case Or():
            return may_fit(where.left, schema, shards, value) or may_fit(where.right, schema, shards, value)
        case AlwaysFalse():
            return False
        case BoundPredicate():
            asked = _comparison(where, schema, shards)
            return asked is None or may_be(shards, value, *asked)
    return True


def _asked_of(where: BoundPredicate, schema: Schema, shards: ShardMap) -> frozenset[str]:
    asked = _comparison(where, schema, shards)
    return shards.shards if asked is None else may_hold(shards, *asked)


def _comparison(where: BoundPredicate, schema: Schema, shards: ShardMap) -> tuple[Sign, list[Comparable]] | None:
    """What is asked of the map's column; None: nothing that the map knows."""
    field = where.term.ref().field
    if field not in schema.fields or field.name != shards.column or not _is_same(field.field_type, shards.kind):
        return None
    if isinstance(where, BoundIsNull):
        return "null", []
    literals: list[Any] = []
    sign: Sign | None = None
    if isinstance(where, BoundIn):
        sign, literals = "in", [one.value for one in where.literals]
    elif (sign := _SIGNS.get(type(where))) is not None:
        literals = [where.literal.value]  # type: ignore[attr-defined]
    values = [_comparable(shards.kind, one) for one in literals]
    known = [one for one in values if one is not None]
    return None if sign is None or len(known) < len(values) else (sign, known)


def _comparable(kind: Type, value: Any) -> Comparable | None:
    """A value of a filter as the map has it; None: it is none that the map knows."""
    if kind.name == "uuid" and isinstance(value, bytes) and len(value) == 16:
        value = UUID(bytes=value)
    return comparable(kind, str(value) if isinstance(value, UUID) else value)


def _is_same(kind: IcebergType, mapped: Type) -> bool:
    """Whether values of the column mean what they mean to the map, which has the type that the column had first."""
    if isinstance(kind, IntegerType | LongType):
        return mapped.name in ("int", "long")
    if isinstance(kind, DecimalType):
        return mapped.name == "decimal" and mapped.scale == kind.scale
    return str(kind) == str(mapped)
