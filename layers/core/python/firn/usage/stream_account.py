"""What was sent to a stream in a month, by writer: what dispatch has counted of its epochs, in one object each month.

The object says up to which epoch it counts, so that whoever adds the next ones twice, or at once with another, writes
the same sums. An epoch belongs to the month in which it was sealed, UTC. Counting begins with the next epoch at the
first round of a deployment with writers.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from firn.log import epochs
from firn.log.batches import FORMAT
from firn.log.epochs import Epoch
from firn.log.store import Store, get, paths, put
from firn.log.usage_layout import month_of, stream_path, stream_prefix

_log: Final = logging.getLogger(__name__)

NOBODY: Final = ""
"""Stands for all who are no writer."""
MOST_EPOCHS: Final = 1_000
"""That are counted in a round: some seconds' reads, where a round has a minute for all streams."""


class Sent(msgspec.Struct, frozen=True, array_like=True):
    """Bytes of JSON, and the batches that hold any of them: requests, or deliveries of the queue."""

    bytes: int = 0
    batches: int = 0

    def __add__(self, other: "Sent") -> "Sent":
        return Sent(self.bytes + other.bytes, self.batches + other.batches)


class Account(msgspec.Struct, frozen=True):
    """A stream's month. `counted`: the epoch up to which it counts; `sent`: by writer, NOBODY for all others."""

    format: int
    stream: str
    month: str
    counted: int
    sent: dict[str, Sent]


_decode: Final = msgspec.json.Decoder(Account).decode


def read(store: Store, stream: str, month: str) -> Account | None:
    """The account as it was written last; None without one. Raises StorageUnavailable."""
    data = get(store, stream_path(stream, month))
    try:
        return None if data is None else _decode(data)
    except (msgspec.DecodeError, ValueError) as error:
        _log.warning("the account of %s for %s can't be read: %s", stream, month, error)
        return None


def update(store: Store, stream: str, now: datetime) -> Mapping[str, Sent]:
    """Count the epochs that were sealed since, MOST_EPOCHS at most -> what they hold. Raises StorageUnavailable,
    UnreadableBatch, UnknownOutcome."""
    newest = _newest(store, stream)
    if newest is None:
        counted = max(epochs.numbers(store, stream), default=0)
        _write(store, Account(FORMAT, stream, month_of(now), counted, {}))
        return {}
    new = epochs.read_many(store, stream, epochs.numbers(store, stream, newest.counted)[:MOST_EPOCHS])
    for account in brought_on(newest, new):
        _write(store, account)
    return sent_in(new)


def up_to_now(store: Store, stream: str, month: str) -> Account | None:
    """The account of a month with what was sealed since it was written, which is not written; None without one. Raises
    StorageUnavailable, UnreadableBatch."""
    newest = _newest(store, stream)
    if newest is None or newest.month > month:
        return read(store, stream, month)
    new = epochs.read_many(store, stream, epochs.numbers(store, stream, newest.counted))
    found = {account.month: account for account in (newest, *brought_on(newest, new))}
    return found.get(month) or read(store, stream, month)


def brought_on(account: Account, new: Iterable[Epoch]) -> list[Account]:
    """The account, and those of later months, with the epochs that follow it; none without any. Pure."""
    by_month: defaultdict[str, list[Epoch]] = defaultdict(list)
    month = account.month
    for epoch in sorted(new, key=lambda one: one.n):
        month = max(month, epoch.sealed_at[:7])  # clocks differ: numbers rise, and so do months
        by_month[month].append(epoch)
    found = []
    for month, some in by_month.items():
        before = account if month == account.month else Account(FORMAT, account.stream, month, account.counted, {})
        account = replace(before, counted=some[-1].n, sent=_together(before.sent, sent_in(some)))
        found.append(account)
    return found


def sent_in(some: Iterable[Epoch]) -> dict[str, Sent]:
    """What epochs hold, by writer. Pure."""
    sizes, batches = Counter[str](), Counter[str]()
    for epoch in some:
        for batch in epoch.batches:
            told = dict(batch.writers)
            if (left := batch.json - sum(told.values())) > 0 or not told:
                told[NOBODY] = max(0, left)
            sizes.update(told)
            batches.update(told.keys())
    return {name: Sent(sizes[name], count) for name, count in batches.items()}


def _together(some: Mapping[str, Sent], more: Mapping[str, Sent]) -> dict[str, Sent]:
    return {**some, **{name: some.get(name, Sent()) + sent for name, sent in more.items()}}


def _newest(store: Store, stream: str) -> Account | None:
    for path in reversed(paths(store, stream_prefix(stream))):
        if (found := read(store, stream, path.rpartition("/")[2].removesuffix(".json"))) is not None:
            return found
    return None


def _write(store: Store, account: Account) -> None:
    put(store, stream_path(account.stream, account.month), msgspec.json.encode(account))
