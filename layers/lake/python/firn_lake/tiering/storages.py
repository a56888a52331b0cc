"""Which storage's classes the files of an address have."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from firn.config.storage_classes import AZURE, GOOGLE, S3, classes_of
from firn_lake.tiering.azure_classes import AzureClasses
from firn_lake.tiering.class_port import Classes, NoClasses
from firn_lake.tiering.google_classes import GoogleClasses
from firn_lake.tiering.objects import S3Classes

_KINDS: Final[Mapping[str, Callable[[Any], Classes]]] = {
    S3.storage: S3Classes,
    AZURE.storage: lambda _: AzureClasses(),
    GOOGLE.storage: lambda _: GoogleClasses(),
}


def open_classes(location: str, s3: Any = None) -> Classes:
    """The classes of the storage that the address lies in. `s3`: a boto3 client, which S3's use; None: one is made.
    Raises NoClasses, ConfigError."""
    table = classes_of(location)
    if table is None:
        raise NoClasses(
            f"{location} is in no storage with classes: files become cold in {S3.storage}, {AZURE.storage} and "
            f"{GOOGLE.storage}; a folder has none"
        )
    return _KINDS[table.storage](s3)
