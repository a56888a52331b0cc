"""One event's failure becomes one dead letter: which errors may be an event's fault, and which events' they are. Pure
(docs/adr/0037-poison-events.md).

What reads many events at once (placing, facts, decoding) never asks first. If it fails, each event is tried alone in
the same pure step, and those that fail again are dead letters. So nothing is paid while nothing fails, and an event is
judged by itself: whatever it came with, by whichever way through the code.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from firn.errors import EventError, FirnError

_LONGEST: Final = 200
T = TypeVar("T")


def poison(error: Exception) -> EventError:
    """What a dead letter says of an event that fails with `error` in a pure step: an EventError says it itself.

    Raises `error` again where no event can be to blame for it: want of memory, storage, and what Firn raises of others.
    """
    if isinstance(error, EventError):
        return error
    if isinstance(error, MemoryError | OSError | FirnError):
        raise error
    said = " ".join(str(error).split())[:_LONGEST]
    return EventError("internal", f"Firn fails on this event alone: {type(error).__name__}{': ' if said else ''}{said}")


def poisoned(events: Sequence[T], step: Callable[[T], object]) -> dict[int, EventError]:
    """Which events fail in `step` alone, by their place, and why. Raises as `poison`."""
    found: dict[int, EventError] = {}
    for place, event in enumerate(events):
        try:
            step(event)
        except Exception as error:  # noqa: BLE001 (whatever an event holds; `poison` lets the rest through)
            found[place] = poison(error)
    return found
