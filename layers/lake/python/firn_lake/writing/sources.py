"""Queries of other databases: by DB-API 2.0 (PEP 249), or by ADBC and others that hand out Arrow."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg.schema import Schema

from firn.errors import TerminalError
from firn_lake.schemas.arrow_types import arrow_schema
from firn_lake.writing.coercion import BadRows, batches_of, of_columns

Source = Any
"""A connection, or a cursor of one, such as a named cursor of psycopg, which keeps the rows at the server."""

Given = Sequence[Any] | Mapping[str, Any] | None
"""The query's parameters, in the driver's own style."""


class SourceFailed(TerminalError):
    """The query's database refused it, or is away; the text has its own words. Nothing was written."""


class Query:
    """A query that runs. `with` closes its cursor, if it was opened here; transactions are the connection's owner's."""

    def __init__(self, source: Source, sql: str, parameters: Given, batch_size: int) -> None:
        """Runs `sql`; `batch_size`: rows to fetch at once. Raises SourceFailed."""
        if batch_size < 1:
            raise ValueError("batch_size is 1 or more")
        if not hasattr(source, "cursor") and not hasattr(source, "fetchmany"):
            raise SourceFailed(
                f"a {type(source).__name__} is not a database connection: give one of DB-API 2.0 (sqlite3, psycopg, "
                "pg8000, …) or of ADBC"
            )
        self._size = batch_size
        self._own = not hasattr(source, "fetchmany")
        self._cursor = self._ask(source.cursor) if self._own else source
        self._arrow = self._run(sql, parameters)
        self._waiting: list[Sequence[Any]] | None = None
        if self._arrow is None and not self._cursor.description:
            raise SourceFailed("the statement gives no rows: write a SELECT")
        self.names = [one[0] for one in self._cursor.description] if self._arrow is None else self._arrow.schema.names
        twice = [name for name in self.names if self.names.count(name) > 1]
        if twice:
            raise BadRows(f"the query gives the column {twice[0]!r} more than once: name each (AS …)")

    def columns(self) -> pa.Schema:
        """The columns as Arrow has them: what the driver says, or what the first rows show.

        Raises SourceFailed, BadRows (the first rows do not tell).
        """
        if self._arrow is not None:
            return self._arrow.schema
        self._waiting = self._fetch()
        columns = list(zip(*self._waiting, strict=True)) or [()] * len(self.names)
        fields = []
        for place, (name, values) in enumerate(zip(self.names, columns, strict=True)):
            try:
                kind = _kind(values, self._cursor.description[place])
            except (pa.ArrowException, TypeError, ValueError) as error:
                raise BadRows(f"column {name!r} of the query has values of several kinds: {error}") from error
            if pa.types.is_null(kind):
                raise BadRows(
                    f"the first {len(values)} rows do not tell the type of column {name!r}: make the table first "
                    "(lake.create)"
                )
            fields.append(pa.field(name, kind))
        return pa.schema(fields)

    def batches(self, schema: Schema, name: str) -> Iterator[pa.RecordBatch]:
        """The rows with the columns of the table `name`, a batch at a time. Raises SourceFailed, BadRows."""
        if self._arrow is not None:
            yield from batches_of(self._told(self._arrow), schema, name)
            return
        into = arrow_schema(schema)
        unknown = [one for one in self.names if one not in into.names]
        if unknown:
            raise BadRows(
                f"the query gives {', '.join(map(repr, unknown))}, and {name} has no such column: it has "
                f"{', '.join(into.names)}. Name the query's columns after them (AS …)"
            )
        first = 0
        while rows := self._waiting if self._waiting is not None else self._fetch():
            self._waiting = None
            there = dict(zip(self.names, zip(*rows, strict=True), strict=True))
            columns = [there.get(field.name, (None,) * len(rows)) for field in into]
            yield of_columns(columns, into, name, first)
            first += len(rows)

    def close(self) -> None:
        """Closes the cursor, if it was opened here."""
        if self._own:
            with suppress(Exception):
                self._cursor.close()

    def __enter__(self) -> "Query":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, sql: str, parameters: Given) -> pa.RecordBatchReader | None:
        """Runs the query. -> its rows, if they come as Arrow."""
        found: pa.RecordBatchReader
        if isinstance(self._cursor, duckdb.DuckDBPyConnection):
            relation = self._ask(lambda: self._cursor.sql(sql, params=parameters))
            if relation is None:
                raise SourceFailed("the statement gives no rows: write a SELECT")
            found = self._ask(relation.to_arrow_reader, self._size)
            return found
        self._ask(self._cursor.execute, sql, *([] if parameters is None else [parameters]))
        if not hasattr(self._cursor, "fetch_record_batch"):
            return None
        found = self._ask(self._cursor.fetch_record_batch)
        return found

    def _told(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        while True:
            try:
                batch = self._ask(reader.read_next_batch)
            except StopIteration:
                return
            yield batch

    def _fetch(self) -> list[Sequence[Any]]:
        return list(self._ask(self._cursor.fetchmany, self._size))

    @staticmethod
    def _ask(what: Any, *how: Any) -> Any:
        try:
            return what(*how)
        except StopIteration:
            raise
        except Exception as error:
            raise SourceFailed(f"the query's database says: {type(error).__name__}: {error}") from error


def _kind(values: Sequence[Any], description: Sequence[Any]) -> pa.DataType:
    """The type that a column's first values show. JSON is text, as other rows may have other fields; a number's own
    digits say nothing of later ones. Raises what Arrow does for values of several kinds."""
    if any(isinstance(one, Mapping) for value in values for one in (value if isinstance(value, list) else [value])):
        return pa.string()
    kind = pa.array(values).type
    if pa.types.is_decimal(kind):
        scale = description[5] if len(description) > 5 else None
        return pa.decimal128(38, scale if isinstance(scale, int) and 0 <= scale <= 38 else max(kind.scale, 0))
    return kind
