"""Which type a column may have instead of its own, values unchanged: Iceberg's promotions, no more.

The specification's "Schema Evolution": int to long, float to double, decimal(p,s) to decimal(P,s) with P > p. PyIceberg
reads files by more than these, string as binary among them, but a table's column is not promoted so. What format 3 adds
(from date and `unknown`) is left out: few readers know it.
"""

from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
)

_WIDER: dict[PrimitiveType, PrimitiveType] = {IntegerType(): LongType(), FloatType(): DoubleType()}
_MOST_DIGITS = 38


def widens(old: IcebergType, new: IcebergType) -> bool:
    """Whether a column of type `old` may become `new`; a type becomes itself."""
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return old.scale == new.scale and old.precision <= new.precision
    return old == new or (isinstance(old, PrimitiveType) and _WIDER.get(old) == new)


def choices(old: IcebergType) -> str:
    """What a column of this type may be widened to, for the text of an error."""
    if isinstance(old, DecimalType):
        if old.precision == _MOST_DIGITS:
            return f"{old} has all the digits there are"
        return f"a decimal may only get more digits in front, decimal({old.precision + 1}…{_MOST_DIGITS}, {old.scale})"
    if isinstance(old, PrimitiveType) and old in _WIDER:
        return f"{old} may become {_WIDER[old]}"
    if not isinstance(old, PrimitiveType):
        return "a struct, list or map is widened in its fields, by their paths: parent.child, list.element, map.value"
    return f"{old} may become no other type: only int (long), float (double) and decimals (more digits) may"
