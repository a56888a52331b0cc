"""The DuckDB that a view's query runs in."""

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import duckdb

from firn.errors import TerminalError
from firn_sql.transform import NOT_OPTIMIZED

Connection = duckdb.DuckDBPyConnection
MEMORY: Final = 600_000_000  # bytes that it holds: more goes to disk
DISK: Final = 10_000_000_000  # bytes of that, at most
LONGEST_SECONDS: Final = 1_800.0  # commits wait for a view's query
_LOOK_SECONDS: Final = 0.2


@dataclass(frozen=True)
class _Database:
    """A DuckDB that one connection after the other is opened in, and the folder that it may write to."""

    memory: int
    threads: int
    folder: "tempfile.TemporaryDirectory[str]"
    first: Connection

    @classmethod
    def opened(cls, memory: int, threads: int) -> "_Database":
        folder = tempfile.TemporaryDirectory(prefix="firn-view-")
        settings: dict[str, Any] = {
            "threads": threads, "memory_limit": f"{memory}B", "temp_directory": folder.name,
            "python_enable_replacements": False, "preserve_insertion_order": False,
            "autoload_known_extensions": False, "autoinstall_known_extensions": False,
        }  # fmt: skip
        first = duckdb.connect(":memory:", config=settings)
        first.execute("SET enable_external_access = false")  # it goes on using its own folder
        # As a pipeline's: a cast would fail for rows that another condition keeps out.
        first.execute(f"SET disabled_optimizers = '{NOT_OPTIMIZED}'")
        return cls(memory, threads, folder, first)

    def close(self) -> None:
        """It is gone, with all that it has written."""
        self.first.close()
        self.folder.cleanup()


# The one that was used last, by process: a fork can't use its parent's, nor close it. To open another one takes as long
# as the whole query of a small view.
_idle: dict[int, _Database] = {}
_taking = threading.Lock()


def _taken(memory: int, threads: int) -> _Database:
    with _taking:
        found = _idle.get(os.getpid())
        if found is not None and (found.memory, found.threads) == (memory, threads):
            return _idle.pop(os.getpid())
    return _Database.opened(memory, threads)


def _left(database: _Database) -> None:
    """The next connection is opened in it, unless something of it is still on disk."""
    if _size(database.folder.name):
        database.close()
        return
    with _taking:
        other, _idle[os.getpid()] = _idle.get(os.getpid()), database
    if other is not None:
        other.close()


@contextmanager
def connected(
    memory: int = MEMORY, disk: int = DISK, seconds: float = LONGEST_SECONDS, threads: int | None = None
) -> Iterator[Connection]:
    """A DuckDB whose tables may be larger than memory, and that opens no file but its own. What it computes after so
    many seconds, or with so many bytes on disk, is broken off. Its tables are gone afterwards; and all of it, if
    something failed."""
    database = _taken(memory, threads or os.cpu_count() or 1)
    connection = database.first.cursor()
    done = threading.Event()
    over = (time.monotonic() + seconds, database.folder.name, disk)
    watch = threading.Thread(target=_break_off, args=(connection, done, *over), daemon=True)
    watch.start()
    whole = False
    try:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection
        whole = True
    finally:
        done.set()
        watch.join()
        connection.close()
        (_left if whole else _Database.close)(database)


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
