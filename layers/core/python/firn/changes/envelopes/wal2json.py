"""wal2json's two formats: an object a change, or an object a transaction with all its changes.

Format 2: `{action: I | U | D | T | B | C | M, lsn, xid, timestamp, schema, table, columns, identity, pk}`. Format 1:
`{xid, nextlsn, timestamp, change: [{kind, schema, table, columnnames, columntypes, columnvalues, oldkeys, pk}]}`; each
change is read as an object of its own, with its place in the transaction as `place`.

* B and C are ignored as `transaction`, like a transaction without changes (DDL; format 1 has no TRUNCATE); M as
  `message`.
* A column that an update leaves out is a large value that it did not change (TOAST): it keeps its value, unless the row
  before (`identity`, `oldkeys` under REPLICA IDENTITY FULL) holds it. A changed key is an update whose row before holds
  the old key, and takes along what it leaves out.
* The key's columns are those of `pk` (include-pk); under REPLICA IDENTITY FULL or NOTHING format 1 leaves it out.
* Order (include-lsn): of format 2 the LSN of the change, by which the changes of one row are in order of commit; of
  format 1 the LSN after the commit, and the place. Without either a change counts as it comes.
* Types (include-types, include-typmod): PostgreSQL's own words; docs/sources/wal2json.md says what becomes of them.

https://github.com/eulerto/wal2json, and recordings in tests/data/emitters/wal2json of version 2.5.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec import Raw, Struct

from firn.changes.change import Change, Ignored
from firn.changes.envelopes.envelope import alone
from firn.changes.envelopes.event_reader import Value, decode
from firn.changes.envelopes.limits import EventLimits
from firn.changes.envelopes.parts import Parts, members
from firn.changes.envelopes.row_images import ITS_OWN, hinted, image, micros_of, named, schema_of, some, time_in, word
from firn.errors import EventError

_OPS: Final = {"I": "c", "U": "u", "D": "d", "T": "t"}
_KINDS: Final = {"insert": "c", "update": "u", "delete": "d", "truncate": "t"}
_IGNORED: Final = {"B": "transaction", "C": "transaction", "M": "message"}
_ACTIONS: Final = frozenset(f'"{action}"'.encode() for action in (*_OPS, *_IGNORED))
_TRANSACTION: Final = frozenset({"xid", "nextlsn", "timestamp", "origin", "place", "change"})
_LSN: Final = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})", re.ASCII)
_NULL: Final = Raw(b"null")


class _Named(Struct, frozen=True):
    name: str
    type: str | None = None
    value: Raw = _NULL


class _Change(Struct, frozen=True):
    """An object of format 2."""

    action: str
    lsn: str | None = None
    timestamp: str | None = None
    schema: str | None = None
    table: str = ""
    columns: list[_Named] | None = None
    identity: list[_Named] | None = None
    pk: list[_Named] | None = None


class _Key(Struct, frozen=True):
    pknames: list[str] = []


class _Old(Struct, frozen=True):
    keynames: list[str] = []
    keytypes: list[str] | None = None
    keyvalues: list[Raw] = []


class _Kind(Struct, frozen=True):
    """A change of format 1."""

    kind: str
    schema: str | None = None
    table: str = ""
    columnnames: list[str] = []
    columntypes: list[str] | None = None
    columnvalues: list[Raw] = []
    pk: _Key | None = None
    oldkeys: _Old | None = None


class _Transaction(Struct, frozen=True):
    change: tuple[_Kind]
    nextlsn: str | None = None
    timestamp: str | None = None
    place: int = 0


def recognises(fields: Mapping[str, Raw]) -> bool:
    """A transaction's members and no others, or one of the actions."""
    if "change" in fields:
        return fields.keys() <= _TRANSACTION
    return "action" in fields and bytes(fields["action"]) in _ACTIONS


def parts(value: Value, limits: EventLimits) -> Parts | None:
    """The changes of a transaction, of format 1."""
    raw = value.raw("change")
    if raw is None or "action" in value.fields:
        return None
    found = members(raw, "change", limits)
    whole = {name: text for name, text in value.fields.items() if name not in ("change", "place")}
    return Parts(len(found), _events(whole, found), len(image(whole)) * len(found)) if len(found) > 1 else None


def _events(whole: Mapping[str, Raw], found: Sequence[Raw]) -> Iterator[bytes]:
    for place, one in enumerate(found):
        yield image({**whole, "place": str(place).encode(), "change": b"[" + bytes(one) + b"]"})


def read(value: Value) -> Change | Ignored:
    """One change, or why it is ignored. Raises EventError."""
    if "action" not in value.fields:
        return _read_kind(value)
    event = decode(value.text, _Change)
    if (reason := _IGNORED.get(event.action)) is not None:
        return Ignored(reason)
    op = _OPS.get(event.action)
    if op is None:
        raise EventError("unknown_op", f"`action` is {event.action[:20]!r}, which is none of I, U, D, T, B, C, M")
    change = None if (lsn := _lsn(event.lsn, "lsn")) is None else f"[null,{lsn},null]"
    key = [one.name for one in event.pk or ()]
    return _made(op, named(event.schema, event.table), event.timestamp, change, key, event.columns, event.identity)


def _read_kind(value: Value) -> Change | Ignored:
    if (raw := value.raw("change")) is None:
        raise EventError("missing_op", "the event has no `action`, nor an array `change`")
    if raw[:1] == b"[" and not raw.strip(b"[] \t\r\n"):
        return Ignored("transaction")
    whole = decode(value.text, _Transaction)
    event = whole.change[0]
    if event.kind == "message":
        return Ignored("message")
    op = _KINDS.get(event.kind)
    if op is None:
        raise EventError("unknown_op", f"`change.kind` is {event.kind[:20]!r}, which is none of wal2json's")
    commit = _lsn(whole.nextlsn, "nextlsn")
    order = None if commit is None else f"[{commit},{whole.place},null]"
    old = event.oldkeys or _Old()
    columns = _together(event.columnnames, event.columntypes, event.columnvalues, "column")
    before = _together(old.keynames, old.keytypes, old.keyvalues, "oldkeys.key") if event.oldkeys else None
    key = event.pk.pknames if event.pk else []
    return _made(op, named(event.schema, event.table), whole.timestamp, order, key, columns, before)


def _together(names: list[str], types: list[str] | None, values: list[Raw], what: str) -> list[_Named]:
    if len(names) != len(values) or (types is not None and len(types) != len(names)):
        raise EventError("bad_event", f"`{what}names`, `{what}types` and `{what}values` are not of equal length")
    told: Sequence[str | None] = [None] * len(names) if types is None else types
    return [_Named(*one) for one in zip(names, told, values, strict=True)]


def _lsn(text: str | None, what: str) -> int | None:
    if text is None:
        return None
    found = _LSN.fullmatch(text)
    if found is None:
        raise EventError("bad_event", f"`{what}` is not a PostgreSQL LSN, such as 0/16B3748")
    return int(found[1], 16) << 32 | int(found[2], 16)


def _made(
    op: str,
    table: str,
    timestamp: str | None,
    order: str | None,
    key: list[str],
    columns: list[_Named] | None,
    identity: list[_Named] | None,
) -> Change:
    micros = micros_of(timestamp, "timestamp")
    ts = None if micros is None else time_in(micros, 1_000_000, "timestamp")
    # Equal rows of one COPY have one LSN in format 2: there they are one.
    emitted = None if order is None else ITS_OWN
    if op == "t":
        return Change("t", table, ts, "wal2json", order, None, emitted, False, None, None, None, None)
    old = {one.name: _bare(one) for one in identity or ()}
    if op == "d":
        if not old:
            raise EventError("missing_image", "a delete without `identity`: the table has REPLICA IDENTITY NOTHING")
        told, row = identity or [], old
    else:
        if not columns:
            raise EventError("missing_image", f"op {op} comes without columns")
        # What the row before holds and the row after leaves out did not change.
        told = [*columns, *(one for one in identity or () if one.name not in {column.name for column in columns})]
        row = {one.name: _bare(one) for one in told}
    after = None if op == "d" else image(row)
    before = image(old) if old and op != "c" else None
    schema = _schema(tuple((one.name, one.type) for one in told))
    return Change(op, table, ts, "wal2json", order, None, emitted, False, some(row, key), before, after, schema)


_BARE: Final = frozenset({"smallint", "integer", "bigint", "oid", "real", "double precision"})
_JSON_NUMBER: Final = re.compile(rb'"(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"')


def _bare(one: _Named) -> Raw | bytes:
    """The value; a number as one, also under numeric-data-types-as-string."""
    if one.type in _BARE and (found := _JSON_NUMBER.fullmatch(bytes(one.value))) is not None:
        return found[1]
    return one.value


@lru_cache(512)
def _schema(columns: tuple[tuple[str, str | None], ...]) -> bytes | None:
    """The inline schema; None if the emitter tells no types."""
    if any(kind is None for _, kind in columns) or len({name for name, _ in columns}) < len(columns):
        return None
    return schema_of(_field(name, kind or "") for name, kind in columns if name)


_PLAIN: Final = {
    "boolean": ("boolean", None), "smallint": ("int16", None), "integer": ("int32", None),
    "bigint": ("int64", None), "oid": ("int64", None), "real": ("float", None), "double precision": ("double", None),
    "bytea": ("bytes", "firn.data.Hex"), "uuid": ("string", "io.debezium.data.Uuid"),
    "date": ("string", "io.debezium.time.IsoDate"),
    "time without time zone": ("string", "io.debezium.time.IsoTime"),
    "timestamp without time zone": ("string", "io.debezium.time.IsoTimestamp"),
    "timestamp with time zone": ("string", "io.debezium.time.ZonedTimestamp"),
    "numeric": ("string", "firn.data.Number"),
}  # fmt: skip
_MODIFIER: Final = re.compile(r"\((-?[0-9]{1,5})(?:,(-?[0-9]{1,5}))?\)")


def _field(name: str, kind: str) -> dict[str, Any]:
    """The Connect field of a column of this type, in the words of PostgreSQL's format_type. What is not listed is its
    text, as PostgreSQL prints it: arrays, ranges, intervals, json, enums, bits."""
    found = _MODIFIER.search(kind)
    bare = kind if found is None else kind[: found.start()] + kind[found.end() :]
    plain, meaning = _PLAIN.get(bare, ("string", "io.debezium.data.Json"))
    if bare == "numeric" and found is not None:
        return word(name, plain, meaning, precision=found[1], scale=found[2] or 0)
    return word(name, plain, meaning)


def table_hint(value: Value) -> str | None:
    """The table that the event names."""
    if not recognises(value.fields):
        return None
    if "change" not in value.fields:
        return hinted(value.fields, "schema", "table")
    return hinted(decode(value.fields["change"], tuple[dict[str, Raw]])[0], "schema", "table")


ENVELOPE = alone("this is of wal2json", read, table_hint, recognises, parts)
