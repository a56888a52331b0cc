"""Connections to a PostgreSQL that is read: addresses, TLS, the session's settings, and COPY."""

import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

from firn.errors import ConfigError, TransientError
from firn.sources.postgres.value_texts import SESSION

_EXAMPLE: Final = "postgres://user@host:5432/database"
_CONNECT_SECONDS: Final = 10
SSL_MODES: Final = ("disable", "prefer", "require", "verify-full")


@dataclass(frozen=True)
class Address:
    """Where the database is. The password shows in no repr and is written nowhere."""

    host: str
    port: int
    user: str
    database: str
    sslmode: str = "prefer"
    password: str | None = field(default=None, repr=False)

    @property
    def public(self) -> str:
        """The address without its password."""
        user, database = quote(self.user, safe=""), quote(self.database, safe="")
        return f"postgres://{user}@{self.host}:{self.port}/{database}?sslmode={self.sslmode}"

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return f"{self.host}:{self.port}/{self.database}"


def parse_address(url: str) -> Address:
    """`postgres://user:password@host:port/database?sslmode=require`; parts may be %-encoded.

    Raises ConfigError, whose text never holds the URL: a password may be in it.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or 5432
    except ValueError:
        raise ConfigError(f"--from: the address can't be read; write {_EXAMPLE}, special characters as %XX") from None
    if parts.scheme not in ("postgres", "postgresql"):
        raise ConfigError(f"--from: it is no address of PostgreSQL; write {_EXAMPLE}")
    database, mode = unquote(parts.path.lstrip("/")), parse_qs(parts.query).get("sslmode", ["prefer"])[-1]
    if not parts.hostname or not parts.username or not database:
        raise ConfigError(f"--from: the address needs a user, a host and a database; write {_EXAMPLE}")
    if mode not in SSL_MODES:
        raise ConfigError(f"--from: sslmode is one of {', '.join(SSL_MODES)}")
    password = unquote(parts.password) if parts.password is not None else None
    return Address(parts.hostname, port, unquote(parts.username), database, mode, password)


class Session:
    """One connection, in autocommit unless a transaction is begun."""

    def __init__(self, connection: Any, place: str) -> None:
        self._connection, self._place = connection, place

    def rows(self, sql: str, **values: Any) -> list[list[Any]]:
        """The rows of a statement; `:name` in it stands for a value. Raises ConfigError, TransientError."""
        with _told(self._place):
            found: list[list[Any]] | None = self._connection.run(sql, **values)
            return found or []

    def value(self, sql: str, **values: Any) -> Any:
        """The one value of a statement."""
        return self.rows(sql, **values)[0][0]

    def copy(self, sql: str, take: Callable[[bytes], None]) -> None:
        """COPY (sql) TO STDOUT: `take` is called with each row's bytes, the line feed at their end included. Two
        columns have \\x02 between them. `sql` gives texts without control characters. Raises as `rows`."""
        with _told(self._place):
            self._connection.run(
                f"COPY ({sql}) TO STDOUT (FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02')", stream=_Taking(take)
            )

    def close(self) -> None:
        """Ends it, whatever state it is in."""
        from contextlib import suppress

        with suppress(Exception):
            self._connection.close()


@dataclass(frozen=True)
class _Taking:
    """What the driver takes for a file."""

    write: Callable[[bytes], None]


@contextmanager
def session(address: Address, program: str) -> Iterator[Session]:
    """A session whose texts are of one form (value_texts.SESSION). Raises ConfigError if PostgreSQL refuses the user or
    the database, TransientError if it can't be reached."""
    with _told(address.place):
        opened = Session(_connect(address, program), address.place)
    try:
        for name, value in SESSION.items():
            opened.rows(f"SET {name} TO '{value}'")
        opened.rows("SET statement_timeout TO 0")  # a chunk takes what it takes
        yield opened
    finally:
        opened.close()


def _connect(address: Address, program: str) -> Any:
    from pg8000.exceptions import InterfaceError
    from pg8000.native import Connection

    def connect(context: ssl.SSLContext | None) -> Any:
        opened = Connection(
            address.user,
            host=address.host,
            port=address.port,
            database=address.database,
            password=address.password,
            timeout=_CONNECT_SECONDS,
            ssl_context=context,
            application_name=program,
        )
        opened._usock.settimeout(None)  # a chunk may take the server long before its first row
        return opened

    if address.sslmode == "disable":
        return connect(None)
    context = ssl.create_default_context()
    if address.sslmode != "verify-full":
        # What sslmode require and prefer mean to libpq: encrypted, whoever it is.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        return connect(context)
    except InterfaceError:
        # The server takes no TLS.
        if address.sslmode != "prefer":
            raise
        return connect(None)


# SQLSTATE classes of what passes: connections, resources, the operator's doing, a conflict of transactions.
_PASSING: Final = ("08", "53", "57", "40", "55")


@contextmanager
def _told(place: str) -> Iterator[None]:
    """The driver's errors as Firn's, without what a row held: PostgreSQL's detail may quote it."""
    from pg8000.exceptions import DatabaseError, InterfaceError

    try:
        yield
    except DatabaseError as error:
        said = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
        code, text = str(said.get("C", "")), str(said.get("M", type(error).__name__))[:500]
        if code[:2] in _PASSING:
            raise TransientError(f"PostgreSQL at {place} says: {text} ({code})") from None
        raise ConfigError(f"PostgreSQL at {place} says: {text} ({code})") from None
    except (InterfaceError, OSError) as error:
        raise TransientError(
            f"PostgreSQL at {place} can't be reached ({type(error).__name__}); check host, port and "
            "sslmode, and whether it runs"
        ) from None


def literal(text: str) -> str:
    """A string constant in SQL."""
    if "\0" in text:
        raise ConfigError("PostgreSQL takes no text with a zero byte")
    return "'" + text.replace("'", "''") + "'" if "\\" not in text else _escaped(text)


def _escaped(text: str) -> str:
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def row_of(columns: Sequence[str]) -> str:
    """Columns, quoted already, as one row value."""
    return f"({', '.join(columns)})"
