"""Orders of emitters that read a log: Maxwell, wal2json, AWS DMS, DynamoDB. The table is in positions.py. Pure.

Each may leave its order out by a setting of its own; the change then counts as it came, like a plain row. Such a text
is told from the emitter's own by its form: two members, of which the first is text.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from firn.changes.order_texts import Parts, file_number, or_arrival, unsigned

_Text = str | None
_Number = int | None
_binlog_row: Callable[[str], tuple[Any, ...]] = msgspec.json.Decoder(tuple[_Text, _Number, _Number]).decode
_triple: Callable[[str], tuple[Any, ...]] = msgspec.json.Decoder(tuple[_Number, _Number, _Number]).decode
_numbers: Callable[[str], list[int | None]] = msgspec.json.Decoder(list[_Number]).decode
_LAST: Final = (1 << 64) - 1  # above all numbers of rows


def _maxwell(order: str, _: str) -> tuple[int, int]:
    """`[file, position, number]`; a last row's number is null. A bootstrapped row has none but its time, null, null."""
    file, position, number = _binlog_row(order)
    if file is None:
        return 0, unsigned(position or 0, "ts")
    return file_number(file) << 64 | unsigned(position or 0, "position"), (
        _LAST if number is None else unsigned(number, "xoffset", 63)
    )


def _wal2json(order: str, _: str) -> tuple[int, int]:
    """`[LSN after the commit | null, place in the transaction | LSN of the change, null]`"""
    commit, change, _none = _triple(order)
    return unsigned(commit or 0, "nextlsn"), unsigned(change or 0, "lsn")


def _dms(order: str, _: str) -> tuple[int, int]:
    """`[commit time, stream position, transaction, record]`, `[change sequence, null, null]`, or three nulls of a row
    of the full load, which every change beats."""
    told = _numbers(order)
    if len(told) == 3:
        return 0, unsigned(told[0] or 0, "change sequence", 192)
    if len(told) != 4:
        raise ValueError("it is not of its form")
    commit, position, transaction, record = (one or 0 for one in told)
    names = "commit-timestamp", "stream-position", "transaction-id", "transaction-record-id"
    high, low, first, last = map(unsigned, (commit, position, transaction, record), names)
    return high << 64 | low, first << 64 | last


def _dynamodb(order: str, _: str) -> tuple[int, int]:
    """`[µs, null, null]`, of a change without a sequence number."""
    micros, _none, _nothing = _triple(order)
    return 0, unsigned(micros or 0, "ApproximateCreationDateTime")


LOGGED: Final[dict[str, Parts]] = {
    "maxwell": or_arrival(_maxwell),
    "wal2json": or_arrival(_wal2json),
    "dms": or_arrival(_dms),
    "dynamodb": or_arrival(_dynamodb),
}
"""By connector, beside those of positions.py."""
