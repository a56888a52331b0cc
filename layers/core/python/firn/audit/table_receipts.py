"""What a reader of a table may hear of the batches that it is made of, and of the events that did not come into it.

The rule: of a table that a reader may read whole rows of, how many changes a batch has for it and what became of them,
and how many events were refused by day and reason. Neither texts nor events: what an event held, nobody can say that it
is something the table shows; nor, of a table that pipelines fill, which changes their SQL brought there. Where a
condition narrows the rows, whose a batch is can't be judged by it: only batches and letters are told of that the writer
of the reader's own name sent, all of them (docs/adr/0117-fresh-shards.md).
"""

from collections import Counter
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Final, Literal

import msgspec

from firn.audit.batch_status import status_for
from firn.config.model import Config, StreamConfig
from firn.errors import EventError
from firn.ingest.replay import acknowledged
from firn.log import layout
from firn.log.dead_letters.letters import Counts, count_dead, counted, read_dead
from firn.log.store import Store, listing
from firn.maintenance.launcher import feeding

MOST_OBJECTS: Final = 50  # of letters that are looked at for one answer
MOST_DAYS: Final = 31
MOST_BYTES: Final = 8 << 20  # of an object whose letters are looked at one by one


class RefusedEvents(msgspec.Struct, frozen=True):
    """Dead letters of one reason. `replayed`: how many of them came again."""

    reason: str
    letters: int
    replayed: int


class TableReceipt(msgspec.Struct, frozen=True):
    """What became of a batch's changes of one table, as `TableStatus` has it. `rows`: so many changes were staged."""

    batch_id: str
    received_at: str
    rows: int
    state: Literal["pending", "committed", "quarantined", "skipped", "ignored", "refused"]
    snapshot: int | None = None
    cut: int | None = None
    dead: list[RefusedEvents] = []


class LettersOfDay(msgspec.Struct, frozen=True):
    """Dead letters of one day (UTC) and reason, those that were replayed among them."""

    day: str
    reason: str
    letters: int


class TableLetters(msgspec.Struct, frozen=True):
    """The newest first. `partial`: there were more on a day, or larger ones, than is looked at; `next`: the day to ask
    for next, None if there are no older ones in reach."""

    letters: list[LettersOfDay]
    partial: bool
    next: str | None


def receipt_of(store: Store, config: Config, target: str, batch: str, only: str | None) -> TableReceipt | None:
    """None of a batch that there is not, has expired, has nothing for the table, or is not to be told of. `only`: what
    this writer sent; None: all. Raises StorageUnavailable, UnreadableBatch."""
    if not layout.is_batch_id(batch):
        return None
    stream = layout.stream_of(batch)
    if stream not in feeding(config, target):
        return None
    found = status_for(store, batch, only)
    if found is None or found.expired:
        return None
    settings = config.streams[stream]
    mine = [one for one in found.targets if one.table == target and _goes_to(settings, one.source, target)]
    rows = sum(one.rows for one in mine)
    if not found.targets:  # it is not sealed yet
        rows = sum(n for source, n in found.tables.items() if _goes_to(settings, source, target))
    dead = Counter[str]()
    again = Counter[str]()
    for one in found.dead:
        if _goes_to(settings, one.table, target):
            dead[one.reason] += one.letters
            again[one.reason] += one.replayed
    if not rows and not dead:
        return None
    state = mine[0].state if mine else "pending" if rows else "refused"
    if state == "pending" and found.quarantine is not None:
        state = "quarantined"
    refused = [RefusedEvents(reason, n, again[reason]) for reason, n in sorted(dead.items())]
    at = mine[0] if mine else None
    return TableReceipt(
        batch, found.received_at, rows, state, at.snapshot if at else None, at.cut if at else None, refused
    )


def letters_of(
    store: Store, config: Config, target: str, only: str | None, now: datetime, day: date | None = None
) -> TableLetters:
    """The dead letters of the events that were for a table: of `day` and before, as many days as are looked through at
    once. `only`: as for receipt_of. Raises StorageUnavailable, UnreadableBatch."""
    streams = [config.streams[name] for name in sorted(feeding(config, target))]
    found: list[LettersOfDay] = []
    looked_at, partial, newest = 0, False, min(day or now.date(), now.date())
    for at in (newest - timedelta(days=back) for back in range(min(MOST_DAYS, newest.toordinal()))):
        objects = [(one, *each) for one in streams for each in listing(store, _folder(one.name, at))]
        if looked_at and looked_at + len(objects) > MOST_OBJECTS:
            return TableLetters(found, partial, f"{at:%Y-%m-%d}")
        looked_at += len(objects)
        partial |= len(objects) > MOST_OBJECTS
        counts = Counter[str]()
        for settings, path, size in objects[:MOST_OBJECTS]:
            if only is not None and size > MOST_BYTES:
                partial = True
            elif acknowledged(store, path):
                counts.update(_of_object(store, settings, target, path, size, only))
        found += [LettersOfDay(f"{at:%Y-%m-%d}", reason, n) for reason, n in sorted(counts.items())]
    return TableLetters(found, partial, None)


def _folder(stream: str, day: date) -> str:
    return layout.dead_folder(stream, datetime(day.year, day.month, day.day, tzinfo=UTC))


def _of_object(
    store: Store, settings: StreamConfig, target: str, path: str, size: int, only: str | None
) -> Counter[str]:
    """The letters of an object for the target, by reason."""
    if only is None:
        counts: Counts = count_dead(store, path, size)[1]
    else:
        counts = counted(one for one in read_dead(store, path) if one.writer == only)
    found = Counter[str]()
    for (source, reason), n in counts.items():
        if _goes_to(settings, source, target):
            found[reason] += n
    return found


def _goes_to(settings: StreamConfig, source: str | None, target: str) -> bool:
    """Whether all changes of a source table are for the target, by today's rules: which of them come through a
    pipeline, its SQL alone says. Of none that is known: for none."""
    with suppress(EventError):
        return source is not None and str(settings.target(source)) == target
    return False
