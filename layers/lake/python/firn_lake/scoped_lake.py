"""The lake as a reader of some tables has it: made of the reader's scope, and nothing else opens a table for it.

What is not in the scope is not there: its name is answered as one that no table has. `firn_lake.reading.narrowed_table`
leaves out columns and rows.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import And, BooleanExpression

from firn.config.reader_scopes import Scope, TableGrant
from firn.config.whole_tables import Whole
from firn.errors import FirnError, RequestError, TransientError
from firn.log.batches import UnreadableBatch
from firn.log.cuts import Cut
from firn.log.named_cuts import NoSuchCut
from firn.tables.snapshot_history import AsOf, NoSuchMoment
from firn_lake.changes.row_changes import Changes
from firn_lake.fresh.pending import NotFresh
from firn_lake.lake import Lake
from firn_lake.reading.narrowed_table import NarrowedTable
from firn_lake.reading.row_filter import UnfitRows
from firn_lake.reading.rows import Rows
from firn_lake.reading.unreadable import UnreadableFile
from firn_lake.reading.versions import Version, version_at
from firn_lake.sharded.whole_changes import WholeChanges
from firn_lake.sharded.whole_summary import UNREADABLE, summary_of
from firn_lake.sharded.whole_version import Shards, WholeVersion
from firn_lake.snapshot_pages import snapshot_page
from firn_lake.sql.query import Tables
from firn_lake.sql.table_scan import Read, TableScan
from firn_lake.tables import (
    TableNotFound,
    TableSummary,
    fed_as,
    match_identifier,
    shown,
    split_name,
    summarize,
    table_identifiers,
)
from firn_lake.timeline import column_page, timeline

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from firn.log.store import Store

_COUNTS: Final = ("added", "deleted", "total", "rows")


class ScopedTables(Tables):
    """The tables of a scope at one moment, for queries."""

    def __init__(self, lake: Lake, scope: Scope, as_of: AsOf, cut: Cut | None, *, fresh: bool) -> None:
        self._scope = scope
        super().__init__(lake.catalog, as_of, cut, lake.fresh() if fresh else None, wholes=lake.wholes)

    def shown(self, identifiers: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """Those that are in the scope."""
        return [one for one in identifiers if self._scope.grant(one) is not None]

    def scanned(
        self,
        identifier: tuple[str, ...],
        version: Version,
        read: Read | None = None,
        shards: Sequence[tuple[str, ...]] = (),
    ) -> TableScan:
        """What the scope leaves of the table, or of the shards."""
        narrowed = NarrowedTable(version, _required(self._scope, identifier, version.source.metadata, shards))
        if shards and read is not None:
            read = _of_needed(read, narrowed.needed)
        whole: Read = read or (lambda schema, files: Rows(version, schema, files=files))
        return TableScan(narrowed.version, narrowed.reading(whole, (NotFresh,)))

    def load(self, some: Collection[tuple[str, ...]]) -> None:
        """As `Tables` does."""
        with _of_what_waits():
            super().load(some)

    def scan(self, identifier: tuple[str, ...]) -> TableScan:
        """As `Tables` does."""
        with _of_what_waits():
            return super().scan(identifier)


class ScopedTable:
    """One table of a scope."""

    def __init__(self, table: "Table", grant: TableGrant) -> None:
        self._table, self._grant = table, grant
        self.name, self._counts_rows = shown(table), not grant.rows

    @property
    def fed_as(self) -> str | None:
        """As tables.fed_as."""
        return fed_as(self._table)

    @property
    def hides_rows(self) -> bool:
        """Whether a condition narrows its rows."""
        return bool(self._grant.rows)

    def at(self, as_of: AsOf) -> NarrowedTable:
        """What may be read of it at a moment. Raises NoSuchMoment, UnfitRows."""
        return NarrowedTable(version_at(self._table, as_of), self._grant)

    def schema(self, as_of: AsOf) -> dict[str, Any]:
        """Its columns with their types, and the key."""
        found = self.at(as_of)
        fields = found.version.select(None, metadata=False).fields
        columns = [{"name": field.name, "type": str(field.field_type)} for field in fields]
        return {"table": self.name, "key": found.key, "columns": columns}

    def changes(self, from_: AsOf, to: AsOf, *, steps: bool, columns: Sequence[str] | None) -> Changes:
        """What changed between two moments of what may be read."""
        after = self.at(to)
        before = version_at(self._table, from_).snapshot if from_ is not None else None
        return Changes(before, after.full, columns, steps=steps, narrowed=after)

    def snapshots(self, cursor: str, limit: int, *, newest_first: bool) -> dict[str, Any]:
        """A page of its snapshots: without what they say of other tables, of columns and of rows that are left out."""
        page = snapshot_page(self._table, cursor, limit, newest_first=newest_first)
        told = msgspec.to_builtins(page.snapshots, builtin_types=())
        for one in told:
            one |= {"epochs": {}, **({} if self._grant.columns is None else {"retyped": []})}
        return {"table": self.name, "total": page.total, "snapshots": self._uncounted(told), "next": page.next}

    def timeline(self, start: str | None, end: str | None, points: int) -> dict[str, Any]:
        """Its snapshots summed up, likewise."""
        found = timeline(self._table, start, end, points)
        self._uncounted(found["points"])
        return found | {"table": self.name}

    def columns(self, as_of: str | None, like: str, after: int, limit: int) -> dict[str, Any]:
        """A page of its columns with what they were, of those that may be read."""
        now = self.at(None)
        only = None if self._grant.columns is None else now.field_ids
        page = column_page(self._table, as_of, like, after, limit, only)
        return {**page, "table": self.name, "key": now.key}

    def summary(self) -> dict[str, Any]:
        """As `GET /v1/tables` has it, without where its rows come from, and sizes that tell what is left out."""
        told: dict[str, Any] = msgspec.to_builtins(self._summary())
        told |= {"source": None, "stream": None, "pipelines": [], "shards": [], "key": self._key()}
        if not self._grant.is_whole:
            told |= {"size_bytes": None, "files": None, "retyped": []}
        if self._grant.rows:
            told["rows"] = None
        return told

    def _summary(self) -> TableSummary:
        return summarize(self._table)

    def _key(self) -> tuple[str, ...]:
        try:
            return self.at(None).key
        except (UnfitRows, NoSuchMoment):  # who asks this table hears of it, and who asks for all sees the others
            return ()

    def _uncounted(self, told: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Without counts of rows, if they are others than those that may be read."""
        for one in () if self._counts_rows else told:
            one |= {name: None for name in _COUNTS if name in one}
        return told


class ScopedShards(ScopedTable):
    """All shards of a table, by the name that they are read by: what of a scope's tables is several."""

    def __init__(self, shards: Shards, scope: Scope) -> None:
        self._shards, self._scope = shards, scope
        super().__init__(shards.rest, self._granted(WholeVersion(shards, version_at(shards.rest, None))))
        self.name, self._counts_rows = shards.name, False

    @property
    def fed_as(self) -> str | None:
        """The rest, under which changes of all come."""
        return fed_as(self._shards.rest, whole=True)

    def at(self, as_of: AsOf) -> NarrowedTable:
        """As of a table."""
        whole = self._whole(as_of)
        return NarrowedTable(whole.version, self._granted(whole))

    def changes(self, from_: AsOf, to: AsOf, *, steps: bool, columns: Sequence[str] | None) -> Changes:
        """As of a table."""
        after = self._whole(to)
        before = None if from_ is None else self._whole(from_)
        grant = self._granted(after, *([] if before is None else [before]))
        narrowed = NarrowedTable(after.version, grant)
        start = None if before is None else before.version.snapshot
        return WholeChanges(start, after, columns, steps=steps, narrowed=narrowed)

    def _summary(self) -> TableSummary:
        return summary_of(self._whole(None))

    def _granted(self, *moments: WholeVersion) -> TableGrant:
        tables = sorted({table for one in moments for table in one.tables})
        return _required(self._scope, self._shards.whole.name.identifier, self._shards.rest.metadata, tables)

    def _whole(self, as_of: AsOf) -> WholeVersion:
        return WholeVersion(self._shards, version_at(self._shards.rest, as_of))


class ScopedLake:
    """The tables of a scope."""

    def __init__(self, lake: Lake, scope: Scope) -> None:
        self._lake, self._scope = lake, scope

    def tables(self) -> list[dict[str, Any]]:
        """All of them, by name, without shards that can't be read as one now."""
        identifiers, wholes = self._identifiers()
        found: list[dict[str, Any]] = []
        for one in sorted({*identifiers, *wholes}):
            with suppress(*(UNREADABLE if one in wholes else ())):
                if (table := self._load(one, wholes.get(one))) is not None:
                    found.append(table.summary())
        return found

    def table(self, name: str) -> ScopedTable:
        """One of them, by the name as people write it. Raises TableNotFound."""
        identifiers, wholes = self._identifiers()
        every = sorted({*identifiers, *wholes})
        try:
            identifier = match_identifier(split_name(name), identifiers)
        except TableNotFound:
            identifier = match_identifier(split_name(name), every)
        found = self._load(identifier, wholes.get(identifier))
        if found is None:  # it went away in between
            match_identifier(split_name(name), [one for one in every if one != identifier])
            raise TableNotFound("there is no such table in the lake any more")
        return found

    @property
    def store(self) -> "Store":
        """The staging store. Raises ConfigError."""
        return self._lake.staging("batches are")

    def heard_of(self, name: str) -> tuple[str, str | None, str | None]:
        """Of what may be heard of one of them: its name, the name that it is fed under, and the writer whose batches
        and letters alone are told of, None: all (firn.audit.table_receipts). Raises TableNotFound."""
        table = self.table(name)
        return table.name, table.fed_as, self._scope.reader if table.hides_rows else None

    def at(self, as_of: AsOf, cut: str | int | None, stream: str | None, *, fresh: bool) -> ScopedTables:
        """All of them at a moment, for queries. Raises NoSuchCut, NotFresh, RequestError, and what `Tables` raises."""
        found = None if cut is None else self._cut(str(cut), stream)
        return ScopedTables(self._lake, self._scope, as_of, found, fresh=fresh)

    def _cut(self, which: str, stream: str | None) -> Cut:
        if which.isdigit() and stream is None:
            raise RequestError(400, "bad_request", "say whose cut it is: stream goes with a cut's number")
        found = self._lake.cut(which, stream)
        names = (name.replace('"', "").partition(".") for name in found.tables)
        if not any(self._scope.grant((namespace, table)) for namespace, _, table in names):
            _, wholes = self._identifiers()
            if not any(str(one.rest) in found.tables for one in wholes.values()):
                raise NoSuchCut("of none of the scope's tables")
        return found

    def _identifiers(self) -> tuple[list[tuple[str, ...]], dict[tuple[str, ...], Whole]]:
        """Those of tables, and those that several are read by."""
        there = table_identifiers(self._lake.catalog)
        wholes = {name: one for name, one in self._lake.wholes.among(there).items() if self._scope.grant(name)}
        return [one for one in there if self._scope.grant(one) is not None], wholes

    def _load(self, identifier: tuple[str, ...], whole: Whole | None) -> ScopedTable | None:
        try:
            found = self._lake.catalog.load_table(whole.rest.identifier if whole else identifier)
            if whole is None:
                return ScopedTable(found, _required(self._scope, identifier, found.metadata))
            return ScopedShards(Shards(whole, self._lake.catalog.load_table, found), self._scope)
        except NoSuchTableError:
            return None


def _of_needed(read: Read, needed: BooleanExpression) -> Read:
    """The same way to read, of those shards alone that may have rows which may be read."""
    return lambda schema, files: read(schema, And(files, needed))


@contextmanager
def _of_what_waits() -> Iterator[None]:
    """Errors of fresh tables, which rest on others: what is not known here has a text that may name them."""
    try:
        yield
    except (TransientError, TableNotFound, NoSuchMoment, NotFresh, UnfitRows, UnreadableFile, UnreadableBatch):
        raise
    except FirnError as error:
        raise NotFresh("can't be read now") from error


def _required(
    scope: Scope, identifier: tuple[str, ...], metadata: "TableMetadata", shards: Sequence[tuple[str, ...]] = ()
) -> TableGrant:
    grant = scope.grant(identifier, shards)
    if grant is None or metadata.properties.get("firn.mode") == "deletes":
        raise TableNotFound("there is no such table in the lake")
    return grant
