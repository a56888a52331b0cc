"""`python -m tests.demo [--catalog KIND] [--storage NAME] [--mixed]`: the demo in a catalog and a storage that are
started for it (`make demo CATALOG=… STORAGE=…`).

Exit code 0 only if every row is equal; 2 where Firn commits nothing to such a catalog, where the two were never put
together, or where what they need is not here.
"""

import argparse
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from firn.config.catalogs import READ_ONLY
from firn_demo.corpus import FINAL
from firn_demo.demonstration import demonstrate
from firn_demo.storages import STORAGES, Storage
from firn_lake.catalogs.catalog import open_catalog
from tests.clouds import CLOUDS
from tests.hive import metastore
from tests.hive import missing as no_hive
from tests.rest_catalog import own_jvm, rest_server


@contextmanager
def hive(folder: Path) -> Iterator[str]:
    """A Hive Metastore 4.0.0 over a PostgreSQL."""
    logging.getLogger("thrift").setLevel(logging.CRITICAL)  # it says of each try that nobody answers yet
    with metastore(folder) as running:
        yield running.url


@contextmanager
def rest(folder: Path) -> Iterator[str]:
    """Iceberg's own REST handlers."""
    with own_jvm() as jvm, rest_server(folder, jvm) as running:
        yield running.url


_SERVED: dict[str, Callable[[Path], AbstractContextManager[str]]] = {"hive": hive, "rest": rest}
_CLOUD_OF = {"azure": "azure", "gcs": "google"}


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; -> its exit code."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--catalog", choices=["sql", *_SERVED, "nessie"], default="sql", help="as catalog.type")
    parser.add_argument("--storage", choices=[*STORAGES, *_CLOUD_OF], help="of staged data and tables")
    parser.add_argument("--mixed", action="store_true", help="azure, gcs: staged data stays in the stack's own S3")
    given = parser.parse_args(arguments)
    storage = given.storage or ("file" if given.catalog in _SERVED else "s3")
    if refusal := _refusal(given.catalog, storage):
        print(f"demo: {refusal}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="firn-demo-servers-") as folder, ExitStack() as running:
        where = running.enter_context(_cloud(storage, Path(folder), given.mixed)) if storage in _CLOUD_OF else storage
        if given.catalog not in _SERVED:
            return demonstrate(keep=False, storage=where)
        url = running.enter_context(_SERVED[given.catalog](Path(folder)))
        print(f"The catalog is a {given.catalog} catalog at {url}")
        code = demonstrate(keep=False, options=("--catalog", url), storage=where)
        there = {".".join(name) for name in _tables(url)}
        if code == 0 and not there >= set(FINAL):
            print(f"demo: {sorted(set(FINAL) - there)} are not in the catalog at {url}", file=sys.stderr)
            return 1
        return code


def _refusal(catalog: str, storage: str) -> str | None:
    if catalog == "nessie":
        return READ_ONLY
    if catalog == "hive" and (lacking := no_hive()):
        return lacking
    if catalog in _SERVED and storage != "file":
        return f"the server of CATALOG={catalog} reaches files alone here: write STORAGE=file, or leave it out"
    return None


@contextmanager
def _cloud(name: str, folder: Path, mixed: bool) -> Iterator[Storage]:
    """Staging and warehouse on the server of that cloud, which this process reads from too."""
    with CLOUDS[_CLOUD_OF[name]](folder) as server:
        os.environ.update(server.environment)
        staging = ("--s3",) if mixed else ("--staging", server.url("demo/staging"))
        places = (*staging, "--warehouse", server.url("demo/warehouse"))
        yield Storage(f"at {server.url('demo')}", places, server.environment)


def _tables(url: str) -> list[tuple[str, ...]]:
    catalog = open_catalog(url, "file:///nowhere", {})
    return [name for namespace in catalog.list_namespaces() for name in catalog.list_tables(namespace)]


if __name__ == "__main__":
    sys.exit(main())
