"""Conditions of a reader's rows over Arrow batches: the same as `firn.changes.row_condition` says of a JSON row.

Columns of texts, whole numbers, decimals and booleans are compared, each with its like; of any column it is known
whether it is null.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.row_condition import (
    Compared,
    Condition,
    Constant,
    Field,
    Holds,
    Is,
    IsNull,
    Joined,
    Like,
    Not,
    Sign,
)
from firn.errors import TerminalError

Kind = Literal["text", "number", "boolean"]
_CALLS: Final[dict[Sign, Any]] = {
    "=": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip
_DIGITS: Final = 76
_INT64: Final = 2**63


class UnfitRows(TerminalError):
    """A condition of rows can't be asked of a table: it lacks the column, or has it in another type."""


def require_fit(test: Condition, columns: Mapping[str, pa.DataType]) -> None:
    """Raises UnfitRows unless the condition fits these columns."""
    match test:
        case Joined(parts=parts):
            for part in parts:
                require_fit(part, columns)
        case Not(inner=inner):
            require_fit(inner, columns)
        case Compared(left=left, right=right):
            if _kind_of(left, columns) != _kind_of(right, columns):
                raise UnfitRows("two values of different kinds are compared")
        case Like(left=left):
            if _kind_of(left, columns) != "text":
                raise UnfitRows("LIKE is asked of a column that holds no text")
        case IsNull(field=field):
            _type_of(field, columns)
        case Holds(field=field) | Is(field=field):
            if _kind_of(field, columns) != "boolean":
                raise UnfitRows("a column is asked whether it is true, and holds no boolean")


def kept(tests: Sequence[Condition], columns: Mapping[str, pa.Array], count: int) -> pa.Array:
    """Which of `count` rows fit all conditions (`require_fit`). `columns`: by the names that the conditions have."""
    found = pa.repeat(pa.scalar(True), count)
    for test in tests:
        found = pc.and_(found, pc.fill_null(_of(test, columns, count), False))
    return found


def _of(test: Condition, columns: Mapping[str, pa.Array], count: int) -> pa.Array:
    """True, false or null of each row."""
    match test:
        case Joined(parts=parts, all=every):
            found = _of(parts[0], columns, count)
            for part in parts[1:]:
                join = pc.and_kleene if every else pc.or_kleene
                found = join(found, _of(part, columns, count))
            return found
        case Not(inner=inner):
            return pc.invert(_of(inner, columns, count))
        case Compared(left=left, sign=sign, right=right):
            return _CALLS[sign](*_alike(_array(left, columns, count), _array(right, columns, count)))
        case Like(left=left, pattern=pattern):
            return pc.match_like(_array(left, columns, count), pattern.replace("\\", "\\\\"))
        case IsNull(field=field):
            return columns[field.path[0]].is_null()
        case Holds(field=field):
            return columns[field.path[0]]
        case Is(field=field, told=told):
            return pc.fill_null(pc.equal(columns[field.path[0]], told), False)
    raise UnfitRows("a condition of this kind is not known")


def _array(operand: Field | Constant, columns: Mapping[str, pa.Array], count: int) -> pa.Array:
    if isinstance(operand, Field):
        return columns[operand.path[0]]
    value = operand.told
    if not isinstance(value, Decimal):
        return pa.repeat(pa.scalar(value), count)
    if value == value.to_integral_value() and -_INT64 <= value < _INT64:
        return pa.repeat(pa.scalar(int(value), pa.int64()), count)
    scale = max(0, -int(value.as_tuple().exponent))
    return pa.repeat(pa.scalar(value, pa.decimal256(_DIGITS, scale)), count)


def _alike(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Two numbers in one type that holds both, or two texts."""
    if not (_is_number(left.type) and _is_number(right.type)):
        return left, right
    if pa.types.is_integer(left.type) and pa.types.is_integer(right.type):
        return left.cast(pa.int64()), right.cast(pa.int64())
    scale = max(one.type.scale if pa.types.is_decimal(one.type) else 0 for one in (left, right))
    return _decimals(left, scale), _decimals(right, scale)


def _decimals(numbers: pa.Array, scale: int) -> pa.Array:
    if pa.types.is_integer(numbers.type):
        numbers = numbers.cast(pa.decimal128(19, 0))
    return numbers.cast(pa.decimal256(_DIGITS, scale))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _type_of(field: Field, columns: Mapping[str, pa.DataType]) -> pa.DataType:
    if field.path[0] not in columns:
        raise UnfitRows("the table has no column of that name")
    return columns[field.path[0]]


def _kind_of(operand: Field | Constant, columns: Mapping[str, pa.DataType]) -> Kind:
    if isinstance(operand, Constant):
        told = operand.told
        return "boolean" if isinstance(told, bool) else "text" if isinstance(told, str) else "number"
    kind = _type_of(operand, columns)
    if _is_number(kind):
        return "number"
    if pa.types.is_string(kind):
        return "text"
    if pa.types.is_boolean(kind):
        return "boolean"
    raise UnfitRows(f"a column of the type {kind} is compared: only text, whole numbers, decimals and booleans are")
