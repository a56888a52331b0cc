"""Single values: from the encodings of Kafka Connect and Debezium to what Arrow and Iceberg store.

Dates are days and timestamps microseconds since 1970-01-01 (proleptic Gregorian, as Debezium and Iceberg count).
Everything here is exact or raises `Refused`; nothing rounds.
"""

import math
import re
from base64 import b64decode
from binascii import Error as Base64Error
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Final, Literal

FIRST_DAY: Final = -719_162  # 0001-01-01
LAST_DAY: Final = 2_932_896  # 9999-12-31
DAY_US: Final = 86_400_000_000
FIRST_US: Final = FIRST_DAY * DAY_US
LAST_US: Final = (LAST_DAY + 1) * DAY_US - 1
FIRST_NS: Final = -(2**63)  # 1677-09-21T00:12:43.145224192
LAST_NS: Final = 2**63 - 1  # 2262-04-11T23:47:16.854775807
LONGEST_TIME_US: Final = (838 * 3600 + 3600) * 1_000_000 - 1  # MySQL's TIME runs from -838:59:59 to 838:59:59

SPECIAL_FLOATS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
# PostgreSQL's numeric has at most 131,072 digits before the point and 16,383 after it.
MAX_SCALE: Final = 131_072
EXACT: Final = Context(prec=200_000, Emax=999_999, Emin=-999_999)

_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_UTC: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_URL_SAFE: Final = str.maketrans("-_", "+/")

_INFINITY: Final = re.compile(r"[+-]?infinity", re.IGNORECASE)
# Debezium writes NAN, POSITIVE_INFINITY and NEGATIVE_INFINITY, drivers and JSON libraries the others.
_SPECIAL: Final = re.compile(r"([+-]|positive_|negative_)?(nan|infinity|inf)", re.IGNORECASE | re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,6})?", re.ASCII)
# A year may be signed, longer than four digits, or followed by an era: PostgreSQL's range is 4713 BC to 294276 AD.
_DATE: Final = re.compile(r"([+-]?\d{4,9})-(\d\d)-(\d\d)Z?(\s*BC)?", re.ASCII)
_COMMON_TIMESTAMP: Final = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d(?::\d\d)?)?", re.ASCII
)
_TIMESTAMP: Final = re.compile(
    r"([+-]?\d{4,9})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?"
    r"([Zz]|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)?(\s*BC)?",
    re.ASCII,
)
_FINER: Final = re.compile(r"[.,]\d{10}", re.ASCII)
_TIME: Final = re.compile(r"(-?)(\d{2,3}):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?:Z|\+00:00)?", re.ASCII)
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")


RefusedBecause = Literal["type_mismatch", "out_of_range", "missing_field", "unknown_field"]
MISSING: Final = "is missing or null, and the schema requires it"


_BELOW: Final = (
    "digits below the microsecond do not fit a timestamp; declare the column as timestamp_ns in a table of format: 3, "
    "or as string or long"
)


class Refused(Exception):
    """A verdict: this value can't become the column's type. The codec makes it an EventError with the column's name.

    `code` is type_mismatch or out_of_range, or of an object whose schema is known missing_field or unknown_field; the
    text never holds the value itself, because it ends in logs.
    """

    def __init__(self, code: RefusedBecause, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def mismatch(reason: str) -> Refused:
    """A Refused for a value of the wrong kind, or one that the type can't hold exactly."""
    return Refused("type_mismatch", reason)


def unknown_member(name: str) -> Refused:
    """A Refused for a member of an object that its schema does not name."""
    return Refused("unknown_field", f"it has the field {name[:100]!r}, which the schema does not name")


def beyond(reason: str) -> Refused:
    """A Refused for a value that the source can hold and Iceberg can't: infinity, NaN, years outside 1 to 9999."""
    return Refused("out_of_range", reason)


def bytes_of_base64(text: str) -> bytes:
    """The bytes of standard base64, padded or not."""
    try:
        return b64decode(text if not len(text) % 4 else text + "=" * (-len(text) % 4), validate=True)
    except (Base64Error, ValueError) as error:
        raise mismatch("the text is not base64") from error


def bytes_of_base64url(text: str) -> bytes:
    """The bytes of URL-safe base64, padded or not."""
    if "+" in text or "/" in text:
        raise mismatch("the text is not URL-safe base64")
    return bytes_of_base64(text.translate(_URL_SAFE))


def bytes_of_hex(text: str) -> bytes:
    """The bytes of hexadecimal digits, with nothing between them."""
    try:
        data = bytes.fromhex(text)
    except ValueError as error:
        raise mismatch("the text is not hexadecimal") from error
    if len(data) * 2 != len(text):  # fromhex skips blanks
        raise mismatch("the text is not hexadecimal")
    return data


def unsigned(value: object) -> int:
    """The integer without a sign whose 64 bits a source sent as a signed one (or as it is)."""
    if isinstance(value, int) and value.__class__ is int and -(2**63) <= value < 2**64:
        return value % 2**64
    raise mismatch("not an integer of 64 bits")


def decimal_of_unscaled(data: bytes, scale: int) -> Decimal:
    """Connect's Decimal: `data` is the unscaled integer, big-endian two's complement; the value is it / 10^scale."""
    if not data:
        raise mismatch("a decimal without digits")
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, EXACT)


def decimal_of_variable(value: object) -> Decimal:
    """Debezium's VariableScaleDecimal: {"scale": int, "value": base64 of the unscaled integer}."""
    if isinstance(value, dict):
        scale, unscaled = value.get("scale"), value.get("value")
        if scale.__class__ is int and unscaled.__class__ is str and abs(scale) <= MAX_SCALE:
            return decimal_of_unscaled(bytes_of_base64(unscaled), scale)
    raise mismatch("not an object of scale and value")


def decimal_of_text(text: str) -> Decimal:
    """The decimal that `text` spells. Out of range: NaN and infinities, in any of Debezium's spellings."""
    if _NUMBER.fullmatch(text):
        return Decimal(text)
    if _SPECIAL.fullmatch(text):
        raise beyond("NaN or infinity is not a decimal")
    raise mismatch("the text is not a decimal number")


def special_float(text: str) -> float | None:
    """NaN or an infinity, if `text` names one in any of the spellings that decimals have, else None."""
    match = _SPECIAL.fullmatch(text)
    if match is None:
        return None
    return (
        math.nan
        if match[2].lower() == "nan"
        else -math.inf
        if (match[1] or "").lower() in {"-", "negative_"}
        else math.inf
    )


def fitted(value: Decimal, precision: int, scale: int) -> Decimal:
    """`value` with exactly `scale` digits after the point, if decimal(precision, scale) holds it without rounding."""
    if not value:  # -0.00 too: a decimal zero has no sign
        return Decimal(0).scaleb(-scale, EXACT)
    if value.adjusted() + 1 > precision - scale:
        raise mismatch(f"more than {precision - scale} digits before the point do not fit decimal({precision},{scale})")
    fit = value.quantize(Decimal(1).scaleb(-scale), context=EXACT) if value.adjusted() >= -scale else None
    if fit is None or fit != value:
        raise mismatch(f"more than {scale} digits after the point do not fit decimal({precision},{scale})")
    return fit


def text_of_decimal(value: Decimal) -> str:
    """The plain digits, as PostgreSQL prints them: no exponent, trailing zeros kept, no minus before zero."""
    text = format(value, "f")
    return text[1:] if text[0] == "-" and not value else text


def days(value: int) -> int:
    """Days since 1970-01-01, if the year is 1 to 9999."""
    if FIRST_DAY <= value <= LAST_DAY:
        return value
    raise beyond("the date lies outside the years 1 to 9999")


def days_of_text(text: str) -> int:
    """Days since 1970-01-01 of an ISO 8601 date, with or without Z (isostring writes 2024-02-29Z)."""
    match = _DATE.fullmatch(text)
    if match is None:
        if _INFINITY.fullmatch(text):
            raise beyond("infinity is not a date")
        raise mismatch("the text is not an ISO 8601 date")
    if match[4]:
        raise beyond("the date lies outside the years 1 to 9999")
    return _ordinal(match[1], match[2], match[3])


def _ordinal(year: str, month: str, day: str) -> int:
    if not 1 <= int(year) <= 9999:
        raise beyond("the date lies outside the years 1 to 9999")
    if month == "00" or day == "00":  # MySQL holds 2024-00-00
        raise beyond("the date has no month or no day")
    try:
        return date(int(year), int(month), int(day)).toordinal() - _EPOCH_ORDINAL
    except ValueError as error:
        raise mismatch("the text names a day that does not exist") from error


def text_of_days(value: int) -> str:
    """ISO 8601 text of days since 1970-01-01."""
    return date.fromordinal(days(value) + _EPOCH_ORDINAL).isoformat()


def micros(value: int) -> int:
    """Microseconds since 1970-01-01T00:00:00, if the year is 1 to 9999."""
    if FIRST_US <= value <= LAST_US:
        return value
    raise beyond("the timestamp lies outside the years 1 to 9999")


def micros_of_seconds(value: int) -> int:
    """Microseconds of a count of seconds."""
    return micros(value * 1_000_000)


def micros_of_millis(value: int) -> int:
    """Microseconds of a count of milliseconds."""
    return micros(value * 1000)


def micros_of_nanos(value: int) -> int:
    """Microseconds of a count of nanoseconds, if nothing is lost."""
    whole, rest = divmod(value, 1000)
    if rest:
        raise mismatch(_BELOW)
    return micros(whole)


def nanos(value: int) -> int:
    """Nanoseconds since 1970-01-01T00:00:00, if 64 bits hold them."""
    if FIRST_NS <= value <= LAST_NS:
        return value
    raise beyond("the timestamp lies outside 1677-09-21 to 2262-04-11, which nanoseconds reach")


def nanos_of_seconds(value: int) -> int:
    """Nanoseconds of a count of seconds."""
    return nanos(value * 1_000_000_000)


def nanos_of_millis(value: int) -> int:
    """Nanoseconds of a count of milliseconds."""
    return nanos(value * 1_000_000)


def nanos_of_micros(value: int) -> int:
    """Nanoseconds of a count of microseconds."""
    return nanos(value * 1000)


def nanos_of_text(text: str, zoned: bool) -> int:
    """Nanoseconds of an ISO 8601 timestamp, as micros_of_text reads it, if 64 bits hold them."""
    return nanos(moment_of_text(text, zoned))


def moment_of_text(text: str, zoned: bool) -> int:
    """The same, however many they are."""
    if not _COMMON_TIMESTAMP.fullmatch(text):
        whole, rest = _by_parts(text, zoned)
        return whole * 1000 + rest
    return micros_of_text(text, zoned) * 1000


def micros_of_text(text: str, zoned: bool) -> int:
    """Microseconds of an ISO 8601 timestamp: the instant if `zoned` (no offset means UTC), else the local time.

    A local timestamp may end in Z (isostring writes it so); another offset there would change its meaning: refused.
    """
    if not _COMMON_TIMESTAMP.fullmatch(text):  # fromisoformat would take more forms, and cut digits off
        return _micros_by_parts(text, zoned)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _micros_by_parts(text, zoned)
    if moment.tzinfo is None:
        gap = moment - _EPOCH
    elif zoned or not moment.utcoffset():
        gap = moment - _EPOCH_UTC
    else:
        raise mismatch("an offset in a timestamp without zone")
    # An offset may carry the first and last hours beyond the years 1 to 9999.
    return micros(gap.days * DAY_US + gap.seconds * 1_000_000 + gap.microseconds)


def _micros_by_parts(text: str, zoned: bool) -> int:
    whole, rest = _by_parts(text, zoned)
    if rest:
        raise mismatch(_BELOW)
    return whole


def _by_parts(text: str, zoned: bool) -> tuple[int, int]:
    """Microseconds, and the nanoseconds beside them."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        if _INFINITY.fullmatch(text):
            raise beyond("infinity is not a timestamp")
        if _FINER.search(text):
            raise mismatch("more than 9 digits after the second do not fit a timestamp")
        raise mismatch("the text is not an ISO 8601 timestamp")
    year, month, day, hour, minute, second, fraction, offset, era = match.groups()
    if era or not 1 <= int(year) <= 9999:
        raise beyond("the timestamp lies outside the years 1 to 9999")
    if int(hour) > 23 or int(minute) > 59 or int(second or 0) > 59:
        raise mismatch("the text names a time that does not exist")
    digits = (fraction or "").ljust(9, "0")
    seconds = (int(hour) * 60 + int(minute)) * 60 + int(second or 0)
    if offset and offset not in "Zz":
        parts = offset[1:].replace(":", "")
        if int(parts[:2]) > 23 or int(parts[2:4] or 0) > 59 or int(parts[4:6] or 0) > 59:
            raise mismatch("the text names an offset that does not exist")
        ahead = int(parts[:2]) * 3600 + int(parts[2:4] or 0) * 60 + int(parts[4:6] or 0)
        if ahead and not zoned:
            raise mismatch("an offset in a timestamp without zone")
        seconds -= ahead if offset[0] == "+" else -ahead
    whole = micros(_ordinal(year, month, day) * DAY_US + seconds * 1_000_000 + int(digits[:6]))
    return whole, int(digits[6:])


def text_of_micros(value: int, zoned: bool) -> str:
    """ISO 8601 text of microseconds since 1970-01-01: 2024-02-29T23:59:59.999999, with Z if `zoned`."""
    day, rest = divmod(micros(value), DAY_US)
    return f"{text_of_days(day)}T{text_of_time(rest)}{'Z' if zoned else ''}"


def text_of_nanos(value: int, zoned: bool) -> str:
    """Like text_of_micros, of nanoseconds, with three more digits if they are not zero."""
    whole, rest = divmod(value, 1000)
    return text_of_micros(whole, False) + (f"{rest:03d}" if rest else "") + ("Z" if zoned else "")


def text_of_time(value: int) -> str:
    """HH:MM:SS.ffffff of microseconds since midnight. PostgreSQL has 24:00:00, MySQL -838:59:59 to 838:59:59."""
    if not -LONGEST_TIME_US <= value <= LONGEST_TIME_US:
        raise beyond("the time lies outside -838:59:59 to 838:59:59")
    sign, value = ("-", -value) if value < 0 else ("", value)
    seconds, fraction = divmod(value, 1_000_000)
    minutes, second = divmod(seconds, 60)
    return f"{sign}{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}.{fraction:06d}"


def text_of_nano_time(value: int) -> str:
    """Like text_of_time, of nanoseconds, with three more digits if they are not zero."""
    whole, rest = divmod(abs(value), 1000)
    return ("-" if value < 0 else "") + text_of_time(whole) + (f"{rest:03d}" if rest else "")


def text_of_time_text(text: str) -> str:
    """HH:MM:SS.ffffff of an ISO 8601 time, with or without Z (isostring writes 23:59:59.999999Z)."""
    match = _TIME.fullmatch(text)
    if match is None or int(match[3]) > 59 or int(match[4] or 0) > 59:
        raise mismatch("the text is not an ISO 8601 time")
    fraction = (match[5] or "").ljust(9, "0")
    tail = fraction if fraction[6:] != "000" else fraction[:6]
    return f"{match[1]}{match[2]}:{match[3]}:{match[4] or '00'}.{tail}"


def uuid_text(text: str) -> str:
    """The lower-case text of a UUID of 36 characters."""
    if _UUID.fullmatch(text):
        return text.lower()
    raise mismatch("the text is not a UUID")
