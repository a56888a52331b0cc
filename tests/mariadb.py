"""A MariaDB of its own for tests; those are skipped where none is installed."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from examples.sources import needs
from examples.sources.mariadb import MariaDb, Programs


@contextmanager
def mariadb(database: str) -> Iterator[MariaDb]:
    """A server with an empty database."""
    programs = needs.mariadb()
    if programs is None:
        pytest.skip("no MariaDB here: install mariadb-server to run this")
    folder = Path(tempfile.mkdtemp(prefix="firn-mariadb-"))
    folder.chmod(0o755)
    server = MariaDb(Programs(*programs), folder / "server", database)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
