"""What a view is to be of: the newest cut of each stream that feeds what it reads, and what a view's snapshot says."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from firn.config.names import TableName

OF_VIEW: Final = "firn.view."  # so begins what snapshots of views say
SQL: Final = "firn.view.sql"  # in a snapshot's summary: View.sha of the SQL that made it
SOURCES: Final = "firn.view.sources"  # the same: JSON, table -> [its UUID, its snapshot] of what it was made of
CUT: Final = "firn.view.cut"  # the same: JSON, stream -> the cut that it is of


@dataclass(frozen=True)
class ViewCut:
    """The tables that a view reads, all at one cut.

    epochs     of each stream that feeds them the newest cut
    snapshots  of each table that these cuts name its snapshots there: several where several streams feed it, of which
               the one that has the others among its ancestors counts
    """

    epochs: Mapping[str, int]
    snapshots: Mapping[TableName, frozenset[int]]


@dataclass(frozen=True)
class Told:
    """What the newest refresh says of itself. `sources`: table -> its UUID and snapshot."""

    sql: str
    sources: Mapping[TableName, tuple[str, int]]
    epochs: Mapping[str, int]

    def summary(self) -> dict[str, str]:
        """The same for a snapshot's summary."""
        sources = {str(name): list(one) for name, one in sorted(self.sources.items())}
        return {SQL: self.sql, SOURCES: json.dumps(sources), CUT: json.dumps(dict(sorted(self.epochs.items())))}


def is_overtaken(now: Told, by: Told, follows: Callable[[TableName, int, int], bool]) -> bool:
    """Whether what a job would make of a view, `now`, is of older tables than what is there, made `by` another one. The
    numbers of cuts alone don't say so: they begin again where a log does.

    follows  whether the one snapshot of a table has the other among its ancestors
    """
    if all(n <= now.epochs.get(stream, n) for stream, n in by.epochs.items()):
        return False
    for name, (uuid, snapshot) in by.sources.items():
        its, own = now.sources.get(name, ("", snapshot))
        if its == uuid and own != snapshot and follows(name, snapshot, own):
            return True
    return False


def told(ancestry: tuple[Mapping[str, str], ...]) -> Told | None:
    """What the newest refresh among these summaries (TableState.ancestry) says; None if there is none, or it can't be
    read: then all of the view is made again."""
    found = next((one for one in ancestry if SOURCES in one), None)
    try:
        if found is None:
            return None
        sources = {
            TableName.parse(name): (str(uuid), int(at)) for name, (uuid, at) in json.loads(found[SOURCES]).items()
        }
        epochs = {str(stream): int(n) for stream, n in json.loads(found.get(CUT, "{}")).items()}
        return Told(found.get(SQL, ""), sources, epochs)
    except (ValueError, TypeError, AttributeError):
        return None
