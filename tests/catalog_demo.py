"""`python -m tests.catalog_demo KIND`: the demo with its tables in a catalog of that kind, which is started for it
(make demo CATALOG=KIND). Exit code 0 only if every row is equal; 2 where Firn commits nothing to such a catalog, or
what it needs is not here.
"""

import argparse
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from firn.config.catalogs import READ_ONLY
from firn_demo.corpus import FINAL
from firn_demo.demonstration import demonstrate
from firn_lake.catalogs.catalog import open_catalog
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


_KINDS: dict[str, Callable[[Path], AbstractContextManager[str]]] = {"hive": hive, "rest": rest}


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; -> its exit code."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("kind", choices=["sql", *_KINDS, "nessie"], help="as catalog.type in firn.yaml")
    kind = parser.parse_args(arguments).kind
    if kind == "sql":
        return demonstrate(keep=False)
    if refusal := READ_ONLY if kind == "nessie" else no_hive() if kind == "hive" else None:
        print(f"demo: {refusal}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="firn-demo-catalog-") as folder, _KINDS[kind](Path(folder)) as url:
        print(f"The catalog is a {kind} catalog at {url}")
        code = demonstrate(keep=False, options=("--catalog", url), s3=False)
        there = {".".join(name) for name in _tables(url)}
        if code == 0 and not there >= set(FINAL):
            print(f"demo: {sorted(set(FINAL) - there)} are not in the catalog at {url}", file=sys.stderr)
            return 1
        return code


def _tables(url: str) -> list[tuple[str, ...]]:
    catalog = open_catalog(url, "file:///nowhere", {})
    return [name for namespace in catalog.list_namespaces() for name in catalog.list_tables(namespace)]


if __name__ == "__main__":
    sys.exit(main())
