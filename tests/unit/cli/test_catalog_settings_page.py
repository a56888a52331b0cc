"""Each row of settings in docs/catalogs.md is an address that Firn reads, of the product that it names."""

import re
from pathlib import Path

import pytest
import yaml

from firn.config.catalog_products import PRODUCTS, UNTRIED, product_of
from firn.config.catalogs import address_of, pyiceberg_properties, read_address, spark_properties
from firn.config.reader import parse

_PAGE = Path(__file__).parents[3] / "docs/catalogs.md"
_PROPERTY = re.compile(r"`([a-zA-Z][\w.-]*): (\"?[^`]+\"?)`")


def _rows() -> list[tuple[str, str, str, str]]:
    """(product, uri, warehouse, the cells of properties)."""
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in _PAGE.read_text().splitlines()
        if line.startswith("| ") and line.count(" | ") == 5 and "`https://" in line
    ]
    return [(row[0].strip("| "), row[1].strip("`"), row[2].strip("`"), " ".join(row[3:5])) for row in cells]


def test_every_product_that_is_not_tried_has_a_row() -> None:
    assert sorted(row[0] for row in _rows()) == sorted(one.name for one in PRODUCTS if one.state == UNTRIED)


@pytest.mark.parametrize(("name", "uri", "warehouse", "written"), _rows(), ids=lambda text: str(text)[:12])
def test_the_settings_of_a_row_are_those_of_that_catalog(name: str, uri: str, warehouse: str, written: str) -> None:
    found = {key: str(yaml.safe_load(value)) for key, value in _PROPERTY.findall(written)}
    properties = {"warehouse": warehouse, **{key: str(value) for key, value in found.items()}}
    assert len(properties) > 1
    streams = {"shop": {"tables": {"*": {"to": "shop.{table}"}}}}
    catalog = {"type": "rest", "uri": uri, "properties": properties}
    config = parse(yaml.safe_dump({"catalog": catalog, "streams": streams}))
    address = read_address(config.catalog.address)
    assert config.catalog.address == address_of("rest", uri, properties)
    assert (product_of(address).name, address.places, dict(address.properties)) == (name, (uri,), properties)
    for told in (pyiceberg_properties(address, {}), spark_properties(address, {})):
        assert properties.items() <= told.items()
