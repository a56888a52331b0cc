"""The lake from Python, at any point in time: what `firn_lake.connect` gives.

>>> lake = firn_lake.connect(".firn")
>>> orders = lake.table("shop.orders")
>>> orders.read(columns=["order_id", "status"], filter="status = 'paid'", as_of="2026-01-31").pandas()
>>> for batch in orders.changes("month-end"): ...
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pyiceberg.catalog import Catalog

from firn.config.catalogs import shown
from firn.config.names import FACTS
from firn.config.partitions import Partition
from firn.errors import ConfigError
from firn.log.cuts import Cut
from firn.tables.snapshot_history import AsOf, NoSuchMoment
from firn_lake.fresh.fresh_tables import Fresh
from firn_lake.fresh.pending import NotFresh
from firn_lake.lake_table import LakeTable, Moment
from firn_lake.notebook import html_table
from firn_lake.reading.rows import BATCH_SIZE, Batches
from firn_lake.sharded.whole_names import WholeNames
from firn_lake.sharded.whole_summary import all_tables
from firn_lake.sql.query import Limits, Parameters, query
from firn_lake.tables import TableNotFound, TableSummary, match_identifier, split_name, table_identifiers
from firn_lake.whole_table import WholeTable
from firn_lake.writing.sources import Given as Asked
from firn_lake.writing.sources import Source
from firn_lake.writing.sync import Mode, sync
from firn_lake.writing.table_creation import create
from firn_lake.writing.upsert import Upserted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema

    from firn.log.store import Store
    from firn_lake.writing.coercion import Given


class Lake:
    """The tables of one catalog. Made by `connect`; `with` closes it.

    Nothing is cached: each call sees what is committed by then.
    """

    def __init__(self, catalog: Catalog, store: "Callable[[], Store] | None" = None) -> None:
        """`store`: how to open the staging store, which holds the cuts; None: there are no cuts to read at."""
        self.catalog = catalog
        self._store = store
        self._opened: Store | None = None
        self.wholes = WholeNames(store)

    def table(self, name: str) -> "LakeTable":
        """The table `namespace.table`, or `table` alone if only one namespace has it; or all shards of one, by the name
        that they are read by (WholeTable). Raises TableNotFound."""
        identifiers = table_identifiers(self.catalog)
        with suppress(TableNotFound):
            return LakeTable(self, self.catalog.load_table(match_identifier(split_name(name), identifiers)))
        wholes = self.wholes.among(identifiers)
        found = match_identifier(split_name(name), sorted({*identifiers, *wholes}))
        return WholeTable(self, wholes[found])

    def tables(self) -> list[TableSummary]:
        """All tables, by name, with their size and where they come from, and all shards of one as one."""
        return all_tables(self.catalog, self.wholes)

    def sql(
        self,
        sql: str,
        as_of: Moment = None,
        *,
        parameters: Parameters = None,
        seconds: float | None = None,
        rows: int | None = None,
        memory: str | None = None,
        fresh: bool = False,
        metadata: bool = False,
    ) -> Batches:
        """The result of one SELECT (DuckDB's dialect) over any tables, all as they were at `as_of`.

        A table can have a moment of its own: FROM shop.orders FOR VERSION AS OF 'month-end' (a snapshot id, a tag or a
        branch) or FOR TIMESTAMP AS OF '2026-01-31'. EXPLAIN [ANALYZE] SELECT gives DuckDB's plan. Only a cut is one
        moment of all tables of a stream. It can't write, and reaches nothing but these tables.

        parameters  values for `?` (a list) or `$name` (a dict)
        seconds, rows, memory  what it may take ("500MB"): more is a QueryTooLarge
        fresh       with all that was acknowledged by now, committed or not, of all tables at one moment
        metadata    `*` holds Firn's own `_firn_…` columns too; without, only those that the query names

        Raises QueryError, TableNotFound, NoSuchMoment, NotFresh, UnreadableFile, StorageUnavailable.
        """
        now = self.fresh(as_of) if fresh else None
        moment, cut = self.moment(as_of)
        limits = Limits(seconds, rows, memory)
        found = query(
            self.catalog, sql, moment, cut, parameters, limits, fresh=now, all_columns=metadata, wholes=self.wholes
        )
        return Batches(found.schema, lambda: iter(found.to_batches(BATCH_SIZE)))

    def cut(self, which: int | str | None = None, stream: str | None = None) -> Cut:
        """A cut: by number, by the name it was kept as, or (None) the newest. Raises NoSuchCut, ConfigError."""
        from firn.log.named_cuts import find

        return find(self.staging("cuts are"), None if which is None else str(which), stream)

    def fresh(self, as_of: Moment = None) -> Fresh:
        """All tables with what waits for them, as of now. Raises NotFresh for any other moment, ConfigError,
        StorageUnavailable."""
        if as_of is not None:
            raise NotFresh(f"fresh is now, with what is not committed yet: it can't be as of {as_of!r} too")
        return Fresh(self.catalog, self.staging("what is not committed is"))

    def close(self) -> None:
        """Close the catalog's connections."""
        self.catalog.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        told = self.catalog.properties
        glue = f"glue://{told.get('glue.id', '')} in {told['glue.region']}" if "glue.region" in told else None
        return f"<lake {shown(told.get('uri') or glue or self.catalog.name)}>"

    def _repr_html_(self) -> str:
        names = [".".join(one) for one in table_identifiers(self.catalog) if not one[-1].endswith(FACTS)]
        return html_table(repr(self)[1:-1], ["table"], ([name] for name in names), f"{len(names):,} in all")

    def staging(self, what: str) -> "Store":
        """The staging store, for `what`, such as "cuts are". Raises ConfigError."""
        if self._store is None:
            raise ConfigError(
                f"this lake was opened by its catalog alone, and {what} in the staging store: connect to a stack's "
                "folder, to a deployment (target=…), or to a firn.yaml with FIRN_STAGING set"
            )
        if self._opened is None:
            self._opened = self._store()  # what was read of batches is kept with the store
        return self._opened

    def moment(self, as_of: Moment) -> tuple[AsOf, Cut | None]:
        """What `as_of` means: a moment of one table, or a cut. Raises NoSuchMoment, NoSuchCut, ConfigError."""
        if isinstance(as_of, Cut):
            return None, as_of
        if isinstance(as_of, tuple):
            if len(as_of) != 2 or not isinstance(as_of[0], str) or not isinstance(as_of[1], int):
                raise NoSuchMoment(f"as of {as_of!r}: a cut is (stream, number), such as ('shop', 12)")
            return None, self.cut(as_of[1], as_of[0])
        return as_of, None

    @property
    def store(self) -> "Callable[[], Store] | None":
        """How to open the staging store; None: the lake was opened by its catalog alone."""
        return self._store

    def create(
        self,
        name: str,
        what: "pa.Schema | Schema | Given",
        *,
        key: Sequence[str] = (),
        partition_by: Sequence[str | Partition] = (),
    ) -> LakeTable:
        """Makes a table, with rows or only columns: see `firn_lake.writing.table_creation.create`."""
        return LakeTable(self, create(self.catalog, name, what, key, partition_by))

    def sync(
        self,
        sql: str,
        source: Source,
        *,
        into: str,
        key: Sequence[str] | None = None,
        mode: Mode = "upsert",
        batch_size: int = BATCH_SIZE,
        parameters: Asked = None,
        id: str | None = None,
    ) -> Upserted:
        """Loads what a query of another database gives into a table, in one commit: see `writing/sync.py`."""
        return sync(self.catalog, sql, source, into, key, mode, batch_size, parameters, id)
