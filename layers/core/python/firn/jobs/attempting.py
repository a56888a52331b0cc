"""What to do about a range of epochs whose runs failed. Pure."""

from collections.abc import Sequence
from enum import Enum
from typing import Final

from firn.jobs.quarantine import MAX_ATTEMPTS
from firn.staging.attempts import End

MAX_PASSING: Final = 20  # failures that pass by themselves: after a third of an hour somebody should look


class Step(Enum):
    """range: run all of it (again). narrow: run the first epoch alone. hold: that epoch kills every job. stuck: only a
    person can help."""

    RANGE = "range"
    NARROW = "narrow"
    HOLD = "hold"
    STUCK = "stuck"


def next_step(failed: Sequence[tuple[int, End | None]], first: int) -> Step:
    """`failed`: (last epoch, how it ended) of each failed run from epoch `first` on; None: it never began to work.

    Only runs that began and were killed speak against an epoch: one that never began tells of the deployment (an entry
    point that is missing, no capacity), and one that could say why it failed did not die of what it read.
    """
    hard = [(last, end) for last, end in failed if end != "transient"]
    if len(hard) < MAX_ATTEMPTS and len(failed) < MAX_PASSING:
        return Step.RANGE
    killed = [last for last, end in hard if end == "killed"]
    if killed.count(first) >= MAX_ATTEMPTS:
        return Step.HOLD
    alone = sum(last == first for last, _ in hard)
    return Step.NARROW if len(killed) >= MAX_ATTEMPTS and alone < MAX_ATTEMPTS else Step.STUCK
