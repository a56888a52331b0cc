"""What became of rows: those that left and those that came, matched by key, as inserts, updates and deletes.

DuckDB holds both sides, on disk where they do not fit into memory, and matches them. The SQL here names tables and
columns of this module's own alone: old, new, c0, c1, …
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from firn_lake.reading.progress_bar import switch_off
from firn_lake.schemas.arrow_types import cast, stored_schema, without_json

INSERT, UPDATE, DELETE = "insert", "update", "delete"
CHANGE, BEFORE = "_change", "_before"
_MEMORY: Final = "512MB"
_BATCH: Final = 65_536


def changes_schema(rows: pa.Schema) -> pa.Schema:
    """The schema of changes of rows: `_change`, the columns, and `_before`, a struct of the same columns, with JSON as
    text."""
    columns = _nullable(rows)
    before = pa.struct(list(without_json(columns)))
    return pa.schema([pa.field(CHANGE, pa.string()), *columns, pa.field(BEFORE, before)])


def one_sided(kind: str, batches: Iterable[pa.RecordBatch], rows: pa.Schema) -> Iterator[pa.RecordBatch]:
    """All rows as inserts, or all as deletes."""
    for batch in batches:
        yield _changes(pa.repeat(kind, batch.num_rows), batch.columns, batch.columns, rows)


def matched(
    left: Iterable[pa.RecordBatch], came: Iterable[pa.RecordBatch], rows: pa.Schema, key: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """The changes between rows that left and rows that came. Rows that are on both sides are none.

    rows  the schema of both
    key   places of the columns that tell rows apart; without any, equal rows are counted and there are no updates

    A key that several rows of a side have is matched row by row, in any order. Two values are the same where SQL's IS
    NOT DISTINCT FROM says so: nulls are, and NaNs are.
    """
    stored = stored_schema(rows)
    inside = pa.schema([pa.field(f"c{place}", field.type) for place, field in enumerate(stored)])
    count = len(rows)
    with tempfile.TemporaryDirectory(prefix="firn-") as folder, duckdb.connect(":memory:") as connection:
        connection.execute(f"SET memory_limit = '{_MEMORY}'; SET temp_directory = '{folder}'; SET TimeZone = 'UTC'")
        connection.execute("SET preserve_insertion_order = false")
        switch_off(connection)
        for name, batches in (("old", left), ("new", came)):
            _fill(connection, name, batches, stored, inside)
        reader = connection.sql(_sql(connection, count, key)).to_arrow_reader(_BATCH)
        for batch in reader:
            if batch.num_rows:
                after, before = batch.columns[1 : 1 + count], batch.columns[1 + count :]
                yield _changes(batch.column(0), after, before, rows)


def _fill(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    batches: Iterable[pa.RecordBatch],
    stored: pa.Schema,
    to: pa.Schema,
) -> None:
    # Batch by batch, not as one stream: what goes wrong while files are read stays the error that it is.
    connection.register("incoming", to.empty_table())
    connection.execute(f"CREATE TABLE {name} AS SELECT true AS here, * FROM incoming")  # noqa: S608
    for batch in batches:
        inside = pa.Table.from_arrays(cast(batch.columns, stored).columns, schema=to)
        connection.register("incoming", inside)
        connection.execute(f"INSERT INTO {name} SELECT true, * FROM incoming")  # noqa: S608
    connection.unregister("incoming")


def _sql(connection: duckdb.DuckDBPyConnection, count: int, key: Sequence[int]) -> str:
    columns = [f"c{place}" for place in range(count)]
    by = [f"c{place}" for place in key]
    if not key:
        each = f"SELECT *, unnest(range(abs(n))) FROM ({_rest(columns)})"  # noqa: S608
        kind = f"CASE WHEN n > 0 THEN '{INSERT}' ELSE '{DELETE}' END"
        return f"SELECT {kind}, {', '.join(columns * 2)} FROM ({each})"  # noqa: S608
    old, new = "old", "new"
    if _has_twins(connection, by):
        # What both have as often is not a change; of the rest, the rows of a key are numbered.
        connection.execute(f"CREATE TABLE rest AS {_rest(columns)}")
        old, new = (
            f"(SELECT *, row_number() OVER (PARTITION BY {', '.join(by)}) AS number "  # noqa: S608
            f"FROM (SELECT *, true AS here, unnest(range(abs(n))) FROM rest WHERE {side}))"
            for side in ("n < 0", "n > 0")
        )
        by = [*by, "number"]
    same = " AND ".join(f"o.{one} IS NOT DISTINCT FROM n.{one}" for one in by)
    differs = " OR ".join(f"o.{one} IS DISTINCT FROM n.{one}" for one in columns)
    after = ", ".join(f"CASE WHEN n.here IS NULL THEN o.{one} ELSE n.{one} END" for one in columns)
    before = ", ".join(f"o.{one}" for one in columns)
    return (
        f"SELECT CASE WHEN n.here IS NULL THEN '{DELETE}' WHEN o.here IS NULL THEN '{INSERT}' ELSE '{UPDATE}' END, "  # noqa: S608
        f"{after}, {before} FROM {old} o FULL OUTER JOIN {new} n ON {same} "
        f"WHERE o.here IS NULL OR n.here IS NULL OR {differs}"
    )


def _rest(columns: Sequence[str]) -> str:
    """The rows that one side has more often than the other, and by how many: `n` is negative for those that left."""
    named = ", ".join(columns)
    both = f"SELECT {named}, 1 AS one FROM new UNION ALL SELECT {named}, -1 FROM old"  # noqa: S608
    return f"SELECT {named}, sum(one)::BIGINT AS n FROM ({both}) GROUP BY {named} HAVING sum(one) <> 0"  # noqa: S608


def _has_twins(connection: duckdb.DuckDBPyConnection, by: Sequence[str]) -> bool:
    columns = ", ".join(by)
    return any(
        connection.execute(f"SELECT 1 FROM {side} GROUP BY {columns} HAVING count(*) > 1 LIMIT 1").fetchall()  # noqa: S608
        for side in ("old", "new")
    )


def _changes(kinds: pa.Array, after: Sequence[pa.Array], before: Sequence[pa.Array], rows: pa.Schema) -> pa.RecordBatch:
    columns = _nullable(rows)
    inside = without_json(columns)
    images = cast(before, inside).columns
    image = pa.StructArray.from_arrays(images, fields=list(inside), mask=pc.equal(kinds, INSERT))
    return pa.RecordBatch.from_arrays([kinds, *cast(after, columns).columns, image], schema=changes_schema(rows))


def _nullable(rows: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, field.type) for field in rows])
