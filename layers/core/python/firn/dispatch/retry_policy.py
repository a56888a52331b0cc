"""What to do about a range of epochs whose runs failed. Pure."""

from collections.abc import Sequence
from enum import Enum
from typing import Final

from firn.log.attempts import End
from firn.quarantine.rules import MAX_ATTEMPTS

MAX_PASSING: Final = 20  # failures that pass by themselves: after a third of an hour somebody should look
_STRIKES: Final = ("killed", "terminal")


class Step(Enum):
    """range: run all of it (again). narrow: run up to the next epoch only. hold: that epoch kills every job. stuck:
    only a person can help."""

    RANGE = "range"
    NARROW = "narrow"
    HOLD = "hold"
    STUCK = "stuck"


def next_step(failed: Sequence[End | None], alone: Sequence[End | None]) -> Step:
    """What to do about a range that is in no cut yet.

    failed  how the runs ended that failed; None: it never began to work
    alone   those of them that had nothing left to do but one epoch, the one that is next

    Only runs that began and were killed speak against an epoch: one that never began tells of the deployment (an entry
    point that is missing, no capacity, too long in the queue), which passes; and one that could say why it failed did
    not die of what it read.
    """
    hard = [end for end in failed if end in _STRIKES]
    if len(hard) < MAX_ATTEMPTS and len(failed) < MAX_PASSING:
        return Step.RANGE
    if alone.count("killed") >= MAX_ATTEMPTS:
        return Step.HOLD
    tried_alone = sum(end in _STRIKES for end in alone)
    return Step.NARROW if hard.count("killed") >= MAX_ATTEMPTS and tried_alone < MAX_ATTEMPTS else Step.STUCK
