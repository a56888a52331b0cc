"""The messages of pgoutput, PostgreSQL's own output plugin for logical decoding: bytes -> messages. Pure.

Protocol version 1, without streaming of open transactions, without two-phase commits, values as text.
https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

import struct
from collections.abc import Callable
from typing import Final

import msgspec

from firn.errors import TerminalError
from firn.sources.postgres.row_form import UNCHANGED, SourceColumn, Value

_EPOCH_MS: Final = 946_684_800_000  # 2000-01-01, from which PostgreSQL counts microseconds


class UnreadableMessage(TerminalError):
    """The bytes are no message that this version reads: the whole stream stops, for what follows can't be trusted."""


class Begin(msgspec.Struct, frozen=True, gc=False):
    """A transaction begins. `commit_lsn`: of its commit record; `ts`: when it was committed, ms since 1970."""

    commit_lsn: int
    ts: int
    xid: int


class Commit(msgspec.Struct, frozen=True, gc=False):
    """It ends. `end_lsn`: of the WAL after its commit record."""

    commit_lsn: int
    end_lsn: int
    ts: int


class Relation(msgspec.Struct, frozen=True):
    """A table as the changes behind this message have it. `identity`: PostgreSQL's letter for the replica identity
    (d default, f full, i index, n nothing); `key`: the places of the columns in it, all of them for f."""

    oid: int
    schema: str
    table: str
    identity: str
    columns: tuple[SourceColumn, ...]
    key: tuple[int, ...]


class OwnType(msgspec.Struct, frozen=True, gc=False):
    """A type of the database's own, which a following Relation uses."""

    oid: int
    schema: str
    name: str


class Insert(msgspec.Struct, frozen=True):
    """A row that is new."""

    relation: int
    new: tuple[Value, ...]


class Update(msgspec.Struct, frozen=True):
    """`old`: the row before (identity full), or with `old_is_key` what identified it, null elsewhere; None where the
    identity did not change."""

    relation: int
    old: tuple[Value, ...] | None
    old_is_key: bool
    new: tuple[Value, ...]


class Delete(msgspec.Struct, frozen=True):
    """`old` as of an Update."""

    relation: int
    old: tuple[Value, ...]
    old_is_key: bool


class Truncate(msgspec.Struct, frozen=True, gc=False):
    """These tables are empty."""

    relations: tuple[int, ...]


class Other(msgspec.Struct, frozen=True, gc=False):
    """A message that changes no row: an origin, or a logical message."""

    kind: str


class Skipped(msgspec.Struct, frozen=True, gc=False):
    """A change that is not taken, and counted as `reason` (wal2json_lines.py): pgoutput itself leaves such out."""

    table: str
    reason: str


Message = Begin | Commit | Relation | OwnType | Insert | Update | Delete | Truncate | Other | Skipped

_BEGIN: Final = struct.Struct(">qqi")
_COMMIT: Final = struct.Struct(">bqqq")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_OID: Final = struct.Struct(">I")
_COLUMN: Final = struct.Struct(">Ii")  # type, modifier


def decode(data: bytes) -> Message:
    """One message. Raises UnreadableMessage."""
    read = _READERS.get(data[:1])
    if read is None:
        raise UnreadableMessage(
            f"pgoutput sent a message of the kind {data[:1]!r}, which this version does not know: read the slot with "
            "proto_version 1 and without streaming and two_phase"
        )
    try:
        message, end = read(data)
    except (struct.error, IndexError, ValueError) as error:
        raise UnreadableMessage(f"a message {data[:1]!r} of pgoutput is cut off or broken: {error}") from None
    if end != len(data):
        raise UnreadableMessage(f"a message {data[:1]!r} of pgoutput has {len(data) - end} bytes too many")
    return message


def _begin(data: bytes) -> tuple[Message, int]:
    lsn, micros, xid = _BEGIN.unpack_from(data, 1)
    return Begin(lsn, _EPOCH_MS + micros // 1000, xid & 0xFFFF_FFFF), 21


def _commit(data: bytes) -> tuple[Message, int]:
    _, lsn, end, micros = _COMMIT.unpack_from(data, 1)
    return Commit(lsn, end, _EPOCH_MS + micros // 1000), 26


def _relation(data: bytes) -> tuple[Message, int]:
    (oid,) = _OID.unpack_from(data, 1)
    schema, at = _text(data, 5)
    table, at = _text(data, at)
    identity = chr(data[at])
    (count,) = _INT16.unpack_from(data, at + 1)
    at += 3
    columns, key = [], []
    for place in range(count):
        if data[at] & 1:
            key.append(place)
        name, at = _text(data, at + 1)
        kind, modifier = _COLUMN.unpack_from(data, at)
        columns.append(SourceColumn(name, kind, modifier))
        at += 8
    return Relation(oid, schema or "pg_catalog", table, identity, tuple(columns), tuple(key)), at


def _own_type(data: bytes) -> tuple[Message, int]:
    (oid,) = _OID.unpack_from(data, 1)
    schema, at = _text(data, 5)
    name, at = _text(data, at)
    return OwnType(oid, schema or "pg_catalog", name), at


def _insert(data: bytes) -> tuple[Message, int]:
    (oid,) = _OID.unpack_from(data, 1)
    new, at = _tuple(data, _expect(data, 5, b"N"))
    return Insert(oid, new), at


def _update(data: bytes) -> tuple[Message, int]:
    (oid,) = _OID.unpack_from(data, 1)
    old, mark, at = None, data[5:6], 5
    if mark in (b"K", b"O"):
        old, at = _tuple(data, 6)
    new, at = _tuple(data, _expect(data, at, b"N"))
    return Update(oid, old, mark == b"K", new), at


def _delete(data: bytes) -> tuple[Message, int]:
    (oid,) = _OID.unpack_from(data, 1)
    mark = data[5:6]
    if mark not in (b"K", b"O"):
        raise ValueError("a delete holds no old row")
    old, at = _tuple(data, 6)
    return Delete(oid, old, mark == b"K"), at


def _truncate(data: bytes) -> tuple[Message, int]:
    (count,) = _INT32.unpack_from(data, 1)
    if count < 0 or len(data) < 6 + 4 * count:
        raise ValueError("it ends before its tables do")
    return Truncate(struct.unpack_from(f">{count}I", data, 6)), 6 + 4 * count


def _other(data: bytes) -> tuple[Message, int]:
    return Other(data[:1].decode()), len(data)


def _text(data: bytes, at: int) -> tuple[str, int]:
    """A text that ends with a zero byte, and the place behind it."""
    end = data.index(b"\0", at)
    return data[at:end].decode(), end + 1


def _expect(data: bytes, at: int, mark: bytes) -> int:
    if data[at : at + 1] != mark:
        raise ValueError(f"{data[at : at + 1]!r} stands where {mark!r} should")
    return at + 1


def _tuple(data: bytes, at: int) -> tuple[tuple[Value, ...], int]:
    """The values of a row, and the place behind them."""
    (count,) = _INT16.unpack_from(data, at)
    at += 2
    values: list[Value] = []
    length_of = _INT32.unpack_from
    for _ in range(count):
        kind = data[at]
        if kind == 0x74:  # t: text
            (length,) = length_of(data, at + 1)
            begin, at = at + 5, at + 5 + length
            if length < 0 or at > len(data):
                raise ValueError("a value ends behind its message")
            values.append(data[begin:at])
            continue
        if kind == 0x6E:  # n: null
            values.append(None)
        elif kind == 0x75:  # u: unchanged, out of line
            values.append(UNCHANGED)
        else:
            raise ValueError(f"a value of the kind {chr(kind)!r}: read the slot without `binary`")
        at += 1
    return tuple(values), at


_READERS: Final[dict[bytes, Callable[[bytes], tuple[Message, int]]]] = {
    b"B": _begin, b"C": _commit, b"R": _relation, b"Y": _own_type, b"I": _insert, b"U": _update, b"D": _delete,
    b"T": _truncate, b"O": _other, b"M": _other,
}  # fmt: skip
