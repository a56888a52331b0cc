"""msgspec's own types for the fields of a schema: what they take, the codec takes for sure, at a fraction of the cost.

What they do not take says nothing: the codec decides (conformance.py). Texts such as timestamps are looked at together:
their digits are made zeros, and of the few shapes that are left each is matched once. tests/property/test_schemas.py
holds all of it to the codec.
"""

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Raw

from firn.changes.decode.image_cells import are_odd
from firn.changes.decode.types import Encoding, Type
from firn.changes.decode.values import FIRST_US, LAST_US

Cells = Callable[[Sequence[Any]], bool]
"""Whether all of a column's cells are good for sure: none of them null or UNSET."""

_EXACT: Final = 2**53  # whole numbers up to it are exact as doubles
_SINGLE: Final = 3.4e38
_INT64: Final = 2**63 - 1
_PER_SECOND: Final = {"timestamp_s": 1, "timestamp_ms": 1_000, "timestamp_us": 1_000_000}
# In Iceberg's range by an offset too: of these years no moment lies beyond it.
_MOMENT: Final = re.compile(r"0000-00-00[T ]00:00:00(\.0{1,6})?(Z|[+-]00:00)")
_DAY: Final = re.compile(r"0000-00-00")
_CLOCK: Final = re.compile(r"00:00:00(\.0{1,6})?")
_UUID: Final = re.compile(r"0{8}(-0{4}){3}-0{12}")
_ZEROS: Final = str.maketrans("123456789", "000000000")
_HEX: Final = str.maketrans("123456789abcdefABCDEF", "0" * 21)
_BYTES: Final = bytes.maketrans(b"123456789", b"000000000")
_FEW: Final = 64  # shapes; where there are more, nothing is the quicker for them
_EDGES: Final = ("0001-", "9999-")


def _between(low: int, high: int) -> Any:
    return Annotated[int, Meta(ge=low, le=high)]


_SIMPLE: Final[dict[tuple[str, str], Any]] = {
    ("boolean", "boolean"): bool,
    ("int", "integer"): _between(-(2**31), 2**31 - 1),
    ("long", "integer"): _between(-_INT64 - 1, _INT64),
    ("float", "float32"): _between(-_EXACT, _EXACT) | Annotated[float, Meta(gt=-_SINGLE, lt=_SINGLE)],
    ("double", "float64"): _between(-_EXACT, _EXACT) | float,
    ("string", "string"): str,
    ("binary", "binary_base64"): bytes,
}  # fmt: skip


def sure_type(kind: Type, source: Encoding) -> Any | None:
    """The type whose values are all good for a field of `kind`, written so; None if msgspec has none. Never null."""
    if source.kind == "json_value":
        return Raw
    if kind.element is not None and source.element is not None:
        element = sure_type(kind.element, source.element)
        return None if element is None else list[_or_null(element)]  # type: ignore[misc]
    if kind.fields:
        return _struct(kind, source)
    return _SIMPLE.get((kind.name, source.kind))


def sure_cells(kind: Type, source: Encoding) -> tuple[Any, Cells] | None:
    """The same for fields whose values are looked at together: their type, and what looks; None if they are not."""
    if kind.name == "timestamptz" and source.zoned:
        if source.kind == "timestamp_text":
            return str, _moments
        if source.kind in _PER_SECOND:
            unit = 1_000_000 // _PER_SECOND[source.kind]
            return _between(-(-FIRST_US // unit), LAST_US // unit) | str, _moments_among_numbers
    if kind.name == "date" and source.kind == "date_text":
        return str, _days
    if kind.name == "time" and source.kind == "time_text":
        return str, _clocks
    if kind.name == "uuid" and source.kind == "uuid":
        return str, lambda cells: _alike("\n".join(cells), len(cells), _HEX, _UUID)
    if kind.name == "decimal" and source.kind == "decimal_number":
        return Raw, _decimals(kind)
    return None


def _alike(text: str, count: int, zeros: dict[int, int], form: re.Pattern[str]) -> bool:
    """Whether all the lines of a text have a shape of this form, and are as many as they should be."""
    shapes = text.translate(zeros).split("\n")
    few = set(shapes)
    return len(shapes) == count and len(few) <= _FEW and all(form.fullmatch(shape) for shape in few)


def _moments(cells: Sequence[str]) -> bool:
    text = "\n".join(cells)
    if not text.isascii() or any(edge in text for edge in _EDGES) or not _alike(text, len(cells), _ZEROS, _MOMENT):
        return False
    try:
        return all(map(datetime.fromisoformat, cells))
    except ValueError:  # the 31st of February
        return False


def _moments_among_numbers(cells: Sequence[Any]) -> bool:
    texts = [cell for cell in cells if cell.__class__ is str]
    return not texts or _moments(texts)


def _days(cells: Sequence[str]) -> bool:
    text = "\n".join(cells)
    if not text.isascii() or not _alike(text, len(cells), _ZEROS, _DAY):
        return False
    try:
        return all(map(date.fromisoformat, cells))
    except ValueError:
        return False


def _clocks(cells: Sequence[str]) -> bool:
    text = "\n".join(cells)
    hours = all(cell[:2] < "24" and cell[3] < "6" and cell[6] < "6" for cell in cells if len(cell) > 6)
    return text.isascii() and hours and _alike(text, len(cells), _ZEROS, _CLOCK)


def _decimals(kind: Type) -> Cells:
    scale = kind.scale or 0
    whole = (kind.precision or 0) - scale
    digits = rb"-?0{1,%d}" % max(whole, 1) + (rb"(\.0{1,%d})?" % scale if scale else b"")
    form = re.compile(rb'%b|"%b"' % (digits, digits))

    def decimals(cells: Sequence[Any]) -> bool:
        shapes = set(b"\n".join(cells).translate(_BYTES).split(b"\n"))
        return whole > 0 and len(shapes) <= _FEW and all(form.fullmatch(shape) for shape in shapes)

    return decimals


def _or_null(kind: Any) -> Any:
    return kind if kind is Raw else kind | None


def _struct(kind: Type, source: Encoding) -> Any | None:
    fields: list[Any] = []
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
