"""Opens what a pull reads from: the connection of a source, as firn.yaml says it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from firn.auth.secrets import Secrets
from firn.config.pull_source import PullSource
from firn.sources.database_port import SourceDatabase
from firn.sources.postgres.connection import Connection, password_of
from firn.sources.postgres.slot import PostgresSlot


@contextmanager
def reader_of(source: PullSource, secrets: Secrets) -> Iterator[Callable[[], SourceDatabase]]:
    """What opens the slot of a source, with its lease. Whatever was opened is closed at the end, which frees the lease.

    The opening raises TransientError, ConfigError, SourceBusy.
    """
    opened: list[Connection] = []

    def connect() -> SourceDatabase:
        connection = connected(source, secrets)
        opened.append(connection)
        return PostgresSlot(connection, source)

    try:
        yield connect
    finally:
        for connection in opened:
            connection.close()


def connected(source: PullSource, secrets: Secrets) -> Connection:
    """A connection to the database of a source. Raises TransientError, ConfigError."""
    password = password_of(source.address, source.secret, source.iam, secrets)
    return Connection(source.address, password, f"firn pull {source.name}")
