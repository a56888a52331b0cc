"""A PostgreSQL of its own for tests of catalogs; those are skipped where none is installed."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

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
    """The address of an empty database `lake`, with its user and password."""
    home = Path(tempfile.mkdtemp(prefix="firn-pg-"))  # pytest's own folders are for their owner only
    home.chmod(0o755)
    server = Postgres(binaries(), home / "data", "lake")
    try:
        server.start()
        yield f"postgresql://{USER}:{quote(server.password)}@127.0.0.1:{server.port}/lake"
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


def as_catalog(address: str, secret: Path) -> str:
    """The same database as a catalog's address, which names the file of its password: `secret` is written."""
    parts = urlsplit(address)
    secret.touch(mode=0o600)
    secret.write_text(unquote(parts.password or ""))
    where = parts._replace(netloc=f"{parts.username}@{parts.hostname}:{parts.port}", fragment="").geturl()
    return f"{where}#firn.credential={quote(f'file:{secret}', safe=':/')}"
