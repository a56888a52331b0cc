"""AWS DMS: its records to Kinesis and Kafka, and rows of its files in S3 as JSON.

`{data, metadata: {record-type, operation, schema-name, table-name, commit-timestamp, stream-position, transaction-id,
transaction-record-id}, before-image}`:

| operation | becomes |
|---|---|
| `load` | a snapshot read, which every change beats |
| `insert`, `update`, `delete` | a change; of a delete `data` is the row before it, often its key alone |
| `truncate-table` | a truncate |
| other `control` records | ignored: `control` |

The key stands in no record of a row: firn.yaml says it. A changed key shows in the before image alone
(BeforeImageSettings; its member has any name, and holds the key or more). A null may be left out
(IncludeNullAndEmpty), so a column that is not there is null.

Order: transaction details (IncludeTransactionDetails) say commit time, position in the source's log, transaction, and
record in it. Without them a change counts as it comes; `timestamp` is when DMS wrote it.

A row of a file is `{Op: I | U | D, …columns}`, without `Op` one of the full load; columns `ar_h_…` and `ar_m_…` are
DMS's headers and metadata, if its transformation rules are called so: `ar_h_change_seq` is the order,
`ar_m_source_table_name` and `ar_m_source_schema` the table, else the request says it. The others are the row.

https://docs.aws.amazon.com/dms/latest/userguide/CHAP_Target.Kinesis.html, CHAP_Target.Kafka.html, CHAP_Target.S3.html,
CHAP_Tasks.CustomizingTasks.TableMapping.SelectionTransformation.Expressions.html
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from firn.changes.change import Change, Ignored
from firn.changes.envelopes.envelope import alone
from firn.changes.envelopes.event_reader import Value, decode
from firn.changes.envelopes.row_images import ITS_OWN, image, members_of, micros_of, named, time_in, with_exact_numbers
from firn.errors import EventError

_OPS: Final = {"load": "r", "insert": "c", "update": "u", "delete": "d"}
_LETTERS: Final = {"I": "c", "U": "u", "D": "d"}
_OF_ROWS: Final = frozenset(f'"{letter}"'.encode() for letter in _LETTERS)
_OWN: Final = frozenset({"data", "metadata", "control"})
_HEADERS: Final = ("ar_h_", "ar_m_")
_LOADED: Final = "[null,null,null]"
_SEQUENCE: Final = re.compile(r"[0-9]{1,50}")
# The file and the offset of a binlog, the halves of PostgreSQL's LSN; others begin with digits of fixed width.
_BINLOG: Final = re.compile(r"[^:]*\.([0-9]{1,10}):([0-9]{1,10})(?::.*)?")
_LSN: Final = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})(?:\..*)?")


class _Metadata(Struct, frozen=True, rename="kebab"):
    record_type: str = ""
    operation: str = ""
    schema_name: str | None = None
    table_name: str = ""
    timestamp: str | None = None
    commit_timestamp: str | None = None
    stream_position: str | None = None
    transaction_id: int | None = None
    transaction_record_id: int | None = None


class _Event(Struct, frozen=True):
    metadata: _Metadata


def recognises(fields: Mapping[str, Raw]) -> bool:
    """Metadata that name the type of their record; or a row with `Op` I, U or D, or with headers."""
    if "metadata" in fields:
        return b'"record-type"' in bytes(fields["metadata"])
    return bytes(fields.get("Op", b"")) in _OF_ROWS or any(name.lower().startswith(_HEADERS) for name in fields)


def read(value: Value) -> Change | Ignored:
    """One record or row, or why it is ignored. Raises EventError."""
    if "metadata" not in value.fields:
        return _row(value)
    told = decode(value.text, _Event).metadata
    if told.record_type == "control" and told.operation != "truncate-table":
        return Ignored("control")
    table = named(told.schema_name, told.table_name)
    ts = _ms(told.commit_timestamp or told.timestamp, "metadata.timestamp")
    if told.operation == "truncate-table":
        return Change("t", table, ts, "dms", _order(told, "t"), None, None, False, None, None, None, None)
    op = _OPS.get(told.operation)
    if op is None:
        raise EventError("unknown_op", f"`metadata.operation` is {told.operation[:40]!r}, which is none of DMS's")
    sent = members_of(value, "data")
    if sent is None:
        raise EventError("missing_image", f"{told.operation} comes without the row in `data`")
    row = with_exact_numbers(sent)
    old = with_exact_numbers(_before(value)) if op == "u" else {}
    after = None if op == "d" else image(row)
    before = image(row) if op == "d" else image({**row, **old}) if old else None
    order = _order(told, op)
    emitted = None if order in (None, _LOADED) else ITS_OWN
    return Change(op, table, ts, "dms", order, None, emitted, False, None, before, after, None)


def _before(value: Value) -> Mapping[str, Raw]:
    """The before image: the one member that is none of DMS's own. Raises EventError."""
    others = [name for name in value.fields if name not in _OWN and bytes(value.fields[name])[:1] == b"{"]
    if len(others) > 1:
        raise EventError("bad_event", "more than one member may be the before image: `before-image` by default")
    return (members_of(value, others[0]) or {}) if others else {}


def _order(told: _Metadata, op: str) -> str | None:
    if op == "r":
        return _LOADED
    if told.commit_timestamp is None or told.transaction_record_id is None:
        return None
    commit = micros_of(told.commit_timestamp, "metadata.commit-timestamp")
    position = _position(told.stream_position or "")
    return msgspec.json.encode([commit, position, told.transaction_id, told.transaction_record_id]).decode()


def _position(text: str) -> int | None:
    """What a position in the log compares as, of transactions that committed in one second or µs."""
    if found := _LSN.fullmatch(text):
        return int(found[1], 16) << 32 | int(found[2], 16)
    if found := _BINLOG.fullmatch(text):
        return int(found[1]) << 36 | int(found[2])
    digits = re.sub(r"[^0-9A-Fa-f]", "", text[:40])[:16]
    return int(digits, 16) if digits else None


def _ms(text: str | None, what: str) -> int | None:
    micros = micros_of(text, what)
    return None if micros is None else time_in(micros, 1_000_000, what)


def _row(value: Value) -> Change:
    head = {name.lower(): raw for name, raw in value.fields.items() if name.lower().startswith(_HEADERS)}
    letter = value.raw("Op")
    op = "r" if letter is None else _LETTERS.get(decode(letter, str, within="Op"), "")
    if not op:
        raise EventError("unknown_op", "`Op` is none of I, U, D")
    row = {name: raw for name, raw in value.fields.items() if name != "Op" and name.lower() not in head}
    text = image(with_exact_numbers(row))
    schema, table = (_text(head, f"ar_m_source_{name}") for name in ("schema", "table_name"))
    ts = _ms(_text(head, "ar_h_timestamp") or None, "ar_h_timestamp")
    after, before = (None, text) if op == "d" else (text, None)
    where = f"{schema}.{table}" if schema and table else table or ""
    order = _sequence(head, op)
    emitted = None if order in (None, _LOADED) else ITS_OWN
    return Change(op, where, ts, "dms", order, None, emitted, False, None, before, after, None)


def _sequence(head: Mapping[str, Raw], op: str) -> str | None:
    number = _text(head, "ar_h_change_seq")
    if not number:
        return _LOADED if op == "r" else None
    if not _SEQUENCE.fullmatch(number):
        raise EventError("bad_event", "`ar_h_change_seq` is not digits")
    return f"[{int(number)},null,null]"


def _text(head: Mapping[str, Raw], name: str) -> str | None:
    """A header's text, a number's digits; None if it is not there."""
    raw = bytes(head.get(name, b"null"))
    if raw == b"null":
        return None
    found: str = decode(raw, str, strict=False, within=name) if raw[:1] == b'"' else raw.decode()
    return found


def table_hint(value: Value) -> str | None:
    """The table that the record names."""
    if not recognises(value.fields) or "metadata" not in value.fields:
        return None
    told = msgspec.json.decode(value.fields["metadata"], type=dict[str, Raw])
    names = [msgspec.json.decode(told.get(name, b"null"), type=str | None) for name in ("schema-name", "table-name")]
    return f"{names[0]}.{names[1]}" if all(names) else names[1]


ENVELOPE = alone("this is of AWS DMS", read, table_hint, recognises, may_lack_table=True)
