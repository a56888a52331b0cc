"""Positions: where a change stands in its source's own total order, as bytes that compare like it.

    generation  4 bytes   the stream's, raised by hand when a source starts again or is replaced
    commit     16 bytes   in which transaction, or where in the log
    kind        1 byte    0 a snapshot read, 1 a streamed change
    change     24 bytes   which change of it

All parts are unsigned, big-endian, padded on the left: 45 bytes for every connector. Numbers are never compared as
text.

| connector | commit | change |
|---|---|---|
| postgresql | end LSN of the previous commit; null is 0 | LSN of the change |
| mysql, mariadb | number in the binlog file's name, 64 bits; offset in it, 64 | row in the event |
| sqlserver | commit LSN, 80 bits | change LSN, 80 bits; event serial number, 64 |
| oracle | commit SCN (a read's: its SCN) | SCN, 64 bits; rs_id, 80; ssn, 32 |
| mongodb | time, ms | place in its second |
| firn | start of the producer, ms | its counter |
| none, with `order_by` | the field's value, half of the range added | 0 |

PostgreSQL's `source.sequence` is [previous commit LSN, change LSN]: the change's LSN alone is not in commit order.
Snapshot reads have null for the first, and so has the first streamed transaction, which may hold lower LSNs than the
snapshot: the kind decides before the LSN does. A source that gives only an LSN (flattened rows) has commit 0, which is
enough between the streamed changes of one key.

The fields of each connector are described in Debezium's documentation under "Data change events"; LSN and record set
formats by SQL Server ("nchar(22) log sequence number": VLF, block, slot in hex) and Oracle (V$LOGMNR_CONTENTS.RS_ID).
"""

import re
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import msgspec

from firn.errors import EventError

WIDTH = 4 + 16 + 1 + 24
_OLDEST = bytes(WIDTH)  # of a row without a position: older than everything
# Of two changes at one position the higher rank wins. A PK change is a delete and a create at one position.
_RANK = {"t": b"\0", "d": b"\1", "r": b"\2", "c": b"\3", "u": b"\4"}

_Text = str | None
_Number = int | None


def position(connector: str, op: str, order: str | None, generation: int) -> bytes | None:
    """The position of a change from its order text (see sources.py); None if it has none.

    `generation`: 0 to 2^32 - 1. Raises EventError bad_position if the order can't be read or is out of range.
    """
    if order is None:
        return None
    if connector == "postgresql" and order[:1] == "[":  # most of all events: in one go, if nothing is wrong
        try:
            commit, change = _lsns(order)
            return _of_lsns(generation, commit or 0, op != "r", change)
        except (ValueError, struct.error, RecursionError):
            pass
    parts = _PARTS.get(connector)
    if parts is None:
        raise EventError("bad_position", f"connector {connector!r} gives no order that Firn knows: {order[:80]}")
    try:
        commit, change = parts(order, op)
        kind = b"\0" if op == "r" else b"\1"
        return generation.to_bytes(4) + commit.to_bytes(16) + kind + change.to_bytes(24)
    except (ValueError, OverflowError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise EventError("bad_position", f"{connector} order {order[:80]}: {error}") from None


def field_position(image: bytes, field: str, op: str, generation: int) -> bytes:
    """The position of a change of a source without any, from a field of its row: the stream's `order_by`.

    `image`: the row as JSON. A number counts with nine decimals, a time in ISO 8601 in microseconds (without a zone it
    is UTC). The kind stays as it is elsewhere, so of equal values a streamed change beats a read. Raises EventError
    bad_position if the field is missing, null, or of another kind.
    """
    try:
        value = msgspec.json.decode(image, type=dict[str, msgspec.Raw]).get(field)
        if value is None:
            raise ValueError("the row does not hold it")
        commit = _HALF + _sortable(msgspec.json.decode(value, type=int | float | str | None))
        kind = b"\0" if op == "r" else b"\1"
        return generation.to_bytes(4) + commit.to_bytes(16) + kind + bytes(24)
    except (ValueError, OverflowError, ArithmeticError, RecursionError) as error:
        raise EventError("bad_position", f"order_by field {field!r}: {error}") from None


_HALF = 1 << 127  # makes negative values sort as unsigned bytes


def _sortable(value: float | str | None) -> int:
    if value is None:
        raise ValueError("it is null")
    if isinstance(value, int):
        return value * 10**9
    if isinstance(value, float):
        value = repr(value)
    try:
        return int(value) * 10**9 if value.isdecimal() else int(Decimal(value) * 10**9)
    except ArithmeticError:
        time = datetime.fromisoformat(value)
        return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def order_key(position: bytes | None, op: str, content: bytes) -> bytes:
    """What sorts the changes of one key: position, rank of the op, then 8 bytes of a hash of the content.

    Total, and the same for any order of arrival. `content`: the change's own bytes, such as its row images. A change
    without a position is older than all others.
    """
    return (position or _OLDEST) + _RANK[op] + blake2b(content, digest_size=8).digest()


def _decoder(*types: Any) -> Callable[[str], tuple[Any, ...]]:
    # Not strict: PostgreSQL's and Oracle's numbers travel as text.
    decode: Callable[[str], tuple[Any, ...]] = msgspec.json.Decoder(tuple.__class_getitem__(types), strict=False).decode
    return decode


_lsns = _decoder(_Number, int)
_of_lsns = struct.Struct(">I 8xQ B 16xQ").pack  # generation, commit, kind, change
_binlog = _decoder(str, int, _Number)
_sqlserver = _decoder(_Text, _Text, _Number)
_oracle = _decoder(_Number, _Number, _Text, _Number)
_pair = _decoder(int, int)


def _postgres(order: str, _: str) -> tuple[int, int]:
    if not order.lstrip().startswith("["):
        return 0, _unsigned(msgspec.json.decode(order, type=int, strict=False), "lsn")
    commit, change = _lsns(order)
    return _unsigned(commit or 0, "commit lsn"), _unsigned(change, "lsn")


def _mysql(order: str, _: str) -> tuple[int, int]:
    file, pos, row = _binlog(order)
    number = re.search(r"\.([0-9]+)$", file)
    if number is None:
        raise ValueError(f"the binlog file {file[:40]!r} has no number")
    return _unsigned(int(number[1][:40]), "file") << 64 | _unsigned(pos, "pos"), _unsigned(row or 0, "row")


def _sql_server(order: str, op: str) -> tuple[int, int]:
    commit, change, serial = _sqlserver(order)
    if change is None and op != "r":
        raise ValueError("change_lsn is missing")
    return _hex(commit, _LSN), _hex(change, _LSN) << 64 | _unsigned(serial or 0, "event_serial_no")


def _oracle_scn(order: str, op: str) -> tuple[int, int]:
    commit, scn, record_set, part = _oracle(order)
    if commit is None:
        if op != "r":
            raise ValueError("commit_scn is missing")
        commit = scn
    change = _unsigned(scn or 0, "scn") << 112 | _hex(record_set, _RS_ID) << 32 | _unsigned(part or 0, "ssn", 32)
    return _unsigned(commit, "commit_scn"), change


def _two_numbers(order: str, _: str) -> tuple[int, int]:
    first, second = _pair(order)
    return _unsigned(first, "first number"), _unsigned(second, "second number")


_LSN = re.compile(r"([0-9a-f]{8}):([0-9a-f]{8}):([0-9a-f]{4})", re.IGNORECASE)
_RS_ID = re.compile(r"\s*0x([0-9a-f]{1,8})\.([0-9a-f]{1,8})\.([0-9a-f]{1,4})\s*", re.IGNORECASE)


def _hex(text: str | None, form: re.Pattern[str]) -> int:
    """Three hexadecimal numbers of 32, 32 and 16 bits as one of 80; 0 for null."""
    if text is None:
        return 0
    found = form.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is not of its form")
    high, middle, low = (int(part, 16) for part in found.groups())
    return high << 48 | middle << 16 | low


def _unsigned(number: int, name: str, bits: int = 64) -> int:
    if not 0 <= number < 1 << bits:
        raise ValueError(f"the {name} is not between 0 and 2^{bits}")
    return number


_PARTS: dict[str, Callable[[str, str], tuple[int, int]]] = {
    "postgresql": _postgres,
    "mysql": _mysql,
    "mariadb": _mysql,
    "sqlserver": _sql_server,
    "oracle": _oracle_scn,
    "mongodb": _two_numbers,
    "firn": _two_numbers,
}
