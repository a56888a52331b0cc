"""The sources of a view without rows, to ask DuckDB for the types of what is made of them."""

from collections.abc import Mapping, Sequence

import duckdb

from firn_sql.views.algebra import quoted
from firn_sql.views.planner import SourceTable
from firn_sql.views.refresh_port import Within


class NoRows:
    """Sources (refresh_port.Sources) that are empty at every cut."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, tables: Mapping[str, SourceTable]) -> None:
        self._names = {name: f"firn_empty_{i}" for i, name in enumerate(tables)}
        for name, table in tables.items():
            columns = ", ".join(f"{quoted(one)} {kind}" for one, kind in table.columns.items())
            connection.execute(f"CREATE OR REPLACE TEMP TABLE {self._names[name]} ({columns})")

    def rows(self, source: str, cut: int, columns: Sequence[str], within: Within | None) -> str:  # noqa: ARG002
        """No rows."""
        return f"SELECT * FROM {self._names[source]}"

    def changes(self, source: str, columns: Sequence[str]) -> None:
        """Nothing changes."""

    def held(self, columns: Sequence[str], within: Within) -> str:  # noqa: ARG002
        """Raises AssertionError: nobody asks."""
        raise AssertionError("nothing is held")

    def all_held(self, columns: Sequence[str]) -> str | None:  # noqa: ARG002
        """Raises AssertionError: nobody asks."""
        raise AssertionError("nothing is held")

    def count(self, source: str) -> int:  # noqa: ARG002
        """Raises AssertionError: nobody asks."""
        raise AssertionError("nothing is looked up")
