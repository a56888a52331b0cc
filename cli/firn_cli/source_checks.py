"""Whether a PostgreSQL can be pulled, and what to run where it can't yet. Pure: what was found in, findings out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from firn.config.pull_source import Plugin
from firn.deployment.terminal import counted

Severity = Literal["good", "to do", "refused", "note"]
NO_GENERATED_BEFORE = 18  # PostgreSQL's first version that can publish generated columns


@dataclass(frozen=True)
class PublishedTable:
    """A table of the database. `identity`: PostgreSQL's letter (d, f, i, n); `key`: of the primary key, or for `i` of
    the index; `generated`: its generated columns."""

    schema: str
    name: str
    identity: str
    key: tuple[str, ...]
    generated: tuple[str, ...] = ()
    partitioned: bool = False
    published: bool = True

    @property
    def quoted(self) -> str:
        """The name as SQL takes it."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"


@dataclass(frozen=True)
class Survey:
    """What a database says. `publication`, `slot`: None where it is not there. `keep_bytes`: max_slot_wal_keep_size, -1
    for no limit."""

    version: int
    wal_level: str
    replica: bool
    may_replicate: bool
    user: str
    slots_free: int
    keep_bytes: int
    publication: "Publication | None"
    slot: "Slot | None"
    tables: tuple[PublishedTable, ...] = ()


@dataclass(frozen=True)
class Publication:
    """`kinds`: of i, u, d, t those that it publishes."""

    via_root: bool
    kinds: str = "iudt"


@dataclass(frozen=True)
class Slot:
    """`status`: wal_status."""

    plugin: str
    here: bool
    status: str = "reserved"


@dataclass(frozen=True)
class Finding:
    """`run`: SQL that puts it right, "" where there is none. `create`: whether `--create` runs it."""

    what: str
    severity: Severity
    text: str
    run: str = ""
    create: bool = False


@dataclass(frozen=True)
class Findings:
    """All of them, in the order in which they are put right."""

    found: Sequence[Finding] = field(default_factory=tuple)

    @property
    def refused(self) -> bool:
        """Whether it can't be pulled as it is."""
        return any(one.severity == "refused" for one in self.found)

    @property
    def open(self) -> bool:
        """Whether something is left to do."""
        return any(one.severity in ("refused", "to do") for one in self.found)


def quoted(name: str) -> str:
    """An identifier as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def check(found: Survey, slot: str, publication: str, plugin: Plugin = "pgoutput") -> Findings:
    """What there is to say of a database that is to be pulled through this slot, and publication where `plugin` has."""
    by_name = plugin == "pgoutput"
    return Findings([
        *_server(found), *_tables(found, plugin), *(_publication(found, publication) if by_name else _wal2json()),
        *_slot(found, slot, plugin), *_disk(found),
    ])  # fmt: skip


def _server(found: Survey) -> Iterator[Finding]:
    if found.replica:
        yield Finding("server", "refused", "this is a replica: give the address of the primary")
    if found.version < 10:
        yield Finding("server", "refused", f"PostgreSQL {found.version} has no pgoutput: 10 is the first that has")
    if found.wal_level == "logical":
        yield Finding("wal_level", "good", "logical")
    else:
        yield Finding(
            "wal_level", "refused",
            f"it is {found.wal_level}: run this and restart PostgreSQL (on RDS: rds.logical_replication = 1 in the "
            "parameter group)",
            "ALTER SYSTEM SET wal_level = logical;",
        )  # fmt: skip
    if found.may_replicate:
        yield Finding("rights", "good", f"{found.user} may read slots")
    else:
        yield Finding(
            "rights", "refused", f"{found.user} may not read slots: have an administrator run this (on RDS: GRANT "
            f"rds_replication TO {quoted(found.user)};)", f"ALTER ROLE {quoted(found.user)} REPLICATION;",
        )  # fmt: skip


def _wal2json() -> Iterator[Finding]:
    yield Finding(
        "wal2json", "note", "before 2.6 it sends NaN and Infinity as null; and a TRUNCATE of a single partition is not "
        "applied",
    )  # fmt: skip


def _tables(found: Survey, plugin: Plugin) -> Iterator[Finding]:
    called: dict[str, list[str]] = {}
    for table in found.tables:
        called.setdefault(f"{table.schema}.{table.name}", []).append(table.quoted)
    for name, same in called.items():
        if len(same) > 1:
            yield Finding(
                name, "refused", f"{' and '.join(same)} are both called {name} here, and would be mixed: rename one, "
                "or make a publication without it and name that with --publication",
            )  # fmt: skip
    changes = found.publication is None or set(found.publication.kinds) & {"u", "d"}
    for table in found.tables:
        name = f"{table.schema}.{table.name}"
        if changes and (table.identity == "n" or (table.identity == "d" and not table.key)):
            why = "has REPLICA IDENTITY NOTHING" if table.identity == "n" else "has no primary key"
            way = "DEFAULT" if table.key else "FULL"
            then = (
                "once it is published, PostgreSQL refuses each UPDATE and DELETE of it, and your application fails"
                if plugin == "pgoutput" else "wal2json leaves each UPDATE and DELETE of it out"
            )  # fmt: skip
            yield Finding(
                name, "refused", f"{why}: {then}. Run this first, or leave the table out (--table)",
                f"ALTER TABLE {table.quoted} REPLICA IDENTITY {way};",
            )  # fmt: skip
        elif not table.key:
            yield Finding(name, "note", "has no key: every change becomes a row (mode: append)")
        if table.generated and found.version < NO_GENERATED_BEFORE:
            yield Finding(
                name, "note", f"the generated columns {', '.join(table.generated)} are not in the stream of PostgreSQL "
                f"before {NO_GENERATED_BEFORE}: the Iceberg table will not have them",
            )  # fmt: skip


def _publication(found: Survey, name: str) -> Iterator[Finding]:
    there = found.publication
    tables = [table for table in found.tables if not table.published]
    if there is None:
        named = ", ".join(table.quoted for table in found.tables)
        yield Finding(
            "publication", "to do", f"there is no publication {name}",
            f"CREATE PUBLICATION {quoted(name)} FOR TABLE {named} WITH (publish_via_partition_root = true);",
            create=True,
        )  # fmt: skip
        return
    if tables:
        yield Finding(
            "publication", "to do", f"{name} lacks {len(tables)} of the tables",
            f"ALTER PUBLICATION {quoted(name)} ADD TABLE {', '.join(table.quoted for table in tables)};", create=True,
        )  # fmt: skip
    if not there.via_root and any(table.partitioned for table in found.tables):
        yield Finding(
            "publication", "to do", f"{name} would send partitions under their own names",
            f"ALTER PUBLICATION {quoted(name)} SET (publish_via_partition_root = true);", create=True,
        )  # fmt: skip
    if there.via_root and (parted := [f"{one.schema}.{one.name}" for one in found.tables if one.partitioned]):
        yield Finding(
            "publication", "note", f"a TRUNCATE, DETACH or DROP of a single partition of {', '.join(parted)[:200]} is "
            "not sent by PostgreSQL: its rows stay in the Iceberg table until `firn backfill --replace`",
        )  # fmt: skip
    if missing := [word for letter, word in _KINDS.items() if letter not in there.kinds]:
        yield Finding("publication", "note", f"{name} does not send {', '.join(missing)}: the tables will miss them")
    if not tables and (there.via_root or not any(table.partitioned for table in found.tables)):
        yield Finding("publication", "good", f"{name} has {counted(len(found.tables), 'table')}")


_KINDS = {"i": "inserts", "u": "updates", "d": "deletes", "t": "truncates"}


def _slot(found: Survey, name: str, plugin: Plugin) -> Iterator[Finding]:
    there = found.slot
    if there is None:
        if found.slots_free < 1:
            yield Finding(
                "slot", "refused", "all of max_replication_slots are taken: drop one that nobody reads, or run this "
                "and restart PostgreSQL", "ALTER SYSTEM SET max_replication_slots = 20;",
            )  # fmt: skip
        # After the publication: what is decoded from before it would not find it.
        yield Finding(
            "slot", "to do", f"there is no slot {name}",
            f"SELECT pg_create_logical_replication_slot('{name}', '{plugin}');", create=True,
        )  # fmt: skip
    elif there.plugin != plugin or not there.here:
        yield Finding(
            "slot", "refused", f"{name} is of {there.plugin} or of another database: name another with --slot"
        )
    elif there.status == "lost":
        yield Finding(
            "slot", "refused", f"{name} is lost, its WAL is gone: run this, and see docs/sources/postgres.md, Failover",
            f"SELECT pg_drop_replication_slot('{name}');",
        )  # fmt: skip
    else:
        yield Finding("slot", "good", f"{name} is there ({there.status})")


def _disk(found: Survey) -> Iterator[Finding]:
    if found.keep_bytes < 0 and found.version >= 13:
        yield Finding(
            "disk", "note", "max_slot_wal_keep_size is not set: while nobody reads the slot, WAL may fill the disk. "
            "With a limit the slot is lost instead, and tables have to be filled again",
            "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'; SELECT pg_reload_conf();",
        )  # fmt: skip
