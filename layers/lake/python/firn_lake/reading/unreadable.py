"""Files of a table that can't be read: errors that name the file and the snapshot that needs it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from pyiceberg.exceptions import ResolveError

from firn.config.storage_classes import ARCHIVED, RESTORE
from firn.errors import ArchivedObject, StorageUnavailable, TerminalError

_AWAY: Final = re.compile(
    r"NETWORK_CONNECTION|SLOW_DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|REQUEST_TIMEOUT|THROTTLING|curlCode|timed out",
    re.IGNORECASE,
)


class UnreadableFile(TerminalError):
    """A file that a snapshot needs is missing, damaged, or of a kind that Firn does not read."""


@contextmanager
def reading(path: str, table: str, snapshot: int | None) -> Iterator[None]:
    """What goes wrong inside becomes UnreadableFile, or StorageUnavailable where another try may help: of a file in an
    archive once it is restored (ArchivedObject).

    path      the file that is read
    table     the table's name, for the text
    snapshot  the snapshot that needs the file; None: the table itself
    """
    where = f"{path}, which {table if snapshot is None else f'snapshot {snapshot} of {table}'} needs,"
    restore = RESTORE.replace("TABLE", table)
    try:
        yield
    except FileNotFoundError as error:
        raise UnreadableFile(
            f"{where} is missing: something else than Firn removed it. Other snapshots may not need it "
            f"(firn history {table}); firn rebuild {table} makes the table again from the staged log"
        ) from error
    except ArchivedObject as error:
        raise ArchivedObject(f"{where} can't be read: {restore}") from error
    except (OSError, pa.ArrowException, EOFError, ResolveError) as error:
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if ARCHIVED.search(str(error)):
            raise ArchivedObject(f"{where} can't be read: {restore}") from error
        if isinstance(error, ConnectionError | TimeoutError) or _AWAY.search(said):
            raise StorageUnavailable(f"{where} could not be fetched, try again: {said}") from error
        raise UnreadableFile(f"{where} can't be read: {said}") from error
