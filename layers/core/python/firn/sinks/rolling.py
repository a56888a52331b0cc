"""Which epochs the next plan of a file sink takes, and how its rows are cut into files. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from firn.config.file_sinks import FileSink
from firn.sinks.plans import PlannedFile

MOST_EPOCHS: Final = 1_000  # of a plan
MOST_FOLDERS: Final = 1_000  # of a plan: rows of further ones are dead letters
MOST_FILES: Final = 10_000  # of a plan, about: beyond that they get larger
_FIRST_PAUSE: Final = timedelta(minutes=1)
_LONGEST_PAUSE: Final = timedelta(hours=1)


@dataclass(frozen=True)
class WaitingEpoch:
    """An epoch that no plan covers and that holds changes for the sink. `config`: the sha that it names; `events`,
    `bytes`: of the sink's source in the staged log; `since`: when the oldest of its batches was accepted; `sink`: as
    its configuration says."""

    n: int
    config: str
    events: int
    bytes: int
    since: datetime
    sink: FileSink


def next_plan(waiting: Sequence[WaitingEpoch], now: datetime, *, ended: bool) -> Sequence[WaitingEpoch]:
    """The epochs of the next plan, the first of `waiting`; none: what waits is neither large nor old enough.

    A plan has one configuration, and ends with the epoch that reaches the size. `ended`: no more is coming, the sink
    is gone from firn.yaml.
    """
    taken: list[WaitingEpoch] = []
    size = 0
    for one in waiting:
        if taken and one.config != taken[0].config:
            return taken
        taken.append(one)
        size += one.bytes
        if size >= one.sink.roll.bytes or len(taken) >= MOST_EPOCHS:
            return taken
    return taken if taken and (ended or now >= due(taken)) else ()


def due(waiting: Sequence[WaitingEpoch]) -> datetime:
    """When the age of what waits makes a plan. `waiting`: not empty."""
    return min(one.since for one in waiting) + timedelta(seconds=waiting[0].sink.roll.seconds)


def pause_after(tries: int) -> timedelta:
    """How long a sink is left alone after so many tries that failed, or that nobody saw the end of."""
    return min(_FIRST_PAUSE * (1 << min(tries - 1, 10)), _LONGEST_PAUSE)


def cut(folders: Mapping[str, int], *, events: int, size: int, roll: int, name: str, ending: str) -> list[PlannedFile]:
    """The files of a plan: each folder's rows (`folders`) in files of about `roll` bytes.

    events, size  changes of the plan and their bytes in the staged log: what a row takes is told by these, since how
                  large a file becomes only its writing could tell
    name          what the files' names begin with: they are all different, whatever the folder
    """
    files: list[PlannedFile] = []
    total = max(events, sum(folders.values()), 1)
    roll = max(roll, size // MOST_FILES)
    for folder in sorted(folders):
        rows = folders[folder]
        parts = min(max(1, (rows * size + total * roll // 2) // (total * roll)), rows)
        ends = [rows * i // parts for i in range(parts + 1)] if parts else []
        for first, end in pairwise(ends):
            path = f"{folder}/{name}.{len(files):05d}{ending}".removeprefix("/")
            files.append(PlannedFile(path, folder, first, end - first))
    return files
