"""A catalog of each kind that this machine can run, with tables in a folder or in the embedded S3."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog

from firn_lake.catalogs.catalog import open_catalog
from firn_local.aws import AwsEndpoint
from tests.hive import metastore
from tests.postgresql import as_catalog, postgresql
from tests.rest_catalog import JARS, RestServer, own_jvm, rest_server


@dataclass
class Ground:
    """Where a catalog of a kind is. `open` gives a client of it; each is another process's, as far as it can tell."""

    kind: str
    address: str
    warehouse: str
    env: dict[str, str] = field(default_factory=dict)

    def open(self) -> Catalog:
        return open_catalog(self.address, self.warehouse, self.env)


def _sqlite(folder: Path) -> Iterator[Ground]:
    yield Ground("sql-sqlite", f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse")


def _postgresql(folder: Path) -> Iterator[Ground]:
    with postgresql() as address:
        yield Ground("sql-postgresql", as_catalog(address, folder / "secret"), f"file://{folder}/warehouse")


@pytest.fixture(scope="session")
def jvm() -> Iterator[Any]:
    """A small JVM with Iceberg in it."""
    if not list(JARS.glob("iceberg-spark-runtime*.jar")):
        pytest.skip("no jars in .cache/jars: run `make setup`")
    with own_jvm() as running:
        yield running


@pytest.fixture(scope="session")
def server(jvm: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    """Iceberg's own handlers behind HTTP; no request fails, unless a test says so and takes it back."""
    with rest_server(tmp_path_factory.mktemp("rest"), jvm) as running:
        yield running


def _hive(folder: Path) -> Iterator[Ground]:
    with metastore(folder) as running:
        yield Ground("hive", running.url, f"file://{folder}/warehouse")


def _glue(folder: Path) -> Iterator[Ground]:
    # The catalog is Glue's, the files are in a folder: with those in S3, tests/integration/spark/test_glue.py.
    endpoint = AwsEndpoint()
    endpoint.start()
    yield Ground("glue", "glue://", f"file://{folder}/warehouse", dict(endpoint.credentials))
    endpoint.stop()


_GROUNDS: dict[str, Callable[[Path], Iterator[Ground]]] = {
    "sql-sqlite": _sqlite, "sql-postgresql": _postgresql, "glue": _glue, "hive": _hive,
}  # fmt: skip


@pytest.fixture(scope="module", params=["sql-sqlite", "sql-postgresql", "rest", "glue", "hive"])
def ground(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    folder = tmp_path_factory.mktemp("catalog")
    if request.param == "rest":
        running = request.getfixturevalue("server")
        yield Ground("rest", running.url, f"file://{folder}/warehouse")
        return
    yield from _GROUNDS[request.param](folder)


@pytest.fixture
def catalog(ground: Ground) -> Iterator[Catalog]:
    with ground.open() as opened:
        yield opened
