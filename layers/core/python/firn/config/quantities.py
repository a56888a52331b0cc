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
_WORDS: Final = {"sec": "s", "second": "s", "min": "m", "minute": "m", "hr": "h", "hour": "h", "day": "d"}
_QUANTITY: Final = re.compile(r"\s*(\d{1,12})\s*([A-Za-z]*)\s*")


def seconds(text: str) -> int:
    """`60s`, `5m`, `1h` -> seconds, from 1 s to 1 day. Raises ValueError, whose text says what to write."""
    number, unit = _parts(text)
    if number is None or unit not in _SECONDS:
        instead = _in_short(number, unit) or f"{number or 60}s, or use m for minutes, h for hours"
        raise ValueError(f"{text!r} is not a duration; write {instead}")
    value = number * _SECONDS[unit]
    if not 1 <= value <= 86_400:
        raise ValueError(f"{text!r} is not from 1s to 24h; write 60s")
    return value


def seconds_or_none(text: str) -> int:
    """`seconds`, and 0 or `0s` for none at all. Raises ValueError, whose text says what to write."""
    number, _ = _parts(text)
    return 0 if number == 0 else seconds(text)


def days(text: str) -> int:
    """`5d`, `12h` -> seconds, from 1 s to 10 years. Raises ValueError, whose text says what to write."""
    number, unit = _parts(text)
    if number is None or unit not in _SECONDS:
        instead = _in_short(number, unit) or f"{number or 5}d, or use h for hours"
        raise ValueError(f"{text!r} is not a duration; write {instead}")
    value = number * _SECONDS[unit]
    if not 1 <= value <= 3650 * 86_400:
        raise ValueError(f"{text!r} is not from 1s to 3650d; write 5d")
    return value


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


def _in_short(number: int | None, unit: str) -> str | None:
    """How a duration in words is written here: `1 minute` as `60s or 1m`; None for no word of time."""
    short = _WORDS.get(unit.removesuffix("s") if unit not in _WORDS else unit)
    if number is None or short is None:
        return None
    return (
        f"{number}s"
        if short == "s"
        else f"{number * _SECONDS[short]}s or {number}{short}"
        if short == "m"
        else f"{number}{short}"
    )


def _parts(text: str) -> tuple[int | None, str]:
    found = _QUANTITY.fullmatch(text)
    return (int(found.group(1)), found.group(2).lower()) if found else (None, "")
