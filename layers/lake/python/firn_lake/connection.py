"""`firn_lake.connect(…)`: opens a lake, wherever it is."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog, load_catalog

from firn.errors import TerminalError
from firn_lake.catalogs.catalog import CATALOG_NAME, open_catalog, storage_properties
from firn_lake.catalogs.metadata_writer import with_writer
from firn_lake.catalogs.stack_catalog import catalog_of
from firn_lake.lake import Lake

if TYPE_CHECKING:
    from firn.deployment.stack import Stack


class NoLake(TerminalError):
    """There is no lake at that place."""


def connect(
    where: "str | Path | Mapping[str, str] | Catalog" = ".firn",
    *,
    target: str | None = None,
    warehouse: str = "",
    env: Mapping[str, str] | None = None,
) -> Lake:
    """Open a lake.

    where      the folder of an embedded stack (`firn up`, running or not, if its data are files); a `firn.yaml`; a
               catalog's address (sqlite:///PATH, https://…: docs/configuration.md); PyIceberg's settings of one; or a
               PyIceberg catalog
    target     a deployment under `targets:` of the firn.yaml
    warehouse  where the tables are, for an address
    env        AWS_… and FIRN_… settings; None: the process environment

    Raises NoLake, NoStack, ConfigError, TransientError.
    """
    environment = os.environ if env is None else env
    if isinstance(where, Catalog):
        return Lake(where)
    if isinstance(where, Mapping):
        return Lake(with_writer(load_catalog(CATALOG_NAME, **{**storage_properties(environment), **where})))
    if "://" in str(where):
        if not warehouse:
            _require_file(str(where))
        return Lake(open_catalog(str(where), warehouse, environment))
    path = Path(where)
    if path.is_dir():
        from firn.deployment.target import find_stack

        return _of_stack(find_stack(path, running=False))
    if not path.is_file():
        raise NoLake(
            f"{path} is neither the folder of a stack nor a firn.yaml: run `firn up`, or give a catalog's address, "
            "such as sqlite:///path/catalog.db"
        )
    return _of_configuration(path, target, environment)


def _require_file(address: str) -> None:
    """A SQLite catalog that is not there would be made, and the mistyped lake be an empty one. Raises NoLake."""
    kind, _, path = address.partition(":///")
    file = Path(path.partition("?")[0])
    if kind == "sqlite" and not file.is_file():
        raise NoLake(f"{file}: no such catalog; for a new one say warehouse= too, the folder or bucket of its tables")


def _of_stack(stack: "Stack") -> Lake:
    return Lake(catalog_of(stack), stack.store)


def _of_configuration(path: Path, target: str | None, env: Mapping[str, str]) -> Lake:
    from firn.config.reader import parse
    from firn.deployment.cloudformation import find_deployed
    from firn.deployment.config_text import config_text
    from firn.deployment.target import find_stack
    from firn.log.store import open_store

    folder = path.parent / ".firn"
    if target is not None:
        return _of_stack(find_deployed(target, folder, file=path))
    config = parse(config_text(path), str(path))
    staging = env.get("FIRN_STAGING", "")
    store = (lambda: open_store(staging)) if staging else None
    warehouse = env.get("FIRN_WAREHOUSE") or config.warehouse
    address = config.catalog.address or env.get("FIRN_CATALOG_URI", "")
    if address:
        return Lake(open_catalog(address, warehouse, env), store)
    if folder.is_dir():
        return _of_stack(find_stack(folder, running=False))
    names = f", or a deployment with target={next(iter(config.targets))!r}" if config.targets else ""
    raise NoLake(
        f"{path} leaves the catalog to its deployment, and {folder} is not a stack's: run `firn up` there{names}"
    )
