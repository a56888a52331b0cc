"""Which storages Firn has been tried with, and how: what `firn doctor --storage` and docs/storages.md say. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from firn.config.catalog_products import EMULATED, TRIED, UNTRIED
from firn.config.region import s3_endpoint


@dataclass(frozen=True)
class StorageProduct:
    """A storage that people run.

    name    as its maker has it
    scheme  of its URLs
    host    a pattern that the host of its endpoint contains; "" fits every endpoint, and none; None: it is anybody's
    state   TRIED (on the real server), EMULATED (on somebody's emulation alone), UNTRIED
    how     by what and how often, in a sentence for people
    """

    name: str
    scheme: str
    host: str | None
    state: str
    how: str


_SETTINGS: Final = "by its settings alone: docs/storages.md has them"

STORAGES: Final = (
    StorageProduct("A folder", "file", "", TRIED, "by every test, on one machine"),
    StorageProduct(
        "Amazon S3", "s3", r"^$|\.amazonaws\.com(\.cn)?$", EMULATED,
        "by every run of the tests, on moto's emulation; never on AWS",
    ),
    StorageProduct(
        "versitygw", "s3", None, TRIED,
        "1.8.0 over a folder, by `make test-servers`, and by all tests once `make setup-versitygw` has built it",
    ),
    StorageProduct("Cloudflare R2", "s3", r"\.r2\.cloudflarestorage\.com$", UNTRIED, _SETTINGS),
    StorageProduct("MinIO", "s3", None, UNTRIED, _SETTINGS),
    StorageProduct("Ceph", "s3", None, UNTRIED, _SETTINGS),
    StorageProduct("Wasabi", "s3", r"\.wasabisys\.com$", UNTRIED, _SETTINGS),
    StorageProduct("Backblaze B2", "s3", r"\.backblazeb2\.com$", UNTRIED, _SETTINGS),
    StorageProduct("Google Cloud Storage by its XML API", "s3", r"^storage\.googleapis\.com$", UNTRIED, _SETTINGS),
    StorageProduct(
        "Azure Blob Storage", "abfss", "", EMULATED,
        "by `make test-servers`, on Azurite 3.35.0; never on Azure (docs/clouds.md)",
    ),
    StorageProduct(
        "Google Cloud Storage", "gs", "", EMULATED,
        "by `make test-servers`, on fake-gcs-server 1.56.1; never on Google (docs/clouds.md)",
    ),
    StorageProduct("Another S3", "s3", "", UNTRIED, "its endpoint does not say which one it is (docs/storages.md)"),
)  # fmt: skip
"""The first that fits counts."""

_AZURE: Final = frozenset({"az", "abfs", "abfss", "azure"})


def product_at(url: str, environment: Mapping[str, str]) -> StorageProduct:
    """What is behind a URL, as far as it and the endpoint tell."""
    scheme = "abfss" if urlsplit(url).scheme in _AZURE else urlsplit(url).scheme
    host = urlsplit(s3_endpoint(environment)).hostname or "" if scheme == "s3" else ""
    known = (one for one in STORAGES if one.scheme == scheme and one.host is not None)
    found = (one for one in known if re.search(str(one.host), host, re.IGNORECASE))
    return next(found, StorageProduct(f"{scheme}://", scheme, "", UNTRIED, "nobody has said so"))
