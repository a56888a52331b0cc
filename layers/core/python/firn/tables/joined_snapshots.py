"""Which snapshots of other tables an append table's rows were joined with, in the summaries of its own. Pure.

A pipeline's join is not computed again when the joined table changes: what the rows were joined with is known from here
alone.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from firn.tables.table_state import EPOCH

JOINED: Final = "firn.joined."
"""In a summary, with the pipeline's name behind it: {"above": epoch, "tables": {name: [uuid, snapshot]}}."""


@dataclass(frozen=True)
class Joined:
    """A table as rows were joined with it: its UUID, and its snapshot, None before it had one."""

    uuid: str
    snapshot: int | None


By = Mapping[str, Mapping[str, Joined]]
"""By pipeline and table."""


@dataclass(frozen=True)
class JoinedEpochs:
    """What the rows of the epochs above `above` up to `last` were joined with."""

    above: int
    last: int
    by: By


def summary(above: int, by: By) -> dict[str, str]:
    """The properties of a snapshot with the rows of epochs above `above`."""
    return {
        f"{JOINED}{pipeline}": json.dumps(
            {"above": above, "tables": {name: [one.uuid, one.snapshot] for name, one in sorted(tables.items())}},
            ensure_ascii=False,
        )
        for pipeline, tables in by.items()
        if tables
    }


def recorded(stream: str, ancestry: Iterable[Mapping[str, str]]) -> Iterator[JoinedEpochs]:
    """What these summaries tell of a stream's epochs."""
    for one in ancestry:
        last = one.get(f"{EPOCH}{stream}", "")
        found = {name.removeprefix(JOINED): json.loads(text) for name, text in one.items() if name.startswith(JOINED)}
        if found and last.isdecimal():
            above = min(int(told["above"]) for told in found.values())
            by = {
                pipeline: {name: Joined(uuid, snapshot) for name, (uuid, snapshot) in told["tables"].items()}
                for pipeline, told in found.items()
            }
            yield JoinedEpochs(above, int(last), by)
