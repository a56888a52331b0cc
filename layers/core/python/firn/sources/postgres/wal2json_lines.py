"""The lines of wal2json's format 2 as pgoutput's messages, so that one reader makes rows of both. Pure, but for what a
table is looked up by, which comes in as a function.

wal2json says less than pgoutput: no replica identity, no table behind a partition, generated columns like others, and
of a value that an update left where it was (TOAST) nothing at all. That is looked up in the database's catalog.
https://github.com/eulerto/wal2json (README, "Parameters"; wal2json.c)
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from firn.sources.postgres.pgoutput import (
    Begin,
    Commit,
    Delete,
    Insert,
    Message,
    Other,
    Relation,
    Skipped,
    Truncate,
    UnreadableMessage,
    Update,
)
from firn.sources.postgres.row_form import UNCHANGED, SourceColumn, Value

OPTIONS: Final = {
    "format-version": "2",
    "include-lsn": "true",
    "include-timestamp": "true",
    "include-xids": "true",
    "include-types": "true",
    "include-typmod": "true",
    "include-type-oids": "true",
    "include-pk": "true",
    "include-transaction": "true",
}
EXACT_NUMBERS: Final = "numeric-data-types-as-string"  # from wal2json 2.6; before, NaN and Infinity come as null
_BYTEA: Final = 17
_MODIFIER: Final = re.compile(r"(numeric|bit varying|bit)\((\d+)(?:,(-?\d+))?\)(?:\[\])*")
_NO_TEXT: Final = b"\xff"  # what is not UTF-8 stays so: its row is a dead letter


@dataclass(frozen=True)
class CatalogColumn:
    """A column as the catalog has it now. `sent`: whether pgoutput would send it (a generated one before 18 it does
    not); `large`: whether its values may lie out of line; `key`: whether it is in the replica identity."""

    name: str
    oid: int
    modifier: int
    sent: bool
    large: bool
    key: bool


@dataclass(frozen=True)
class CatalogTable:
    """A table as the catalog has it now. `schema`, `table`: the names that changes of it go by, for a partition those
    of its root; `identity`: PostgreSQL's letter."""

    oid: int
    schema: str
    table: str
    partition: bool
    identity: str
    columns: tuple[CatalogColumn, ...]


Catalog = Callable[[str, str], CatalogTable | None]  # (schema, table) -> None if it is gone


class _Column(msgspec.Struct):
    name: str
    type: str = ""
    typeoid: int = 0
    value: msgspec.Raw = msgspec.Raw(b"null")


class _Line(msgspec.Struct):
    action: str
    xid: int = 0
    timestamp: str = ""
    lsn: str = "0/0"
    nextlsn: str = "0/0"
    schema: str = ""
    table: str = ""
    columns: list[_Column] = []
    identity: list[_Column] = []
    pk: list[_Column] = []


_decode: Final = msgspec.json.Decoder(_Line).decode


class LineReader:
    """Lines of one reading, in their order. `wants`: whether changes of `schema.table` are taken."""

    def __init__(self, catalog: Catalog, wants: Callable[[str], bool]) -> None:
        self._catalog, self._wants = catalog, wants
        self._tables: dict[tuple[str, str], CatalogTable | None] = {}
        self._told: dict[int, Relation] = {}
        self._gone: dict[tuple[str, str], int] = {}  # numbers in place of OIDs, for tables that are gone

    def messages(self, rows: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes, Message]]:
        """(LSN, line) -> (LSN, line, message), with a Relation before the first change of each version of a table.

        Raises UnreadableMessage.
        """
        for lsn, data in rows:
            try:
                line = _decode(data)
            except (msgspec.MsgspecError, UnicodeError) as error:
                raise UnreadableMessage(f"a line of wal2json can't be read ({error}): is it format 2?") from None
            for message in self._of(line):
                yield lsn, data, message

    def _of(self, line: _Line) -> Iterator[Message]:
        match line.action:
            case "B":
                yield Begin(_lsn(line.lsn), _millis(line.timestamp), line.xid)
            case "C":
                yield Commit(_lsn(line.lsn), _lsn(line.nextlsn), _millis(line.timestamp))
            case "I" | "U" | "D" | "T":
                yield from self._change(line)
            case "M":
                yield Other("M")
            case other:
                raise UnreadableMessage(f"wal2json sent the action {other[:20]!r}, which this version does not know")

    def _change(self, line: _Line) -> Iterator[Message]:
        known = self._table(line.schema, line.table)
        schema, table = (line.schema, line.table) if known is None else (known.schema, known.table)
        if not self._wants(f"{schema}.{table}"):
            yield Skipped(f"{schema}.{table}", "filtered_table")
            return
        if line.action == "T":
            if known is not None and known.partition:  # pgoutput does not send it either; of the root there is a line
                yield Skipped(f"{schema}.{table}", "truncated_partition")
                return
            relation = self._relation(line, known, schema, table)
            yield from self._new(relation)
            yield Truncate((relation.oid,))
            return
        relation = self._relation(line, known, schema, table)
        yield from self._new(relation)
        if line.action == "I":
            yield Insert(relation.oid, _values(relation, line.columns, UNCHANGED))
            return
        whole = relation.identity == "f"
        old = _values(relation, line.identity, None)
        if line.action == "D":
            yield Delete(relation.oid, old, not whole)
            return
        new = _values(relation, line.columns, UNCHANGED)
        yield Update(relation.oid, old, not whole, new)

    def _table(self, schema: str, table: str) -> CatalogTable | None:
        if (schema, table) not in self._tables:
            self._tables[schema, table] = self._catalog(schema, table)
        return self._tables[schema, table]

    def _new(self, relation: Relation) -> Iterator[Relation]:
        if self._told.get(relation.oid) != relation:
            self._told[relation.oid] = relation
            yield relation

    def _relation(self, line: _Line, known: CatalogTable | None, schema: str, table: str) -> Relation:
        """The table as the line has it: its columns, and what only the catalog knows of it."""
        now = {} if known is None else {one.name: one for one in known.columns}
        oid = known.oid if known is not None else self._gone.setdefault((schema, table), 2**32 + len(self._gone))
        before = self._told.get(oid)
        columns = [_column(one) for one in line.columns if one.name not in now or now[one.name].sent]
        names = {one.name for one in columns}
        if line.action == "U":
            # What is not there was not sent, or is not there any more, which the catalog says.
            missing = [one for one in now.values() if one.sent and one.large and one.name not in names]
            columns += [SourceColumn(one.name, one.oid, one.modifier) for one in missing]
        elif line.action in ("D", "T"):
            own = [_column(one) for one in line.identity]
            if before is not None and {*own} <= {*before.columns}:
                columns = list(before.columns)
            else:
                mine = {one.name: one for one in own}
                columns = [
                    mine.pop(one.name, SourceColumn(one.name, one.oid, one.modifier))
                    for one in now.values()
                    if one.sent
                ]
                columns += mine.values()
        places = {name: place for place, name in enumerate(now)}
        columns.sort(key=lambda one: places.get(one.name, len(places)))
        identity = "d" if known is None else known.identity
        keys = {one.name for one in line.identity or line.pk}
        if identity == "i" and not line.identity:
            keys = {one.name for one in now.values() if one.key}
        if line.action == "T" and before is not None:
            keys = {before.columns[place].name for place in before.key}
        key = [place for place, one in enumerate(columns) if identity == "f" or one.name in keys]
        return Relation(oid, schema, table, identity, tuple(columns), tuple(key))


def _column(one: _Column) -> SourceColumn:
    return SourceColumn(one.name, one.typeoid, _modifier(one.type))


def _modifier(text: str) -> int:
    """pg_attribute's modifier of a type's name, of those types for which it matters: numeric(10,2), bit(4)."""
    found = _MODIFIER.fullmatch(text)
    if found is None:
        return -1
    if found[1] == "numeric":
        return (int(found[2]) << 16 | int(found[3] or 0) & 0x7FF) + 4
    return int(found[2])


def _values(relation: Relation, said: Sequence[_Column], lacking: Value) -> tuple[Value, ...]:
    found = {one.name: _text(one) for one in said}
    return tuple(found.get(column.name, lacking) for column in relation.columns)


def _text(one: _Column) -> bytes | None:
    """The text of PostgreSQL's output function: a line has numbers and booleans as JSON, bytea without its mark."""
    raw = bytes(one.value)
    if raw == b"null":
        return None
    if raw in (b"true", b"false"):
        return raw[:1]
    if raw[:1] != b'"':
        return raw
    try:
        text: bytes = msgspec.json.decode(raw, type=str).encode()
    except (msgspec.MsgspecError, UnicodeError):
        return _NO_TEXT
    return b"\\x" + text if one.typeoid == _BYTEA else text


def _lsn(text: str) -> int:
    high, _, low = text.partition("/")
    try:
        return int(high, 16) << 32 | int(low, 16)
    except ValueError:
        raise UnreadableMessage(f"wal2json wrote {text[:40]!r} for a position") from None


def _millis(text: str) -> int:
    """`2026-03-01 12:00:00.123456+00`, as the session's time zone UTC has it, in ms since 1970."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UnreadableMessage(
            f"wal2json wrote {text[:40]!r} for a time: the session's DateStyle is not ISO"
        ) from None
    return (int(at.replace(microsecond=0).timestamp()) * 1_000_000 + at.microsecond) // 1000
