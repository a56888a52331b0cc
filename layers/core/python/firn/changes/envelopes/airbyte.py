"""Airbyte's protocol: `{"type": "RECORD", "record": {"namespace", "stream", "data", "emitted_at"}}`, one a line.

https://docs.airbyte.com/understanding-airbyte/airbyte-protocol, …/cdc. Records of change data capture say in their
data where they stand: `_ab_cdc_lsn` (PostgreSQL, SQL Server's text), or `_ab_cdc_log_file` and `_ab_cdc_log_pos`
(MySQL); a delete has `_ab_cdc_deleted_at`. Inserts and updates look alike. Any other record counts as it comes.
Messages of other types (STATE, LOG, …) change no row.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from firn.changes.change import Change, Ignored
from firn.changes.envelopes.envelope import alone
from firn.changes.envelopes.event_reader import Value, decode, fields_of
from firn.changes.envelopes.image_pair import change_of, qualified, word_of
from firn.errors import EventError

_TYPES: Final = frozenset({"RECORD", "STATE", "LOG", "TRACE", "SPEC", "CATALOG", "CONTROL", "CONNECTIONSTATUS"})
_PLACEHOLDER: Final = b'"__debezium_unavailable_value"'
_SQL_SERVER: Final = re.compile(b'"([0-9a-fA-F]{8}):([0-9a-fA-F]{8}):([0-9a-fA-F]{4})"')
_encode: Final = msgspec.json.Encoder().encode


class _Record(Struct, frozen=True):
    stream: str | None = None
    namespace: str | None = None
    data: Raw = Raw(b"null")
    emitted_at: int | None = None


def _type(fields: Mapping[str, Raw]) -> str:
    raw = bytes(fields.get("type", b""))
    return word_of(raw.replace(b"_", b""))


def recognises(fields: Mapping[str, Raw]) -> bool:
    """A `type` of the protocol, and the member of its name beside it."""
    kind = _type(fields)
    member = "connectionStatus" if kind == "CONNECTIONSTATUS" else kind.lower()
    return kind in _TYPES and bytes(fields.get(member, b""))[:1] == b"{"


def read(value: Value) -> Change | Ignored:
    """One message. Raises EventError."""
    if _type(value.fields) != "RECORD":
        return Ignored("control")
    record: _Record = decode(value.raw("record") or b"null", _Record, within="record")
    row = fields_of(record.data, "`record.data`")
    data = bytes(record.data)
    order = _order(row)
    deleted = bytes(row.get("_ab_cdc_deleted_at", b"null")) != b"null"
    op = "d" if deleted else "c"
    if not deleted and order is not None and _PLACEHOLDER in data:
        op, data = "u", _encode({name: one for name, one in row.items() if bytes(one) != _PLACEHOLDER})
    images = (data, None) if deleted else (None, data)
    micros = None if record.emitted_at is None else record.emitted_at * 1_000
    table = qualified(record.namespace, record.stream)
    return change_of(value, op, table, "airbyte", images, order=order, micros=micros)


def _order(row: Mapping[str, Raw]) -> str | None:
    """`[commit, change]` out of the columns of change data capture. Raises EventError."""
    log = bytes(row.get("_ab_cdc_log_file", b"null"))
    if log != b"null":
        file: str = decode(log, str, within="record.data._ab_cdc_log_file")
        number = re.search(r"\.([0-9]{1,18})$", file, re.ASCII)
        if number is None:
            raise EventError("bad_event", "`record.data._ab_cdc_log_file` has no number")
        place = row.get("_ab_cdc_log_pos", Raw(b"null"))
        return f"[{int(number[1])},{_whole(place, '_ab_cdc_log_pos')}]"
    lsn = row.get("_ab_cdc_lsn", Raw(b"null"))
    if found := _SQL_SERVER.fullmatch(bytes(lsn)):
        high, middle, low = (int(part, 16) for part in found.groups())
        return f"[{high << 32 | middle},{low}]"
    return None if bytes(lsn) == b"null" else f"[{_whole(lsn, '_ab_cdc_lsn')},0]"


def _whole(raw: Raw, name: str) -> int:
    told: int | float | str = decode(raw, int | float | str, within=f"record.data.{name}")
    if isinstance(told, str) and re.fullmatch("[0-9]{1,20}", told, re.ASCII):
        told = int(told)
    if isinstance(told, float) and told.is_integer():
        told = int(told)
    if isinstance(told, int) and 0 <= told < 1 << 64:
        return told
    raise EventError("bad_event", f"`record.data.{name}` is not a position")


def table_hint(value: Value) -> str | None:
    """The stream that the record names."""
    raw = value.raw("record") if _type(value.fields) == "RECORD" else None
    if raw is None:
        return None
    record: _Record = decode(raw, _Record, within="record")
    return qualified(record.namespace, record.stream) or None


ENVELOPE = alone("this is a message of Airbyte's protocol", read, table_hint, recognises)
