"""Which catalogs Firn has been tried with, and how: what `firn doctor --catalog` and docs/catalogs.md say. Pure."""

import re
from dataclasses import dataclass
from typing import Final

from firn.config.catalogs import Address

TRIED: Final = "tried"
EMULATED: Final = "emulated"
READ: Final = "read only"
UNTRIED: Final = "not tried"


@dataclass(frozen=True)
class Product:
    """A catalog that people run.

    name     as its maker has it
    kind     its line of catalogs.KINDS
    address  a pattern that its address contains; "" fits every address of the kind
    state    TRIED (on the real server), EMULATED (on somebody's emulation alone), READ, UNTRIED
    how      by what and how often, in a sentence for people
    """

    name: str
    kind: str
    address: str
    state: str
    how: str


_SETTINGS: Final = "by its settings alone: docs/catalogs.md has them"

PRODUCTS: Final = (
    Product("SQLite", "sql", r"^sqlite", TRIED, "by every test, on one machine: it is a file"),
    Product("PostgreSQL", "sql", "", TRIED, "by every run of the tests, on a real server"),
    Product("AWS Glue", "glue", "", EMULATED, "by every run of the tests, on moto's emulation; never on AWS"),
    Product("Hive Metastore", "hive", "", TRIED, "4.0.0 over PostgreSQL, by `make test-servers` and `make soak`"),
    Product(
        "Nessie", "nessie", "", READ,
        "0.99.0, by `make test-servers` and `make soak`; Firn commits nothing to it (docs/adr/0074-hive-and-nessie.md)",
    ),
    Product("AWS Glue by Iceberg REST", "rest", r"//glue\.[^/]*amazonaws\.com", UNTRIED, _SETTINGS),
    Product("Amazon S3 Tables", "rest", r"//s3tables\.[^/]*amazonaws\.com", UNTRIED, _SETTINGS),
    Product("Snowflake Open Catalog", "rest", r"\.snowflakecomputing\.com", UNTRIED, _SETTINGS),
    Product("Google BigLake", "rest", r"//biglake\.googleapis\.com", UNTRIED, _SETTINGS),
    Product("Unity Catalog", "rest", r"databricks\.(com|net)|/unity-catalog", UNTRIED, _SETTINGS),
    Product("Cloudflare R2 Data Catalog", "rest", r"//catalog\.cloudflarestorage\.com", UNTRIED, _SETTINGS),
    Product("Lakekeeper", "rest", r"lakekeeper[^/]*/catalog/?$", UNTRIED, _SETTINGS),
    Product("Apache Polaris", "rest", r"/api/catalog/?$", UNTRIED, _SETTINGS),
    Product(
        "Iceberg REST", "rest", "", TRIED,
        "by every run of the tests, on Iceberg 1.11.0's own handlers; no address tells which product answers at it",
    ),
)  # fmt: skip
"""The first that fits an address counts."""


def product_of(address: Address) -> Product:
    """What is behind an address, as far as it tells."""
    return next(
        one for one in PRODUCTS if one.kind == address.kind and re.search(one.address, address.places[0], re.IGNORECASE)
    )
