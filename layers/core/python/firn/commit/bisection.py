"""Which epochs of a range can't be read, where no single event is to blame (docs/adr/0037-poison-events.md)."""

from collections.abc import Mapping

from firn.commit.job_context import Work
from firn.log.epochs import Epoch
from firn.log.holds import Quarantine
from firn.quarantine import rules as rules


def unreadable(work: Work, now: str) -> list[Quarantine]:
    """Quarantines of the epochs that fail to be read each by itself, found by halves.

    None if all can be read, so that something else is wrong; and none if no epoch can: then it is not what they hold.
    Raises what passes by itself.
    """
    found = _failing(work, work.epochs)
    if len(found) == len(work.epochs):
        return []
    return [rules.unreadable_epoch(work.stream, n, error, now) for n, error in found.items()]


def _failing(work: Work, some: Mapping[int, Epoch]) -> dict[int, str]:
    error = _error(work, some)
    if error is None:
        return {}
    numbers = sorted(some)
    if len(numbers) == 1:
        return {numbers[0]: error}
    half = len(numbers) // 2
    halves = ({n: some[n] for n in part} for part in (numbers[:half], numbers[half:]))
    return {n: why for part in halves for n, why in _failing(work, part).items()}


def _error(work: Work, some: Mapping[int, Epoch]) -> str | None:
    """Why these epochs can't be read together; None if they can."""
    try:
        opened = work.lake.open(work.stream, work.settings, some, work.last)
        try:
            opened.span(work.before.high if work.before else None)
            _ = opened.facts
        finally:
            opened.close()
    except Exception as error:
        found = work.lake.failure(error)
        if found.kind == "transient":
            raise
        return found.text
    return None
