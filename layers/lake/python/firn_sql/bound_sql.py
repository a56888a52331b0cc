"""A pipeline's SQL bound to the columns of its source, as far as these are known."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import pyarrow as pa

from firn.changes.decode.types import Column
from firn.config.sql_text import SqlRefused
from firn.errors import TerminalError
from firn_sql.check import check
from firn_sql.output_columns import columns_of
from firn_sql.transform import Transform

_UNSEEN: Final = re.compile(
    r'Referenced column "((?:[^"]|"")+)" not found|does not have a column named "((?:[^"]|"")+)"'
    r'|Column "((?:[^"]|"")+)" referenced that exists in the SELECT clause'  # of an alias of the same name
)
_MOST_UNSEEN: Final = 200  # columns that SQL names and no event had yet


@dataclass(frozen=True)
class Bound:
    """SQL that can run. `unseen`: columns that it names and the source does not have (yet): they are null;
    `columns`: of its output, but for those of which nobody knows the type yet."""

    transform: Transform
    unseen: tuple[str, ...]
    columns: tuple[Column, ...]


@lru_cache(64)
def bound(name: str, sql: str, schema: pa.Schema, joined: tuple[tuple[str, pa.Schema], ...] = ()) -> Bound:
    """The SQL of the pipeline `name`, bound to these columns. `joined`: of the tables that it joins, by their names.
    Raises TerminalError where it does not bind."""
    unseen: list[str] = []
    try:
        checked = check(sql)
        while True:
            try:
                whole = pa.schema([*schema, *(pa.field(one, pa.null()) for one in unseen)])
                transform = Transform(checked, whole, joined=dict(joined))
                return Bound(transform, tuple(unseen), columns_of(name, transform))
            except SqlRefused as refused:
                found = _UNSEEN.search(str(refused))
                column = (found[1] or found[2] or found[3]).replace('""', '"') if found else None
                if column is None or column in whole.names or len(unseen) >= _MOST_UNSEEN:
                    raise
                unseen.append(column)
    except SqlRefused as refused:
        raise TerminalError(f"pipeline {name}: {refused}") from refused


def rows_for(found: Bound, rows: pa.Table) -> pa.Table:
    """Rows with all columns that the SQL asks for."""
    for name in found.unseen:
        rows = rows.append_column(name, pa.nulls(len(rows)))
    return rows
