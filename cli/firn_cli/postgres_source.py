"""What a PostgreSQL database holds: its tables, keys and column types, read through the catalogs in one read-only
transaction. Nothing of the rows is read."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from firn.errors import ConfigError, TransientError
from firn_cli import source_tls

KeyFrom = Literal["primary key", "replica identity index", "unique key", "none"]
Product = Literal["PostgreSQL", "MySQL", "MariaDB"]
_EXAMPLE: Final = "postgres://user:password@host:5432/database"
_TIMEOUT_SECONDS: Final = 10


@dataclass(frozen=True)
class Address:
    """Where the database is. The password shows in no repr and is written nowhere."""

    host: str
    port: int
    user: str
    database: str
    sslmode: str = "prefer"
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class SourceColumn:
    """`declared`: the type for `columns:` in firn.yaml, None where plain JSON needs no declaration."""

    name: str
    declared: str | None
    note: str | None = None


@dataclass(frozen=True)
class SourceTable:
    """`identity` is PostgreSQL's letter for the replica identity: d default, f full, i index, n nothing. `schema`: of
    MySQL the database."""

    schema: str
    name: str
    key: tuple[str, ...]
    key_from: KeyFrom
    identity: str
    columns: tuple[SourceColumn, ...]
    partitioned: bool = False


@dataclass(frozen=True)
class Source:
    """One database. `unreadable` counts the tables that the user may not SELECT from; `advice`: what to run or write
    before Debezium starts."""

    version: str
    wal_level: str
    tables: tuple[SourceTable, ...]
    unreadable: int
    product: Product = "PostgreSQL"
    advice: tuple[str, ...] = ()


def parse_address(url: str, environment_password: str | None = None) -> Address:
    """`postgres://user:password@host:port/database?sslmode=require` -> Address; parts may be %-encoded.

    Raises ConfigError, whose text never holds the URL: a password may be in it.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or 5432
    except ValueError as error:
        raise ConfigError(f"--from: the address can't be read; write {_EXAMPLE}, special characters as %XX") from error
    if parts.scheme not in ("postgres", "postgresql"):
        raise ConfigError(f"--from: what is read is PostgreSQL, MySQL or MariaDB; write {_EXAMPLE}, or mysql://…")
    database, sslmode = unquote(parts.path.lstrip("/")), parse_qs(parts.query).get("sslmode", ["prefer"])[-1]
    if not parts.hostname or not parts.username or not database:
        raise ConfigError(f"--from: the address needs a user, a host and a database; write {_EXAMPLE}")
    if sslmode not in ("disable", "prefer", "require", "verify-full"):
        raise ConfigError("--from: sslmode is one of disable, prefer, require, verify-full")
    password = unquote(parts.password) if parts.password is not None else environment_password
    return Address(parts.hostname, port, unquote(parts.username), database, sslmode, password)


def read_source(address: Address) -> Source:
    """Connects, reads and disconnects.

    Raises ConfigError if PostgreSQL refuses the user or the database, TransientError if it can't be reached.
    """
    from pg8000.exceptions import DatabaseError, InterfaceError

    where = f"{address.host}:{address.port}/{address.database}"
    try:
        connection = _connect(address)
        try:
            connection.run("START TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            return _read(connection)
        finally:
            connection.close()
    except DatabaseError as error:
        reason = error.args[0].get("M", "") if error.args and isinstance(error.args[0], dict) else str(error)
        raise ConfigError(f"--from: PostgreSQL at {where} says: {reason}{no_password(address)}") from None
    except (InterfaceError, OSError) as error:
        reason = _without_password(str(error), address)
        raise TransientError(
            f"--from: PostgreSQL at {where} can't be reached ({reason}); check host, port, sslmode and that it runs"
        ) from None


def no_password(address: Address) -> str:
    """What to add to a refusal, if no password was given."""
    return "" if address.password else "; no password was given: export FIRN_SOURCE_PASSWORD=…"


def _without_password(text: str, address: Address) -> str:
    return text.replace(address.password, "***") if address.password else text


def _connect(address: Address) -> Any:
    from pg8000.exceptions import InterfaceError
    from pg8000.native import Connection

    def connect(ssl_context: ssl.SSLContext | None) -> Any:
        return Connection(
            address.user,
            host=address.host,
            port=address.port,
            database=address.database,
            password=address.password or "",  # without any, pg8000 fails by itself before the server refuses
            timeout=_TIMEOUT_SECONDS,
            ssl_context=ssl_context,
            application_name="firn init",
        )

    return source_tls.connected(address.sslmode, connect, lambda error: isinstance(error, InterfaceError))


# Tables whose changes logical replication sends: ordinary and partitioned ones that are logged, are no partition
# themselves (their changes come under the parent's name) and belong to no extension.
_TABLES: Final = """
SELECT c.oid, n.nspname, c.relname, c.relkind = 'p', c.relreplident::text,
       has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE')
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition
  AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
                  WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
ORDER BY n.nspname, c.relname
"""

# Only the columns that make the key (indnkeyatts): an index may INCLUDE more.
_KEYS: Final = """
SELECT i.indrelid, i.indisprimary, i.indisreplident, array_agg(a.attname::text ORDER BY k.place)
FROM pg_catalog.pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE (i.indisprimary OR i.indisreplident) AND k.place <= i.indnkeyatts
GROUP BY i.indexrelid, i.indrelid, i.indisprimary, i.indisreplident
"""

_COLUMNS: Final = """
SELECT a.attrelid, a.attname, a.atttypid, a.atttypmod, a.attgenerated <> ''
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p') AND NOT c.relispartition
ORDER BY a.attrelid, a.attnum
"""

_TYPES: Final = """
SELECT oid, typname, typtype::text, typbasetype, typtypmod, CASE WHEN typcategory = 'A' THEN typelem ELSE 0 END
FROM pg_catalog.pg_type WHERE typtype IN ('b', 'd', 'e')
"""


def _read(connection: Any) -> Source:
    from firn_cli.postgres_types import PgType, declaration

    types = {row[0]: PgType(*row[1:]) for row in connection.run(_TYPES)}
    keys: dict[int, dict[KeyFrom, tuple[str, ...]]] = {}
    for table, primary, replica, columns in connection.run(_KEYS):
        if primary:
            keys.setdefault(table, {})["primary key"] = tuple(columns)
        if replica:
            keys.setdefault(table, {})["replica identity index"] = tuple(columns)
    columns_of: dict[int, list[SourceColumn]] = {}
    for table, name, type_oid, modifier, generated in connection.run(_COLUMNS):
        declared, note = declaration(types, type_oid, modifier)
        if generated:
            note = "generated: comes with the snapshot, not with later changes"
        columns_of.setdefault(table, []).append(SourceColumn(name, declared, note))
    tables, unreadable = [], 0
    for oid, schema, name, partitioned, identity, readable in connection.run(_TABLES):
        if not readable:
            unreadable += 1
            continue
        key_from, key = _key(keys.get(oid, {}), identity)
        columns = tuple(columns_of.get(oid, ()))
        tables.append(SourceTable(schema, name, key, key_from, identity, columns, partitioned))
    (version,), (wal_level,) = connection.run("SHOW server_version")[0], connection.run("SHOW wal_level")[0]
    return Source(version, wal_level, tuple(tables), unreadable)


def _key(keys: Mapping[KeyFrom, tuple[str, ...]], identity: str) -> tuple[KeyFrom, tuple[str, ...]]:
    # With REPLICA IDENTITY USING INDEX a delete carries that index's columns and no others: the primary key would be
    # null in it, so the index is the key even where there is a primary key too.
    order: tuple[KeyFrom, ...] = ("primary key", "replica identity index")
    for key_from in reversed(order) if identity == "i" else order:
        if key_from in keys:
            return key_from, keys[key_from]
    return "none", ()
