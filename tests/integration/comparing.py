"""PostgreSQL's own final state (COPY CSV) against rows of an Iceberg table: values compared by their PostgreSQL type.

The expected side is parsed from PostgreSQL's text; the actual side comes as Python values, as Arrow's `to_pylist` gives
them. Both are brought to one value for each type, so that 1.50 equals 1.5 and an instant equals itself in another zone.
"""

import csv
import gzip
import io
import json
import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

NULL = "\\N"
_DAY = 86_400_000_000
_MONTH_DAYS = Decimal("365.25") / 12  # Debezium's numeric interval
_ARRAY_OR_NOT_SCALAR = re.compile(r".*\[\]|point|hstore|tsvector|.*\.addr")


def final_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a COPY CSV file, plain or .gz."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def tables(path: Path) -> dict[str, dict[str, Any]]:
    """`_tables.json`: name -> {columns: [{name, type}], pk, rows}."""
    described: dict[str, dict[str, Any]] = json.loads(path.read_text())
    return described


def is_scalar(kind: str) -> bool:
    """Whether columns of this PostgreSQL type are compared."""
    return _ARRAY_OR_NOT_SCALAR.fullmatch(kind) is None


def differences(
    expected: Sequence[Mapping[str, str]],
    actual: Iterable[Mapping[str, Any]],
    columns: Mapping[str, str],
    key: Sequence[str] | None,
    expect_null: Callable[[str, Mapping[str, str]], bool] = lambda _column, _row: False,
) -> list[str]:
    """What differs, one line each; [] if nothing does.

    columns      the columns to compare, with their PostgreSQL types
    key          the rows are matched by these columns, whose values are unique; None: compared as a multiset
    expect_null  (column, expected row): the value can't be in the events, null is right
    """
    want = [
        {name: None if expect_null(name, row) else value(kind, row[name]) for name, kind in columns.items()}
        for row in expected
    ]
    have = [{name: actual_value(kind, row.get(name)) for name, kind in columns.items()} for row in actual]
    if key is None:
        return _multiset_differences(want, have)
    wanted = {tuple(row[name] for name in key): row for row in want}
    found = {tuple(row[name] for name in key): row for row in have}
    lines = [f"{len(have) - len(found)} rows have a key twice"] if len(have) != len(found) else []
    lines += [f"missing {one}" for one in wanted if one not in found]
    lines += [f"not expected {one}" for one in found if one not in wanted]
    for one in wanted.keys() & found.keys():
        lines += [
            f"{one} {name}: expected {wanted[one][name]!r}, is {found[one][name]!r}"
            for name in columns
            if not _same(wanted[one][name], found[one][name])
        ]
    return lines


def _multiset_differences(want: list[dict[str, Any]], have: list[dict[str, Any]]) -> list[str]:
    left = sorted(map(repr, (sorted(row.items()) for row in want)))
    right = sorted(map(repr, (sorted(row.items()) for row in have)))
    return [] if left == right else [f"{len(left)} rows expected, {len(right)} found", *_first_unequal(left, right)]


def _first_unequal(left: list[str], right: list[str]) -> list[str]:
    only_left, only_right = sorted(set(left) - set(right)), sorted(set(right) - set(left))
    return [f"missing {row}" for row in only_left[:3]] + [f"not expected {row}" for row in only_right[:3]]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return type(a) is type(b) and bool(a == b)


def value(kind: str, text: str) -> Any:
    """The comparable value of PostgreSQL's `text` for a column of type `kind`; None for null, and for what Iceberg has
    no value for (infinite dates, years before 1)."""
    if text == NULL:
        return None
    base = kind.partition("(")[0].removesuffix(" without time zone").strip()
    parse = _PARSERS.get("timetz" if "with time zone" in kind and kind.startswith("time ") else base)
    if kind.endswith("with time zone") and kind.startswith("timestamp"):
        parse = _instant
    elif kind.startswith("timestamp"):
        parse = _local
    elif kind.startswith("time") and "with time zone" not in kind:
        parse = _time
    return parse(text) if parse else text


def actual_value(kind: str, found: Any) -> Any:
    """The comparable value of what a table holds, for a column whose PostgreSQL type is `kind`."""
    if found is None:
        return None
    if kind == "real":
        return _real(found)
    if kind.startswith(("numeric", "money")):
        return Decimal(found).normalize() if math.isfinite(Decimal(found)) else str(found)
    if kind in _INTEGERS:
        return int(found) if str(found).lstrip("-").isdigit() else found
    if kind == "uuid":
        return str(found)
    if kind == "time with time zone":
        return _time_of_day_utc(found)
    if isinstance(found, datetime):
        return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found
    return bytes(found) if isinstance(found, bytearray) else found


def _real(text: Any) -> float:
    single: float = struct.unpack("f", struct.pack("f", float(text)))[0]
    return single


def _numeric(text: str) -> Decimal | str:
    return text if text in {"NaN", "Infinity", "-Infinity"} else Decimal(text).normalize()


def _date(text: str) -> date | None:
    return None if "infinity" in text or text.endswith("BC") else date.fromisoformat(text)


def _local(text: str) -> datetime | None:
    return None if "infinity" in text or text.endswith("BC") else datetime.fromisoformat(text)


def _instant(text: str) -> datetime | None:
    local = _local(text)
    return None if local is None else local.astimezone(UTC).replace(tzinfo=None)


def _time(text: str) -> str:
    clock, _, fraction = text.partition(".")
    return f"{clock}.{fraction.ljust(6, '0')}"


def _time_of_day_utc(text: str) -> int:
    """Microseconds after midnight UTC, modulo a day."""
    clock = time.fromisoformat(text)
    zone = clock.utcoffset() or timedelta()
    return ((((clock.hour * 60 + clock.minute) * 60 + clock.second) * 1_000_000 + clock.microsecond)
            - int(zone.total_seconds()) * 1_000_000) % _DAY  # fmt: skip


def _money(text: str) -> Decimal:
    return Decimal(re.sub(r"[$,()]", "", text)).normalize()


def _interval(text: str) -> int:
    """Microseconds, a month taken for 365.25 / 12 days as Debezium's numeric mode does."""
    parts = {unit[:3]: int(number) for number, unit in re.findall(r"(-?\d+) (year|mon|day)s?", text)}
    months = parts.get("yea", 0) * 12 + parts.get("mon", 0)
    days = months * _MONTH_DAYS + parts.get("day", 0)
    micros = int(days * _DAY)
    clock = re.search(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?$", text)
    if clock:
        seconds = (int(clock[2]) * 60 + int(clock[3])) * 60 + int(clock[4])
        rest = seconds * 1_000_000 + int((clock[5] or "").ljust(6, "0") or 0)
        micros += -rest if clock[1] else rest
    return micros


def _bits(text: str) -> bytes:
    """Debezium's Bits: little-endian bytes."""
    return int(text, 2).to_bytes((len(text) + 7) // 8, "little")


_INTEGERS = {"smallint", "integer", "bigint", "oid", "s.posint"}
_PARSERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(_INTEGERS, int),
    "boolean": lambda text: text == "t",
    "real": _real,
    "double precision": float,
    "numeric": _numeric,
    "money": _money,
    "bytea": lambda text: bytes.fromhex(text.removeprefix("\\x")),
    "date": _date,
    "timetz": _time_of_day_utc,
    "interval": _interval,
    "bit": lambda text: text == "1" if len(text) == 1 else _bits(text),
    "bit varying": _bits,
}
