"""msgspec's own types for the fields of a schema: what they take, the codec takes for sure, at a fraction of the cost.

What they do not take says nothing: the codec decides (row_check.py). tests/property/test_schemas.py holds them to it.
"""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Raw

from firn.changes.decode.image_cells import are_odd
from firn.changes.decode.types import Encoding, Type
from firn.changes.decode.values import FIRST_US, LAST_US

Sure = Callable[[bytes], bool]

_EXACT: Final = 2**53  # whole numbers up to it are exact as doubles
_SINGLE: Final = 3.4e38
_INT64: Final = 2**63 - 1
_DAY: Final = (
    r"[12]\d{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    r"|02-(?:0[1-9]|1\d|2[0-8]))"
)
_CLOCK: Final = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?"
# msgspec rounds what is below the microsecond, and knows nothing of the first and last hours there are: texts with such
# digits or years are looked for in the whole body, at a tenth of what a pattern costs.
_MOMENT: Final = Annotated[datetime, Meta(tz=True)]
_ODD_MOMENT: Final = re.compile(rb"\.\d{7}").search
_PER_SECOND: Final = {"timestamp_s": 1, "timestamp_ms": 1_000, "timestamp_us": 1_000_000}


def _text(form: str) -> Any:
    return Annotated[str, Meta(pattern=form)]


def _between(low: int, high: int) -> Any:
    return Annotated[int, Meta(ge=low, le=high)]


_SIMPLE: Final[dict[tuple[str, str], Any]] = {
    ("boolean", "boolean"): bool,
    ("int", "integer"): _between(-(2**31), 2**31 - 1),
    ("long", "integer"): _between(-_INT64 - 1, _INT64),
    ("float", "float32"): _between(-_EXACT, _EXACT) | Annotated[float, Meta(gt=-_SINGLE, lt=_SINGLE)],
    ("double", "float64"): _between(-_EXACT, _EXACT) | float,
    ("string", "string"): str,
    ("uuid", "uuid"): _text(r"\A[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z"),
    ("binary", "binary_base64"): bytes,
    ("date", "date_text"): _text(rf"\A{_DAY}\Z"),
    ("time", "time_text"): _text(rf"\A{_CLOCK}\Z"),
}  # fmt: skip


def are_odd_moments(body: bytes) -> bool:
    """Whether JSON text may hold moments that msgspec takes and the codec does not: only then is it looked at closely."""
    return b'"0001-' in body or b'"9999-' in body or _ODD_MOMENT(body) is not None


def sure_type(kind: Type, source: Encoding) -> Any | None:
    """The type whose values are all good for a field of `kind`, written so; None if msgspec has none. Never null."""
    if source.kind == "json_value":
        return Raw
    if kind.element is not None and source.element is not None:
        element = sure_type(kind.element, source.element)
        return None if element is None else list[_or_null(element)]  # type: ignore[misc]
    if kind.fields:
        return _struct(kind, source)
    if kind.name == "timestamptz" and source.zoned:
        if source.kind == "timestamp_text":
            return _MOMENT
        if source.kind in _PER_SECOND:
            unit = 1_000_000 // _PER_SECOND[source.kind]
            return _between(-(-FIRST_US // unit), LAST_US // unit) | _MOMENT
    return _SIMPLE.get((kind.name, source.kind))


def _or_null(kind: Any) -> Any:
    return kind if kind is Raw else kind | None


def _struct(kind: Type, source: Encoding) -> Any | None:
    fields: list[tuple[str, Any, Any]] = []
    written = {member.name: member for member in source.members}
    if are_odd(written):
        return None
    for i, (name, part) in enumerate(kind.fields):
        member = written.get(name)
        inner = None if member is None else sure_type(part, member.source)
        if member is None or inner is None or (member.required and inner is Raw):
            return None
        fields.append(field_of(f"c{i}", inner, required=member.required, filled=member.default is not None))
    rename = {f"c{i}": name for i, (name, _) in enumerate(kind.fields)}
    closed = source.closed
    return msgspec.defstruct("Part", fields, rename=rename, gc=False, kw_only=True, forbid_unknown_fields=closed)


def field_of(name: str, kind: Any, *, required: bool, filled: bool) -> Any:
    """The field of a msgspec struct. `filled`: a default stands in where it is absent."""
    if not required:
        return name, _or_null(kind), UNSET
    return (name, kind, UNSET) if filled else (name, kind)


def sure_decimal(kind: Type) -> Sure:
    """Whether the JSON text of a decimal is good for sure."""
    scale = kind.scale or 0
    whole = max((kind.precision or 0) - scale, 1)
    if (kind.precision or 0) == scale:
        return lambda _: False
    digits = rf"-?(?:0|[1-9]\d{{0,{whole - 1}}})" + (rf"(?:\.\d{{1,{scale}}})?" if scale else "")
    form = re.compile(rf'(?:{digits}|"{digits}"|null)'.encode(), re.ASCII)
    return lambda text: form.fullmatch(text) is not None
