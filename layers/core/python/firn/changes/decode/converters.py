"""One converter for each pair of a column's type and its source's encoding, made once a codec and called once a value.

A converter takes a JSON value as msgspec decodes it (never null) and returns what Arrow stores, or raises `Refused`.
It looks at the exact class, because a JSON true is an int to Python. Converters for which `reads_text` holds take the
value's JSON text instead, as bytes.
"""

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import msgspec

from firn.changes.decode import values
from firn.changes.decode.time_units import MICROS, NANOS, TIMES
from firn.changes.decode.types import Encoding, Type
from firn.changes.decode.values import Refused, mismatch
from firn.changes.decode.wkb import wkb_of

Convert = Callable[[Any], Any]

_FLOAT_MAX: Final = 3.4028235677973366e38  # beyond it a double rounds to infinity as a float
_AS_TEXT: Final = frozenset(
    {"float32", "float64", "decimal_number", "json", "json_value", "geometry", "array", "map", "object"}
)
_decode_str: Final = msgspec.json.Decoder(str).decode


def reads_text(kind: Type, source: Encoding) -> bool:
    """Whether the converter of this pair takes JSON text (bytes): where a decoded float would lose digits, or an object
    is kept as it was written."""
    if kind.name == "string":
        return source.kind in _AS_TEXT
    if kind.name == "variant":
        return True
    return kind.name == "decimal" and source.kind in {"decimal_number", "float64", "float32"}


def converter(kind: Type, source: Encoding) -> Convert:
    """The converter from `source` to `kind`. A pair that can't be gives one that refuses each value."""
    make = _MAKERS.get(kind.name)
    convert = make(kind, source) if make else None
    return convert or _never(kind, source)


def _never(kind: Type, source: Encoding) -> Convert:
    def refuse(_: Any) -> Any:
        raise mismatch(f"the source writes {source.kind}, which does not become {kind}")

    return refuse


def _boolean(_: Type, source: Encoding) -> Convert | None:
    if source.kind not in {"boolean", "integer", "any", "decimal_text"}:
        return None
    texts = {"0": False, "1": True, "false": False, "true": True} if source.kind == "decimal_text" else {}

    def boolean(value: Any) -> bool:
        if value.__class__ is str and value in texts:
            return texts[value]
        if value.__class__ is bool:
            return bool(value)
        if value.__class__ is int and value in (0, 1):  # MySQL's tinyint(1), declared as boolean
            return value == 1
        raise mismatch("not true or false")

    return boolean


def _whole(value: Decimal) -> int:
    if value != value.to_integral_value():
        raise mismatch("digits after the point do not fit an integer")
    return int(value)


def _integer(kind: Type, source: Encoding) -> Convert | None:
    bits = 31 if kind.name == "int" else 63
    low, high = -(2**bits), 2**bits - 1

    def integer(value: Any) -> int:
        if value.__class__ is int and low <= value <= high:
            return int(value)
        if value.__class__ is int:
            raise mismatch(f"the number does not fit {kind}")
        raise mismatch("not an integer")

    if source.kind in {"integer", "any", "decimal_number"} or source.kind.endswith(("_days", "_ms", "_us", "_ns")):
        return integer
    if source.kind == "unsigned":
        return lambda value: integer(values.unsigned(value))
    read = _decimal_reader(source)
    return (lambda value: integer(_whole(read(value)))) if read else None


def _double(kind: Type, source: Encoding) -> Convert | None:
    single = kind.name == "float"
    exact_single = single and source.kind != "float32"

    def double(value: Any) -> float:
        if value.__class__ is float:
            pass
        elif value.__class__ is str and value in values.SPECIAL_FLOATS:
            return values.SPECIAL_FLOATS[value]
        elif value.__class__ is int and value:  # a JSON 0 may be a -0: the exact path looks at its text
            value = _float_of_int(value)
        else:
            raise mismatch("not a number")
        if single and not -_FLOAT_MAX < value < _FLOAT_MAX and abs(value) != float("inf") and value == value:
            raise mismatch("the number does not fit float")
        if exact_single and value == value and struct.unpack("f", struct.pack("f", value))[0] != value:
            raise mismatch("the number does not fit float without rounding")
        return float(value)

    if source.kind in {"float32", "float64", "integer", "any", "decimal_number"}:
        return double
    read = _decimal_reader(source)
    if read is None:
        return None

    def double_of_decimal(value: Any) -> float:
        special = values.special_float(value) if value.__class__ is str and source.kind == "decimal_text" else None
        if special is not None:
            return special
        exact = read(value)
        near = float(exact)
        if Decimal(repr(near)) != exact:  # the shortest digits of the double are the decimal's own
            raise mismatch(f"the decimal has more digits than a {kind} keeps")
        return double(near) if near else near

    return double_of_decimal


def _float_of_int(value: int) -> float:
    try:
        near = float(value)
    except OverflowError as error:
        raise mismatch("the number does not fit double") from error
    if int(near) != value:
        raise mismatch("the integer has more digits than a double keeps")
    return near


def _decimal_reader(source: Encoding) -> Callable[[Any], Decimal] | None:
    """From a value of a decimal encoding to the exact Decimal; base64 and {scale, value} objects are told apart."""
    scale = source.scale

    def of_base64(value: Any) -> Decimal:
        if value.__class__ is str:
            return values.decimal_of_unscaled(values.bytes_of_base64(value), scale)
        return of_any(value)

    def of_text(value: Any) -> Decimal:
        return values.decimal_of_text(value) if value.__class__ is str else of_any(value)

    def of_any(value: Any) -> Decimal:
        if value.__class__ is int or value.__class__ is Decimal:
            return Decimal(value)
        return values.decimal_of_variable(value)

    if source.kind in {"decimal_base64", "decimal_variable"}:
        return of_base64 if source.kind == "decimal_base64" else of_any
    if source.kind == "decimal_text":
        return of_text
    return None


def _decimal(kind: Type, source: Encoding) -> Convert | None:
    precision, scale = kind.precision or 0, kind.scale or 0
    fitted = values.fitted
    if source.kind in {"decimal_number", "float64", "float32"}:

        def of_digits(text: Any) -> Decimal:
            word = _decode_str(text) if text[:1] == b'"' else text.decode()
            return fitted(values.decimal_of_text(word), precision, scale)

        return of_digits
    if source.kind in {"integer", "any"}:

        def of_integer(value: Any) -> Decimal:
            if value.__class__ is int or value.__class__ is Decimal:
                return fitted(Decimal(value), precision, scale)
            raise mismatch("not a number")

        return of_integer
    if source.kind == "unsigned":
        return lambda value: fitted(Decimal(values.unsigned(value)), precision, scale)
    read = _decimal_reader(source)
    if read is None:
        return None
    if source.kind != "decimal_base64" or source.scale != scale:
        return lambda value: fitted(read(value), precision, scale)
    limit, of_base64, exact = 10**precision, values.bytes_of_base64, values.EXACT

    def of_same_scale(value: Any) -> Decimal:
        if value.__class__ is not str or not value:
            return fitted(read(value), precision, scale)
        unscaled = int.from_bytes(of_base64(value), "big", signed=True)
        if -limit < unscaled < limit:
            return Decimal(unscaled).scaleb(-scale, exact)
        raise mismatch(f"the decimal does not fit {kind}")

    return of_same_scale


def _string_test(what: str, change: Callable[[str], Any]) -> Convert:
    def of_string(value: Any) -> Any:
        if value.__class__ is str:
            return change(value)
        raise mismatch(f"not {what} in a string")

    return of_string


_BYTES: Final[dict[str, tuple[str, Callable[[str], bytes]]]] = {
    "binary_base64": ("base64", values.bytes_of_base64),
    "binary_base64url": ("URL-safe base64", values.bytes_of_base64url),
    "binary_hex": ("hexadecimal", values.bytes_of_hex),
    "bits": ("base64", values.bytes_of_base64),
}


def _binary(_: Type, source: Encoding) -> Convert | None:
    if source.kind == "geometry":
        return wkb_of
    known = _BYTES.get(source.kind)
    return _string_test(*known) if known else None


def _fixed(kind: Type, source: Encoding) -> Convert | None:
    read = _binary(kind, source)
    if read is None:
        return None

    def of_length(value: Any) -> bytes:
        found: bytes = read(value)
        if len(found) == kind.length:
            return found
        raise mismatch(f"the value has {len(found)} bytes where {kind} has {kind.length}")

    return of_length


def _uuid(_: Type, source: Encoding) -> Convert | None:
    return _string_test("a UUID", values.uuid_text) if source.kind in {"uuid", "string", "any"} else None


def _number_or_text(number: Callable[[int], Any] | None, text: Callable[[str], Any], what: str) -> Convert:
    """Numbers by their unit; text, where it comes, by its own form: it can't be mistaken for a number."""

    def convert(value: Any) -> Any:
        if value.__class__ is str:
            return text(value)
        if value.__class__ is int and number is not None:
            return number(value)
        raise mismatch(f"not {what}")

    return convert


def _date(_: Type, source: Encoding) -> Convert | None:
    if source.kind not in {"date_days", "date_text"}:
        return None
    return _number_or_text(values.days if source.kind == "date_days" else None, values.days_of_text, "a date")


def _nano_timestamp(kind: Type, source: Encoding) -> Convert | None:
    zoned = kind.name == "timestamptz_ns"
    if source.kind not in NANOS or source.zoned not in {zoned, None}:
        return None
    return _number_or_text(NANOS[source.kind], lambda text: values.nanos_of_text(text, zoned), "a timestamp")


def _timestamp(kind: Type, source: Encoding) -> Convert | None:
    zoned = kind.name == "timestamptz"
    if source.kind not in MICROS or source.zoned not in {zoned, None}:
        return None
    return _number_or_text(MICROS[source.kind], lambda text: values.micros_of_text(text, zoned), "a timestamp")


def _time(_: Type, source: Encoding) -> Convert | None:
    if source.kind not in TIMES:
        return None
    return _number_or_text(TIMES[source.kind], values.text_of_time_text, "a time")


def _plain_text(value: Any) -> str:
    if value.__class__ is str:
        return str(value)
    raise mismatch("not a string")


def _json_text(text: Any) -> str:
    return _decode_str(text) if text[:1] == b'"' else text.decode()


def _string(kind: Type, source: Encoding) -> Convert | None:
    if source.kind in {"any", "string", "uuid", "bits", "decimal_text"} or source.kind.startswith("binary_"):
        return _plain_text
    if source.kind == "json_value":
        return lambda text: text.decode()
    if source.kind in _AS_TEXT:
        return _json_text
    if source.kind == "boolean":
        boolean = _boolean(kind, source)
        return (lambda value: "true" if boolean(value) else "false") if boolean else None
    if source.kind == "integer":
        integer = _integer(Type("long"), source)
        return (lambda value: str(integer(value))) if integer else None
    if source.kind == "unsigned":
        return lambda value: str(values.unsigned(value))
    if source.kind in TIMES:
        return _time(kind, source)
    if source.kind in MICROS:
        zoned = bool(source.zoned)
        if source.kind == "timestamp_ns":
            text = lambda value: values.text_of_nanos(value, zoned)  # noqa: E731
            return _number_or_text(text, lambda told: told, "a timestamp")
        moment = _timestamp(Type("timestamptz" if zoned else "timestamp"), source)
        return (lambda value: values.text_of_micros(moment(value), zoned)) if moment else None
    if day := _date(kind, source):
        return lambda value: values.text_of_days(day(value))
    read = _decimal_reader(source)
    return (lambda value: values.text_of_decimal(read(value))) if read else None


def _variant(_: Type, source: Encoding) -> Convert | None:
    from firn.changes.decode.variant_bytes import canonical_json  # few tables have them
    from firn.changes.decode.variant_text import BadVariant

    text_of = bytes.decode if source.kind == "json_value" else _json_text

    def canonical(text: bytes) -> str:
        try:
            return canonical_json(text_of(text))
        except BadVariant as error:
            raise mismatch(f"no variant can be made of it: {error}") from error

    return canonical


def _list(kind: Type, source: Encoding) -> Convert | None:
    if source.element is None or kind.element is None or reads_text(kind.element, source.element):
        return None  # elements that read text go the exact way, one by one
    element = converter(kind.element, source.element)

    def elements(value: Any) -> list[Any]:
        if value.__class__ is list:
            return [None if item is None else element(item) for item in value]
        raise mismatch("not an array")

    return elements


def _struct(kind: Type, source: Encoding) -> Convert | None:
    written = {member.name: member for member in source.members}
    parts: list[tuple[str, Convert | None, bool]] = []
    for name, part in kind.fields:
        member = written.get(name)
        if member is not None and (member.default is not None or reads_text(part, member.source)):
            return None  # these go the exact way
        convert = None if member is None else converter(part, member.source)
        parts.append((name, convert, member is not None and member.required))
    if not written:
        return None
    closed = frozenset(written) if source.closed else None

    def members(value: Any) -> dict[str, Any]:
        if value.__class__ is not dict:
            raise mismatch("not an object")
        if closed is not None and not closed.issuperset(value):
            raise values.unknown_member(min(value.keys() - closed))
        found = {}
        for name, convert, required in parts:
            cell = None if convert is None else value.get(name)
            if cell is None and required:
                raise Refused("missing_field", f"{name}: {values.MISSING}")
            found[name] = None if cell is None or convert is None else convert(cell)
        return found

    return members


_MAKERS: Final[dict[str, Callable[[Type, Encoding], Convert | None]]] = {
    "boolean": _boolean, "int": _integer, "long": _integer, "float": _double, "double": _double, "decimal": _decimal,
    "binary": _binary, "uuid": _uuid, "date": _date, "timestamp": _timestamp, "timestamptz": _timestamp,
    "timestamp_ns": _nano_timestamp, "timestamptz_ns": _nano_timestamp, "time": _time,
    "fixed": _fixed, "string": _string, "list": _list, "struct": _struct,
    "variant": _variant,
}  # fmt: skip
