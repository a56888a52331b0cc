"""Loading the result of a query of another database into a table, in one commit."""

from typing import TYPE_CHECKING, Literal

from firn.errors import ConfigError
from firn_lake.tables import TableNotFound, find_table, key_of, shown
from firn_lake.writing.data_files import write_files
from firn_lake.writing.sources import Given, Query, Source
from firn_lake.writing.table_creation import create
from firn_lake.writing.upsert import Upserted, upsert
from firn_lake.writing.writes import Change, begun, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.catalog import Catalog

Mode = Literal["upsert", "append"]


def sync(
    catalog: "Catalog",
    sql: str,
    source: Source,
    into: str,
    key: "Sequence[str] | None" = None,
    mode: Mode = "upsert",
    batch_size: int = 10_000,
    parameters: Given = None,
    id: str | None = None,
) -> Upserted:
    """Loads what `sql` gives into the table `into`, all of it or nothing. A table that is not there is made.

    source      a connection of DB-API 2.0 or ADBC, or a cursor of one
    key         the columns that tell rows apart; None: the table's own
    mode        upsert: whole rows by key, a row that the query no longer gives stays; append: all rows are added
    batch_size  rows to fetch at once; drivers whose plain cursors fetch everything (psycopg, pg8000) need one of theirs
                that does not, such as psycopg's named cursor
    id          names this load: the same again is not done

    Raises SourceFailed, BadRows, FedByStream, CannotWrite, CannotCreate, MovedOn, UnknownOutcome, StorageUnavailable.
    """
    if mode not in ("upsert", "append"):
        raise ConfigError(f"mode={mode!r}: write 'upsert' or 'append'")
    try:
        table = find_table(catalog, into)
        if (done := begun(table, id)) is not None:
            return Upserted(snapshot=done)
    except TableNotFound:
        table = None
    with Query(source, sql, parameters, batch_size) as query:
        if table is None:
            table = create(catalog, into, query.columns(), key or ())
        batches = query.batches(table.schema(), shown(table))
        if mode == "upsert":
            return upsert(table, batches, key_of(table.metadata) if key is None else key, id)
        files = write_files(table.metadata, table.io, batches)
        snapshot = write(table, files, Change, id)
        count = sum(file.record_count for file in files)
        return Upserted(count, inserted=count, snapshot=snapshot)
