"""The DuckDB that a view's query runs in."""

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import duckdb

from firn.errors import TerminalError
from firn_sql.transform import NOT_OPTIMIZED

Connection = duckdb.DuckDBPyConnection
MEMORY: Final = 600_000_000  # bytes that it holds: more goes to disk
DISK: Final = 10_000_000_000  # bytes of that, at most
LONGEST_SECONDS: Final = 1_800.0  # commits wait for a view's query
_LOOK_SECONDS: Final = 0.2


@contextmanager
def connected(
    memory: int = MEMORY, disk: int = DISK, seconds: float = LONGEST_SECONDS, threads: int | None = None
) -> Iterator[Connection]:
    """A DuckDB whose tables may be larger than memory, and that opens no file but its own. What it computes after so
    many seconds, or with so many bytes on disk, is broken off. It is gone afterwards, with all that it has written."""
    with tempfile.TemporaryDirectory(prefix="firn-view-") as folder:
        settings: dict[str, Any] = {
            "threads": threads or os.cpu_count() or 1, "memory_limit": f"{memory}B", "temp_directory": folder,
            "python_enable_replacements": False, "preserve_insertion_order": False,
            "autoload_known_extensions": False, "autoinstall_known_extensions": False,
        }  # fmt: skip
        connection = duckdb.connect(":memory:", config=settings)
        done = threading.Event()
        watch = threading.Thread(
            target=_break_off, args=(connection, done, time.monotonic() + seconds, folder, disk), daemon=True
        )
        watch.start()
        try:
            connection.execute("SET enable_external_access = false")  # it goes on using its own folder
            connection.execute("SET TimeZone = 'UTC'")
            # As a pipeline's: a cast would fail for rows that another condition keeps out.
            connection.execute(f"SET disabled_optimizers = '{NOT_OPTIMIZED}'")
            yield connection
        finally:
            done.set()
            watch.join()
            connection.close()


def _break_off(connection: Connection, done: threading.Event, end: float, folder: str, disk: int) -> None:
    """Ends what the connection computes once it takes too long or too much disk (DuckDB's own max_temp_directory_size
    does not hold for tables), and what it begins then: an interruption between two queries ends none."""
    is_over = False
    while not done.wait(_LOOK_SECONDS):
        is_over = is_over or time.monotonic() > end or _size(folder) > disk
        if is_over:
            connection.interrupt()


def _size(folder: str) -> int:
    """Bytes in the files of a folder; it and they may just be going."""
    found = 0
    with suppress(FileNotFoundError):
        for one in os.scandir(folder):
            found += one.stat().st_size
    return found


@contextmanager
def failures(owner: str) -> Iterator[None]:
    """What DuckDB says of rows, as an error of the view `owner` (TerminalError)."""
    try:
        yield
    except duckdb.InterruptException as error:
        raise TerminalError(
            f"view {owner}: its query takes more than {LONGEST_SECONDS / 60:.0f} minutes, or {DISK // 10**9} GB of "
            "disk, and commits wait for it; write it over a view that is smaller than its tables, or join by ="
        ) from error
    except duckdb.OutOfMemoryException as error:
        raise TerminalError(
            f"view {owner}: its query needs more memory than a job gives it; write it over a view that is "
            "smaller than its tables"
        ) from error
    except duckdb.Error as error:
        said = str(error).partition("\n")[0][:300]
        raise TerminalError(f"view {owner}: {said}; write TRY_CAST, or leave such rows out in its WHERE") from error
