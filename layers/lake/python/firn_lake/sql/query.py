"""SQL over the tables of one lake at any point in time: which tables a query means, and how they are read."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from firn.config.whole_tables import Whole
from firn.log.cuts import Cut
from firn.tables.snapshot_history import AsOf
from firn_lake.fresh.fresh_shards import FreshShard, FreshWhole
from firn_lake.fresh.fresh_tables import AsItWillBe, Fresh
from firn_lake.reading.read_recorder import OnRead
from firn_lake.reading.versions import Version, version_at, version_named
from firn_lake.sharded.whole_names import NO_NAMES, WholeNames
from firn_lake.sharded.whole_version import Shards, WholeVersion
from firn_lake.sql.as_of import PinnedTable, pinned
from firn_lake.sql.duck import (
    NO_LIMITS,
    Limits,
    Parameters,
    Result,
    View,
    Views,
    run,
    running,
)
from firn_lake.sql.query_errors import QueryError, QueryTooLarge
from firn_lake.sql.table_scan import Read, TableScan
from firn_lake.tables import TableNotFound, match_identifier, table_identifiers

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_Meant = TypeVar("_Meant")

__all__ = ["Limits", "Parameters", "QueryError", "QueryTooLarge", "Tables", "query"]


def query(
    catalog: "Catalog",
    sql: str,
    as_of: AsOf = None,
    cut: Cut | None = None,
    parameters: Parameters = None,
    limits: Limits = NO_LIMITS,
    on_read: OnRead | None = None,
    fresh: Fresh | None = None,
    *,
    all_columns: bool = False,
    wholes: WholeNames = NO_NAMES,
) -> pa.Table:
    """Run one SELECT (DuckDB's dialect) over the catalog's tables and return its result.

    Tables are named `namespace.table` (quote names with spaces, dots or capitals that matter: `shop."Mixed Case"`; a
    nested namespace is one quoted name: `"a.b".t`), or only `table` if one namespace has it. All tables are read
    `as_of` (see `reading/moments.py`), or all at `cut`, which is consistent across tables. Times are UTC.
    Of each table the files, columns and rows are read that DuckDB asks for (`scanning`), and streamed through
    the query: only what it keeps is in memory. `on_read` hears of each table. `fresh`: with what waits for the tables,
    instead of `as_of` and `cut`. A table with a moment of its own (FOR VERSION AS OF, FOR TIMESTAMP AS OF: as_of.py) is
    read at that. `all_columns`: `*` holds Firn's own `_firn_…` columns, which it leaves out else. `wholes`: under which
    names shards are read as one table.

    Raises QueryError, QueryTooLarge, NotEncodable, TableNotFound, NoSuchMoment, NotFresh, UnreadableFile,
    StorageUnavailable.
    """
    asked = pinned(sql)
    views = _views(Tables(catalog, as_of, cut, fresh, on_read, wholes), asked.tables)
    return run(asked.sql, parameters, limits, views, all_columns=all_columns)


def streamed(
    catalog: "Catalog",
    sql: str,
    as_of: AsOf = None,
    cut: Cut | None = None,
    parameters: Parameters = None,
    limits: Limits = NO_LIMITS,
    on_read: OnRead | None = None,
    fresh: Fresh | None = None,
    *,
    all_columns: bool = False,
) -> AbstractContextManager[Result]:
    """The same, its rows as they come: for results that are too large to hold. Reading them raises as `query` does."""
    tables = Tables(catalog, as_of, cut, fresh, on_read)
    return streamed_over(tables, sql, parameters, limits, all_columns=all_columns)


def streamed_over(
    tables: "Tables", sql: str, parameters: Parameters = None, limits: Limits = NO_LIMITS, *, all_columns: bool = False
) -> AbstractContextManager[Result]:
    """The same over these tables."""
    asked = pinned(sql)
    views = _views(tables, asked.tables)
    return running(asked.sql, parameters, limits, views, all_columns=all_columns)


def _views(tables: "Tables", moments: Mapping[str, PinnedTable]) -> Views:
    def views(names: Sequence[tuple[str, ...]]) -> list[View]:
        own = {parts: moments[parts[0]] for parts in names if parts[0] in moments}
        for parts in (own[one].parts if one in own else one for one in names):
            if len(parts) > 2:
                nested = ".".join(parts[:-1])
                text = ".".join(parts)
                raise QueryError(f'{text}: write a nested namespace as one quoted name, "{nested}".{parts[-1]}')
        resolved = one_spelling_each({parts: tables.meant(parts) for parts in names if parts not in own})
        tables.load(resolved.values())
        now = [View(written(parts), {"": tables.scan(identifier)}) for parts, identifier in resolved.items()]
        then = [
            View(written(parts), {"": tables.scan_at(tables.meant(one.parts), one)}, clause=one.clause)
            for parts, one in own.items()
        ]
        return now + then

    return views


class Tables:
    """The tables of a lake at one moment, for queries."""

    def __init__(
        self,
        catalog: "Catalog",
        as_of: AsOf = None,
        cut: Cut | None = None,
        fresh: Fresh | None = None,
        on_read: OnRead | None = None,
        wholes: WholeNames = NO_NAMES,
    ) -> None:
        """As for `query`."""
        self._catalog, self._as_of, self._cut, self._fresh, self._on_read = catalog, as_of, cut, fresh, on_read
        self._there = frozenset(there := table_identifiers(catalog))
        self._identifiers = self.shown(there)
        self._names = wholes
        self._shards: dict[tuple[str, ...], Shards] = {}
        self._now: Mapping[tuple[str, ...], AsItWillBe] = {}
        self._scans: dict[tuple[str, ...], TableScan] = {}

    def shown(self, identifiers: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """Those of the tables that a query may name."""
        return list(identifiers)

    def scanned(
        self,
        _identifier: tuple[str, ...],
        version: Version,
        read: Read | None = None,
        _shards: Sequence[tuple[str, ...]] = (),
    ) -> TableScan:
        """What a query sees of a table, or of the shards of one. Every table that it reads comes through here."""
        return TableScan(version, read)

    def meant(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """The identifier of the table, or of the shards, that a name means. Raises TableNotFound."""
        with suppress(TableNotFound):
            return match_identifier(parts, self._identifiers)
        waiting = self._fresh.tables() if self._fresh is not None else ()
        self._identifiers = sorted({*self._identifiers, *self.shown([*self._wholes, *waiting])})
        return match_identifier(parts, self._identifiers)

    def load(self, some: Collection[tuple[str, ...]]) -> None:
        """All that are read fresh are loaded before the first is read: what waits is then as of one moment."""
        if self._fresh is None:
            return
        self._fresh.on_read = self._on_read
        self._now = {identifier: self._fresh.table(identifier) for identifier in some}

    def scan(self, identifier: tuple[str, ...]) -> TableScan:
        """The table, to be scanned. Raises NoSuchMoment, NotFresh, StorageUnavailable."""
        if identifier not in self._scans:
            now = self._now.get(identifier)
            if now is not None:
                shards = now.shards if isinstance(now, FreshWhole | FreshShard) else None
                self._scans[identifier] = self.scanned(identifier, now.version, now.read, shards or ())
                if shards is None:
                    self._tell(identifier)
            else:
                self._scans[identifier] = self._at(identifier, lambda one: version_at(one, self._as_of, self._cut))
        return self._scans[identifier]

    def scan_at(self, identifier: tuple[str, ...], at: PinnedTable) -> TableScan:
        """The table at a moment of its own, to be scanned. Raises NoSuchMoment, StorageUnavailable."""
        moment = at.moment
        return self._at(
            identifier,
            lambda one: version_at(one, moment) if isinstance(moment, datetime) else version_named(one, moment),
        )

    def tables_of(self, identifier: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
        """The tables that were looked at for one of them: itself, or shards."""
        now = self._now.get(identifier)
        if isinstance(now, FreshWhole | FreshShard):
            return now.of.opened
        return self._shards[identifier].opened if identifier in self._shards else (identifier,)

    def _at(self, identifier: tuple[str, ...], version_of: "Callable[[Table], Version]") -> TableScan:
        whole = self._whole(identifier)
        if whole is None:
            found = version_of(self._catalog.load_table(identifier))
            self._tell(identifier)
            return self.scanned(identifier, found)
        if identifier not in self._shards:
            self._shards[identifier] = Shards(whole, self._load, self._load(whole.rest.identifier))
        shards = self._shards[identifier]
        one = WholeVersion(shards, version_of(shards.rest))
        return self.scanned(identifier, one.version, one.read, one.tables)

    def _load(self, identifier: tuple[str, ...]) -> "Table":
        found = self._catalog.load_table(identifier)
        self._tell(identifier)
        return found

    def _tell(self, identifier: tuple[str, ...]) -> None:
        if self._on_read is not None:
            self._on_read(identifier)

    @cached_property
    def _wholes(self) -> Mapping[tuple[str, ...], Whole]:
        return self._names.among(self._there)

    def _whole(self, identifier: tuple[str, ...]) -> Whole | None:
        """The shards of that name; None for a table."""
        return None if identifier in self._there else self._wholes.get(identifier)


def written(parts: tuple[str, ...]) -> tuple[str, str, str]:
    """A name of one to three parts as a View has it."""
    return ("", "", "")[len(parts) :] + parts  # type: ignore[return-value]


def one_spelling_each(resolved: Mapping[tuple[str, ...], _Meant]) -> dict[tuple[str, ...], _Meant]:
    """What each name means, once for all spellings of it: DuckDB's names know no case, and shop.orders and SHOP.Orders
    in one query are one view. Raises QueryError if they mean different tables."""
    kept: dict[tuple[str, ...], tuple[tuple[str, ...], _Meant]] = {}
    for parts, meant in resolved.items():
        first, known = kept.setdefault(tuple(part.casefold() for part in parts), (parts, meant))
        if known != meant:
            raise QueryError(
                f"{'.'.join(first)} and {'.'.join(parts)} differ only in case, which DuckDB can't tell apart: query "
                "one at a time"
            )
    return dict(kept.values())
