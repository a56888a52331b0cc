"""What each connector says in `source`: which table a change is of, and the fields that order it.

An `order` is text in the source's own words; positions.py turns it into a position at commit time:

| connector | order |
|---|---|
| postgresql | `source.sequence` as it is, else `source.lsn` |
| mysql, mariadb | `[file, pos, row]` |
| sqlserver | `[commit_lsn, change_lsn, event_serial_no]`, and `command_id` where a source tells it |
| oracle | `[commit_scn, scn, rs_id, ssn]`, and `lcr_position` of XStream |
| mongodb | `[ts_ms, ord]` of a cluster time; more in a transaction, or for a wall clock: see `MongoDb` |
| db2, informix | `[commit_lsn, change_lsn]` |
| vitess | `[transaction_epoch, transaction_rank, total_order]` of ordered transaction metadata; none without it |
| spanner | `[commit timestamp in ns, record sequence, mod_number]` |
| firn (firn.Producer) | `source.sequence`: `[epoch ms, counter]` |
| any other | none: the stream falls back to arrival order |

Field names from Debezium's documentation of each connector ("Data change events") and its SourceInfo. What each
connector leaves open stands in docs/guarantees.md.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from firn.changes.change import Time

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
    ts_ms: Time | None = None
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
    """LSNs are text such as 00000027:00000758:0005; a snapshot read has no change LSN and no serial number.

    Microsoft orders the changes of a transaction by `__$command_id` before `__$seqval`, which is the change LSN.
    Debezium does not tell the command.
    """

    commit_lsn: Text = None
    change_lsn: Text = None
    event_serial_no: int | str | None = None  # a number; in Debezium's documents its digits
    command_id: Int = None

    @staticmethod
    def orders(sources: Sequence[Any]) -> list[str | None]:
        """`[commit_lsn, change_lsn, event_serial_no]`, and `command_id` if it is told."""
        return [
            _array(s.commit_lsn, s.change_lsn, s.event_serial_no, *([] if s.command_id is None else [s.command_id]))
            if s.commit_lsn
            else None
            for s in sources
        ]


class Oracle(Source, frozen=True, gc=False):
    """SCNs are decimal text; `rs_id` (record set) and `ssn` (its part) tell apart the changes of one SCN that LogMiner
    read, `lcr_position` (hexadecimal) those of XStream."""

    commit_scn: Text = None
    scn: Text = None
    rs_id: Text = None
    ssn: Int = None
    lcr_position: Text = None

    @staticmethod
    def orders(sources: Sequence[Any]) -> list[str | None]:
        """`[commit_scn, scn, rs_id, ssn]`, and `lcr_position` if there is one."""
        return [
            _array(s.commit_scn, s.scn, s.rs_id, s.ssn, *([s.lcr_position] if s.lcr_position else []))
            if s.commit_scn or s.scn or s.lcr_position
            else None
            for s in sources
        ]


class CommitLsn(Source, frozen=True, gc=False):
    """Db2 and Informix: the log position of the commit, and of the change. A snapshot read has no change LSN."""

    commit_lsn: Text = None
    change_lsn: Text = None

    @staticmethod
    def orders(sources: Sequence[Any]) -> list[str | None]:
        """`[commit_lsn, change_lsn]`."""
        return [_array(s.commit_lsn, s.change_lsn) if s.commit_lsn else None for s in sources]


Told = Callable[[], Sequence[int | None]]


def _nothing() -> Sequence[Any]:
    return ()


Ranks = Callable[[], Sequence[tuple[int | None, int | str | None]]]
"""Epoch and rank of each event's transaction: a rank is a number, or Connect's decimal in base64."""


class Vitess(Source, frozen=True, gc=False):
    """A keyspace is a schema here. The VGTID in `source` does not compare across shards: what orders the changes of a
    row is the transaction's epoch, its rank and the number in it, with `transaction.metadata.factory` set to
    VitessOrderedTransactionMetadataFactory."""

    keyspace: Text = None
    vgtid: Text = None

    @staticmethod
    def tables(sources: Sequence[Any]) -> list[str]:
        """`keyspace.table`."""
        return _names([s.keyspace or s.schema for s in sources], [s.table for s in sources])

    @staticmethod
    def orders(sources: Sequence[Any], ranks: Ranks = _nothing, numbers: Told = _nothing) -> list[str | None]:
        """`[transaction_epoch, transaction_rank, total_order]`, None where the event does not tell them."""
        nothing = [None] * len(sources)
        each = zip(ranks() or [(None, None)] * len(sources), numbers() or nothing, strict=True)
        return [
            None if epoch is None or rank is None else _array(epoch, rank, number) for (epoch, rank), number in each
        ]


class Spanner(Source, frozen=True, gc=False):
    """`ts_ns` is the commit timestamp: those of one row rise strictly. In a transaction the record sequence (Debezium's
    `sequence`) rises, across partitions too; `mod_number` counts the rows of a record."""

    sequence: Text = None
    mod_number: Int = None
    value_capture_type: Text = None
    ts_us: Int = None
    ts_ns: Int = None

    @staticmethod
    def orders(sources: Sequence[Any]) -> list[str | None]:
        """`[commit timestamp in ns, record sequence, mod_number]`."""
        return [_spanner_order(source) for source in sources]


def _spanner_order(source: Spanner) -> str | None:
    time = source.ts_ns
    if time is None and source.ts_us is not None:
        time = source.ts_us * 1_000
    if time is None and source.ts_ms is not None:
        time = source.ts_ms * 1_000_000
    return None if time is None or source.sequence is None else _array(time, source.sequence, source.mod_number or 0)


class MongoDb(Source, frozen=True, gc=False):
    """A cluster time (a BSON timestamp): its second (as ms) and the place in that second, `ord`. Cluster times rise
    through failovers, whatever the servers' clocks say.

    All events of a transaction have one cluster time: `[ts_ms, ord, made, number]` says when the connector made the
    event (ns) and its number in the transaction. From 3.4 on Debezium gives the server's wall clock as `ts_ms` where
    the server tells it, and the cluster time's second nowhere: `[ts_ms, ord, made]`. The connector makes events in the
    order of the change stream.
    """

    db: Text = None
    collection: Text = None
    ord: Int = None
    wallTime: Int = None
    txnNumber: Int = None
    version: Text = None

    @staticmethod
    def tables(sources: Sequence[Any]) -> list[str]:
        """`db.collection`."""
        return _names([s.db for s in sources], [s.collection for s in sources])

    @staticmethod
    def orders(sources: Sequence[Any], made: Told = _nothing, numbers: Told = _nothing) -> list[str | None]:
        """As the class says. `made`: when the connector made each event, ns; `numbers`: `transaction.total_order`."""
        nothing = [None] * len(sources)
        each = zip(sources, made() or nothing, numbers() or nothing, strict=True)
        return [_mongodb_order(source, at, number) for source, at, number in each]


def _mongodb_order(source: MongoDb, made: int | None, number: int | None) -> str | None:
    if source.ts_ms is None or source.ord is None:
        return None
    if _by_wall_clock(source, source.ts_ms):
        return _array(source.ts_ms, source.ord, made)
    in_transaction = source.txnNumber is not None or number is not None
    return _array(source.ts_ms, source.ord, *([made, number] if in_transaction else []))


def _by_wall_clock(source: MongoDb, time: int) -> bool:
    """Whether `ts_ms` is not the cluster time's. `ord` is negative in snapshots that know no cluster time."""
    if source.ord is None or source.ord < 0:
        return False
    found = re.match(r"([0-9]{1,9})\.([0-9]{1,9})\.", source.version or "")
    said = found is None or (int(found[1]), int(found[2])) >= _WALL_CLOCK_SINCE
    return time % 1000 != 0 or (said and source.wallTime == time)


_WALL_CLOCK_SINCE = (3, 4)

SOURCES: dict[str, type[Source]] = {
    "postgresql": Postgres,
    "mysql": MySql,
    "mariadb": MySql,
    "sqlserver": SqlServer,
    "oracle": Oracle,
    "mongodb": MongoDb,
    "db2": CommitLsn,
    "informix": CommitLsn,
    "vitess": Vitess,
    "spanner": Spanner,
    "firn": Sequenced,
}


SCHEMAS: dict[type[Source], str] = {MySql: "db", MongoDb: "db", Vitess: "keyspace"}
"""The field that names the schema, of connectors that say it elsewhere than in `schema`."""


def orders_of(
    kind: type[Source], sources: Sequence[Any], made: Told, numbers: Told, ranks: Ranks = _nothing
) -> list[str | None]:
    """`kind.orders`, with what only some connectors' orders are made of: asked for only if it is needed."""
    if issubclass(kind, MongoDb):
        return MongoDb.orders(sources, made, numbers)
    return Vitess.orders(sources, ranks, numbers) if issubclass(kind, Vitess) else kind.orders(sources)


def table_of(fields: Mapping[str, Raw], spelled: Callable[[str], str] = str) -> str | None:
    """The table that a broken event names, each name read on its own; None if none is there to be read. `spelled`: what
    a field of `source` is called among `fields`."""

    def name(field: str) -> str | None:
        raw = fields.get(spelled(field))
        try:
            return None if raw is None else msgspec.json.decode(raw, type=str | None)
        except (msgspec.MsgspecError, UnicodeError):
            return None

    kind = source_type(name("connector") or "")
    table = name("collection" if kind is MongoDb else "table")
    schema = name(SCHEMAS.get(kind, "schema"))
    return f"{schema}.{table}" if schema and table else table or None


def frequent_type(connector: str) -> type[Source]:
    """The fields that nearly all sources of this connector need: with a sequence, PostgreSQL's LSN does not count."""
    return Sequenced if connector == "postgresql" else source_type(connector)


def source_type(connector: str) -> type[Source]:
    """The fields to read of this connector's `source`."""
    return SOURCES.get(connector, Source)
