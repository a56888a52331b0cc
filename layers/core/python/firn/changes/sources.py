"""What each connector says in `source`: which table a change is of, and the fields that order it.

An `order` is text in the source's own words; positions.py turns it into a position at commit time:

| connector | order |
|---|---|
| postgresql | `source.sequence` as it is, else `source.lsn` |
| mysql, mariadb | `[file, pos, row]` |
| sqlserver | `[commit_lsn, change_lsn, event_serial_no]` |
| oracle | `[commit_scn, scn, rs_id, ssn]` |
| mongodb | `[ts_ms, ord]` |
| firn (firn.Producer) | `source.sequence`: `[epoch ms, counter]` |
| any other | none: the stream falls back to arrival order |

Field names from Debezium's documentation of each connector ("Data change events").
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from firn.changes.change import Int64

Int = int | None
Text = str | None


def _names(schemas: list[Text], tables: list[Text]) -> list[str]:
    """`schema.table`, or `table` where there is no schema; "" where there is no table."""
    rows = len(tables)
    if rows and schemas.count(schemas[0]) == tables.count(tables[0]) == rows:  # nearly always, and then one object
        schemas, tables = schemas[:1], tables[:1]
    names = [f"{s}.{t}" if s and t else t or "" for s, t in zip(schemas, tables, strict=True)]
    return names if len(names) == rows else names * rows


def _array(*fields: object) -> str:
    return msgspec.json.encode(fields).decode()


class Source(Struct, frozen=True, gc=False):
    """Any connector. Flattened rows and CloudEvents name the same fields differently and are read by the same rules."""

    connector: str = ""
    ts_ms: Int64 | None = None
    schema: Text = None
    table: Text = None

    @staticmethod
    def tables(sources: Sequence[Any]) -> list[str]:
        """`schema.table`, or `table` where the source names no schema; "" where it names no table."""
        return _names([s.schema for s in sources], [s.table for s in sources])

    @staticmethod
    def orders(sources: Sequence[Any]) -> list[str | None]:
        """The order text of each source, None where it has none."""
        return [None] * len(sources)


class Sequenced(Source, frozen=True, gc=False):
    """firn.Producer, whose `sequence` is `[epoch ms at its start, counter]`."""

    sequence: Text = None

    @staticmethod
    def orders(sources: Sequence[Any]) -> list[str | None]:
        """The sequence as it is."""
        return [s.sequence or None for s in sources]


class Postgres(Sequenced, frozen=True, gc=False):
    """`sequence` is `["previous commit lsn" | null, "change lsn"]`; `lsn` alone goes back between transactions."""

    lsn: Int = None

    @staticmethod
    def orders(sources: Sequence[Any]) -> list[str | None]:
        """The sequence, or the LSN of a source that sends no sequence."""
        return [s.sequence or (None if s.lsn is None else str(s.lsn)) for s in sources]


class MySql(Source, frozen=True, gc=False):
    """The binlog's file, the event's offset in it, and the row's place in the event. A database is a schema here."""

    db: Text = None
    file: Text = None
    pos: Int = None
    row: Int = None

    @staticmethod
    def tables(sources: Sequence[Any]) -> list[str]:
        """`db.table`."""
        return _names([s.db for s in sources], [s.table for s in sources])

    @staticmethod
    def orders(sources: Sequence[Any]) -> list[str | None]:
        """`[file, pos, row]`."""
        return [_array(s.file, s.pos, s.row) if s.file else None for s in sources]


class SqlServer(Source, frozen=True, gc=False):
    """LSNs are text such as 00000027:00000758:0005; a snapshot read has no change LSN and no serial number."""

    commit_lsn: Text = None
    change_lsn: Text = None
    event_serial_no: Int = None

    @staticmethod
    def orders(sources: Sequence[Any]) -> list[str | None]:
        """`[commit_lsn, change_lsn, event_serial_no]`."""
        return [_array(s.commit_lsn, s.change_lsn, s.event_serial_no) if s.commit_lsn else None for s in sources]


class Oracle(Source, frozen=True, gc=False):
    """SCNs are decimal text; `rs_id` (record set) and `ssn` (its part) tell apart the changes of one SCN."""

    commit_scn: Text = None
    scn: Text = None
    rs_id: Text = None
    ssn: Int = None

    @staticmethod
    def orders(sources: Sequence[Any]) -> list[str | None]:
        """`[commit_scn, scn, rs_id, ssn]`."""
        return [_array(s.commit_scn, s.scn, s.rs_id, s.ssn) if s.commit_scn or s.scn else None for s in sources]


class MongoDb(Source, frozen=True, gc=False):
    """A BSON timestamp: its second (as ms) and the place in that second."""

    db: Text = None
    collection: Text = None
    ord: Int = None

    @staticmethod
    def tables(sources: Sequence[Any]) -> list[str]:
        """`db.collection`."""
        return _names([s.db for s in sources], [s.collection for s in sources])

    @staticmethod
    def orders(sources: Sequence[Any]) -> list[str | None]:
        """`[ts_ms, ord]`."""
        return [_array(s.ts_ms, s.ord) if s.ts_ms is not None and s.ord is not None else None for s in sources]


SOURCES: dict[str, type[Source]] = {
    "postgresql": Postgres,
    "mysql": MySql,
    "mariadb": MySql,
    "sqlserver": SqlServer,
    "oracle": Oracle,
    "mongodb": MongoDb,
    "firn": Sequenced,
}


def frequent_type(connector: str) -> type[Source]:
    """The fields that nearly all sources of this connector need: with a sequence, PostgreSQL's LSN does not count."""
    return Sequenced if connector == "postgresql" else source_type(connector)


def source_type(connector: str) -> type[Source]:
    """The fields to read of this connector's `source`."""
    return SOURCES.get(connector, Source)
