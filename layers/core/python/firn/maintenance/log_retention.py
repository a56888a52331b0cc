"""Staged objects go by their age, once every table has what they hold.

Epoch by epoch, the oldest first, with a note of how far it came: where nothing is to be done this costs two or three
requests. Epochs themselves stay. A crash at any point leaves objects that the next sweep deletes, or a note that lags
behind: then it deletes again what is gone already.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from firn.log import cuts, epochs, holds, layout
from firn.log.batches import FORMAT
from firn.log.cuts import Cut
from firn.log.epochs import Epoch
from firn.log.holds import Quarantines
from firn.log.store import Store, get, put, remove
from firn.quarantine.rules import covered
from firn.sinks import plans
from firn.sinks import state as sinks

_log: Final = logging.getLogger(__name__)

KEEP: Final = timedelta(days=14)
MOST_EPOCHS: Final = 20_000  # that one sweep takes: a day of one every four seconds
_AT_ONCE: Final = 64  # epochs that are read together
_NO_FILES: Final[Mapping[str, int]] = {}
_NOTED_EVERY: Final = 500  # epochs between two notes


@dataclass(frozen=True)
class Swept:
    """What became of a stream's staged objects.

    epochs   how many were gone through; `upto`: the last one whose objects are gone
    batches  how many objects were deleted (or would be: dry run); `bytes`: of them
    waiting  why it ends before an epoch that is old enough; "" if it does not
    """

    stream: str
    epochs: int = 0
    batches: int = 0
    bytes: int = 0
    upto: int = 0
    waiting: str = ""

    def line(self) -> dict[str, Any]:
        """The numbers for a log line."""
        return {name: value for name, value in asdict(self).items() if value != ""}


class _Note(msgspec.Struct, frozen=True):
    """`upto`: of all epochs up to this one the staged objects are gone, but for those of epochs that were quarantined
    then: their batches are sealed again."""

    format: int
    upto: int


_decode: Final = msgspec.json.Decoder(_Note).decode


def sweep(store: Store, stream: str, now: datetime, *, keep: timedelta = KEEP, dry_run: bool = False) -> Swept:
    """Deletes the staged objects of the epochs that are older than `keep`, that a cut covers, and that no table lacks.

    Raises StorageUnavailable, UnknownOutcome, UnreadableBatch (an epoch of a newer format).
    """
    done, limit = _noted(store, stream), now - keep
    first = _first(store, stream, done)
    if first is None or first.time >= limit:
        return Swept(stream, upto=done)
    known = holds.read_all(store, stream)
    cut = cuts.last(store, stream)
    safe, why = safe_upto(cut, known, written_upto(store, stream, cut))
    gone, count, noted, waiting = [], 0, done, ""
    for epoch in _old(store, stream, first.n, limit):
        if epoch.n > safe:
            waiting = f"epoch {epoch.n} is old enough, but {why}"
            break
        # The batches of an epoch that was quarantined are sealed again, and go with that epoch.
        mine = [] if epoch.n in known.epochs else epoch.batches
        if not dry_run:
            remove(store, [batch.path for batch in mine])
        gone += [batch.bytes for batch in mine]
        done, count = epoch.n, count + 1
        if not dry_run and count % _NOTED_EVERY == 0:
            noted = _note(store, stream, done)
    if not dry_run and noted < done:
        _note(store, stream, done)
    return Swept(stream, count, len(gone), sum(gone), done, waiting)


def written_upto(store: Store, stream: str, cut: Cut | None) -> dict[str, int]:
    """The epoch up to which each file sink has everything: a cut is made before its job writes files. Raises
    StorageUnavailable, UnreadableBatch."""
    noted = sinks.read(store, stream) if cut is not None and cut.files else sinks.SinkStates()
    found = {}
    for name, upto in cut.files.items() if cut is not None else ():
        done = noted.sinks[name].done if name in noted.sinks else 0
        found[name] = max(upto, plans.progress(store, stream, name, done).written)
    return found


def safe_upto(cut: Cut | None, known: Quarantines, files: Mapping[str, int] = _NO_FILES) -> tuple[int, str]:
    """(the epoch up to which every table has everything, what holds back those above it), as the newest cut, the
    quarantines and the file sinks (`written_upto`) say. Pure."""
    through = covered(cut)
    if cut is None or not through:
        return 0, "no cut says yet that the tables have it"
    held = [case.quarantine for case in known.stream if case.lift is None and case.quarantine.last > cut.n]
    if held:
        return 0, f"the stream is quarantined ({held[0].reason})"
    found = [(through, f"the newest cut is {cut.n}")]
    for name, case in known.held().items():
        found.append((case.epoch - 1, f"{name} is quarantined and lacks epoch {case.epoch}"))
    for name in cut.quarantined.keys() - known.held().keys():
        had = max(cut.progress.get(name, 0), known.had(name, cut.n), known.skipped.get(name, 0))
        found.append((had, f"{name} was resumed and lacks what is above epoch {had}"))
    found += [(upto, f"the files of {name} lack what is above epoch {upto}") for name, upto in files.items()]
    return min(found)


def _first(store: Store, stream: str, after: int) -> Epoch | None:
    """The first epoch above `after`; None if there is none. As a rule one request."""
    epoch = epochs.read(store, stream, after + 1)
    if epoch is not None:
        return epoch
    numbers = epochs.numbers(store, stream, after)
    return epochs.read(store, stream, numbers[0]) if numbers else None


def _old(store: Store, stream: str, first: int, limit: datetime) -> Iterator[Epoch]:
    """The epochs from `first` on that were sealed before `limit`, in order, at most MOST_EPOCHS."""
    left = MOST_EPOCHS
    while left > 0:
        found = epochs.read_many(store, stream, range(first, first + _AT_ONCE))
        if not found:
            following = _first(store, stream, first + _AT_ONCE - 1)  # numbers leave out some where a log starts over
            found = [] if following is None else [following]
        for epoch in found:
            if epoch.time >= limit:
                return
            yield epoch
        if not found:
            return
        left -= len(found)
        first = found[-1].n + 1


def _noted(store: Store, stream: str) -> int:
    """How far an earlier sweep came; 0 if nobody noted it."""
    data = get(store, layout.swept_path(stream))
    try:
        note = None if data is None else _decode(data)
    except msgspec.DecodeError as error:
        _log.warning("how far %s was swept can't be read, it starts over: %s", stream, error)
        return 0
    return note.upto if note is not None and note.format <= FORMAT else 0


def _note(store: Store, stream: str, upto: int) -> int:
    put(store, layout.swept_path(stream), msgspec.json.encode(_Note(FORMAT, upto)))
    return upto
