"""What a MySQL or MariaDB database holds: its tables, keys and column types, read from information_schema. Nothing of
the rows is read."""

import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from firn.errors import ConfigError, TransientError
from firn_cli import source_tls
from firn_cli.mysql_types import declaration
from firn_cli.postgres_source import Address, KeyFrom, Product, Source, SourceColumn, SourceTable, no_password

SCHEMES: Final = ("mysql", "mariadb")
EXAMPLE: Final = "mysql://user:password@host:3306/database"
_TIMEOUT_SECONDS: Final = 10
# Errors that no new attempt helps against: access denied (to a server, to a database), unknown database, host blocked.
_REFUSED: Final = frozenset({1044, 1045, 1049, 1129, 1130, 1698})


def parse_mysql_address(url: str, environment_password: str | None = None) -> Address:
    """`mysql://user:password@host:port/database?sslmode=require` -> Address; parts may be %-encoded.

    Raises ConfigError, whose text never holds the URL: a password may be in it.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or 3306
    except ValueError as error:
        raise ConfigError(f"--from: the address can't be read; write {EXAMPLE}, special characters as %XX") from error
    database, sslmode = unquote(parts.path.lstrip("/")), parse_qs(parts.query).get("sslmode", ["prefer"])[-1]
    if not parts.hostname or not parts.username or not database:
        raise ConfigError(f"--from: the address needs a user, a host and a database; write {EXAMPLE}")
    if sslmode not in ("disable", "prefer", "require", "verify-full"):
        raise ConfigError("--from: sslmode is one of disable, prefer, require, verify-full")
    password = unquote(parts.password) if parts.password is not None else environment_password
    return Address(parts.hostname, port, unquote(parts.username), database, sslmode, password)


def read_mysql_source(address: Address) -> Source:
    """Connects, reads and disconnects.

    Raises ConfigError if the server refuses the user or the database or PyMySQL is not installed, TransientError if it
    can't be reached.
    """
    try:
        import pymysql
    except ImportError:
        raise ConfigError("--from: MySQL and MariaDB need PyMySQL: pip install 'firn-cdc[cli]'") from None
    where = f"{address.host}:{address.port}/{address.database}"
    try:
        connection = _connect(address)
        try:
            return _read(connection, address.database)
        finally:
            connection.close()
    except (pymysql.err.MySQLError, OSError, RuntimeError) as error:
        code, reason = _reason(error, address)
        if code in _REFUSED:
            raise ConfigError(f"--from: the server at {where} says: {reason}{advice_on(reason, address)}") from None
        raise TransientError(
            f"--from: MySQL or MariaDB at {where} can't be read ({reason}); check host, port, sslmode and that it runs"
        ) from None


def advice_on(reason: str, address: Address) -> str:
    """What to add to a refusal of the server: an anonymous account in the way, or no password. "" where nothing is."""
    # https://mariadb.com/kb/en/create-user/#anonymous-accounts
    if "user ''@" in reason:
        return f"; an anonymous account comes before {address.user}: DROP USER ''@localhost on the server"
    if address.password and f"'{address.user}'@'localhost'" in reason:
        return (
            "; the password is wrong, or an anonymous account comes before "
            f"'{address.user}'@'%': DROP USER ''@localhost on the server, if it has one"
        )
    return no_password(address) if "Access denied" in reason else ""


def _reason(error: Exception, address: Address) -> tuple[int, str]:
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = str(error.args[1] if code and len(error.args) > 1 else error)
    return code, text.replace(address.password, "***") if address.password else text


def _connect(address: Address) -> Any:
    import pymysql

    def connect(ssl_context: ssl.SSLContext | None) -> Any:
        return pymysql.connect(
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password or "",
            database=address.database,
            connect_timeout=_TIMEOUT_SECONDS,
            read_timeout=_TIMEOUT_SECONDS,
            charset="utf8mb4",
            ssl=ssl_context,
            ssl_disabled=ssl_context is None,
            program_name="firn init",
        )

    def has_no_tls(error: Exception) -> bool:
        return isinstance(error, pymysql.err.OperationalError) and error.args[:1] == (_NO_TLS,)

    return source_tls.connected(address.sslmode, connect, has_no_tls)


_NO_TLS: Final = 2026

_TABLES: Final = """
SELECT table_name FROM information_schema.tables
WHERE table_schema = %s AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY table_name
"""
_COLUMNS: Final = """
SELECT table_name, column_name, column_type, is_nullable FROM information_schema.columns
WHERE table_schema = %s ORDER BY table_name, ordinal_position
"""
# Parts of functional indexes have no column.
_INDEXES: Final = """
SELECT table_name, index_name, column_name FROM information_schema.statistics
WHERE table_schema = %s AND non_unique = 0 ORDER BY table_name, index_name <> 'PRIMARY', index_name, seq_in_index
"""
# What Debezium needs, and what sets it. Variables that the server does not have are not asked for.
_NEEDED: Final[Mapping[str, tuple[str, str]]] = {
    "log_bin": ("ON", "log_bin = binlog    # in the server's configuration; restart it"),
    "binlog_format": ("ROW", "SET GLOBAL binlog_format = 'ROW';"),
    "binlog_row_image": ("FULL", "SET GLOBAL binlog_row_image = 'FULL';"),
    "binlog_transaction_compression": ("OFF", "SET GLOBAL binlog_transaction_compression = OFF;"),
}


def _read(connection: Any, database: str) -> Source:
    def rows(sql: str) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(sql, (database,) if "%s" in sql else None)
            return list(cursor.fetchall())

    (version,) = rows("SELECT VERSION()")[0]
    columns: dict[str, list[SourceColumn]] = {}
    nullable: set[tuple[str, str | None]] = set()
    for table, name, kind, null in rows(_COLUMNS):
        columns.setdefault(table, []).append(SourceColumn(name, *declaration(kind)))
        if null == "YES":
            nullable.add((table, name))
    indexes: dict[str, dict[str, list[str | None]]] = {}
    for table, index, column in rows(_INDEXES):
        indexes.setdefault(table, {}).setdefault(index, []).append(column)
    tables = []
    for (table,) in rows(_TABLES):
        key_from, key = _key(table, indexes.get(table, {}), nullable)
        tables.append(SourceTable(database, table, key, key_from, "f", tuple(columns.get(table, ()))))
    names = ", ".join(f"'{name}'" for name in _NEEDED)
    settings = dict(rows(f"SHOW GLOBAL VARIABLES WHERE variable_name IN ({names})"))
    advice = [how for name, (word, how) in _NEEDED.items() if settings.get(name, word).upper() != word]
    product: Product = "MariaDB" if "mariadb" in version.lower() else "MySQL"
    return Source(version, "logical", tuple(tables), 0, product, tuple(advice))


def _key(
    table: str, indexes: Mapping[str, list[str | None]], nullable: set[tuple[str, str | None]]
) -> tuple[KeyFrom, tuple[str, ...]]:
    """The primary key (it comes first), else a unique key without nulls, as Debezium takes it."""
    for index, columns in indexes.items():
        named = tuple(column for column in columns if column is not None and (table, column) not in nullable)
        if len(named) == len(columns):
            return ("primary key" if index == "PRIMARY" else "unique key"), named
    return "none", ()
