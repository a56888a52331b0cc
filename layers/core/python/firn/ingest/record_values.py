"""The value of a record as events: what a record says beside its value (topic, key, that it has none) comes in. Pure.

Events in an envelope get it as Debezium's own transports write it, `{"destination", "key", "headers", "value"}`. Plain
rows are for the table that the topic is called by, where the stream has a rule for it; columns of their key that they
lack come from the record's key; and a record without a value deletes the row of its key, where its table has one.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Raw

from firn.changes.change import COLUMNS, ROWS, Parsed, Rejected
from firn.changes.envelopes.event_reader import key_payload
from firn.changes.envelopes.limits import EventLimits
from firn.changes.envelopes.parser import parse
from firn.changes.record import Record
from firn.config.model import StreamConfig, TableRule
from firn.errors import EventError, RequestError

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_one = msgspec.json.Decoder(Raw).decode


def enveloped(body: bytes, record: Record, settings: StreamConfig, limits: EventLimits) -> Parsed:
    """The changes of a value whose events say themselves what they are. One whose source gives it no place, and which
    `order_by` does not place either, has that of its record. Raises RequestError as `parse` does."""
    text = body
    if record.gone:
        text = _wrapped(record, b"null")
    elif record.topic:
        try:
            _one(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise RequestError(400, "bad_json", f"the record's value is not JSON: {error}") from None
        # A line break stands only between the parts of JSON, never inside a text.
        text = _wrapped(record, body.replace(b"\n", b" "))
    parsed = parse(text, settings.envelope, "auto", limits)
    if text is not body:
        rejected = [
            msgspec.structs.replace(one, original=body) if one.original == text else one for one in parsed.rejected
        ]
        parsed = msgspec.structs.replace(parsed, rejected=rejected)
    if not settings.order_by and None in parsed.order:
        each = zip(parsed.order, parsed.index, strict=True)
        order = [record.order(index) if said is None else said for said, index in each]
        parsed = msgspec.structs.replace(parsed, order=order)
    # A record is a request of its own: of two equal changes in it each counts, and in two records one was sent again.
    # When they were made would say otherwise once both records are in a batch. It tells equal rows of a snapshot apart.
    each_made = zip(parsed.op, parsed.emitted, parsed.index, strict=True)
    emitted = [made if op == "r" else record.first + index for op, made, index in each_made]
    return of_record(msgspec.structs.replace(parsed, emitted=emitted), record)


def _wrapped(record: Record, value: bytes) -> bytes:
    beside: dict[str, object] = {"destination": record.topic, "key": Raw((record.key or "null").encode())}
    if record.headers:
        beside["headers"] = record.headers
    return msgspec.json.encode(beside)[:-1] + b',"value":' + value + b"}"


def of_record(parsed: Parsed, record: Record) -> Parsed:
    """`parsed`, whose dead letters say which record held them."""
    if not parsed.rejected:
        return parsed
    held = [
        msgspec.structs.replace(one, record=msgspec.structs.replace(record, first=record.first + one.index))
        for one in parsed.rejected
    ]
    return msgspec.structs.replace(parsed, rejected=held)


def table_of_topic(record: Record, settings: StreamConfig) -> str | None:
    """The topic, if a rule or a pipeline takes the rows of a source table that is called so; None if none does, or the
    rows name their tables themselves."""
    if not record.topic or settings.table_by is not None:
        return None
    try:
        return record.topic if settings.wants(record.topic) else None
    except EventError:
        return None


def with_key(row: bytes, record: Record, settings: StreamConfig, table: str | None) -> bytes:
    """A plain row with the columns of its key that only the record's key has. What can't be read stays as it is."""
    rule = _rule(settings, table)
    if record.key is None or rule is None or not rule.key:
        return row
    try:
        there = _members(row)
        key = _named(record.key, rule.key)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return row
    lacking = {name: key[name] for name in rule.key if name not in there and name in key}
    if not lacking:
        return row
    start = msgspec.json.encode(lacking)[:-1]
    return start + b"," * bool(there) + row.strip().removeprefix(b"{")


def deleted(record: Record, settings: StreamConfig, table: str) -> Parsed:
    """What a record without a value is: the delete of the row of its key; ignored if it has no key, or the table keeps
    each row and knows none."""
    rule = _rule(settings, table)
    names = rule.key if rule is not None else None
    columns: dict[str, list[object]] = {name: [] for name in COLUMNS}
    if record.key is None or (rule is not None and not names and not rule.keyed):
        return Parsed(**columns, ignored={"tombstone": 1}, rejected=[])  # type: ignore[arg-type]
    try:
        key = _named(record.key, names or ())
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        key = {}
    lacking = [name for name in names or () if name not in key]
    if lacking or not key:
        why = f"a record without a value deletes the row of its key, and the key does not name {', '.join(lacking)}"
        lost = Rejected(0, "no_key", why, record.key.encode(), table=table)
        return of_record(Parsed(**columns, ignored={}, rejected=[lost]), record)  # type: ignore[arg-type]
    image = msgspec.json.encode({name: key[name] for name in names or key})
    order = None if settings.order_by else record.order(0)
    values = {"index": 0, "op": "d", "table": table, "connector": ROWS, "order": order, "flat": False, "before": image}
    row = {name: [values.get(name)] for name in COLUMNS}
    return Parsed(**row, ignored={}, rejected=[])  # type: ignore[arg-type]


def _rule(settings: StreamConfig, table: str | None) -> TableRule | None:
    try:
        return None if table is None else settings.rule_for(table)
    except EventError:
        return None


def _named(key: str, names: tuple[str, ...]) -> Mapping[str, Raw]:
    """The columns of a key: its members, or the one column of which it is the value. Raises what msgspec does."""
    try:
        payload = key_payload(key.encode()) or b"null"
    except EventError:
        payload = key.encode()
    if payload[:1] == b"{":
        return _members(payload)
    return {names[0]: Raw(payload)} if len(names) == 1 and payload not in (b"null", b"") else {}
