"""A database's log in memory, as the port of a pull sees it: transactions, a slot, and pgoutput's bytes for them."""

import struct
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from firn.log.pulls import Database
from firn.sources.column_watch import NumberedColumn
from firn.sources.database_port import OpenTransaction, SlotState
from firn.sources.postgres.pgoutput import Relation
from firn.sources.postgres.row_form import UNCHANGED, SourceColumn
from firn.sources.postgres.type_catalog import TypeCatalog
from firn.sources.postgres.wal2json_lines import CatalogTable

MICROS_OF_2026 = 820_454_400_000_000


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def row(values) -> bytes:
    """A tuple of pgoutput's."""
    parts = [struct.pack(">h", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif value is UNCHANGED:
            parts.append(b"u")
        else:
            parts.append(b"t" + struct.pack(">i", len(value)) + value)
    return b"".join(parts)


def begin(commit_lsn: int, xid: int = 1, micros: int = MICROS_OF_2026) -> bytes:
    return b"B" + struct.pack(">qqi", commit_lsn, micros, xid)


def commit(commit_lsn: int, end_lsn: int, micros: int = MICROS_OF_2026) -> bytes:
    return b"C" + struct.pack(">bqqq", 0, commit_lsn, end_lsn, micros)


def relation(one: Relation) -> bytes:
    columns = b"".join(
        struct.pack(">b", place in one.key) + text(column.name) + struct.pack(">Ii", column.oid, column.modifier)
        for place, column in enumerate(one.columns)
    )
    head = struct.pack(">I", one.oid) + text(one.schema) + text(one.table) + one.identity.encode()
    return b"R" + head + struct.pack(">h", len(one.columns)) + columns


def insert(oid: int, new) -> bytes:
    return b"I" + struct.pack(">I", oid) + b"N" + row(new)


def update(oid: int, new, old=None, mark: bytes = b"K") -> bytes:
    return b"U" + struct.pack(">I", oid) + (b"" if old is None else mark + row(old)) + b"N" + row(new)


def delete(oid: int, old, mark: bytes = b"K") -> bytes:
    return b"D" + struct.pack(">I", oid) + mark + row(old)


def truncate(*oids: int) -> bytes:
    return b"T" + struct.pack(f">ib{len(oids)}I", len(oids), 0, *oids)


ITEMS = Relation(16384, "public", "items", "d", (SourceColumn("id", 23), SourceColumn("v", 25)), (0,))


DATABASE = Database("7000", 1, "firn_shop")


@dataclass(frozen=True)
class Transaction:
    commit_lsn: int
    end_lsn: int
    messages: tuple[tuple[int, bytes], ...]


@dataclass
class Wal:
    """`step` is called before and after whatever changes the slot, and before each row: a test dies there."""

    transactions: list[Transaction] = field(default_factory=list)
    end: int = 1000
    confirmed: int = 1000
    restart: int = 1000
    persisted: int = 1000
    database: Database = DATABASE
    tables: dict[int, Relation] = field(default_factory=lambda: {ITEMS.oid: ITEMS})
    step: Callable[[str], None] = lambda _: None
    peeked: int = 0
    published: dict[str, set[int]] | None = None  # the OIDs of each publication's tables, None: all in each
    catalog: dict[tuple[str, str], CatalogTable] = field(default_factory=dict)
    numbered: list[NumberedColumn] = field(default_factory=lambda: [NumberedColumn(1, "id"), NumberedColumn(2, "v")])

    def commit(self, *messages: bytes) -> None:
        """A transaction with these changes."""
        placed = []
        for message in messages:
            self.end += len(message) + 24
            placed.append((self.end - len(message), message))
        commit_lsn, self.end = self.end, self.end + 48
        self.transactions.append(Transaction(commit_lsn, self.end, tuple(placed)))

    def noise(self, size: int) -> None:
        """WAL without a change for the slot."""
        self.end += size

    def crash(self) -> None:
        """The database forgets what of the slot it had not written yet."""
        self.confirmed = self.persisted

    def look(self) -> SlotState:
        return SlotState(self.database, self.confirmed, self.restart, self.end)

    def peek(self, upto: int, publication: str) -> Generator[tuple[int, bytes], None, None]:
        self.peeked += 1
        mine = None if self.published is None else self.published[publication]
        told: set[int] = set()
        for one in self.transactions:
            if one.commit_lsn < self.confirmed or one.commit_lsn >= upto:
                continue
            yield one.commit_lsn, begin(one.commit_lsn)
            for lsn, message in one.messages:
                self.step("row")
                if mine is not None and struct.unpack_from(">I", message, 1)[0] not in mine:
                    continue
                for oid, known in self.tables.items():
                    if oid not in told and struct.pack(">I", oid) in message[:14]:
                        told.add(oid)
                        yield lsn, relation(known)
                yield lsn, message
            yield one.end_lsn, commit(one.commit_lsn, one.end_lsn)

    def advance(self, upto: int) -> None:
        self.step("before advance")
        assert upto <= self.end
        self.confirmed = max(self.confirmed, upto)
        self.step("after advance")

    def types(self, relation: Relation) -> TypeCatalog:
        return TypeCatalog()

    def primary_key(self, relation: Relation) -> tuple[str, ...] | None:
        return None

    def namesakes(self, relation: Relation, publication: str) -> list[tuple[str, str]]:
        name = f"{relation.schema}.{relation.table}"
        mine = self.tables if self.published is None else self.published[publication]
        tables = [(one.schema, one.table) for oid, one in self.tables.items() if oid in mine]
        return [one for one in tables if ".".join(one) == name]

    def columns(self, relation: Relation) -> list[NumberedColumn]:
        return self.numbered

    def table(self, schema: str, name: str) -> CatalogTable | None:
        return self.catalog.get((schema, name))

    def without_identity(self) -> list[str]:
        return []

    def oldest_transaction(self) -> OpenTransaction | None:
        return None
