"""Whether moving files to another storage class pays, by the prices of config/storage_classes.py. Pure."""

from dataclasses import dataclass
from typing import Final

from firn.config.storage_classes import S3, ClassTable

MONTH_DAYS: Final = 30.0
HORIZON_MONTHS: Final = 12.0
"""A move has to pay for itself within a year: nobody knows what is read after that."""
_GIGABYTE: Final = float(2**30)  # what storages bill by
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
    kind: str,
    *,
    table: ClassTable = S3,
    now: str = "",
    next_access_days: float | None = None,
    reads_a_month: float = 0.0,
) -> Economics:
    """What it comes to when `files` of together `size` bytes go from the class `now` (the hot one) to `kind`.

    `next_access_days`: days until they are expected to be read; None: never. `reads_a_month`: how often all of them.
    """
    gigabytes = size / _GIGABYTE
    here, there = table.of(now or table.hot), table.of(kind)
    saving = gigabytes * (
        storage_price(here.name, next_access_days, table) - storage_price(kind, next_access_days, table)
    )
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


def storage_price(kind: str, next_access_days: float | None, table: ClassTable = S3) -> float:
    """Dollars a GB and month, on average until the next access (None: for HORIZON_MONTHS)."""
    if kind != "INTELLIGENT_TIERING":
        return table.of(kind).storage
    # From the move on: an object starts in the dearest tier, however long nobody has read it.
    days = HORIZON_MONTHS * MONTH_DAYS if next_access_days is None else max(next_access_days, 1.0)
    paid = begun = 0.0
    for until, price in _INTELLIGENT:
        paid += max(0.0, min(days, until) - begun) * price
        begun = until
    return paid / days
