"""PostgreSQL's texts of single values, as its output functions write them, into what Connect schemas call them. Pure.

The session that reads them has DateStyle ISO, IntervalStyle postgres, bytea_output hex, lc_monetary C and TimeZone UTC
(`SESSION`): the texts depend on all of these. A text that is none of its type raises ValueError.
"""

import re
import struct
from base64 import b64encode
from collections.abc import Iterator
from typing import Final

import msgspec

# Settings of the session that reads values, by which their texts are exact and of one form.
SESSION: Final = {
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    "lc_monetary": "C",
    "client_encoding": "UTF8",
    "xmloption": "content",
}

MONTH_US: Final = 2_629_800_000_000  # 30.4375 days, as Debezium counts one in MicroDuration
DAY_US: Final = 86_400_000_000
_INTERVAL: Final = re.compile(
    r"(?:(?P<years>[+-]?\d+) years?)? ?(?:(?P<months>[+-]?\d+) mons?)? ?(?:(?P<days>[+-]?\d+) days?)? ?"
    r"(?:(?P<sign>[+-]?)(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d)(?:\.(?P<fraction>\d{1,6}))?)?",
    re.ASCII,
)
_TIMETZ: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?", re.ASCII)
_MONEY: Final = re.compile(r"(-?)\$?(-?)([\d,]+(?:\.\d+)?)", re.ASCII)
_POINT: Final = re.compile(r"\((-?(?:[0-9.e+-]+|Infinity)|NaN),(-?(?:[0-9.e+-]+|Infinity)|NaN)\)", re.ASCII)
_PAIR: Final = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*=>\s*(?:"((?:[^"\\]|\\.)*)"|NULL)\s*(?:,|$)', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def bytes_of(text: str) -> bytes:
    r"""bytea in hex: `\x6869`."""
    if not text.startswith("\\x"):
        raise ValueError("a bytea is not in hex: the session's bytea_output was changed")
    return bytes.fromhex(text[2:])


def bits_of(text: str) -> bytes:
    """Bits, little-endian, as Debezium's Bits: `1010` is 0x0a. The first bit of the text is the highest."""
    if text.strip("01"):
        raise ValueError("bits are 0 and 1")
    return int(text or "0", 2).to_bytes((len(text) + 7) // 8, "little")


def _interval(text: str) -> tuple[int, int, int]:
    """Months, days and microseconds."""
    found = _INTERVAL.fullmatch(text)
    if found is None or not text:
        raise ValueError("an interval is not in the style `postgres`")
    years, months, days = (int(found[part] or 0) for part in ("years", "months", "days"))
    time = 0
    if found["hours"] is not None:
        seconds = (int(found["hours"]) * 60 + int(found["minutes"])) * 60 + int(found["seconds"])
        time = seconds * 1_000_000 + int((found["fraction"] or "").ljust(6, "0"))
        time = -time if found["sign"] == "-" else time
    return years * 12 + months, days, time


def micros_of_interval(text: str) -> int:
    """Microseconds of an interval, a month as 30.4375 days (Debezium's MicroDuration)."""
    months, days, time = _interval(text)
    return months * MONTH_US + days * DAY_US + time


def iso_interval(text: str) -> str:
    """ISO 8601 of an interval as Debezium's Interval writes it: every part, also those that are zero."""
    months, days, time = _interval(text)
    years, month = divmod(abs(months), 12)
    turn = -1 if months < 0 else 1
    sign, time = (-1, -time) if time < 0 else (1, time)
    seconds, fraction = divmod(time, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    minus = "-" if sign < 0 and not second and fraction else ""  # -0.5 seconds
    rest = f".{fraction:06d}".rstrip("0") if fraction else ""
    time_part = f"{sign * hours}H{sign * minute}M{minus}{sign * second}{rest}S"
    return f"P{turn * years}Y{turn * month}M{days}DT{time_part}"


def utc_time(text: str) -> str:
    """A timetz in UTC: `10:00:00+02` is 08:00:00Z."""
    found = _TIMETZ.fullmatch(text)
    if found is None:
        raise ValueError("a time with zone is not in ISO")
    hour, minute, second = int(found[1]), int(found[2]), int(found[3])
    offset = (int(found[6]) * 60 + int(found[7] or 0)) * 60 + int(found[8] or 0)
    clock = (hour * 60 + minute) * 60 + second
    if offset:
        clock = (clock - offset if found[5] == "+" else clock + offset) % 86_400
    fraction = f".{found[4]}".rstrip("0").rstrip(".") if found[4] else ""
    return f"{clock // 3600:02d}:{clock // 60 % 60:02d}:{clock % 60:02d}{fraction}Z"


def decimal_of_money(text: str) -> str:
    """`-$1,234.56` -> `-1234.56`."""
    found = _MONEY.fullmatch(text)
    if found is None:
        raise ValueError("money is not in the locale C: the session's lc_monetary was changed")
    return f"{'-' if found[1] or found[2] else ''}{found[3].replace(',', '')}"


def point_json(text: str) -> bytes:
    """A point as Debezium's Point: `(1,2)` -> {"x", "y", "wkb": base64, "srid": null}."""
    found = _POINT.fullmatch(text)
    if found is None:
        raise ValueError("a point is (x,y)")
    x, y = float(found[1]), float(found[2])
    wkb = b64encode(struct.pack("<BIdd", 1, 1, x, y)).decode()
    parts = [_json_number(x), _json_number(y), f'"{wkb}"', "null"]
    return f'{{"x":{parts[0]},"y":{parts[1]},"wkb":{parts[2]},"srid":{parts[3]}}}'.encode()


def geometry_json(text: str) -> bytes:
    """PostGIS's text of a geometry or geography, EWKB in hex, as Debezium's Geometry: {"wkb": base64, "srid"}."""
    data = bytes.fromhex(text)
    if len(data) < 5 or data[0] not in (0, 1):
        raise ValueError("a geometry is not EWKB in hex")
    order = "little" if data[0] else "big"
    has_srid = int.from_bytes(data[1:5], order) & 0x2000_0000  # type: ignore[arg-type]
    srid = str(int.from_bytes(data[5:9], order)) if has_srid else "null"  # type: ignore[arg-type]
    return f'{{"wkb":"{b64encode(data).decode()}","srid":{srid}}}'.encode()


def _json_number(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}[repr(value)]
    return repr(value)


def hstore_json(text: str) -> str:
    """hstore's text as a JSON object of texts: `"a"=>"1", "b"=>NULL`."""
    found: dict[str, str | None] = {}
    at = 0
    while at < len(text):
        pair = _PAIR.match(text, at)
        if pair is None:
            raise ValueError('an hstore is pairs of "key"=>"value"')
        found[_ESCAPED.sub(r"\1", pair[1])] = None if pair[2] is None else _ESCAPED.sub(r"\1", pair[2])
        at = pair.end()
    return msgspec.json.encode(found).decode()


Items = list["str | Items | None"]


def items_of(text: str, delimiter: str = ",") -> Items:
    """An array's text, `{1,NULL,"a b"}`: the elements' texts, None for null, lists in lists for several dimensions.

    https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO: bounds may stand before it, `[0:1]={1,2}`.
    """
    if text.startswith("["):
        _, equals, text = text.partition("=")
        if not equals:
            raise ValueError("an array's bounds end with =")
    tokens = _tokens(text, delimiter)
    if next(tokens, None) != ("{", False):
        raise ValueError("an array begins with {")
    found = _read_items(tokens)
    if next(tokens, None) is not None:
        raise ValueError("an array ends with its last }")
    return found


def _read_items(tokens: Iterator[tuple[str, bool]]) -> Items:
    """What stands between an open brace, which is read, and its own closing one. Iterative: braces may be deep."""
    stack: list[Items] = [[]]
    for part, is_value in tokens:
        if is_value:
            stack[-1].append(part)
        elif part == "NULL":
            stack[-1].append(None)
        elif part == "{":
            if len(stack) > 6:  # PostgreSQL's MAXDIM
                raise ValueError("an array has at most six dimensions")
            stack.append([])
        elif part == "}":
            done = stack.pop()
            if not stack:
                return done
            stack[-1].append(done)
    raise ValueError("an array lacks a }")


def _tokens(text: str, delimiter: str) -> Iterator[tuple[str, bool]]:
    """Braces and NULL as they stand, values (True) without quotes and backslashes."""
    pattern = _token_of(delimiter)
    at, end = 0, len(text)
    while at < end:
        found = pattern.match(text, at)
        if found is None:
            raise ValueError("an array's text can't be read")
        at = found.end()
        brace, quoted, bare = found.groups()
        if brace:
            yield brace, False
        elif quoted is not None:
            yield (_ESCAPED.sub(r"\1", quoted) if "\\" in quoted else quoted), True
        elif bare == "NULL":
            yield "NULL", False
        elif bare:
            yield bare, True


def _token_of(delimiter: str) -> "re.Pattern[str]":
    between = re.escape(delimiter)
    return re.compile(rf'([{{}}])|"((?:[^"\\]|\\.)*)"|([^{{}}"{between}]+)|{between}', re.DOTALL)
