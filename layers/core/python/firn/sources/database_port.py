"""What a pull asks of a database: the port that PostgreSQL stands behind, and in tests a log in memory."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

from firn.errors import TerminalError, TransientError
from firn.log.pulls import Database
from firn.sources.column_watch import NumberedColumn
from firn.sources.postgres.pgoutput import Relation
from firn.sources.postgres.type_catalog import TypeCatalog
from firn.sources.postgres.wal2json_lines import CatalogTable


class SourceStopped(TerminalError):
    """The source can't be read on without somebody's decision. The text says what to do; nothing is skipped."""


class SourceBusy(TransientError):
    """Somebody else reads this slot now."""


@dataclass(frozen=True)
class SlotState:
    """A slot as the database has it. LSNs as numbers.

    confirmed  up to where it is read; restart: from where the database decodes for it
    flushed    the end of the WAL that is safe on the database's disk
    wal_status reserved, extended, unreserved or lost; safe_bytes: how much may be written until it is lost, None: any
    """

    database: Database
    confirmed: int
    restart: int
    flushed: int
    wal_status: str = "reserved"
    safe_bytes: int | None = None


@dataclass(frozen=True)
class OpenTransaction:
    """The oldest transaction that writes: decoding begins before it. `seconds`: since it began."""

    seconds: float
    who: str


class SourceDatabase(Protocol):
    """A connection. Its methods raise TransientError, SourceStopped."""

    def look(self) -> SlotState:
        """The slot, now."""

    def peek(self, upto: int, publication: str) -> Generator[tuple[int, bytes], None, None]:
        """(LSN, message) of the transactions that the slot has up to `upto`, in the order of their commits, in bounded
        memory; what `publication` has of them. Reads only: the slot stays where it is."""

    def advance(self, upto: int) -> None:
        """Let the slot go up to `upto`. One that is further already stays."""

    def types(self, relation: Relation) -> TypeCatalog:
        """The types of a table's columns."""

    def primary_key(self, relation: Relation) -> tuple[str, ...] | None:
        """The columns of its primary key; None if it has none, or is gone."""

    def namesakes(self, relation: Relation, publication: str) -> list[tuple[str, str]]:
        """(schema, table) of the tables that `publication` has now and that are called as this one once a dot stands
        between the two: "a.b"."c" and "a"."b.c"."""

    def columns(self, relation: Relation) -> list[NumberedColumn]:
        """The columns of a table as they are now; none if it is gone."""

    def table(self, schema: str, name: str) -> CatalogTable | None:
        """What wal2json leaves out of a table; None if it is gone."""

    def without_identity(self) -> list[str]:
        """`schema.table` of the tables of which wal2json leaves updates and deletes out, without a word."""

    def oldest_transaction(self) -> OpenTransaction | None:
        """The oldest that writes, None if there is none or it is not this user's to know."""
