"""Cuts: the end of a committed range of epochs, as a consistent set of snapshots, one a table."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from firn.log import layout
from firn.log.batches import FORMAT
from firn.log.store import Store, get, paths, put_if_absent
from firn.log.store_cache import Remembered


class Cut(msgspec.Struct, frozen=True, omit_defaults=True):
    """All epochs of `stream` up to `n` are in `tables` (target table as `namespace.table` -> Iceberg snapshot id), but
    for those that are quarantined.

    since        the cut that was the newest when this one was made; None in cuts that do not say so
    progress     the last epoch that is in each table
    counts       what became of the changes after `since`, by table (a source table where none could be told):
                 events = merged + superseded + ignored + dead
    filtered     staged changes since the cut before that no rule takes
    high         the highest position so far (hex), and the newest source time (ms) of the changes that led up to it;
                 None where none is known
    quarantined  tables that this cut leaves behind, with the reason
    files        of each pipeline whose target is files: the epoch up to which its files had everything at the time
    sizes        bytes of the tables that a writer of the stream names in `stored_in`, of their live files
    """

    format: int
    stream: str
    n: int
    made_at: str  # RFC 3339, UTC, milliseconds
    tables: dict[str, int]
    since: int | None = None
    progress: dict[str, int] = {}
    counts: dict[str, dict[str, int]] = {}
    filtered: int = 0
    high: tuple[str, int] | None = None
    quarantined: dict[str, str] = {}
    files: dict[str, int] = {}
    sizes: dict[str, int] = {}

    @property
    def known(self) -> frozenset[str]:
        """All tables that the stream has made, or was held back from."""
        return frozenset((*self.tables, *self.quarantined, *self.progress))


_decode: Final = msgspec.json.Decoder(Cut).decode
_newest: Final = Remembered[str, int]()


def make(stream: str, n: int, made_at: str, tables: dict[str, int], **more: Any) -> Cut:
    """A cut of the present format; `more`: the other fields of Cut."""
    return Cut(FORMAT, stream, n, made_at, tables, **more)


def write(store: Store, cut: Cut) -> bool:
    """Put the cut if absent. -> False if another job wrote this one first: both saw all epochs in, so keep its own.

    Raises StorageUnavailable, UnknownOutcome.
    """
    return put_if_absent(store, layout.cut_path(cut.stream, cut.n), msgspec.json.encode(cut))


def chain(found: Mapping[int, Cut]) -> dict[int, Cut]:
    """The cuts (by number) whose `counts` follow on one another, so that no change is counted in two. A job that stood
    still may put its cut after its successor's, which counts the same epochs: that one is left out."""
    result: dict[int, Cut] = {}
    n = max(found, default=0)
    while n in found:
        result[n] = found[n]
        since = found[n].since
        n = max((m for m in found if m < n and (since is None or m <= since)), default=0)
    return dict(sorted(result.items()))


def read(store: Store, stream: str, n: int) -> Cut | None:
    """The cut at epoch `n`, None if no range ended there. Raises StorageUnavailable."""
    data = get(store, layout.cut_path(stream, n))
    return None if data is None else _decode(data)


def numbers(store: Store, stream: str, after: int = 0) -> list[int]:
    """The epochs above `after` at which cuts lie, ascending. Raises StorageUnavailable."""
    start = layout.cut_path(stream, after) if after else None
    found = (layout.number_of(path) for path in paths(store, layout.cut_prefix(stream), start))
    return [n for n in found if n is not None]


def newest(store: Store, stream: str) -> int:
    """The last epoch that is committed in all tables; 0 if none is. Raises StorageUnavailable.

    The newest cut is never removed: whoever saw one before lists from it on.
    """
    known = _newest.of(store)
    found = numbers(store, stream, known.get(stream, 1) - 1) or numbers(store, stream)
    if found:
        known[stream] = found[-1]
    return max(found, default=0)


def last(store: Store, stream: str) -> Cut | None:
    """The newest cut, None if there is none. Raises StorageUnavailable."""
    n = newest(store, stream)
    return read(store, stream, n) if n else None


def covering(store: Store, stream: str, n: int) -> Cut | None:
    """The first cut that holds epoch `n`, None if it is not committed in all tables yet. Raises StorageUnavailable."""
    at = min(numbers(store, stream, n - 1), default=None)
    return None if at is None else read(store, stream, at)


def have(store: Store, streams: Iterable[str], table: str) -> bool:
    """Whether the newest cut of one of the streams has a snapshot of the table. Raises StorageUnavailable."""
    found = (last(store, stream) for stream in streams)
    return any(cut is not None and table in cut.tables for cut in found)
