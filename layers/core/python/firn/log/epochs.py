"""Epochs: a numbered, sealed list of staged batches of one stream. Each staged batch is in exactly one epoch.

Sealing is creating `epochs/{stream}/{n}.json` if absent. Numbers are dense; whoever creates number n has proved that no
epoch n existed when it listed, so its view of what is covered was complete. No lock, no database.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

import msgspec

from firn.config.epoch_limits import Caps, shared_out
from firn.log import holds, layout, pulls
from firn.log.batches import FORMAT, BatchMeta, UnreadableBatch, read_meta
from firn.log.store import Store, get_version, listing, put_if_absent, versions
from firn.log.store_cache import Remembered

_log: Final = logging.getLogger(__name__)

SKEW: Final = timedelta(hours=1)  # how far the clocks of two functions may be apart
# A batch's id is older than its object by at most a function's time-out (15 minutes) and the skew.
OVERLAP: Final = timedelta(minutes=15) + SKEW
# What of it comes in good time: whoever looks twice a second lists no more than that, and now and then the overlap.
RECENT: Final = timedelta(minutes=2)
# The nonce of an epoch without batches that only sets the number (commit/renumbering.py).
RENUMBERED: Final = "renumbered"
MAX_BATCHES: Final = 5_000  # in one epoch: bounds the object and the job's list


class EpochBatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """A staged batch in an epoch. `events` = rows, `bytes` = size of the object, `json`, `writers` as BatchMeta has
    them."""

    id: str
    path: str
    bytes: int
    events: int
    json: int = 0
    writers: dict[str, int] = {}


class Epoch(msgspec.Struct, frozen=True, omit_defaults=True):
    """One sealed epoch, as stored. `config` is the sha it was sealed under; `tables` maps source table to rows;
    `shards` the rest of each sharded table to the version of its map that was the newest (log/shard_maps.py; 1 is left
    out); `waits` is the oldest batch that was left to a later epoch, though it is older than some of these
    (epoch_limits.shared_out)."""

    format: int
    stream: str
    n: int
    nonce: str
    sealed_at: str  # RFC 3339, UTC, milliseconds
    config: str
    batches: list[EpochBatch]
    tables: dict[str, int]
    shards: dict[str, int] = {}
    waits: str = ""

    @property
    def events(self) -> int:
        """Rows in all batches."""
        return sum(batch.events for batch in self.batches)

    @property
    def time(self) -> datetime:
        """`sealed_at` as an aware datetime."""
        return datetime.fromisoformat(self.sealed_at)


_decode = msgspec.json.Decoder(Epoch).decode
encode = msgspec.json.encode
DEFAULT_CAPS: Final = Caps()
# Epochs and batches never change: what was read once is kept, so that a warm dispatcher reads only the new ones. But a
# staging area may be started over, and its epochs have the numbers of the old ones: an epoch is kept with its object's
# version, and all of a stream are forgotten once a listing has another there, or none. Batch ids are never used twice.
_known: Final = Remembered[tuple[str, int], tuple[str, Epoch]]()
_metas: Final = Remembered[str, BatchMeta]()
_KNOWN_LIMIT: Final = 20_000
_METAS_LIMIT: Final = 4 * MAX_BATCHES
_LATEST: Final = 10_000  # epochs, looked through first: half a day of one every few seconds
_READ_AT_ONCE: Final = 64


def numbers(store: Store, stream: str, after: int = 0) -> list[int]:
    """The numbers of the sealed epochs above `after`, ascending. Whoever reads one by its number alone lists it before:
    only then what is kept of it is sure to be of this log. Raises StorageUnavailable."""
    start = layout.epoch_path(stream, after) if after else None
    there = versions(store, layout.epoch_prefix(stream), start)
    found = {n: version for path, version in there.items() if (n := layout.number_of(path)) is not None}
    known = _known.of(store)
    kept = {n: version for (name, n), (version, _) in list(known.items()) if name == stream}
    if any(found.get(n) != version for n, version in kept.items() if n > after):
        for n in kept:
            known.pop((stream, n), None)
    return list(found)


def read(store: Store, stream: str, n: int) -> Epoch | None:
    """Epoch `n`, None if it is not sealed (or expired). Raises StorageUnavailable, and UnreadableBatch as `decoded`."""
    known = _known.of(store)
    if (stream, n) not in known:
        found = get_version(store, layout.epoch_path(stream, n))
        if found is None:
            return None
        epoch = decoded(stream, n, found[0])
        if len(known) >= _KNOWN_LIMIT:
            known.clear()
        known[stream, n] = found[1], epoch
        return epoch
    return known[stream, n][1]


def decoded(stream: str, n: int, data: bytes) -> Epoch:
    """Epoch `n` by its object. Raises UnreadableBatch (a newer format, or damaged)."""
    try:
        epoch = _decode(data)
    except msgspec.MsgspecError as error:
        raise UnreadableBatch(
            f"epoch {n} of {stream} is no epoch: {layout.epoch_path(stream, n)} was overwritten or damaged; put the "
            "object back as it was sealed, from the bucket's versions or a backup"
        ) from error
    if epoch.format > FORMAT:
        raise UnreadableBatch(f"epoch {n} of {stream} has format {epoch.format}: update this side of Firn first")
    return epoch


def read_range(store: Store, stream: str, first: int, last: int) -> list[Epoch]:
    """Epochs `first` to `last` (both included), those that exist. Raises StorageUnavailable, UnreadableBatch."""
    return read_many(store, stream, [n for n in numbers(store, stream, first - 1) if n <= last])


def read_back(store: Store, stream: str, last: int, keep: timedelta) -> list[Epoch]:
    """The epochs up to `last` that were sealed at most `keep` before it (clocks may differ), ascending: the epochs stay
    for ever, and what may still be wanted of them does not. Raises StorageUnavailable, UnreadableBatch."""
    found: list[Epoch] = []
    for n in range(last, 0, -1):
        epoch = read(store, stream, n)
        if epoch is None or (found and epoch.time < found[0].time - keep - 2 * SKEW):
            break
        found.append(epoch)
    return found[::-1]


class Candidates(msgspec.Struct, frozen=True):
    """Staged and in no epoch yet, with the number that the next epoch would get. `left`: what that epoch can't hold;
    beyond MAX_BATCHES nobody has looked how many events there are, and they stand as none. `waiting`: what comes after
    it for its writers' sake, older than some of the epoch's."""

    next_n: int
    batches: list[EpochBatch]
    metas: list[BatchMeta]
    left: list[EpochBatch] = []
    waiting: list[EpochBatch] = []


def candidates(
    store: Store,
    stream: str,
    now: datetime,
    *,
    above: int = 0,
    whole: bool = False,
    caps: Caps = DEFAULT_CAPS,
    overlap: timedelta = OVERLAP,
    per_writer: int | None = None,
) -> Candidates:
    """What `stream` has staged that no epoch covers, oldest first, at most MAX_BATCHES and what `caps` allow.

    Lists from an overlap before what the newest epoch holds (`whole`: everything, which also finds what a long-delayed
    retry put behind that floor; less than OVERLAP leaves what is late to those who look further back). The batches of a
    quarantined epoch that was lifted are free again. `per_writer`: events of each writer, None for however many. The
    next number is 1 + the highest of the sealed epochs and `above` (the newest cut, if the epochs themselves have
    expired). Raises StorageUnavailable.
    """
    cases = holds.read_epochs(store, stream)
    lifted = [n for n, case in cases.items() if case.lift is not None]
    # What was sealed again is in a later epoch, and as good as never held.
    open_again = [n for n in lifted if not cases[n].again]
    oldest = _oldest_staged(store, stream) if whole else None
    sealed, floor = _sealed(store, stream, now, 0 if whole or open_again else max(0, above - _LATEST), overlap)
    # The epochs first, then the staged objects: the other way round a batch sealed in between would look free.
    # (It would still fail at the number; this way no work is wasted.)
    covered = _covered(store, stream, [n for n in sealed if n not in lifted], oldest if whole else floor)
    start = None if whole or floor is None else layout.staged_floor(stream, floor)
    free: list[tuple[str, str, int]] = []
    for path, size in listing(store, layout.staged_prefix(stream), start):
        batch = layout.staged_batch(path)
        if batch is not None and batch not in covered:
            free.append((batch, path, size))
    known = {batch for batch, _, _ in free}
    again = [batch for n in open_again for batch in left_of(store, stream, n, sealed)]
    free += [(batch.id, batch.path, batch.bytes) for batch in again if batch.id not in known]
    free.sort()
    found: list[tuple[EpochBatch, BatchMeta]] = []
    looked = 0
    while looked < len(free) and not found:  # however many objects that nobody can read are the oldest
        found = _sealable(store, _read_metas(store, free[looked : looked + MAX_BATCHES]), free, covered)
        looked += MAX_BATCHES
    found, waiting = _shared_out(found, per_writer)
    grown = caps.grown(sum(size for _, _, size in free), sum(batch.events for batch, _ in found))
    count = grown.fitting((batch.bytes, batch.events) for batch, _ in found)
    plans = [meta.plan for _, meta in found]
    if found and looked < len(free) and pulls.of_one_plan(found[-1][0].id, free[looked][0]):
        plans.append(plans[-1])  # it goes on behind what was looked at
    count = pulls.whole_plans(plans, count)
    return Candidates(
        next_n=1 + max([above, *sealed[-1:]]),
        batches=[batch for batch, _ in found[:count]],
        metas=[meta for _, meta in found[:count]],
        left=[batch for batch, _ in found[count:]] + [EpochBatch(*one, 0) for one in free[looked:]],
        waiting=waiting,
    )


def _shared_out(
    found: list[tuple[EpochBatch, BatchMeta]], per_writer: int | None
) -> tuple[list[tuple[EpochBatch, BatchMeta]], list[EpochBatch]]:
    """What goes into the epoch, and what waits. A pull's batches, which come all or none, are not shared out."""
    if per_writer is None or any(meta.plan is not None for _, meta in found):
        return found, []
    chosen = shared_out([(_senders(batch), batch.events) for batch, _ in found], per_writer)
    goes = [one for one, mine in zip(found, chosen, strict=True) if mine]
    return goes, [batch for (batch, _), mine in zip(found, chosen, strict=True) if not mine]


def _senders(batch: EpochBatch) -> Collection[str]:
    """Its writers, and "" if a part of it is from who sends without being one: a queue's batch may hold both."""
    return (*batch.writers, "") if batch.json > sum(batch.writers.values()) else batch.writers


def _sealable(
    store: Store,
    found: list[tuple[EpochBatch, BatchMeta]],
    free: Sequence[tuple[str, str, int]],
    covered: set[str],
) -> list[tuple[EpochBatch, BatchMeta]]:
    """Without the batches of a pull that others of their plan have still to join."""
    named = [(batch.id, meta.plan) for batch, meta in found if meta.plan is not None]
    if not named:
        return found
    waiting = pulls.unfinished(store, named, {batch for batch, _, _ in free} | covered)
    return [(batch, meta) for batch, meta in found if batch.id not in waiting]


def _oldest_staged(store: Store, stream: str) -> datetime | None:
    """When the oldest staged object was received: no epoch from well before it matters. None if nothing is staged."""
    batches = (layout.staged_batch(path) for path, _ in listing(store, layout.staged_prefix(stream)))
    return next((layout.time_of(batch) for batch in batches if batch is not None), None)


def _sealed(
    store: Store, stream: str, now: datetime, after: int, overlap: timedelta
) -> tuple[list[int], datetime | None]:
    """The numbers of the sealed epochs, and when the overlap before what the newest holds begins (None: nothing is
    sealed).

    Epochs stay for ever: those up to `after` are left out, if none of them can hold a batch from the overlap.
    """
    found = numbers(store, stream, after)
    there = (epoch for n in reversed(found) if (epoch := read(store, stream, n)) is not None)
    # One that only sets the number came of no listing: what waited before it waits still.
    newest = next((epoch for epoch in there if epoch.nonce != RENUMBERED), None)
    floor = None if newest is None else min(newest.time, _reaches(newest), now) - overlap
    if after:
        oldest = read(store, stream, found[0]) if found else None
        if oldest is None or floor is None or oldest.time >= floor - 3 * SKEW:
            return _sealed(store, stream, now, 0, overlap)
    return found, floor


def _reaches(epoch: Epoch) -> datetime:
    """When the newest of its batches was received, or the oldest that waits. What an epoch had no room for is newer,
    and may be far older than its seal."""
    newest = max((batch.id for batch in epoch.batches), default=None)  # ids sort by time
    return min((layout.time_of(batch) for batch in (newest, epoch.waits) if batch), default=epoch.time)


def left_of(store: Store, stream: str, n: int, sealed: Sequence[int]) -> list[EpochBatch]:
    """The batches of the lifted epoch `n` that no later one of the epochs `sealed` holds. Raises StorageUnavailable."""
    epoch = read(store, stream, n)
    later = (read(store, stream, number) for number in sealed if number > n)
    held = {batch.id for one in later if one is not None for batch in one.batches}
    return [] if epoch is None else [batch for batch in epoch.batches if batch.id not in held]


def seal(
    store: Store,
    stream: str,
    found: Candidates,
    *,
    now: datetime,
    config: str,
    nonce: str,
    shards: Mapping[str, int] = MappingProxyType({}),
) -> Epoch | None:
    """Seal `found` as the next epoch. None: another dispatcher sealed that number first; list again.

    `shards`: shard_maps.newest, of a stream that has sharded tables. `nonce` (random, per try) tells whose epoch it is
    when an answer was lost. Raises StorageUnavailable, or UnknownOutcome: then list again later, the batches are in
    exactly one epoch or still free.
    """
    tables: dict[str, int] = {}
    for meta in found.metas:
        for table, rows in meta.tables.items():
            tables[table] = tables.get(table, 0) + rows
    waits = min((batch.id for batch in found.waiting), default="")
    epoch = Epoch(
        FORMAT, stream, found.next_n, nonce, layout.instant(now), config, found.batches, tables, dict(shards), waits
    )  # fmt: skip
    return epoch if put_if_absent(store, layout.epoch_path(stream, epoch.n), encode(epoch)) else None


def epoch_of(store: Store, batch: str) -> Epoch | None:
    """The epoch that holds `batch`, None if none does yet. A binary search by time, then a scan to the newest."""
    stream, since = layout.stream_of(batch), layout.time_of(batch) - 2 * SKEW
    sealed = numbers(store, stream)
    low, high = 0, len(sealed)
    while low < high:
        middle = (low + high) // 2
        epoch = read(store, stream, sealed[middle])
        if epoch is not None and epoch.time >= since:
            high = middle
        else:
            low = middle + 1
    found = None
    quarantined = holds.read_epochs(store, stream)
    for n in sealed[low:]:
        epoch = read(store, stream, n)
        if epoch is not None and any(held.id == batch for held in epoch.batches):
            found = epoch
            if n not in quarantined:
                break  # a quarantined epoch's batches may be in a later one too
    return found


def _covered(store: Store, stream: str, sealed: Sequence[int], floor: datetime | None) -> set[str]:
    """The batch ids of all epochs that can hold a batch from `floor` on.

    An epoch sealed (by its sealer's clock) at t holds ids up to t + skew; two skews more forgive clocks that went back.
    """
    covered: set[str] = set()
    for end in range(len(sealed), 0, -_READ_AT_ONCE):
        found = read_many(store, stream, sealed[max(0, end - _READ_AT_ONCE) : end])
        for epoch in reversed(found):
            covered.update(batch.id for batch in epoch.batches)
            if floor is not None and epoch.time < floor - 3 * SKEW:
                return covered
    return covered


def read_many(store: Store, stream: str, some: Sequence[int]) -> list[Epoch]:
    """The epochs of these numbers that exist, in parallel. A process that has just begun knows none of them yet."""
    new = [n for n in some if (stream, n) not in _known.of(store)]
    if len(new) > 4:
        with ThreadPoolExecutor(max_workers=16) as pool:
            list(pool.map(lambda n: read(store, stream, n), new))
    return [epoch for n in some if (epoch := read(store, stream, n)) is not None]


def _read_metas(store: Store, free: Sequence[tuple[str, str, int]]) -> list[tuple[EpochBatch, BatchMeta]]:
    """The footers of (batch id, path, size), in parallel. Foreign objects are left out, loudly."""

    def look(candidate: tuple[str, str, int]) -> BatchMeta | None:
        batch, path, size = candidate
        try:
            meta = read_meta(store, path, size)
        except UnreadableBatch as error:
            _log.error("left out of every epoch: %s", error)
            return None
        if meta is not None:
            known[batch] = meta
        return meta

    known = _metas.of(store)
    if len(known) > _METAS_LIMIT:
        known.clear()
    # Who has much waiting asks again and again: only what is new is worth a thread.
    held = {batch: meta for batch, _, _ in free if (meta := known.get(batch)) is not None}
    new = [candidate for candidate in free if candidate[0] not in held]
    if len(new) < 4:
        metas = list(map(look, new))
    else:
        with ThreadPoolExecutor(max_workers=16) as pool:
            metas = list(pool.map(look, new))
    read = held | {batch: meta for (batch, _, _), meta in zip(new, metas, strict=True) if meta is not None}
    return [
        (EpochBatch(batch, path, size, meta.accepted, meta.json, meta.writers), meta)
        for batch, path, size in free
        if (meta := read.get(batch)) is not None
    ]
