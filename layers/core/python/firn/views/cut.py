"""What a view is to be of: the newest cut of each stream that feeds what it reads, and a moment; and what a view's
snapshot says."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from firn.config.names import TableName
from firn.config.views import View

OF_VIEW: Final = "firn.view."  # so begins what snapshots of views say
SQL: Final = "firn.view.sql"  # in a snapshot's summary: View.sha of the SQL that made it
SOURCES: Final = "firn.view.sources"  # the same: JSON, table -> [its UUID, its snapshot] of what it was made of
CUT: Final = "firn.view.cut"  # the same: JSON, stream -> the cut that it is of
NOW: Final = "firn.view.now"  # the same: the moment that it is of, if its SQL asks for the time


@dataclass(frozen=True)
class ViewCut:
    """The tables that a view reads, all at one cut.

    epochs     of each stream that feeds them the newest cut
    snapshots  of each table that these cuts name its snapshots there: several where several streams feed it, of which
               the one that has the others among its ancestors counts
    now        the moment of the refresh: what its SQL asks the time for
    looks      whether that of the last refresh will do, if there is one: time alone is no reason then
    """

    epochs: Mapping[str, int]
    snapshots: Mapping[TableName, frozenset[int]]
    now: datetime | None = None
    looks: bool = False


@dataclass(frozen=True)
class Told:
    """What the newest refresh says of itself. `sources`: table -> its UUID and snapshot; `now`: the moment that it is
    of, None if its SQL does not ask for the time."""

    sql: str
    sources: Mapping[TableName, tuple[str, int]]
    epochs: Mapping[str, int]
    now: datetime | None = None

    def summary(self) -> dict[str, str]:
        """The same for a snapshot's summary."""
        sources = {str(name): list(one) for name, one in sorted(self.sources.items())}
        found = {SQL: self.sql, SOURCES: json.dumps(sources), CUT: json.dumps(dict(sorted(self.epochs.items())))}
        return found if self.now is None else found | {NOW: self.now.isoformat(timespec="microseconds")}

    def has_rows_of(self, other: "Told") -> bool:
        """Whether both are of the same query over the same tables at the same moment."""
        return (self.sql, self.sources, self.now) == (other.sql, other.sources, other.now)


def moment(view: View, at: ViewCut, before: Told | None) -> datetime | None:
    """The moment that a refresh is of: never before that of the last one, whatever clock a job has. None for a view
    whose SQL does not ask for the time."""
    if not view.by_clock:
        return None
    if at.now is None:
        raise ValueError(f"{view.table} is refreshed at no moment")
    now = at.now.astimezone(UTC)
    if before is None or before.now is None:
        return now
    return before.now if at.looks else max(now, before.now)


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
        now = datetime.fromisoformat(found[NOW]).astimezone(UTC) if NOW in found else None
        return Told(found.get(SQL, ""), sources, epochs, now)
    except (ValueError, TypeError, AttributeError):
        return None
