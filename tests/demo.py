"""`python -m tests.demo [--catalog KIND] [--storage NAME] [--mixed]`: the demo in a catalog and a storage that are
started for it (`make demo CATALOG=… STORAGE=…`).

Exit code 0 only if every row is equal; 2 where Firn commits nothing to such a catalog, or where what the two need is
not here: then nothing is started, and the reason is said.
"""

import argparse
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from firn_demo import versitygw
from firn_demo.corpus import FINAL
from firn_demo.demonstration import demonstrate
from firn_demo.storages import FILES, IN_MEMORY, Storage, storage_of
from firn_lake.catalogs.catalog import open_catalog
from firn_local.aws import AwsEndpoint
from firn_local.environment import CLOUD_JARS, TEMPLATE
from firn_local.spark_preparation import SparkLacks, bring_jars
from firn_local.stack import local_parameters
from firn_local.template import read
from firn_spark.session import catalog_settings
from tests.azurite import missing as no_azurite
from tests.clouds import CLOUDS
from tests.demo_pairs import CATALOGS, STORAGES, refusal
from tests.fake_gcs import missing as no_fake_gcs
from tests.hive import metastore
from tests.hive import missing as no_hive
from tests.rest_catalog import own_jvm, rest_server

_CLOUD_OF: Final = {"azure": "azure", "gcs": "google"}
_NEEDS: Final[Mapping[str, Callable[[], str | None]]] = {
    "hive": no_hive, "versitygw": versitygw.missing, "azure": no_azurite, "gcs": no_fake_gcs,
}  # fmt: skip
_OF_FILES: Final = ("io-impl", "client.region", "s3.", "adls.", "gcs.")
"""What begins the names of Iceberg's properties of a FileIO."""


@dataclass(frozen=True)
class Place:
    """A storage that runs. `warehouse`: where tables will lie, "" for the stack's own folder."""

    storage: Storage
    warehouse: str = ""


@contextmanager
def hive(folder: Path, place: Place) -> Iterator[str]:
    """A Hive Metastore 4.0.0 over a PostgreSQL. It never asks the storage."""
    logging.getLogger("thrift").setLevel(logging.CRITICAL)  # it says of each try that nobody answers yet
    scheme, _, rest = place.warehouse.partition("://")
    with metastore(folder, stores=[f"{scheme}://{rest.partition('/')[0]}"] if scheme else []) as running:
        yield running.url


@contextmanager
def rest(folder: Path, place: Place) -> Iterator[str]:
    """Iceberg's own REST handlers, which write tables' metadata to the storage themselves."""
    files: dict[str, str] = {}
    if place.warehouse:
        told = catalog_settings("http://127.0.0.1", place.warehouse, os.environ)
        ours = {name.removeprefix("spark.sql.catalog.firn."): value for name, value in told.items()}
        files = {name: value for name, value in ours.items() if name.startswith(_OF_FILES)}
        bring_jars(warehouse=place.warehouse)
    with own_jvm(CLOUD_JARS.glob("*.jar")) as jvm, rest_server(folder, jvm, place.warehouse, files) as running:
        yield running.url


_SERVED: Final[Mapping[str, Callable[[Path, Place], AbstractContextManager[str]]]] = {"hive": hive, "rest": rest}


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; -> its exit code."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--catalog", choices=CATALOGS, default="sql", help="as catalog.type")
    parser.add_argument("--storage", choices=STORAGES, help="of staged data and tables")
    parser.add_argument("--mixed", action="store_true", help="azure, gcs: staged data stays in the stack's own S3")
    parser.add_argument("--keep", action="store_true", help="of `firn demo` alone")
    given = parser.parse_args(arguments)
    storage = given.storage or ("file" if given.catalog in _SERVED else "s3")
    if why := _contradiction(storage, given) or refusal(given.catalog, storage) or lacking(given.catalog, storage):
        print(f"demo: {why}", file=sys.stderr)
        return 2
    try:
        with tempfile.TemporaryDirectory(prefix="firn-demo-servers-") as folder:
            return _run(Path(folder), given.catalog, storage, given.mixed)
    except SparkLacks as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def _contradiction(storage: str, given: argparse.Namespace) -> str | None:
    if given.keep:
        return "KEEP=1 is for demos without CATALOG, and not on azure or gcs: their servers end with the demo"
    if given.mixed and storage not in _CLOUD_OF:
        return f"--mixed is for azure and gcs: with {storage} nothing is elsewhere than the rest"
    return None


def lacking(catalog: str, storage: str) -> str | None:
    """What of the two is not on this machine, and how it comes; None: they can be run."""
    return next((why for name in (catalog, storage) if name in _NEEDS and (why := _NEEDS[name]())), None)


def _run(folder: Path, catalog: str, storage: str, mixed: bool) -> int:
    with ExitStack() as running:
        place = running.enter_context(_stored(storage, folder, mixed, before_the_stack=catalog in _SERVED))
        if catalog not in _SERVED:
            return demonstrate(keep=False, storage=place.storage)
        url = running.enter_context(_SERVED[catalog](folder, place))
        print(f"The catalog is a {catalog} catalog at {url}")
        code = demonstrate(keep=False, options=("--catalog", url), storage=place.storage)
        there = {".".join(name) for name in _tables(url)}
        if code == 0 and not there >= set(FINAL):
            print(f"demo: {sorted(set(FINAL) - there)} are not in the catalog at {url}", file=sys.stderr)
            return 1
        return code


@contextmanager
def _stored(name: str, folder: Path, mixed: bool, before_the_stack: bool) -> Iterator[Place]:
    """Staging and warehouse in that storage, which this process and its servers reach too. `before_the_stack`: for
    a catalog that may ask it earlier, and outlives the stack's own S3 endpoint."""
    if name == "file":
        yield Place(FILES)
    elif name in _CLOUD_OF:
        with CLOUDS[_CLOUD_OF[name]](folder) as server:
            os.environ.update(server.environment)
            staging = ("--s3",) if mixed else ("--staging", server.url("demo/staging"))
            places = (*staging, "--warehouse", warehouse := server.url("demo/warehouse"))
            yield Place(Storage(f"at {server.url('demo')}", places, server.environment), warehouse)
    elif name == "s3" and not before_the_stack:
        yield Place(IN_MEMORY, _warehouse_of_the_stack())
    else:
        with _moto() if name == "s3" else storage_of(name, folder) as storage:
            os.environ.update(storage.environment)
            yield Place(storage, _warehouse_of_the_stack())


@contextmanager
def _moto() -> Iterator[Storage]:
    """The S3 endpoint of the stack, in this process: a catalog reaches it before there is a stack."""
    endpoint = AwsEndpoint()
    endpoint.start()
    try:
        reached = {name: value for name, value in endpoint.credentials.items() if name != "AWS_ENDPOINT_URL"}
        reached["AWS_ENDPOINT_URL_S3"] = endpoint.url
        yield Storage(f"in moto's S3 at {endpoint.url}", ("--s3-endpoint", endpoint.url), reached)
    finally:
        endpoint.stop()


def _warehouse_of_the_stack() -> str:
    template = read(TEMPLATE, local_parameters(TEMPLATE, {"EmrApplicationId": ""}), queue_urls="http://127.0.0.1")
    return f"s3://{template.buckets['WarehouseBucket']}/warehouse"


def _tables(url: str) -> list[tuple[str, ...]]:
    catalog = open_catalog(url, "file:///nowhere", {})
    return [name for namespace in catalog.list_namespaces() for name in catalog.list_tables(namespace)]


if __name__ == "__main__":
    sys.exit(main())
