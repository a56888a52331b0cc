"""How the file sinks of a stream are, as a job saw them last: for dispatch, which starts a job when files are due, and
for people. Only a hint: what is written and what is not, plans and manifests say."""

import logging
from datetime import datetime
from typing import Final

import msgspec

from firn.log import layout
from firn.log.batches import FORMAT
from firn.log.cuts import Cut
from firn.log.store import Store, get, put

_log: Final = logging.getLogger(__name__)


class SinkState(msgspec.Struct, frozen=True, omit_defaults=True):
    """One sink. `done`: plans up to this number are written; `upto`: it has everything up to this epoch; `events`,
    `bytes`: what waits above it, since `since`. `due`: when a job has something to do, if nothing else happens.
    `tries`: how often in a row it failed, with the last `error`. Times: RFC 3339, UTC."""

    done: int = 0
    upto: int = 0
    events: int = 0
    bytes: int = 0
    since: str | None = None
    due: str | None = None
    tries: int = 0
    error: str | None = None


class SinkStates(msgspec.Struct, frozen=True):
    """The sinks of a stream by pipeline. `seen`: the epoch up to which a job has looked."""

    format: int = FORMAT
    seen: int = 0
    sinks: dict[str, SinkState] = {}


FAILS: Final = 3  # tries after which a person should look
_decode: Final = msgspec.json.Decoder(SinkStates).decode


def read(store: Store, stream: str) -> SinkStates:
    """The states; empty ones if there are none, or none that can be read. Raises StorageUnavailable."""
    data = get(store, layout.sinks_state_path(stream))
    try:
        found = None if data is None else _decode(data)
    except msgspec.DecodeError as error:
        _log.warning("how the file sinks of %s are can't be read, a job looks again: %s", stream, error)
        return SinkStates()
    return found if found is not None and found.format <= FORMAT else SinkStates()


def write(store: Store, stream: str, states: SinkStates) -> None:
    """Note them. Raises StorageUnavailable, UnknownOutcome."""
    put(store, layout.sinks_state_path(stream), msgspec.json.encode(states))


def job_is_due(cut: Cut | None, states: SinkStates, now: datetime) -> bool:
    """Whether a job has files to write though no change is coming. Pure. `cut`: the newest."""
    if cut is None or not cut.files:
        return False
    if states.seen < cut.n:
        return True  # the job that made the cut died before it looked
    times = (states.sinks[name].due for name in cut.files if name in states.sinks)
    return any(due is not None and datetime.fromisoformat(due) <= now for due in times)


def failing(states: SinkStates) -> tuple[str, ...]:
    """Sinks that failed time and again, as people call them. Pure."""
    return tuple(f"files of {name}" for name, one in sorted(states.sinks.items()) if one.tries >= FAILS)
