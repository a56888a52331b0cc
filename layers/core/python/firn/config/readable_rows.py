"""Conditions of rows in `query.readers`: which of config.condition_text's a reader's rows may have. Pure."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Final

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
    RowCondition,
)
from firn.config.condition_text import parse
from firn.config.sql_text import SqlRefused

MOST_DIGITS: Final = 38
"""Of a number, on either side of its point: a table's numbers have no more."""


def check_rows(text: str) -> RowCondition:
    """The condition. Raises SqlRefused for what none of a table's rows can be compared by."""
    found = parse(text)
    for operand in operands(found.test):
        if isinstance(operand, Field) and len(operand.path) > 1:
            name = ".".join(operand.path)[:60]
            raise SqlRefused(1, 1, f"{name} lies in a column", "write a column alone, such as tenant_id = 7")
        if isinstance(operand, Constant) and isinstance(operand.told, Decimal) and not _fits(operand.told):
            raise SqlRefused(1, 1, "a number has more than 38 digits", "write a shorter one")
    if not found.fields:
        raise SqlRefused(1, 1, "it looks at no column", "write such as tenant_id = 7, or leave rows out for all")
    return found


def operands(test: Condition) -> Iterator[Field | Constant]:
    """The fields and values that are compared in it."""
    match test:
        case Joined(parts=parts):
            for part in parts:
                yield from operands(part)
        case Not(inner=inner):
            yield from operands(inner)
        case Compared(left=left, right=right):
            yield left
            yield right
        case Like(left=left):
            yield left
        case IsNull(field=field) | Holds(field=field) | Is(field=field):
            yield field


def _fits(number: Decimal) -> bool:
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        return False
    return -exponent <= MOST_DIGITS and len(digits) + exponent <= MOST_DIGITS and len(digits) <= 2 * MOST_DIGITS
