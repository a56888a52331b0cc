"""DuckDB's progress bar, which would come out among the rows: it writes to standard output."""

from contextlib import suppress

import duckdb


def switch_off(connection: duckdb.DuckDBPyConnection) -> None:
    """No bar for this connection.

    In a notebook without ipywidgets DuckDB shows none, and refuses to be told so: InvalidInputException, "Could not
    change the progress bar setting because …".
    """
    with suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")
