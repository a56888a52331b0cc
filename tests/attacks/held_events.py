"""How many events there are, and what a request of them is refused for."""

from collections.abc import Callable
from functools import partial

from firn.changes.change import Parsed
from firn.changes.envelopes.parser import parse
from firn.errors import RequestError


def or_refused(parsed: Callable[[], Parsed]) -> Parsed | tuple[int, str]:
    """What the request holds, or with which status it is refused, and why."""
    try:
        return parsed()
    except RequestError as error:
        return error.status, str(error)


def held_in(events: list[bytes], envelope: str) -> int:
    """How many events these are, each read alone: one may hold several."""
    count = 0
    for event in events:
        found = or_refused(partial(parse, event, envelope))
        one = not isinstance(found, tuple)
        count += len(found) + len(found.rejected) + sum(found.ignored.values()) if one else 1
    return count
