"""Which snapshot of a table an `--as-of` means (a time, a snapshot id, a tag or a branch), or a `--cut`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyiceberg.table.refs import SnapshotRefType

from firn.log.cuts import Cut
from firn.tables.snapshot_history import AsOf, NoSuchMoment, SnapshotHistory
from firn.views.cut import SOURCES, told
from firn_lake.long_history import log_of, main_of, parents_of, snapshots_of

if TYPE_CHECKING:
    from pyiceberg.table import Table


def snapshot_at(table: "Table", as_of: AsOf) -> int | None:
    """The id of the snapshot that `as_of` means in `table`; None (the current one) for None. Raises NoSuchMoment."""
    if as_of is None:
        return None
    metadata = table.metadata
    return SnapshotHistory(
        _name(table),
        parents_of(metadata),
        {name: ref.snapshot_id for name, ref in metadata.refs.items()},
        log_of(metadata),
    ).at(as_of)


def snapshot_in(table: "Table", cut: Cut) -> tuple[int, str]:
    """The id of the table's snapshot in `cut`, and what is to be said of it (of a view: that it is of an earlier cut).

    Raises NoSuchMoment if the cut doesn't hold the table, or it expired.
    """
    snapshot = cut.tables.get(_name(table))
    if snapshot is None and table.metadata.properties.get("firn.mode") == "view":
        return _view_in(table, cut)
    if snapshot is None:
        holds = ", ".join(sorted(cut.tables)) or "nothing"
        raise NoSuchMoment(f"cut {cut.n} of {cut.stream} does not hold {_name(table)}; it holds {holds}")
    if table.snapshot_by_id(snapshot) is None:
        raise NoSuchMoment(
            f"snapshot {snapshot} of {_name(table)}, which cut {cut.n} of {cut.stream} names, has expired; "
            "firn cut list shows newer cuts, and firn cut keep holds one for good"
        )
    return snapshot, ""


def _view_in(table: "Table", cut: Cut) -> tuple[int, str]:
    """The id of the snapshot of a view that is of `cut`, or of the newest cut before it; and which that is, "" if it is
    of `cut` itself or reads nothing that changed since. Raises NoSuchMoment."""
    name, oldest, streams = _name(table), 0, set[str]()
    for snapshot, summary in _kept_snapshots(table):
        made = told((summary,)) if SOURCES in summary else None
        if made is None:  # care has only rewritten its files
            continue
        streams |= made.epochs.keys()
        if cut.stream not in made.epochs:
            continue
        oldest = made.epochs[cut.stream]
        if oldest > cut.n:
            continue
        known = {str(source): at for source, (_, at) in made.sources.items()}
        same = all(cut.tables.get(source) == at for source, at in known.items())
        if oldest == cut.n or same:
            return snapshot, ""
        return snapshot, f"{name} is of cut {oldest} of {cut.stream}: no refresh between it and cut {cut.n} is kept"
    if streams and cut.stream not in streams:
        fed = ", ".join(sorted(streams))
        raise NoSuchMoment(f"{name} is a view of what {fed} feeds: no snapshot of it is of a cut of {cut.stream}")
    since = (
        f"its oldest snapshot that is kept is of cut {oldest}" if oldest else "no snapshot of it says of which it is"
    )
    raise NoSuchMoment(
        f"the view {name} has no snapshot of cut {cut.n} of {cut.stream} or of one before it: {since}; read it at a "
        "newer cut (firn cut list), or run its SQL over the tables at this one"
    )


def _kept_snapshots(table: "Table") -> list[tuple[int, Mapping[str, str]]]:
    """The ids and summaries of main, newest first; then of tags (kept cuts) on what expiry has cut off from it."""
    found: list[tuple[int, Mapping[str, str]]] = list(main_of(table.metadata))
    there = {one for one, _ in found}
    refs = table.metadata.refs.values()
    tagged = {one.snapshot_id for one in refs if one.snapshot_ref_type == SnapshotRefType.TAG} - there
    more = [one for one in snapshots_of(table.metadata, sorted(tagged)) if one.summary is not None]
    more.sort(key=lambda one: one.timestamp_ms, reverse=True)
    return found + [(one.snapshot_id, one.summary.additional_properties) for one in more if one.summary is not None]


def _name(table: "Table") -> str:
    return ".".join(table.name())
