"""Sizes and durations as people write them: `100MB`, `60s`."""

import re
from decimal import Decimal
from typing import Final

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_BYTES: Final = {
    "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
MOST_OF_A_BODY: Final = 4_700_000
_FRACTION: Final = re.compile(r"\s*(\d{1,4}\.\d{1,3})\s*([KkMm][Bb])\s*")
_WORDS: Final[dict[str, int | Decimal]] = {
    "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hr": 3600, "hour": 3600,
    "d": 86_400, "day": 86_400, "w": 604_800, "wk": 604_800, "week": 604_800, "fortnight": 1_209_600,
    "mo": 2_592_000, "mon": 2_592_000, "month": 2_592_000, "y": 31_536_000, "yr": 31_536_000, "year": 31_536_000,
    "ms": Decimal("0.001"), "msec": Decimal("0.001"), "milli": Decimal("0.001"), "millisecond": Decimal("0.001"),
}  # fmt: skip
_WORDED: Final = re.compile(
    r"\s*(?:(\d{1,9}(?:[.,]\d{1,3})?)|(an?|one)\b)\s*([A-Za-z]{1,12})\s*(?:,|\band\b)?", re.IGNORECASE
)
_QUANTITY: Final = re.compile(r"\s*(\d{1,12})\s*([A-Za-z]*)\s*")


def seconds(text: str) -> int:
    """`60s`, `5m`, `1h` -> seconds, from 1 s to 1 day. Raises ValueError, whose text says what to write."""
    return _duration(text, 86_400, "24h", "60s", ("s", "m for minutes, h for hours"))


def seconds_or_none(text: str) -> int:
    """`seconds`, and 0 or `0s` for none at all. Raises ValueError, whose text says what to write."""
    number, _ = _parts(text)
    return 0 if number == 0 else seconds(text)


def days(text: str) -> int:
    """`5d`, `12h` -> seconds, from 1 s to 10 years. Raises ValueError, whose text says what to write."""
    return _duration(text, 3650 * 86_400, "3650d", "5d", ("d", "h for hours"))


def days_or_never(text: str) -> int | None:
    """`days`, and `never` for None. Raises ValueError, whose text says what to write."""
    return None if text.strip().lower() == "never" else days(text)


def size(text: str) -> int:
    """`100MB` -> bytes, from 1 kB to 1 TB. KB, MB and GB count in thousands, KiB, MiB and GiB in 1,024s.

    Raises ValueError, whose text says what to write.
    """
    number, unit = _parts(text)
    if number is None or unit not in _BYTES:
        raise ValueError(f"{text!r} is not a size; write {number or 100}MB, or use KB or GB")
    value = number * _BYTES[unit]
    if not 10**3 <= value <= 10**12:
        raise ValueError(f"{text!r} is not from 1KB to 1TB; write 100MB")
    return value


def rate(text: str) -> int:
    """`5MB/s` -> bytes a second, from 1 kB to 1 TB. Raises ValueError, whose text says what to write."""
    amount, slash, unit = text.partition("/")
    if not slash or unit.strip() != "s":
        number, _ = _parts(amount)
        raise ValueError(f"{text!r} is not a rate; write {number or 5}MB/s")
    try:
        return size(amount)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a rate from 1KB/s to 1TB/s; write 5MB/s") from error


def body_size(text: str) -> int:
    """`1MB` -> bytes of a request, up to the 4.7 MB that a Lambda function's 6 MB hold in base64. A fraction is one.

    Raises ValueError, whose text says what to write.
    """
    value = int(Decimal(found[1]) * _BYTES[found[2].lower()]) if (found := _FRACTION.fullmatch(text)) else size(text)
    if not 10**3 <= value <= MOST_OF_A_BODY:
        raise ValueError(f"{text!r} is not from 1KB to 4.7MB; write 1MB")
    return value


def _duration(text: str, most: int, shown: str, example: str, units: tuple[str, str]) -> int:
    number, unit = _parts(text)
    meant = number * _SECONDS[unit] if number is not None and unit in _SECONDS else None
    value = _in_words(text) if meant is None else meant
    if value is not None and not 1 <= value <= most:
        raise ValueError(f"{text!r} is not from 1s to {shown}; write {example}")
    if meant is not None:
        return meant
    instead = f"{number}{units[0]}" if number else example
    instead = f"{instead}, or use {units[1]}" if value is None else _in_short(value)
    raise ValueError(f"{text!r} is not a duration; write {instead}")


def _in_words(text: str) -> int | None:
    """The seconds that a person means by `1 minute`, `1.5 hours`, `1h30m` or `2 weeks and a day`; None: none. Less than
    a second is one."""
    total, at = Decimal(0), 0
    while at < len(text):
        found = _WORDED.match(text, at)
        unit = found[3].lower() if found else ""
        each = _WORDS.get(unit, _WORDS.get(unit.removesuffix("s")))
        if found is None or each is None:
            return None
        total += Decimal((found[1] or "1").replace(",", ".")) * each
        at = found.end()
    return max(1, round(total)) if total else None


def _in_short(value: int) -> str:
    """How so many seconds are written here: `60s or 1m`, `90m`, `7d`."""
    unit = next(one for one in ("d", "h", "m", "s") if value % _SECONDS[one] == 0)
    short = f"{value // _SECONDS[unit]}{unit}"
    return f"{value}s or {short}" if unit == "m" else short


def _parts(text: str) -> tuple[int | None, str]:
    found = _QUANTITY.fullmatch(text)
    return (int(found.group(1)), found.group(2).lower()) if found else (None, "")
