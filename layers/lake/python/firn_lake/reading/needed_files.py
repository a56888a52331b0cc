"""Which files, and which shards, may hold rows that fit a reader's conditions: as an Iceberg expression that is true of
at least these rows. What is not certain lets everything through."""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import reduce
from typing import Any, Final

from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Or,
    Reference,
)
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from firn.changes.row_condition import Compared, Condition, Constant, Field, Joined
from firn.changes.row_condition import IsNull as Missing

_SIGNS: Final[Mapping[str, Callable[..., BooleanExpression]]] = {
    "=": EqualTo, "<": LessThan, "<=": LessThanOrEqual, ">": GreaterThan, ">=": GreaterThanOrEqual,
}  # fmt: skip
_FLIPPED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_IS_NULL: Final[Callable[..., BooleanExpression]] = IsNull
_LONG: Final = 2**63


def needed_for(tests: Iterable[Condition], columns: Mapping[str, NestedField]) -> BooleanExpression:
    """True of all rows that fit all conditions. `columns`: by the names that the conditions have."""
    found: BooleanExpression = AlwaysTrue()
    for test in tests:
        found = And(found, _needed(test, columns))
    return found


def _needed(test: Condition, columns: Mapping[str, NestedField]) -> BooleanExpression:
    match test:
        case Joined(parts=parts, all=every):
            return reduce(And if every else Or, (_needed(part, columns) for part in parts))
        case Compared(left=Field() as field, sign=sign, right=Constant(told=told)) if sign in _SIGNS:
            return _compared(columns[field.path[0]], sign, told)
        case Compared(left=Constant(told=told), sign=sign, right=Field() as field) if sign in _SIGNS:
            return _compared(columns[field.path[0]], _FLIPPED[sign], told)
        case Missing(field=field):
            return _IS_NULL(Reference(columns[field.path[0]].name))
    return AlwaysTrue()


def _compared(column: NestedField, sign: str, told: Any) -> BooleanExpression:
    if isinstance(column.field_type, StringType) and isinstance(told, str):
        return _SIGNS[sign](Reference(column.name), told)
    whole = isinstance(told, Decimal) and told == told.to_integral_value() and -_LONG <= told < _LONG
    if isinstance(column.field_type, IntegerType | LongType) and whole:
        return _SIGNS[sign](Reference(column.name), int(told))
    return AlwaysTrue()
