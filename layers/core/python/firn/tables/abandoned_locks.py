"""Which locks of a Hive Metastore nobody holds any more: those of committers that were killed. Pure.

A lock lives until its holder gives it back, or says nothing for `metastore.txn.timeout`. But only a metastore with
`metastore.housekeeping.threads.on` looks for the latter; without it (the default) one killed committer stops a table
for ever. Firn's committers apply the metastore's own rule where they have to wait.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

TIMEOUT: Final = "metastore.txn.timeout"
"""The metastore's setting: how long a holder may say nothing."""

DEFAULT_TIMEOUT: Final = "300s"
_UNITS: Final = {"": 1.0, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0,
                 "h": 3600.0, "hour": 3600.0, "d": 86_400.0, "day": 86_400.0}  # fmt: skip


@dataclass(frozen=True)
class Lock:
    """`id`: by which it is given back. `heard`: when its holder last said something, in ms of the metastore's clock.
    `transaction`: 0 for none; locks of one end with it, and are the metastore's to end."""

    id: int
    heard: int
    transaction: int = 0


def abandoned(locks: Iterable[Lock], mine: int, timeout: str) -> list[int]:
    """The ids of those that have outlived `timeout` (as the metastore writes it). `mine`: the id of a lock that was
    asked for just now: it tells the metastore's time. None without it."""
    found = list(locks)
    now = max((one.heard for one in found if one.id == mine), default=None)
    if now is None:
        return []
    most = seconds_of(timeout) * 1000
    return sorted({one.id for one in found if one.id != mine and not one.transaction and now - one.heard > most})


def seconds_of(text: str) -> float:
    """Of a time in Hadoop's words: `300s`, `5m`, `300000ms`; a bare number is seconds. What is none is the default."""
    found = re.fullmatch(r"\s*(\d{1,15})\s*([a-z]*)\s*", text.lower())
    if found is None or found[2] not in _UNITS:
        return seconds_of(DEFAULT_TIMEOUT)
    return int(found[1]) * _UNITS[found[2]]
