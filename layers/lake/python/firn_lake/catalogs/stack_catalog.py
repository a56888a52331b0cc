"""The catalog of a running Firn."""

import os
from typing import TYPE_CHECKING

from firn_lake.catalogs.catalog import open_catalog

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from firn.deployment.stack import Stack


def catalog_of(stack: "Stack") -> "Catalog":
    """The Iceberg catalog of a stack, by PyIceberg. Raises NoStack, ConfigError, TransientError."""
    address = stack.catalog_address()
    return open_catalog(address, stack.warehouse, {**os.environ, **stack.env})
