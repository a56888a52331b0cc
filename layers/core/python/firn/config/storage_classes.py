"""The storage classes of each kind of storage: their names, whether they are read at once, what they cost. Pure.

One table a storage, and the only place that knows its classes: firn.yaml, the rules of tiering, prices and errors go by
it. The first class of a table is the hot one; the others follow in the order in which objects move on.

The figures are list prices before any discount, as generally quoted on the day that a table names (no price page was
asked: compare them with your own bill), and without what traffic out of a region costs. Sources:
https://aws.amazon.com/s3/pricing/ ("Storage", "Requests & data retrievals", "Management & insights"; the first 50 TB),
https://azure.microsoft.com/pricing/details/storage/blobs/ (locally redundant, flat namespace; the first 50 TB),
https://cloud.google.com/storage/pricing (a region's). Minimum days and sizes:
https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-class-intro.html,
https://learn.microsoft.com/azure/storage/blobs/access-tiers-overview,
https://cloud.google.com/storage/docs/storage-classes.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from firn.errors import ConfigError


@dataclass(frozen=True)
class StorageClass:
    """One class, in dollars. `storage`: a GB and month; `transition`, `get`: 1,000 requests (of the hot class
    `transition` is a put: nothing is moved there but by a copy); `retrieval`: a GB read; `monitoring`: 1,000 objects
    and month; `least_days`: what is deleted, overwritten or moved on earlier is paid until then. `readable`: at once;
    what lies in another class has to be asked for, and waited for, before a read."""

    name: str
    storage: float
    transition: float
    get: float
    retrieval: float = 0.0
    monitoring: float = 0.0
    least_days: int = 0
    readable: bool = True


@dataclass(frozen=True)
class ClassTable:
    """All classes of a storage, and the prices of a region on a day. `by_rule`: a lifecycle rule moves what is marked,
    a day later; otherwise a request moves an object at once."""

    storage: str
    region: str
    date: str
    by_rule: bool
    classes: tuple[StorageClass, ...]

    @property
    def hot(self) -> str:
        """Where data files are written."""
        return self.classes[0].name

    @property
    def cold(self) -> tuple[str, ...]:
        """Where files of live tables may go: every other class that is read at once."""
        return tuple(one.name for one in self.classes[1:] if one.readable)

    @property
    def archives(self) -> tuple[str, ...]:
        """Where they may not: reads would fail."""
        return tuple(one.name for one in self.classes if not one.readable)

    def of(self, name: str) -> StorageClass:
        """The class of that name. Raises KeyError."""
        for one in self.classes:
            if one.name == name:
                return one
        raise KeyError(name)

    def is_archive(self, name: str) -> bool:
        """Whether reads of what lies in the class fail."""
        return name in self.archives

    def chosen(self, name: str) -> str:
        """The class that a policy names; the first cold one if it names none. Raises ConfigError for one that files of
        live tables don't go to here."""
        if name and name not in self.cold:
            raise ConfigError(f"care.tier.class: {refusal(name, self)}")
        return name or self.cold[0]

    def may_move(self, now: str, kind: str) -> bool:
        """Whether an object of the class `now` goes to `kind`: only ever to a later class."""
        order = [one.name for one in self.classes]
        return now in order and kind in order and order.index(now) < order.index(kind)


S3: Final = ClassTable(
    "S3",
    "us-east-1",
    "2026-11-22",
    True,
    # S3 User Guide, "Supported transitions".
    (
        StorageClass("STANDARD", storage=0.023, transition=0.005, get=0.0004),
        StorageClass("STANDARD_IA", storage=0.0125, transition=0.01, get=0.001, retrieval=0.01, least_days=30),
        StorageClass("INTELLIGENT_TIERING", storage=0.023, transition=0.01, get=0.0004, monitoring=0.0025),
        StorageClass("GLACIER_IR", storage=0.004, transition=0.02, get=0.01, retrieval=0.03, least_days=90),
        StorageClass("GLACIER", 0.0036, transition=0.03, get=0.0004, retrieval=0.01, least_days=90, readable=False),
        StorageClass(
            "DEEP_ARCHIVE", 0.00099, transition=0.05, get=0.0004, retrieval=0.02, least_days=180, readable=False
        ),
    ),
)
AZURE: Final = ClassTable(
    "Azure",
    "East US",
    "2026-11-26",
    False,
    (
        StorageClass("Hot", storage=0.018, transition=0.005, get=0.0004),
        StorageClass("Cool", storage=0.01, transition=0.01, get=0.001, retrieval=0.01, least_days=30),
        StorageClass("Cold", storage=0.0036, transition=0.018, get=0.01, retrieval=0.03, least_days=90),
        StorageClass("Archive", 0.002, transition=0.01, get=0.5, retrieval=0.02, least_days=180, readable=False),
    ),
)
GOOGLE: Final = ClassTable(
    "Google Cloud Storage",
    "us-central1",
    "2026-11-26",
    False,
    (
        StorageClass("STANDARD", storage=0.02, transition=0.005, get=0.0004),
        StorageClass("NEARLINE", storage=0.01, transition=0.01, get=0.001, retrieval=0.01, least_days=30),
        StorageClass("COLDLINE", storage=0.004, transition=0.02, get=0.01, retrieval=0.02, least_days=90),
        StorageClass("ARCHIVE", storage=0.0012, transition=0.05, get=0.05, retrieval=0.05, least_days=365),
    ),
)
TABLES: Final = (S3, AZURE, GOOGLE)
_BY_SCHEME: Final = {"s3": S3, "s3a": S3, "s3n": S3, "abfss": AZURE, "abfs": AZURE, "gs": GOOGLE}

SMALLEST_BYTES: Final = 131_072
"""Smaller objects stay: S3 bills them as if they were this large in its cold classes and moves none of them by itself,
and elsewhere a move costs more than they save."""

ARCHIVED: Final = re.compile(
    "ArchivedObject|BlobArchived|BlobBeingRehydrated|InvalidObjectState|INVALID_OBJECT_STATE"
    "|not permitted on an archived blob|not valid for the object's (storage class|access tier)"
)
"""What a read of an archived object is answered with, in the words of S3, of Azure, of their libraries and of Firn."""
RESTORE: Final = (
    "it lies in an archive, where nothing is read before it was restored: `firn tier TABLE --warm all` asks for that, "
    "and it takes hours"
)


def classes_of(address: str) -> ClassTable | None:
    """The classes of the storage at the address; None where it has none, or there is no address."""
    return _BY_SCHEME.get(address.partition("://")[0].lower())


def known_classes(table: ClassTable | None) -> tuple[str, ...]:
    """What may be written in firn.yaml for the storage; for one that nobody knows yet, what may be for any."""
    return table.cold if table is not None else tuple(name for one in TABLES for name in one.cold)


def refusal(name: str, table: ClassTable | None) -> str:
    """Why a class is not taken, and what to write instead."""
    instead = _words(known_classes(table))
    storages: Sequence[ClassTable] = TABLES if table is None else (table,)
    if archive := next((one for one in storages if one.is_archive(name)), None):
        return (
            f"{name!r} is an archive of {archive.storage}: objects have to be restored before they can be read, so "
            f"every query of the table would fail; write {instead}"
        )
    if table is not None and (other := next((one for one in TABLES if name in one.cold), None)):
        return f"{name!r} is a storage class of {other.storage}, and the tables are in {table.storage}; write {instead}"
    where = f" of {table.storage}" if table is not None else ""
    return f"{name!r} is not a storage class{where} for live tables; write {instead}"


def _words(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
