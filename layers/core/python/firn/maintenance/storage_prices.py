"""What S3 charges, by storage class, and whether moving files to another class pays. Pure.

The figures are list prices before any discount, as generally quoted on the day that PRICES names (no price page was
asked: compare them with your own bill). Source: https://aws.amazon.com/s3/pricing/, "Storage", "Requests & data
retrievals", "Management & insights", region us-east-1, the first 50 TB. Minimum days and sizes:
https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-class-intro.html.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

Kind = Literal["STANDARD", "STANDARD_IA", "INTELLIGENT_TIERING", "GLACIER_IR"]
"""The classes that every read is answered from at once. In the order in which a lifecycle rule may move an object on:
S3 User Guide, "Supported transitions"."""

WATERFALL: Final[tuple[Kind, ...]] = ("STANDARD", "STANDARD_IA", "INTELLIGENT_TIERING", "GLACIER_IR")
SMALLEST_BYTES: Final = 131_072
"""Smaller objects are billed as if they were this large in the cold classes, and S3 moves none of them by itself."""
MONTH_DAYS: Final = 30.0
HORIZON_MONTHS: Final = 12.0
"""A move has to pay for itself within a year: nobody knows what is read after that."""
_GIGABYTE: Final = float(2**30)  # what S3 bills by


@dataclass(frozen=True)
class Price:
    """One class, in dollars. `storage`: a GB and month; `transition`, `get`: 1,000 requests; `retrieval`: a GB read;
    `monitoring`: 1,000 objects and month; `least_days`: what is deleted or overwritten earlier is paid until then."""

    storage: float
    transition: float
    get: float
    retrieval: float = 0.0
    monitoring: float = 0.0
    least_days: int = 0


@dataclass(frozen=True)
class PriceTable:
    """All classes of a region on a day."""

    region: str
    date: str
    of: Mapping[Kind, Price]


PRICES: Final = PriceTable(
    "us-east-1",
    "2026-11-22",
    MappingProxyType(
        {
            # For STANDARD `transition` is a PUT: nothing is moved there but by a copy.
            "STANDARD": Price(storage=0.023, transition=0.005, get=0.0004),
            "STANDARD_IA": Price(storage=0.0125, transition=0.01, get=0.001, retrieval=0.01, least_days=30),
            "INTELLIGENT_TIERING": Price(storage=0.023, transition=0.01, get=0.0004, monitoring=0.0025),
            "GLACIER_IR": Price(storage=0.004, transition=0.02, get=0.01, retrieval=0.03, least_days=90),
        }
    ),
)
# What INTELLIGENT_TIERING asks for an object by the days since it was read last: its three tiers that answer at once.
_INTELLIGENT: Final = ((30.0, 0.023), (90.0, 0.0125), (float("inf"), 0.004))


@dataclass(frozen=True)
class Economics:
    """What moving some files comes to, in dollars. `worth`: the move pays for itself within HORIZON_MONTHS.

    saving      a month, of storage (monitoring taken off)
    transition  once
    retrieval   a month, for the reads that are expected
    penalty     once: what is left of the class's minimum days if the next access takes the files back
    break_even  full reads a month at which nothing is saved; None where no number of reads makes it dearer
    """

    saving: float
    transition: float
    retrieval: float
    penalty: float
    worth: bool
    break_even: float | None


def economics(
    files: int,
    size: int,
    kind: Kind,
    *,
    now: Kind = "STANDARD",
    next_access_days: float | None = None,
    reads_a_month: float = 0.0,
) -> Economics:
    """What it comes to when `files` of together `size` bytes go from the class `now` to `kind`.

    `next_access_days`: days until they are expected to be read; None: never. `reads_a_month`: how often all of them.
    """
    gigabytes = size / _GIGABYTE
    here, there = PRICES.of[now], PRICES.of[kind]
    saving = gigabytes * (storage_price(now, next_access_days) - storage_price(kind, next_access_days))
    saving -= files * (there.monitoring - here.monitoring) / 1000
    a_read = gigabytes * (there.retrieval - here.retrieval) + files * (there.get - here.get) / 1000
    transition = files * there.transition / 1000
    early = 0.0 if next_access_days is None else max(0.0, there.least_days - next_access_days)
    penalty = gigabytes * there.storage * early / MONTH_DAYS
    spare = saving - (transition + penalty) / HORIZON_MONTHS  # a month, for reads
    break_even = None if a_read <= 0 and spare > 0 else max(0.0, spare / a_read) if a_read > 0 else 0.0
    return Economics(
        saving, transition, reads_a_month * a_read, penalty, spare > reads_a_month * a_read and files > 0, break_even
    )


def storage_price(kind: Kind, next_access_days: float | None) -> float:
    """Dollars a GB and month, on average until the next access (None: for HORIZON_MONTHS)."""
    if kind != "INTELLIGENT_TIERING":
        return PRICES.of[kind].storage
    # From the move on: an object starts in the dearest tier, however long nobody has read it.
    days = HORIZON_MONTHS * MONTH_DAYS if next_access_days is None else max(next_access_days, 1.0)
    paid = begun = 0.0
    for until, price in _INTELLIGENT:
        paid += max(0.0, min(days, until) - begun) * price
        begun = until
    return paid / days


def may_move(now: str, kind: str) -> bool:
    """Whether a lifecycle rule takes an object of the class `now` to `kind`: only ever to a later class."""
    order: tuple[str, ...] = WATERFALL
    return now in order and kind in order and order.index(now) < order.index(kind)
