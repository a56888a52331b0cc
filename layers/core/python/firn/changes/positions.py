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
| sqlserver | commit LSN, 80 bits | command, 32 bits (0: not told); change LSN, 80 bits; event serial number, 64 |
| oracle | commit SCN (a read's: its SCN) | SCN, 64 bits; rs_id, 80; ssn, 32. XStream: the LCR position's last 192 |
| mongodb, a cluster time | its second, ms | place in its second; in a transaction see `within` |
| mongodb, a wall clock | when the event was made, ms | nanoseconds of that millisecond, 64 bits; place, 64 |
| db2, informix | commit LSN | change LSN |
| vitess | epoch, 64 bits; rank, 64 | number in the transaction |
| spanner | commit timestamp, ns | record sequence, 64 bits; row in the record, 64 |
| mongodb_stream | the resume token's first 15 bytes | the next 24 |
| sequin | commit LSN (a read without one: 0) | index in the transaction (the time of the read, µs) |
| hasura | when the transaction began, µs | 0 |
| seed | LSN, else the time, µs | sequence |
| airbyte | LSN, or number of the binlog file | 0, or the offset in it |
| firn | start of the producer, ms | its counter |
| rows | when the batch came, ms; its id's random part, 64 bits | number in the batch |
| maxwell | as mysql | the row's number in the transaction; its last is above all |
| wal2json 1 | LSN after the commit | place in the transaction |
| wal2json 2 | 0 | LSN of the change |
| dms, transaction details | commit time, µs, 64 bits; stream position, 64 | transaction, 64 bits; record in it, 64 |
| dms, a change sequence | 0 | the number, 192 bits |
| dynamodb, without a sequence number | 0 | when it was made, µs |
| canal, and these where they do not say | when the batch came, ms; its id's random part | number in the batch |
| none, with `order_by` | the field's value, half of the range added | the second field's, or 0 |
| a record of Kinesis or DynamoDB | a bit; sequence number, its last 64 bits off | these; record in it, 64; event, 64 |
| a record of Kafka | a bit, offset; by `order: timestamp` that, ms; offset, 64 | partition, 64; event in it, 64 |

PostgreSQL's `source.sequence` is [previous commit LSN, change LSN]: the change's LSN alone is not in commit order.
Snapshot reads have null for the first, and so has the first streamed transaction, which may hold lower LSNs than the
snapshot: the kind decides before the LSN does. A source that gives only an LSN (flattened rows) has commit 0, which is
enough between the streamed changes of one key. In a stream that told commits before, such a change counts as committed
at its own LSN: of one row's changes, each one's LSN lies above the commit before it (docs/adr/0033-orders.md).

The fields of each connector are described in Debezium's documentation under "Data change events"; LSN and record set
formats by SQL Server ("nchar(22) log sequence number": VLF, block, slot in hex) and Oracle (V$LOGMNR_CONTENTS.RS_ID).
"""

import re
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from firn.changes.change import LITERAL, ROWS
from firn.changes.emitter_orders import LOGGED
from firn.changes.json_member import member
from firn.changes.order_texts import EMITTERS, counts_as_it_came, file_number, hexadecimal, unsigned
from firn.changes.record import PLACED, recorded
from firn.errors import EventError

WIDTH = 4 + 16 + 1 + 24
HASHED: Final = 8  # bytes of the hash of a change's content
_OLDEST = bytes(WIDTH)  # of a row without a position: older than everything
# Of two changes at one position the higher rank wins. A PK change is a delete and a create at one position.
RANK: Final = {"t": b"\0", "d": b"\1", "r": b"\2", "c": b"\3", "u": b"\4"}

_MADE_RANK = b"\5"  # above all of RANK
# Streams of these were ordered by `order_by` before Firn read their positions, and those that name it still are. So are
# Hasura's: the time that a transaction began tells its changes of one row not apart.
NAMED_LATER: Final = frozenset({"db2", "informix", "vitess", "spanner", "hasura"})

# Debezium's MongoDB connector; the second, where an update says a part of a document.
MONGODB: Final = frozenset({"mongodb", "mongodb_patch"})

_Text = str | None
_Number = int | None


def position(connector: str, op: str, order: str | None, generation: int, commits: bool = False) -> bytes | None:
    """The position of a change from its order text (see sources.py); None if it has none.

    `generation`: 0 to 2^32 - 1; `commits`: whether changes of this stream told their commit before. Raises EventError
    bad_position if the order can't be read or is out of range.
    """
    if order is None:
        return None
    if connector == "postgresql" and order[:1] == "[":  # most of all events: in one go, if nothing is wrong
        try:
            commit, change = _lsns(order)
            return _of_lsns(generation, commit or 0, op != "r", change)
        except (ValueError, struct.error, RecursionError):
            pass
    parts = recorded if order[:1] == PLACED else _PARTS.get(connector)
    if parts is None:
        raise EventError("bad_position", f"connector {connector!r} gives no order that Firn knows: {order[:80]}")
    try:
        commit, change = parts(order, op)
        if commits and not commit and connector == "postgresql" and not _tells_commit(order):
            commit = change
        kind = b"\0" if op == "r" else b"\1"
        return generation.to_bytes(4) + commit.to_bytes(16) + kind + change.to_bytes(24)
    except (ValueError, OverflowError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise EventError("bad_position", f"{connector} order {order[:80]}: {error}") from None


def within(connector: str, order: str) -> bytes | None:
    """What orders the changes of one position among each other, before op and content do: for those of one MongoDB
    transaction when the connector made them, or else their number in it. None where nothing does."""
    if connector not in MONGODB or order.count(",") != 3:
        return None
    _, _, made, number = _mongodb(order)
    first = number if made is None else made
    return None if first is None else _MADE_RANK + min(max(first, 0), 2**64 - 1).to_bytes(8)


def arrived(connector: str, order: str | None, accepted: int, index: int) -> str | None:
    """The order text of a MongoDB event with a wall clock that does not say when it was made: it counts as made when
    it was accepted (ms), at its `index` in the request. Any other text stays as it is."""
    if connector in MONGODB and accepted and order and order.endswith(",null]") and order.count(",") == 2:
        return f"{order[:-5]}{accepted * 10**6 + index}]"
    return order


def by_arrival(connector: str | None, order: str | None) -> bool:
    """Whether a change with this order text counts, alone or within its transaction, by nothing that its source says:
    it has no order, its place among what came is its order (and it could have another: plain rows have none), or it is
    MongoDB's with a wall clock or in a transaction and does not say when it was made."""
    if order is None or connector not in MONGODB:
        return order is None or (connector in LITERAL - {ROWS} and counts_as_it_came(order))
    return order.endswith(",null]") and (order.count(",") == 2 or order.endswith(",null,null]"))


def came(batch: str, number: int) -> str:
    """The order text of a change that counts by when it came: its batch's id, and its number in the batch."""
    return f'["{batch.rpartition(".")[2]}",{number}]'


def field_position(
    images: Sequence[str],
    fields: Sequence[str],
    op: str,
    generation: int,
    accepted: int = 0,
    lacking: tuple[str, str] = ("bad_position", "the row does not hold it"),
) -> bytes:
    """The position of a change of a source without any, from one field of its row or two: the stream's `order_by`.

    images      the rows as JSON, of which the first that holds a field counts; `lacking`: code and text if none does
    accepted    when the change was accepted, ms: a time that lies more than a day after it would keep its key from ever
                changing again; 0: not known
    A number counts with nine decimals, a time in ISO 8601 in microseconds (without a zone it is UTC). The kind stays as
    it is elsewhere, so of equal values a streamed change beats a read. Raises EventError bad_position if a field is
    missing, null, or of another kind; future_order; the code of `lacking`.
    """
    first, *more = [_field_value(images, field, accepted, lacking) for field in fields]
    kind = b"\0" if op == "r" else b"\1"
    try:
        second = (_HALF_CHANGE + more[0]).to_bytes(24) if more else bytes(24)
        return generation.to_bytes(4) + (_HALF + first).to_bytes(16) + kind + second
    except OverflowError as error:
        raise EventError("bad_position", f"order_by {', '.join(fields)}: {error}") from None


def _field_value(images: Sequence[str], field: str, accepted: int, lacking: tuple[str, str]) -> int:
    """What the field counts as. Raises as field_position says."""
    try:
        read = member(field)
        value: Raw | UnsetType = UNSET
        for image in images:
            if value is UNSET:
                value = read(image)
        if value is UNSET:
            raise EventError(lacking[0], f"order_by field {field!r}: {lacking[1]}")
        number, is_time = _sortable(_scalar(value))
        if is_time and accepted and number > (accepted + _DAY) * 1000:
            raise EventError(
                "future_order",
                f"order_by field {field!r}: {bytes(value).decode()[:40]} is more than a day after the change came: no "
                "change of the row before then would count any more",
            )
        return number
    except (ValueError, OverflowError, ArithmeticError, RecursionError) as error:
        raise EventError("bad_position", f"order_by field {field!r}: {error}") from None


_scalar: Final = msgspec.json.Decoder(int | float | str | None).decode


def by_field(position: bytes) -> bool:
    """Whether a position is one of `order_by`. No source counts as far as the half of the range."""
    return position[4:5] in (b"\x7f", b"\x80")


_HALF, _HALF_CHANGE = 1 << 127, 1 << 191  # make negative values sort as unsigned bytes
_DAY = 86_400_000


def _sortable(value: float | str | None) -> tuple[int, bool]:
    """A value as a number, and whether it is a time."""
    if value is None:
        raise ValueError("it is null")
    if isinstance(value, int):
        return value * 10**9, False
    if isinstance(value, float):
        value = repr(value)
    try:
        if not _DATED.match(value):
            number = Decimal(value)
            if number.is_finite() and number.adjusted() > _DIGITS:  # before an integer of so many digits is made
                raise ValueError("the number is too large")
            return (int(value) * 10**9 if value.isdecimal() else int(number * 10**9)), False
        raise ArithmeticError  # no number, and to learn that takes as long as all else
    except ArithmeticError:
        time = datetime.fromisoformat(value)
        return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1), True


_DIGITS = 50  # more than a position holds
_DATED = re.compile("[0-9]{4}-")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def order_key(position: bytes | None, op: str, content: bytes) -> bytes:
    """What sorts the changes of one key: position, rank of the op, then 8 bytes of a hash of the content; or position
    and what `within` says.

    Total, and the same for any order of arrival. `content`: the change's own bytes, such as its row images. A change
    without a position is older than all others.
    """
    return (position or _OLDEST) + RANK[op] + blake2b(content, digest_size=HASHED).digest()


def _decoder(*types: Any) -> Callable[[str], tuple[Any, ...]]:
    # Not strict: PostgreSQL's and Oracle's numbers travel as text.
    decode: Callable[[str], tuple[Any, ...]] = msgspec.json.Decoder(tuple.__class_getitem__(types), strict=False).decode
    return decode


_lsns = _decoder(_Number, int)
_of_lsns = struct.Struct(">I 8xQ B 16xQ").pack  # generation, commit, kind, change
_binlog = _decoder(str, int, _Number)
_pair = _decoder(int, int)
_texts = _decoder(_Text, _Text)


class _Array(Struct, array_like=True, forbid_unknown_fields=True, frozen=True, gc=False):
    """An order whose last members may be missing."""


class _SqlServer(_Array, frozen=True, gc=False):
    commit: _Text
    change: _Text
    serial: _Number
    command: _Number = None


class _Oracle(_Array, frozen=True, gc=False):
    commit: _Number
    scn: _Number
    record_set: _Text
    part: _Number
    lcr: _Text = None


_sqlserver = msgspec.json.Decoder(_SqlServer, strict=False).decode
_oracle = msgspec.json.Decoder(_Oracle, strict=False).decode
_mongodb = msgspec.json.Decoder(list[_Number], strict=False).decode


def _tells_commit(order: str) -> bool:
    return order.lstrip().startswith("[")


def _postgres(order: str, _: str) -> tuple[int, int]:
    if not _tells_commit(order):
        return 0, unsigned(msgspec.json.decode(order, type=int, strict=False), "lsn")
    commit, change = _lsns(order)
    return unsigned(commit or 0, "commit lsn"), unsigned(change, "lsn")


def _mysql(order: str, _: str) -> tuple[int, int]:
    file, pos, row = _binlog(order)
    return file_number(file) << 64 | unsigned(pos, "pos"), unsigned(row or 0, "row")


def _sql_server(order: str, op: str) -> tuple[int, int]:
    told = _sqlserver(order)
    if told.change is None and op != "r":
        raise ValueError("change_lsn is missing")
    change = _hex(told.change, _LSN) << 64 | unsigned(told.serial or 0, "event_serial_no")
    return _hex(told.commit, _LSN), unsigned(told.command or 0, "command_id", 32) << 144 | change


def _oracle_scn(order: str, op: str) -> tuple[int, int]:
    told = _oracle(order)
    commit = told.commit
    if commit is None and told.lcr is not None and len(told.lcr) == _LCR_DIGITS:
        commit = hexadecimal(told.lcr[:16], "lcr_position")
    if commit is None:
        if op != "r":
            raise ValueError("commit_scn is missing")
        commit = told.scn
    commit = unsigned(commit or 0, "commit_scn")
    if told.lcr is not None:
        # Positions of one length compare as bytes and begin with the commit's SCN: what follows is told apart here.
        return commit, hexadecimal(told.lcr, "lcr_position") & (1 << 192) - 1
    scn, record_set = unsigned(told.scn or 0, "scn"), _hex(told.record_set, _RS_ID)
    return commit, scn << 112 | record_set << 32 | unsigned(told.part or 0, "ssn", 32)


def _mongodb_time(order: str, op: str) -> tuple[int, int]:
    time, place, *more = _mongodb(order)
    if time is None or place is None or len(more) > 2:
        raise ValueError("it is not [ts_ms, ord]")
    if place < 0 and op == "r":
        return 0, 0  # a snapshot read that knows no cluster time: every change beats it
    inside = unsigned(place, "ord")
    if len(more) != 1:
        return unsigned(time, "ts_ms"), inside
    milliseconds, rest = divmod(time * 10**6 if more[0] is None else more[0], 10**6)
    return unsigned(milliseconds, "time"), rest << 64 | inside


def _db2(order: str, op: str) -> tuple[int, int]:
    commit, change = _lsn_pair(order, op)
    return hexadecimal(commit, "commit_lsn", 128), hexadecimal(change, "change_lsn", 128)


def _informix(order: str, op: str) -> tuple[int, int]:
    commit, change = _lsn_pair(order, op)
    return unsigned(int(commit[:40]), "commit_lsn"), unsigned(int(change[:40]), "change_lsn")


def _lsn_pair(order: str, op: str) -> tuple[str, str]:
    commit, change = _texts(order)
    if commit is None or (change is None and op != "r"):
        raise ValueError("an LSN is missing")
    return commit, change or "0"


def _two_numbers(order: str, _: str) -> tuple[int, int]:
    first, second = _pair(order)
    return unsigned(first, "first number"), unsigned(second, "second number")


_LCR_DIGITS = 66  # of positions of Oracle 12.2 and later, whose first 64 bits are the commit's SCN
_LSN = re.compile(r"([0-9a-f]{8}):([0-9a-f]{8}):([0-9a-f]{4})", re.IGNORECASE)
_RS_ID = re.compile(r"\s*(?:0x)?([0-9a-f]{1,8})\.([0-9a-f]{1,8})\.([0-9a-f]{1,4})\s*", re.IGNORECASE)


def _hex(text: str | None, form: re.Pattern[str]) -> int:
    """Three hexadecimal numbers of 32, 32 and 16 bits as one of 80; 0 for null."""
    if text is None:
        return 0
    found = form.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is not of its form")
    high, middle, low = (int(part, 16) for part in found.groups())
    return high << 48 | middle << 16 | low


_PARTS: dict[str, Callable[[str, str], tuple[int, int]]] = {
    "postgresql": _postgres,
    "mysql": _mysql,
    "mariadb": _mysql,
    "sqlserver": _sql_server,
    "oracle": _oracle_scn,
    "mongodb": _mongodb_time,
    "db2": _db2,
    "informix": _informix,
    "firn": _two_numbers,
    "mongodb_patch": _mongodb_time,
    **EMITTERS,
    **LOGGED,
}
