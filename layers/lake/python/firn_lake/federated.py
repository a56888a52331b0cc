"""Several lakes as one, for SQL: warehouses, accounts, or the shards of one system.

>>> both = firn_lake.together(eu=firn_lake.connect("eu.yaml"), us=firn_lake.connect("us.yaml"))
>>> both.sql("SELECT _lake, count(*) FROM shop.orders GROUP BY ALL")  # the table of that name of every lake
>>> both.sql("SELECT * FROM eu.shop.orders AS e JOIN us.shop.orders AS u USING (order_id)")
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema

from firn.config.catalogs import shown
from firn.errors import FirnError, TransientError
from firn_lake.lake import Lake
from firn_lake.lake_table import Moment
from firn_lake.reading.rows import BATCH_SIZE, Batches, Rows
from firn_lake.schemas.arrow_types import arrow_schema
from firn_lake.sql.as_of import pinned
from firn_lake.sql.duck import Limits, Parameters, View, run
from firn_lake.sql.query import Tables, one_spelling_each, written
from firn_lake.sql.query_errors import QueryError
from firn_lake.sql.table_scan import Read, TableScan
from firn_lake.tables import TableNotFound

_OWN: Final = frozenset({"main", "memory", "system", "temp"})  # DuckDB's own names of databases


class LakeUnavailable(TransientError):
    """One of several lakes did not answer; the text names it. What the others have is no answer then."""


@dataclass
class LakeRead:
    """What a query read of one lake. `files`, `bytes`: of the data files that were opened, None where what waits was
    read too; `rows`: of these, before the query leaves out any; `seconds`: that this took."""

    lake: str
    warehouse: str
    tables: tuple[str, ...] = ()
    files: int | None = 0
    bytes: int | None = 0
    rows: int = 0
    seconds: float = 0.0

    def add(self, rows: Batches, seconds: float) -> None:
        """One reading of a table, which has ended."""
        self.seconds = round(self.seconds + seconds, 3)
        if self.files is None or self.bytes is None or not isinstance(rows, Rows):
            self.files = self.bytes = None
            return
        self.files, self.bytes = self.files + rows.opened[0], self.bytes + rows.opened[1]


class RowsOfLakes(Batches):
    """The rows of a query over several lakes. `reads`: what was read of each that the query asks for."""

    def __init__(self, found: pa.Table, reads: Sequence[LakeRead]) -> None:
        super().__init__(found.schema, lambda: iter(found.to_batches(BATCH_SIZE)))
        self.reads = tuple(reads)

    def plain(self) -> list[dict[str, Any]]:
        """What was read where, as JSON has it."""
        return [asdict(one) for one in self.reads]


class Lakes:
    """Lakes by name. Made by `together`; `with` closes them all."""

    def __init__(self, **lakes: Lake) -> None:
        """Raises QueryError for a name that DuckDB has for itself, and for no lake."""
        if not lakes or (taken := _OWN & {name.casefold() for name in lakes}):
            wrong = f"a lake can't be called {min(taken)}" if lakes else "name at least one lake"
            raise QueryError(f"{wrong}: write such as together(eu=…, us=…)")
        self._lakes = lakes

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
    ) -> RowsOfLakes:
        """The result of one SELECT over tables of any of the lakes, each as it was at `as_of`.

        `lake.namespace.table` is a table of one lake. `namespace.table`, or `table`, is that of every lake that has it,
        put together: columns by name, null where a lake has no such column, and `_lake` says whose row it is. A cut is
        of one lake alone and can't be asked of several. The rest as for Lake.sql; raises the same, with the name of the
        lake, and LakeUnavailable: no answer is without the rows of a lake that can't be read.
        """
        if pinned(sql).tables:
            raise QueryError("FOR … AS OF is for the tables of one lake: ask that lake, or give as_of for all tables")
        tables = {}
        for name, lake in self._lakes.items():
            with _of(name):
                moment, cut = lake.moment(as_of)
                if cut is not None and len(self._lakes) > 1:
                    raise QueryError("a cut is a moment of one stream of one lake: ask that lake, or give a time")
                now = lake.fresh(as_of) if fresh else None
                about = lake.catalog.properties
                read = LakeRead(name, shown(str(about.get("warehouse") or about.get("uri") or "")))
                tables[name] = _TablesOf(read, Tables(lake.catalog, moment, cut, now, wholes=lake.wholes))

        def views(names: Sequence[tuple[str, ...]]) -> list[View]:
            meant = one_spelling_each({parts: _meant(tables, parts) for parts in names})
            for lake, known in tables.items():
                with _of(lake):
                    known.tables.load([found[lake] for found in meant.values() if lake in found])
            return [
                View(
                    written(parts),
                    {lake: tables[lake].scan(identifier) for lake, identifier in found.items()},
                    together=len(parts) < 3,
                )
                for parts, found in meant.items()
            ]

        result = run(sql, parameters, Limits(seconds, rows, memory), views, all_columns=metadata)
        return RowsOfLakes(result, [one.read for one in tables.values() if one.read.tables])

    def close(self) -> None:
        """Close all catalogs."""
        for lake in self._lakes.values():
            lake.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<lakes {', '.join(self._lakes)}>"


def together(**lakes: Lake) -> Lakes:
    """Several lakes as one, each under its name: see `Lakes.sql`."""
    return Lakes(**lakes)


class _TablesOf:
    """The tables of one of the lakes: what goes wrong with them has its name."""

    def __init__(self, read: LakeRead, tables: Tables) -> None:
        self.read, self.tables, self._lake = read, tables, read.lake

    def meant(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """As Tables has it."""
        with _of(self._lake):
            return self.tables.meant(parts)

    def scan(self, identifier: tuple[str, ...]) -> TableScan:
        """As Tables has it."""
        with _of(self._lake):
            found = self.tables.scan(identifier)
            self.read.tables = tuple(sorted({*self.read.tables, found.name}))
            return found.read_by(self._reading)

    def _reading(self, read: Read) -> Read:
        def batches(schema: Schema, files: BooleanExpression) -> Iterator[pa.RecordBatch]:
            began, waited = time.monotonic(), 0.0
            with _of(self._lake):
                rows = read(schema, files)
                try:
                    for batch in rows:
                        self.read.rows += batch.num_rows
                        paused = time.monotonic()
                        yield batch
                        waited += time.monotonic() - paused
                finally:  # a LIMIT ends it early
                    self.read.add(rows, time.monotonic() - began - waited)

        return lambda schema, files: Batches(arrow_schema(schema), lambda: batches(schema, files))


@contextmanager
def _of(lake: str) -> Iterator[None]:
    """Errors with the lake's name: those of Firn, and as LakeUnavailable whatever a catalog's client or a storage's
    raises. What there is no table of says so itself."""
    try:
        yield
    except (TableNotFound, MemoryError):
        raise
    except FirnError as error:
        error.args = (f"{lake}: {error}", *error.args[1:])
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"
        raise LakeUnavailable(f"the lake {lake} can't be read ({said}): try again, or ask without it") from error


def _meant(tables: dict[str, _TablesOf], parts: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The identifier of the table in each lake that the name means. Raises QueryError, TableNotFound."""
    if len(parts) > 3:
        nested = ".".join(parts[1:-1])
        text = ".".join(parts)
        raise QueryError(f'{text}: write a nested namespace as one quoted name, {parts[0]}."{nested}".{parts[-1]}')
    if len(parts) == 3:
        if parts[0] not in tables:
            raise TableNotFound(f"{'.'.join(parts)}: there is no lake {parts[0]!r}, but {', '.join(tables)}")
        return {parts[0]: tables[parts[0]].meant(parts[1:])}
    found = {}
    missing = []
    for lake, known in tables.items():
        try:
            found[lake] = known.meant(parts)
        except TableNotFound as error:
            missing.append(f"{lake}: {error}")
    if not found:
        raise TableNotFound("; ".join(missing))
    return found
