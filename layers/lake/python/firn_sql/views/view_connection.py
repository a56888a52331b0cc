"""The DuckDB that a view's query runs in."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import duckdb

from firn.errors import TerminalError
from firn_sql.transform import NOT_OPTIMIZED

Connection = duckdb.DuckDBPyConnection
MEMORY: Final = 600_000_000  # bytes that it holds: more goes to disk


@contextmanager
def connected(memory: int = MEMORY) -> Iterator[Connection]:
    """A DuckDB whose tables may be larger than memory, and that opens no file but its own. It is gone afterwards, with
    all that it has written."""
    with tempfile.TemporaryDirectory(prefix="firn-view-") as folder:
        settings: dict[str, Any] = {
            "threads": os.cpu_count() or 1, "memory_limit": f"{memory}B", "temp_directory": folder,
            "python_enable_replacements": False, "preserve_insertion_order": False,
            "autoload_known_extensions": False, "autoinstall_known_extensions": False,
        }  # fmt: skip
        connection = duckdb.connect(":memory:", config=settings)
        try:
            connection.execute("SET enable_external_access = false")  # it goes on using its own folder
            connection.execute("SET TimeZone = 'UTC'")
            # As a pipeline's: a cast would fail for rows that another condition keeps out.
            connection.execute(f"SET disabled_optimizers = '{NOT_OPTIMIZED}'")
            yield connection
        finally:
            connection.close()


@contextmanager
def failures(owner: str) -> Iterator[None]:
    """What DuckDB says of rows, as an error of the view `owner` (TerminalError)."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise TerminalError(
            f"view {owner}: its query needs more memory and disk than a job gives it; write it over a view that is "
            "smaller than its tables"
        ) from error
    except duckdb.Error as error:
        said = str(error).partition("\n")[0][:300]
        raise TerminalError(f"view {owner}: {said}; write TRY_CAST, or leave such rows out in its WHERE") from error
