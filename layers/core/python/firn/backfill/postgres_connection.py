"""Sessions that read the tables of a PostgreSQL: the connection of sources/postgres, with COPY."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from firn.config.pull_source import PostgresAddress
from firn.errors import ConfigError
from firn.sources.postgres.connection import Connection


def url_of(address: PostgresAddress) -> str:
    """The address as `read_address` reads it."""
    root = f"&sslrootcert={quote(address.root_certificate, safe='')}" if address.root_certificate else ""
    host = f"[{address.host}]" if ":" in address.host else address.host
    user, database = quote(address.user, safe=""), quote(address.database, safe="")
    return f"postgres://{user}@{host}:{address.port}/{database}?sslmode={address.tls}{root}"


class Session:
    """One connection, in autocommit unless a transaction is begun. All raise PostgresRefused and PostgresBusy."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, sql: str, **values: Any) -> list[list[Any]]:
        """The rows of a statement; `:name` in it stands for a value."""
        return self._connection.run(sql, **values)

    def value(self, sql: str, **values: Any) -> Any:
        """The one value of a statement."""
        return self.rows(sql, **values)[0][0]

    def copy(self, sql: str, take: Callable[[bytes], None]) -> None:
        """COPY (sql) TO STDOUT: `take` is called with each row's bytes, the line feed at their end included. Two
        columns have \\x02 between them. `sql` gives texts without control characters."""
        self._connection.copy(f"COPY ({sql}) TO STDOUT (FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02')", take)


@contextmanager
def session(address: PostgresAddress, password: str | None, program: str) -> Iterator[Session]:
    """A session of its own, `program` in pg_stat_activity. Raises PostgresRefused, PostgresBusy."""
    connection = Connection(address, password, program)
    try:
        connection.run("SET row_security = off")  # an error instead of rows that a policy hides
        if connection.version >= 14:
            connection.run("SET idle_session_timeout = 0")  # it waits for commits, perhaps for long
        yield Session(connection)
    finally:
        connection.close()


def literal(text: str) -> str:
    """A string constant in SQL."""
    if "\0" in text:
        raise ConfigError("PostgreSQL takes no text with a zero byte")
    plain = text.replace("'", "''")
    return f"'{plain}'" if "\\" not in text else "E'" + plain.replace("\\", "\\\\") + "'"


def row_of(columns: Sequence[str]) -> str:
    """Columns, quoted already, as one row value."""
    return f"({', '.join(columns)})"
