"""How the databases under `sources:` are, for `firn status`: by what the pull wrote last."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from firn.deployment.terminal import size
from firn.log import published_configs
from firn.log.store import Store
from firn.sources.column_watch import notes_of
from firn.sources.poller import SourceStatus, read_status

LONG_TRANSACTION: Final = 300.0  # seconds
UNSEEN: Final = 600.0  # seconds since the pull has looked
MUCH: Final = 10 << 30  # bytes of WAL that are kept for a slot without a limit


@dataclass(frozen=True)
class SourceState:
    """One source. `age`: seconds since all that the database had was read; None: that never was."""

    source: str
    stream: str
    slot: str
    status: SourceStatus | None
    age: float | None
    notes: tuple[str, ...]

    def row(self) -> dict[str, object]:
        """As JSON has it."""
        told = {} if self.status is None else msgspec.to_builtins(self.status)
        return {"source": self.source, "stream": self.stream, "slot": self.slot, **told, "age_seconds": self.age} | {
            "notes": list(self.notes)
        }


def source_states(store: Store, now: datetime) -> list[SourceState]:
    """The sources of the published configuration. Raises StorageUnavailable."""
    config = published_configs.find(store)
    found = []
    for one in [] if config is None else config.sources.values():
        status = read_status(store, one.stream, one.name)
        read_all = status.read_all if status else ""
        age = None if not read_all else max(0.0, (now - datetime.fromisoformat(read_all)).total_seconds())
        notes = [*_notes(status, now), *(f"{n.table}: {n.text}" for n in notes_of(store, one.stream, one.name, now))]
        found.append(SourceState(one.name, one.stream, one.slot, status, age, tuple(notes)))
    return found


def _notes(status: SourceStatus | None, now: datetime) -> Iterator[str]:
    """What needs a look."""
    if status is None:
        yield "no pull has looked at it yet: is the stack deployed with WithPull=true, or up for less than a minute?"
        return
    if status.stopped:
        yield f"STOPPED: {status.stopped}"
    elif status.waits:
        yield f"waits: {status.waits}"
    unseen = (now - datetime.fromisoformat(status.at)).total_seconds()
    if unseen > UNSEEN:
        yield (
            f"no pull has looked at it for {unseen / 60:,.0f} minutes, and the database keeps its WAL meanwhile: look "
            "at the function's log"
        )
    if status.wal_status in ("unreserved", "lost"):
        yield f"its slot is {status.wal_status}: the database drops the WAL that nobody has read; see {_PAGE}"
    elif status.safe is not None and status.safe < status.kept:
        yield (
            f"its slot keeps {size(status.kept)} of WAL and is lost after {size(status.safe)} more "
            f"(max_slot_wal_keep_size); see {_PAGE}"
        )
    elif status.safe is None and status.kept > MUCH:
        yield f"its slot keeps {size(status.kept)} of WAL without a limit, and may fill the disk; see {_PAGE}"
    if status.oldest_seconds > LONG_TRANSACTION:
        yield (
            f"a transaction is open for {status.oldest_seconds / 60:,.0f} minutes, and WAL is kept and decoded again "
            f"from its begin on: {status.oldest}"
        )


_PAGE: Final = "docs/sources/postgres.md, A slot that grows"
