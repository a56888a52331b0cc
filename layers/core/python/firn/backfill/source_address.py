"""The address of a database that a backfill reads. Pure."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

from firn.config import pull_source_reader
from firn.config.pull_source import PostgresAddress
from firn.errors import ConfigError

POSTGRES: Final = ("postgres", "postgresql")
MYSQL: Final = ("mysql", "mariadb")
_EXAMPLE: Final = "mysql://user@host:3306/database"


@dataclass(frozen=True)
class Given:
    """An address as a person gives it. `public`: the same without the password, which shows nowhere else."""

    address: PostgresAddress
    public: str
    password: str | None

    def __repr__(self) -> str:
        return f"Given({self.public})"


def scheme_of(source: str) -> str:
    """What an address begins with, "" if it is none."""
    scheme, colon, _ = source.partition("://")
    return scheme if colon else ""


def read_address(url: str) -> Given:
    """`postgres://user:password@host:port/database?sslmode=require`, or `mysql://…` the same; parts may be %-encoded.

    Raises ConfigError, whose text never holds the URL: a password may be in it.
    """
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        user = parts.netloc.rpartition("@")[0].partition(":")[0]
        public = urlunsplit((parts.scheme, f"{user}@{host}", parts.path, parts.query, ""))
        password = None if parts.password is None else unquote(parts.password)
        read = _mysql_address if parts.scheme in MYSQL else pull_source_reader.parse_address
        return Given(read(public), public, password)
    except ValueError as error:
        raise ConfigError(f"--from: the address {error}") from None


def _mysql_address(text: str) -> PostgresAddress:
    """The parts are those of PostgreSQL's, the words of sslmode too. Raises ValueError."""
    parts = urlsplit(text)
    if parts.port is None:
        parts = parts._replace(netloc=f"{parts.netloc.removesuffix(':')}:3306")
    if {"sslmode", "sslrootcert"} < parse_qs(parts.query).keys() | {"sslmode", "sslrootcert"}:
        raise ValueError("has a setting that is not read; sslmode and sslrootcert are")
    if not parts.hostname or not parts.username or not parts.path.lstrip("/"):
        raise ValueError(f"lacks a user, a host or a database; write {_EXAMPLE}")
    return pull_source_reader.parse_address(urlunsplit(parts._replace(scheme="postgres")))
