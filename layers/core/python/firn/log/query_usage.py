"""What readers of some tables have used of queries: seconds by day and month, in a chain of small objects for each.

Each link holds the sums up to itself, and the next one is made by create-if-absent: functions that answer at once lose
nothing of each other. A query costs one put, after it was answered. Before it, a function goes by the newest link that
it has seen, and looks for it once a reader and month: so each function that runs may answer one query more than a quota
allows, and learns of the others' by its own put.
"""

import logging
import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from firn.errors import FirnError, RequestError, StorageUnavailable
from firn.log import layout
from firn.log.batches import FORMAT
from firn.log.store import Store, get, paths, put, put_if_absent
from firn.log.store_cache import Remembered
from firn.log.usage_layout import month_of, reader_link, reader_mark, reader_prefix

_log: Final = logging.getLogger(__name__)

_TRIES: Final = 5
_MARK_EVERY: Final = 100  # links: a function that begins lists about as many


class Used(msgspec.Struct, frozen=True):
    """A link: what was used of `day` (`2026-01-31`), and of its month: `seconds`, `queries`. `nonce`: whose put it is,
    as two could write the same sums."""

    format: int
    nonce: str
    day: str
    day_seconds: float
    seconds: float
    queries: int

    def on(self, day: str) -> float:
        """Seconds of a day. What is counted to a later one, by a clock that is ahead, holds for it too."""
        return self.day_seconds if self.day >= day else 0.0


@dataclass(frozen=True)
class _Newest:
    n: int
    used: Used


class _Mark(msgspec.Struct, frozen=True):
    format: int
    n: int


class QuotaUsed(RequestError):
    """The reader has used what it may of the day."""


NOTHING: Final = Used(FORMAT, "", "", 0.0, 0.0, 0)
_none: Final = _Newest(0, NOTHING)
_decode: Final = msgspec.json.Decoder(Used).decode
_decode_mark: Final = msgspec.json.Decoder(_Mark).decode
_encode: Final = msgspec.json.encode
_known: Final = Remembered[tuple[str, str], _Newest]()
_owed: Final = Remembered[str, float]()  # seconds that the storage did not take


def check(store: Store, reader: str, limit: int | None, now: datetime) -> None:
    """Raises QuotaUsed if the reader has used its `limit` seconds of the day; StorageUnavailable."""
    if limit is None:
        return
    day = _day(now)
    used = _newest(store, reader, month_of(now)).used.on(day) + _owed.of(store).get(reader, 0.0)
    if used < limit:
        return
    again = datetime.combine(now.astimezone(UTC).date() + timedelta(days=1), datetime.min.time(), UTC)
    raise QuotaUsed(
        429,
        "quota_used",
        f"nothing was asked: the reader {reader} has used {used:,.0f} of its {limit:,} seconds of queries of {day} "
        f"(query.readers.{reader}.seconds in firn.yaml); ask again from {layout.instant(again)} on",
        max(1, math.ceil((again - now).total_seconds())),
    )


def add(store: Store, reader: str, seconds: float, now: datetime) -> None:
    """Count a query. What the storage does not take now is counted with the next one: it fails nobody. `now`: when the
    query began."""
    owed = _owed.of(store)
    seconds = math.ceil(seconds * 1000) / 1000 + owed.pop(reader, 0.0)  # so that no query is too short to count
    month, day = month_of(now), _day(now)
    try:
        newest = _newest(store, reader, month)
        for _ in range(_TRIES):
            link = _Newest(newest.n + 1, _after(newest.used, day, seconds))
            if put_if_absent(store, reader_link(reader, month, link.n), _encode(link.used)):
                _known.of(store)[reader, month] = link
                _mark(store, reader, month, link.n)
                return
            newest = _look(store, reader, month, newest)
        owed[reader] = seconds
    except StorageUnavailable as error:
        owed[reader] = seconds
        _log.warning("what %s has used is counted later: %s", reader, error)
    except FirnError as error:  # it may have been written
        _known.of(store).pop((reader, month), None)
        _log.warning("whether what %s has used was counted is not known: %s", reader, error)


def used_in(store: Store, reader: str, month: str) -> Used:
    """What a reader has used of a month, as it stands there now. Raises StorageUnavailable."""
    return _look(store, reader, month, _none).used


def _after(before: Used, day: str, seconds: float) -> Used:
    """The link behind `before`. Pure but for its nonce. A query that began before midnight may end after another of
    the new day: it counts to that one."""
    last = max(before.day, day)
    of_day = before.on(last) + seconds
    return Used(
        FORMAT, uuid.uuid4().hex, last, round(of_day, 3), round(before.seconds + seconds, 3), before.queries + 1
    )


def _newest(store: Store, reader: str, month: str) -> _Newest:
    known = _known.of(store)
    found = known.get((reader, month))
    return found if found is not None else _look(store, reader, month, _none)


def _look(store: Store, reader: str, month: str, after: _Newest) -> _Newest:
    """The newest link by a listing, from what is known of it; of one that can't be read the one before counts."""
    mark = 0 if after.n else _marked(get(store, reader_mark(reader, month)))
    there = _links(store, reader, month, after.n or max(0, mark - 1))  # so that the link itself is listed
    used = _last(store, there)
    if used is None and mark:
        there = _links(store, reader, month, 0)
        used = _last(store, there)
    found = _Newest(max([after.n, *there]), used or after.used)
    _known.of(store)[reader, month] = found
    return found


def _links(store: Store, reader: str, month: str, after: int) -> dict[int, str]:
    start = reader_link(reader, month, after) if after else None
    there = paths(store, reader_prefix(reader, month), start)
    return {n: path for path in there if (n := layout.number_of(path))}


def _last(store: Store, there: Mapping[int, str]) -> Used | None:
    """The newest of these links that can be read."""
    for n in sorted(there, reverse=True):
        data = get(store, there[n])
        if data is not None and (used := _read(data, there[n])) is not None:
            return used
    return None


def _mark(store: Store, reader: str, month: str, n: int) -> None:
    try:
        if n % _MARK_EVERY == 0:
            put(store, reader_mark(reader, month), _encode(_Mark(FORMAT, n)))
    except FirnError as error:
        _log.warning("the newest link of %s is not marked: %s", reader, error)


def _read(data: bytes, path: str) -> Used | None:
    try:
        return _decode(data)
    except (msgspec.DecodeError, ValueError) as error:
        _log.warning("%s can't be read, the one before counts: %s", path, error)
        return None


def _marked(data: bytes | None) -> int:
    try:
        return 0 if data is None else _decode_mark(data).n
    except (msgspec.DecodeError, ValueError):
        return 0


def _day(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%d}"
