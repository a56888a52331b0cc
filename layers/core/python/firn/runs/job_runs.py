"""Runs of the commit job, as dispatch knows them, and the port to where they run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

ACTIVE: Final = ("SUBMITTED", "PENDING", "SCHEDULED", "QUEUED", "RUNNING", "CANCELLING")
ENDED: Final = ("SUCCESS", "FAILED", "CANCELLED")
PREFIX: Final = "firn-"


def run_name(stream: str, first: int, last: int, attempt: int) -> str:
    """`firn-{stream}-{first}-{last}-{attempt}`: what list_job_runs gives back, tags it does not."""
    return f"{PREFIX}{stream}-{first}-{last}-{attempt}"


def parse_name(name: str) -> tuple[str, int, int, int] | None:
    """(stream, first, last, attempt), the inverse of `run_name`; None for a run that is not a commit job of Firn's."""
    stream, *numbers = name.removeprefix(PREFIX).rsplit("-", 3)
    if not name.startswith(PREFIX) or len(numbers) != 3 or not all(map(str.isdigit, numbers)):
        return None
    first, last, attempt = map(int, numbers)
    return stream, first, last, attempt


def stream_of(name: str) -> str | None:
    """The stream that a run of this name was started for; None if it is not a commit job of Firn's."""
    found = parse_name(name)
    return None if found is None else found[0]


@dataclass(frozen=True)
class Run:
    """One job run of a stream, over the epochs `first` to `last`, both included."""

    id: str
    stream: str
    first: int
    last: int
    attempt: int
    state: str  # EMR Serverless's words

    @property
    def name(self) -> str:
        """What the run itself and every dispatcher call it."""
        return run_name(self.stream, self.first, self.last, self.attempt)

    @property
    def active(self) -> bool:
        """Still on its way or at work."""
        return self.state in ACTIVE

    @property
    def failed(self) -> bool:
        """Ended without success."""
        return self.state in ("FAILED", "CANCELLED")


class Jobs(Protocol):
    """Where jobs run: EMR Serverless (emr.py), or a fake with a list."""

    def runs(self, since: datetime) -> Sequence[Run]:
        """Firn's runs created at or after `since`, and all active ones. Raises TransientError."""

    def start(self, stream: str, first: int, last: int, attempt: int) -> str:
        """Start a run, or find the one that this call started before; its id. Raises TransientError, UnknownOutcome."""
