"""Why a file is left out of a read, in words: the predicates of the filter that it can't fit, and what it has."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    BoundEqualTo,
    BoundGreaterThan,
    BoundGreaterThanOrEqual,
    BoundIn,
    BoundIsNaN,
    BoundIsNull,
    BoundLessThan,
    BoundLessThanOrEqual,
    BoundLiteralPredicate,
    BoundNotEqualTo,
    BoundNotIn,
    BoundNotNaN,
    BoundNotNull,
    BoundNotStartsWith,
    BoundPredicate,
    BoundSetPredicate,
    BoundStartsWith,
    Or,
)
from pyiceberg.expressions.visitors import (
    _ExpressionEvaluationVisitor,
    _InclusiveMetricsEvaluationVisitor,
    bind,
    visit,
)
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField, PrimitiveType

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata

_MOST: Final = 3  # values that are named
_SIGNS: Final[dict[type, str]] = {
    BoundEqualTo: "=", BoundNotEqualTo: "!=", BoundLessThan: "<", BoundLessThanOrEqual: "<=", BoundGreaterThan: ">",
    BoundGreaterThanOrEqual: ">=", BoundStartsWith: "starts with", BoundNotStartsWith: "does not start with",
    BoundIn: "in", BoundNotIn: "not in", BoundIsNull: "is null", BoundNotNull: "is not null", BoundIsNaN: "is nan",
    BoundNotNaN: "is not nan",
}  # fmt: skip


def partition_reason(metadata: "TableMetadata", file: "DataFile", projected: BooleanExpression) -> str:
    """`created_at_day is 2026-01-31, not = 2026-02-01`. `projected`: the filter by the names of partition fields."""
    spec = metadata.specs()[file.spec_id]
    fields = spec.partition_type(metadata.schema()).fields
    places = {field.field_id: place for place, field in enumerate(fields)}
    tests = _ExpressionEvaluationVisitor(file.partition)
    found = denied(bind(Schema(*fields), projected, case_sensitive=True), lambda one: visit(one, tests))
    said = []
    for one in found:
        place = places[one.term.ref().field.field_id]
        show = partial(spec.fields[place].transform.to_human_string, fields[place].field_type)
        said.append(f"{fields[place].name} is {show(file.partition[place])}, not {_asked(one, show)}")
    return "; ".join(said) or "its manifest has no such partition"


def bounds_reason(file: "DataFile", where: BooleanExpression) -> str:
    """`status: 'a'..'c' does not hold 'z'`."""
    if not file.record_count:
        return "it has no rows"
    tests = _InclusiveMetricsEvaluationVisitor(file)
    return "; ".join(_beside(file, one) for one in denied(where, lambda one: visit(one, tests))) or "its bounds"


def bloom_reason(predicates: Sequence[BoundPredicate]) -> str:
    """`Bloom filter: no order_id = 'x'`."""
    return "Bloom filter: no " + ", ".join(named(one) for one in predicates)


def denied(where: BooleanExpression, may: Callable[[BooleanExpression], bool]) -> list[BoundPredicate]:
    """The predicates that make `where` false, of which `may` is false: of an AND one side's, of an OR both sides'."""
    if isinstance(where, And):
        return denied(where.right if may(where.left) else where.left, may)
    if isinstance(where, Or):
        return [*denied(where.left, may), *denied(where.right, may)]
    return [where] if isinstance(where, BoundPredicate) else []


def named(one: BoundPredicate) -> str:
    """A predicate as text."""
    field = one.term.ref().field
    return f"{field.name} {_asked(one, lambda value: shown(field.field_type, value))}"


def shown(kind: Any, value: Any) -> str:
    """A value of an Iceberg type (as PyIceberg's literals hold it), for people."""
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return str(IdentityTransform().to_human_string(kind, value))


def _beside(file: "DataFile", one: BoundPredicate) -> str:
    field = one.term.ref().field
    if isinstance(one, BoundIsNull | BoundIsNaN):
        return f"{field.name} has no {'null' if isinstance(one, BoundIsNull) else 'NaN'}"
    low, high = (_bound(ends, field) for ends in (file.lower_bounds, file.upper_bounds))
    if low is None and high is None:
        return f"{field.name} has only nulls, not {_asked(one, lambda value: shown(field.field_type, value))}"
    ends_shown = "..".join("" if end is None else shown(field.field_type, end) for end in (low, high))
    values = _values(one)
    if isinstance(one, BoundEqualTo | BoundIn):
        said = _some((shown(field.field_type, value) for value in values), len(values))
        return f"{field.name}: {ends_shown} does not hold {said}" if len(values) == 1 else (
            f"{field.name}: {ends_shown} holds none of {said}"
        )  # fmt: skip
    return f"{field.name}: {ends_shown}, not {_asked(one, lambda value: shown(field.field_type, value))}"


def _bound(bounds: Mapping[int, bytes] | None, field: NestedField) -> Any:
    stored = (bounds or {}).get(field.field_id)
    return (
        None
        if stored is None or not isinstance(field.field_type, PrimitiveType)
        else (from_bytes(field.field_type, stored))
    )


def _asked(one: BoundPredicate, show: Callable[[Any], str]) -> str:
    sign, values = _SIGNS.get(type(one), type(one).__name__), _values(one)
    if isinstance(one, BoundSetPredicate):
        return f"{sign} ({_some(map(show, values), len(values))})"
    return f"{sign} {show(values[0])}" if values else sign


def _values(one: BoundPredicate) -> list[Any]:
    if isinstance(one, BoundLiteralPredicate):
        return [one.literal.value]
    if isinstance(one, BoundSetPredicate):
        return sorted(literal.value for literal in one.literals)
    return []


def _some(texts: Iterable[str], count: int) -> str:
    few = [text for text, _ in zip(texts, range(_MOST), strict=False)]
    return ", ".join(few) + (f" and {count - _MOST} more" if count > _MOST else "")
