"""Canal's flat messages: `{database, table, type, isDdl, data, old, pkNames, mysqlType, sqlType, es, ts, sql}`.

`data` and `old` are arrays of rows, a text or null each value; a message of several rows is read as one of each. `old`
holds what an update changed, of Tencent's flavour the whole row. A changed key is an update whose `old` holds the key.

| type | becomes |
|---|---|
| `INSERT`, `UPDATE`, `DELETE` | a change of each row |
| `TRUNCATE`, which is DDL | a truncate |
| other DDL (`isDdl`), `QUERY` | ignored: `schema_change` |

A message says neither where it stands nor that it comes again: its rows count as they come. Types follow from
`mysqlType` (mysql_texts.py); without it (Tencent's flavour) every column is text, and one that firn.yaml declares is
read as what it is.

https://github.com/alibaba/canal, https://nightlies.apache.org/flink (canal format),
https://www.tencentcloud.com/document/product/597/52603, and the recording in tests/data/emitters/canal.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Final

import msgspec
from msgspec import Raw, Struct

from firn.changes.change import Change, Ignored, Int64
from firn.changes.envelopes.envelope import alone
from firn.changes.envelopes.event_reader import Value, decode
from firn.changes.envelopes.limits import EventLimits
from firn.changes.envelopes.mysql_texts import Form, form_of, texts_of
from firn.changes.envelopes.parts import Parts, members
from firn.changes.envelopes.row_images import hinted, image, named, some, time_in
from firn.errors import EventError

_OPS: Final = {"INSERT": "c", "UPDATE": "u", "DELETE": "d"}
_MARKS: Final = frozenset({"isDdl", "es"})
_SECONDS: Final = 100_000_000_000  # below it a time counts seconds (Tencent's), until the year 5138
_Row = dict[str, str | None]


class _Event(Struct, frozen=True):
    database: str | None = None
    table: str = ""
    type: str = ""
    isDdl: bool = False
    es: Int64 | None = None
    pkNames: list[str] | None = None
    data: tuple[_Row] | None = None
    old: tuple[_Row | None] | None = None


def recognises(fields: Mapping[str, Raw]) -> bool:
    """What has a type and Canal's own words for DDL or the time."""
    return "type" in fields and "data" in fields and not _MARKS.isdisjoint(fields)


def parts(value: Value, limits: EventLimits) -> Parts | None:
    """The message with each of its rows alone."""
    raw = value.raw("data")
    if raw is None or value.raw("isDdl") == b"true":
        return None
    rows = members(raw, "data", limits)
    if len(rows) == 1:
        return None
    told = value.raw("old")
    old = members(told, "old", limits) if told is not None else None
    if old is not None and len(old) != len(rows):
        raise EventError("bad_event", "`data` and `old` are not of equal length")
    begin = image({name: text for name, text in value.fields.items() if name not in ("data", "old")})[:-1]
    return Parts(len(rows), _events(begin, rows, old), len(begin) * len(rows))


def _events(begin: bytes, rows: Sequence[Raw], old: Sequence[Raw] | None) -> Iterator[bytes]:
    for row, before in zip(rows, repeat(Raw(b"null")) if old is None else old, strict=old is not None):
        yield b'%b,"data":[%b],"old":[%b]}' % (begin, bytes(row), bytes(before))


def read(value: Value) -> Change | Ignored:
    """One row, or why it is ignored. Raises EventError."""
    if value.raw("isDdl") == b"true" or value.raw("type") == b'"QUERY"':
        return _ddl(value)
    event = decode(value.text, _Event)
    op = _OPS.get(event.type)
    if op is None:
        raise EventError("unknown_op", f"`type` is {event.type[:40]!r}, which is none of INSERT, UPDATE, DELETE")
    table = named(event.database, event.table)
    if event.data is None:
        raise EventError("missing_image", f"{event.type} comes without rows in `data`")
    row = event.data[0]
    form = _form(value, row)
    now = _written(row, form)
    old = event.old[0] if event.old is not None and op == "u" else None
    after = None if op == "d" else image(now)
    before = image(now) if op == "d" else image({**now, **_written(old, form)}) if old else None
    key = some(now, event.pkNames)
    return Change(op, table, _time(event.es), "canal", None, None, None, False, key, before, after, form.schema)


def _form(value: Value, row: _Row) -> Form:
    types, codes = value.raw("mysqlType"), value.raw("sqlType")
    if types is None:
        return texts_of(tuple(sorted(row)))
    form = form_of(types, codes)
    return form if row.keys() <= form.names else form_of(types, codes, tuple(sorted(row.keys() - form.names)))


def _ddl(value: Value) -> Change | Ignored:
    event = decode(value.text, _Ddl)
    if event.type != "TRUNCATE":
        return Ignored("schema_change")
    table = named(event.database, event.table)
    return Change("t", table, _time(event.es), "canal", None, None, None, False, None, None, None, None)


class _Ddl(Struct, frozen=True):
    database: str | None = None
    table: str | None = ""
    type: str = ""
    es: Int64 | None = None


def _time(number: int | None) -> int | None:
    return None if number is None else time_in(number, 1 if abs(number) < _SECONDS else 1000, "es")


def _written(row: _Row, form: Form) -> dict[str, bytes]:
    """The values as JSON. Raises EventError bad_event."""
    found: dict[str, bytes] = {}
    for name, text in row.items():
        write = form.writes.get(name)
        try:
            found[name] = b"null" if text is None else write(text) if write else msgspec.json.encode(text)
        except ValueError as error:  # UnicodeError among them
            raise EventError("bad_event", f"`data.{name[:200]}` does not fit its `mysqlType`: {_why(error)}") from None
    return found


def _why(error: ValueError) -> str:
    return "it holds other signs than bytes" if isinstance(error, UnicodeError) else str(error)


def table_hint(value: Value) -> str | None:
    """The table that the message names."""
    return hinted(value.fields, "database", "table") if recognises(value.fields) else None


ENVELOPE = alone("this is Canal's flat JSON", read, table_hint, recognises, parts)
