"""A table of the lake as views read it: its columns in DuckDB's types, and what tells its rows apart."""

from collections.abc import Sequence
from functools import cache

import duckdb

from firn.changes.decode.types import Column
from firn.config.sql_text import SqlRefused
from firn_sql.source_types import source_schema
from firn_sql.views.planner import SourceTable


def source_table(columns: Sequence[Column], key: Sequence[str]) -> SourceTable:
    """A table with these columns, Firn's own among them.

    key  a mirror's key; `_firn_id` of an append table and of a view; () of a table that has none. One that names a
         column that is not there is none

    Raises SqlRefused for two columns that SQL can't tell apart.
    """
    names = [one.name for one in columns]
    low: dict[str, str] = {}
    for name in names:
        if (other := low.setdefault(name.lower(), name)) != name:
            why = f"a table that it reads has the columns {other[:60]!r} and {name[:60]!r}, which SQL can't tell apart"
            raise SqlRefused(1, 1, why, "have its source call one of them otherwise")
    kinds = _connection().cursor().from_arrow(source_schema(columns).empty_table()).types
    return SourceTable(dict(zip(names, map(str, kinds), strict=True)), tuple(key) if {*key} <= {*names} else ())


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config={"threads": "1", "enable_external_access": "false"})
