"""Reading one event: its wrappings (record, inline schema) off, markers recognised, errors that name the field."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import Raw, Struct

from firn.changes.change import OPS, Ignored
from firn.errors import EventError

_RECORD = frozenset({"destination", "topic", "partition", "offset", "timestamp", "key", "value", "headers"})
_WRAPPED = {"schema", "payload"}
_TRANSACTION = frozenset({"status", "id", "event_count", "data_collections", "ts_ms"})
_SCHEMA_CHANGE = frozenset(
    {"source", "position", "databaseName", "schemaName", "ddl", "tableChanges", "ts_ms", "ts_us", "ts_ns"}
)
_MESSAGE = frozenset({"op", "source", "message", "transaction", "before", "after", "ts_ms", "ts_us", "ts_ns"})
_HEARTBEAT_TOPIC = "__debezium-heartbeat"


class Value(Struct, frozen=True):
    """What is left of an event without its record and its inline schema: a JSON object, not yet understood."""

    text: bytes
    fields: Mapping[str, Raw]
    record: bool = False
    wrapped: bool = False
    destination: str | None = None
    key: bytes | None = None
    schema: bytes | None = None

    def raw(self, name: str) -> bytes | None:
        """The field's JSON; None if it is absent or null."""
        return _present(self.fields.get(name))


class _Named(Struct):
    name: str | None = None


@cache
def _decoder(kind: Any, strict: bool) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, strict=strict)


def decode(text: bytes | Raw, kind: Any, *, strict: bool = True, within: str = "") -> Any:
    """JSON text -> `kind`. Raises EventError bad_event (naming the field), bad_json or too_deep."""
    try:
        return _decoder(kind, strict).decode(text)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        field = ".".join(part for part in (within, path.strip("`").lstrip(".")) if part)
        raise EventError("bad_event", f"`{field}`: {problem}" if field else problem) from None
    except msgspec.DecodeError as error:
        raise EventError("bad_json", str(error)) from None
    except RecursionError:
        raise EventError("too_deep", "the event's JSON is nested too deeply") from None


def fields_of(text: bytes | Raw, what: str) -> dict[str, Raw]:
    """A JSON object's members, undecoded. Raises EventError not_an_object, bad_json or too_deep."""
    fields: dict[str, Raw]
    try:
        fields = decode(text, dict[str, Raw])
    except EventError as error:
        if error.code != "bad_event":
            raise
        raise EventError("not_an_object", f"{what} is not a JSON object") from None
    return fields


def unwrap(element: bytes) -> Value | Ignored:
    """Take the record and the inline schema off one event; or Ignored, if nothing is left.

    A record is `{destination, key, value, headers}`: a value, and only Kafka's own words beside it. A flattened row
    with such columns has `__op` among them and is not a record. A wrapped value has exactly the members `schema` (an
    object or null) and `payload`.
    """
    if element.strip() == b"null":
        return Ignored("tombstone")
    text, fields = element, fields_of(element, "the event")
    record = "value" in fields and fields.keys() <= _RECORD
    destination, key = None, None
    if record:
        named = _present(fields.get("destination")) or _present(fields.get("topic"))
        destination = None if named is None else decode(named, str, within="destination")
        key = key_payload(_present(fields.get("key")))
        inner = _present(fields["value"])
        if inner is None:
            return Ignored(absent(destination))
        text, fields = inner, fields_of(inner, "the record's `value`")
    schema = None
    wrapped = fields.keys() == _WRAPPED and bytes(fields["schema"])[:1] in (b"{", b"n")
    if wrapped:
        schema, inner = _present(fields["schema"]), _present(fields["payload"])
        if inner is None:
            return Ignored(absent(destination))
        text, fields = inner, fields_of(inner, "`payload`")
    value = Value(text, fields, record, wrapped, destination, key, schema)
    reason = marker(value)
    return Ignored(reason) if reason else value


def absent(destination: str | None) -> str:
    """Why a null value is ignored: Debezium's tombstone, or a heartbeat that a converter emptied."""
    return "heartbeat" if destination and destination.startswith(_HEARTBEAT_TOPIC) else "tombstone"


def marker(value: Value) -> str | None:
    """The reason for ignoring Debezium's events that change no row, by their exact shape; None for all others."""
    fields = value.fields
    names = fields.keys()
    if names == {"ts_ms"}:
        return "heartbeat" if _is_named(value, "Heartbeat") else None
    if {"status", "id"} <= names <= _TRANSACTION and bytes(fields["status"]) in (b'"BEGIN"', b'"END"'):
        return "transaction" if _is_named(value, "TransactionMetadataValue") else None
    if "tableChanges" in names and names <= _SCHEMA_CHANGE:
        return "schema_change"
    if {"op", "message"} <= names <= _MESSAGE and bytes(fields["op"]) == b'"m"':
        return "message"
    return None


def _is_named(value: Value, suffix: str) -> bool:
    """With an inline schema its name decides: a table may well have the one column `ts_ms`."""
    if value.schema is None:
        return True
    name = decode(value.schema, _Named, within="schema").name
    return name is not None and name.endswith(suffix)


_MAYBE_WRAPPED = re.compile(rb'"schema"\s*:\s*[{n]')


def key_payload(key: bytes | None) -> bytes | None:
    """A record's key without its inline schema. A key whose own columns are `schema` and `payload` stays whole."""
    if key is None or key == b"null":
        return None
    if not _MAYBE_WRAPPED.search(key):
        return key
    fields = decode(key, dict[str, Raw], within="key") if key.startswith(b"{") else {}
    if fields.keys() != _WRAPPED:
        return key
    schema = _present(fields["schema"])
    if schema is not None and b'"type"' not in schema:
        return key
    return _present(fields["payload"])


def required_op(value: Value, name: str, hint: str = "") -> str:
    """The event's op, or "m" for a logical message. Raises EventError missing_op, bad_event or unknown_op."""
    raw = value.raw(name)
    if raw is None:
        raise EventError("missing_op", f"the event has no `{name}`{hint}")
    op: str = decode(raw, str, within=name)
    if op not in OPS and op != "m":
        raise EventError("unknown_op", f"`{name}` is {op[:20]!r}, which is none of c, u, d, r, t")
    return op


def required_word(value: Value, name: str, words: Mapping[str, str]) -> str:
    """What the member's word stands for. Raises EventError missing_op, bad_event or unknown_op."""
    raw = value.raw(name)
    if raw is None:
        raise EventError("missing_op", f"the event has no `{name}`")
    return word_in(decode(raw, str, within=name), name, words)


def word_in(word: str, name: str, words: Mapping[str, str]) -> str:
    """What the word stands for. `name`: the member that it is in. Raises EventError unknown_op."""
    if word not in words:
        raise EventError("unknown_op", f"`{name}` is {word[:20]!r}, which is none of {', '.join(words)}")
    return words[word]


def _present(raw: Raw | None) -> bytes | None:
    text = b"null" if raw is None else bytes(raw)
    return None if text == b"null" else text
