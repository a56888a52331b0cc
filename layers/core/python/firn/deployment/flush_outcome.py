"""What became of the events that a flush waited for: committed, or dead letters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firn.ingest.replay import Choice, acknowledged
from firn.log import epochs, layout
from firn.log.dead_letters.letters import read_dead

if TYPE_CHECKING:
    from firn.log.store import Store


@dataclass(frozen=True)
class DeadOfFlush:
    """Letters of one object with one reason. `at_ingest`: they were none of the epochs' events, but came with them."""

    object: str
    reason: str
    letters: int
    at_ingest: bool


def events_and_letters(store: "Store", stream: str, numbers: Sequence[int]) -> tuple[int, list[DeadOfFlush]]:
    """The events of these epochs, and the dead letters of their batches. Raises StorageUnavailable, UnreadableBatch."""
    batches = [batch for epoch in epochs.read_many(store, stream, numbers) for batch in epoch.batches]
    if not batches:
        return 0, []
    ids = {batch.id for batch in batches}
    choice = Choice(since=min(layout.time_of(one) for one in ids))
    found: dict[tuple[str, str], int] = {}
    for path in choice.objects(store, stream):
        if acknowledged(store, path):
            for letter in read_dead(store, path):
                if letter.batch in ids:
                    place = layout.dead_name(path), letter.reason
                    found[place] = found.get(place, 0) + 1
    letters = [
        DeadOfFlush(name, reason, count, layout.is_batch_id(name)) for (name, reason), count in sorted(found.items())
    ]
    return sum(batch.events for batch in batches), letters
