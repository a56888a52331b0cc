"""Which data files may hold rows that DuckDB asks for: its predicates as Iceberg expressions.

The result lets through at least what the predicate does, never less: what is not certain lets everything through. It
chooses files only; rows are filtered as DuckDB would do it.
"""

from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from duckdb._sources.nodes import Binary, Col, In, Lit, Node, Postfix
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
    NotNull,
    Or,
    Reference,
)
from pyiceberg.expressions import In as IsIn
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

_COMPARISONS: Final[dict[str, Callable[..., BooleanExpression]]] = {
    "=": EqualTo,
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
}
# PyIceberg declares their arguments by the names that they have in JSON.
_IN: Final[Callable[..., BooleanExpression]] = IsIn
_IS_NULL: Final[Callable[..., BooleanExpression]] = IsNull
_NOT_NULL: Final[Callable[..., BooleanExpression]] = NotNull
# Constants come in the column's own type; a pair that is not here is none that Iceberg compares as DuckDB does.
_SAME_KIND: Final[dict[type[IcebergType], str]] = {
    BooleanType: "BOOLEAN",
    IntegerType: "INTEGER",
    LongType: "BIGINT",
    FloatType: "FLOAT",
    DoubleType: "DOUBLE",
    StringType: "VARCHAR",
    DateType: "DATE",
    TimestampType: "TIMESTAMP",
    TimestamptzType: "TIMESTAMP WITH TIME ZONE",
}
_MICROSECOND: Final = timedelta(microseconds=1)


def superset(predicates: Iterable[Node], schema: Schema) -> BooleanExpression:
    """An Iceberg expression that is true wherever all predicates are, for planning with the columns of `schema`."""
    found: BooleanExpression = AlwaysTrue()
    for predicate in predicates:
        found = And(found, _superset(predicate, schema))
    return found


def columns_of(predicates: Iterable[Node]) -> frozenset[str]:
    """The names of the top-level columns that the predicates look at."""
    found = set()
    waiting = list(predicates)
    while waiting:
        node = waiting.pop()
        if isinstance(node, Col):
            found.add(node.parts[0])
        waiting.extend(node._children())
    return frozenset(found)


def _superset(node: Node, schema: Schema) -> BooleanExpression:
    match node:
        case Binary(op="AND", left=left, right=right):
            return And(_superset(left, schema), _superset(right, schema))
        case Binary(op="OR", left=left, right=right):
            return Or(_superset(left, schema), _superset(right, schema))
        case Binary(op=op, left=Col(parts=(name,)), right=Lit() as constant) if op in _COMPARISONS:
            field = _column(name, schema)
            if field is None or (op in (">", ">=") and isinstance(field.field_type, FloatType | DoubleType)):
                return AlwaysTrue()  # NaN is above every number to DuckDB, and in no file's bounds
            value = _literal(constant, field.field_type)
            return AlwaysTrue() if value is None else _COMPARISONS[op](Reference(name), value)
        case In(operand=Col(parts=(name,)), values=constants):
            field = _column(name, schema)
            values = [_literal(one, field.field_type) if field and isinstance(one, Lit) else None for one in constants]
            return AlwaysTrue() if None in values else _IN(Reference(name), values)
        case Postfix(op="IS NULL", operand=Col(parts=(name,))) if _column(name, schema):
            return _IS_NULL(Reference(name))
        case Postfix(op="IS NOT NULL", operand=Col(parts=(name,))) if _column(name, schema):
            return _NOT_NULL(Reference(name))
    return AlwaysTrue()


def _column(name: str, schema: Schema) -> NestedField | None:
    """The column of that name; None if it is a nested one, or its name means something else to Iceberg."""
    field = next((one for one in schema.fields if one.name == name), None)
    # A column "a.b" and the field b of a struct a have one name in Iceberg's index of names.
    if field is None or not field.field_type.is_primitive or schema.find_field(name).field_id != field.field_id:
        return None
    return field


def _literal(constant: Lit, kind: IcebergType) -> Any:
    """The constant as Iceberg's expressions take it; None if it is of another kind than the column."""
    value = constant.value
    if isinstance(kind, DecimalType):
        if constant.type != f"DECIMAL({kind.precision},{kind.scale})" or not isinstance(value, Decimal):
            return None
        return value.quantize(Decimal(1).scaleb(-kind.scale))
    if _SAME_KIND.get(type(kind)) != constant.type:
        return None
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1)) // _MICROSECOND
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    return value
