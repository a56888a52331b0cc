"""A PostgreSQL of its own for tests of catalogs; those are skipped where none is installed."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from examples.sources.postgres import USER, Postgres


def binaries() -> Path:
    """The folder of its programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    initdb = found[0] if found else shutil.which("initdb")
    if not initdb:
        pytest.skip("no PostgreSQL here: install postgresql (its initdb) to run this")
    return Path(initdb).resolve().parent


@contextmanager
def postgresql() -> Iterator[str]:
    """The address of an empty database `lake`, as firn.yaml writes it."""
    home = Path(tempfile.mkdtemp(prefix="firn-pg-"))  # pytest's own folders are for their owner only
    home.chmod(0o755)
    server = Postgres(binaries(), home / "data", "lake")
    try:
        server.start()
        yield f"postgresql://{USER}:{quote(server.password)}@127.0.0.1:{server.port}/lake"
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)
