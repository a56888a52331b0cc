"""Tags and branches of a table: names for snapshots, which expiry leaves alone.

A table that a stream feeds keeps its progress in main's history, kept cuts are tags, and a rebuild works on a branch:
what would hide one of them is refused, and told what to do instead.
"""

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

from pyiceberg.table.update import AssertRefSnapshotId
from pyiceberg.table.update.snapshot import ManageSnapshots

from firn.errors import TerminalError
from firn.log import named_cuts
from firn.maintenance.expiry import MAIN, REBUILDING
from firn_lake.reading.lineage import FORMAT
from firn_lake.tables import shown
from firn_lake.writing.commit import MovedOn, land, stage_files
from firn_lake.writing.stream_ownership import is_firns

if TYPE_CHECKING:
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.metadata import TableMetadata

    from firn.log.store import Store

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_TRIES: Final = 10


class NameTaken(TerminalError):
    """A table has a tag or branch of that name already, on another snapshot."""


class NoSuchRef(TerminalError):
    """The table has no such tag or branch; the text lists those it has."""


class BadRefName(TerminalError):
    """The name can't be a tag's or a branch's."""


class RefRefused(TerminalError):
    """It would hide progress, a cut or a rebuild; the text says what to do instead."""


@dataclass(frozen=True)
class Ref:
    """A tag or a branch. `time`: of its snapshot; `keep`: how long after that it stays, None: until it is dropped."""

    name: str
    kind: Literal["tag", "branch"]
    snapshot: int
    time: datetime | None
    keep: timedelta | None = None


def refs(metadata: "TableMetadata") -> list[Ref]:
    """The table's tags and branches, by name."""
    times = {one.snapshot_id: datetime.fromtimestamp(one.timestamp_ms / 1000, UTC) for one in metadata.snapshots}
    return [
        Ref(
            name,
            "tag" if one.snapshot_ref_type.value == "tag" else "branch",
            one.snapshot_id,
            times.get(one.snapshot_id),
            None if one.max_ref_age_ms is None else timedelta(milliseconds=one.max_ref_age_ms),
        )
        for name, one in sorted(metadata.refs.items())
    ]


def tag(table: "Table", name: str, snapshot: int | None, keep: timedelta | None = None) -> Ref:
    """Names a snapshot for good, or for `keep` after it was made. The same again changes nothing.

    Raises BadRefName, NameTaken, NoSuchRef (the table has no snapshot), RefRefused, MovedOn, UnknownOutcome.
    """
    if keep is not None and keep <= timedelta(0):
        raise BadRefName(f"keep={keep}: write how long the tag stays, such as timedelta(days=30), or None for good")
    there = _made(table, name, "tag", snapshot)
    if there is not None:
        if there.keep != keep:
            raise NameTaken(f"{shown(table)} has the tag {name} there already, kept {_age(there.keep)}: drop it first")
        return there
    age = None if keep is None else int(keep.total_seconds() * 1000)
    manage(table, name, lambda managed: managed.create_tag(known(table, snapshot), name, age))
    return ref_of(table.metadata, name)


def branch(table: "Table", name: str, snapshot: int | None) -> Ref:
    """Begins a branch at a snapshot. The same again changes nothing. Raises as `tag` does."""
    there = _made(table, name, "branch", snapshot)
    if there is not None:
        return there
    manage(table, name, lambda managed: managed.create_branch(known(table, snapshot), name))
    return ref_of(table.metadata, name)


def drop(table: "Table", name: str, store: "Callable[[], Store] | None") -> None:
    """Takes a tag or branch away. Its snapshots go when expiry finds nothing else that needs them.

    store  how to open the staging store, where it stands which tags hold kept cuts; None: it can't be asked

    Raises NoSuchRef, RefRefused (main; a rebuild's branch; a kept cut), MovedOn, UnknownOutcome, StorageUnavailable.
    """
    there = ref_of(table.metadata, name)
    not_the_rebuilds(name)
    if name == MAIN:
        raise RefRefused(f"main is what {shown(table)} is, and can't be dropped")
    if there.kind == "tag" and is_firns(table.metadata):
        _no_cut(table, name, store)
    manage(table, name, lambda managed: managed._remove_ref_snapshot(name), holds=False)


def manage(table: "Table", name: str, what: "Callable[[ManageSnapshots], object]", *, holds: bool = True) -> None:
    """Commits a change of the ref `name`, if it still is as it was looked at; commits to other refs do no harm.

    holds   whether it may hold a snapshot that nothing else does. On a REST catalog main then moves by a snapshot of
            nothing: else an expiry that looked before would let go of the snapshot, and of the ref
            (docs/adr/0076-expiry-on-rest-catalogs.md)
    Raises MovedOn, UnknownOutcome.
    """
    moves = holds and name != MAIN and _by_rest(table)

    def stage(transaction: "Transaction") -> None:
        managed = ManageSnapshots(transaction)
        what(managed)
        managed.commit()
        if moves:
            stage_files(transaction, (), (), {FORMAT: "1"})
            # PyIceberg takes the first requirement of a kind only, and would then set main whatever it is by now.
            both = (_still(table.metadata, one) for one in (name, MAIN))
            others = (one for one in transaction._requirements if not isinstance(one, AssertRefSnapshotId))
            transaction._requirements = (*others, *both)

    before = table.metadata.refs.get(name)
    for left in reversed(range(_TRIES)):
        try:
            land(table, stage)
            return
        except MovedOn:
            table.refresh()
            if not left or table.metadata.refs.get(name) != before:
                raise


def _still(metadata: "TableMetadata", name: str) -> AssertRefSnapshotId:
    """That a ref is where it was looked at; or that there is none."""
    there = metadata.refs.get(name)
    return AssertRefSnapshotId.model_validate(
        {"ref": name, "snapshot-id": None if there is None else there.snapshot_id}
    )


def _by_rest(table: "Table") -> bool:
    """Whether its catalog checks of a commit only the refs that it moves, and Firn may expire its snapshots there."""
    from pyiceberg.catalog.rest import RestCatalog

    return table.metadata.current_snapshot_id is not None and isinstance(table.catalog, RestCatalog)


def _made(table: "Table", name: str, kind: Literal["tag", "branch"], snapshot: int | None) -> Ref | None:
    """The ref if it is there already, on this very snapshot; None if the name is free."""
    not_the_rebuilds(name)
    if name in table.metadata.refs:
        there = ref_of(table.metadata, name)
        if (there.kind, there.snapshot) != (kind, snapshot):
            raise NameTaken(
                f"{shown(table)} has a {there.kind} {name} already, on snapshot {there.snapshot}: choose another name"
                f"{'' if name == MAIN else ', or drop it first'}. There are: {listed(refs(table.metadata))}"
            )
        return there
    if not _NAME.fullmatch(name):
        raise BadRefName(f"{name!r} can't name a {kind}: write 1 to 64 letters, digits, '-', '_' or '.', such as audit")
    if name.isdigit():
        raise BadRefName(f"{name!r} can't name a {kind}, it reads as a snapshot's id or a time: write a word")
    with suppress(ValueError):
        datetime.fromisoformat(name)
        raise BadRefName(f"{name!r} can't name a {kind}, it reads as a time: write a word with it, such as day-{name}")
    return None


def _no_cut(table: "Table", name: str, store: "Callable[[], Store] | None") -> None:
    if store is None:
        raise RefRefused(
            f"{name} may hold a kept cut, which only the staging store knows, and this lake was opened by its catalog "
            "alone: connect to the stack's folder or its firn.yaml"
        )
    found = named_cuts.read(store(), name)
    if found is not None and ".".join(table.name()) in found.tables:
        raise RefRefused(
            f"the tag {name} holds cut {found.cut.n} of {found.cut.stream}, which firn cut keep keeps for good: "
            f"without it {shown(table)} could no longer be read together with the cut's other tables. firn cut drop "
            f"{name} lets go of it in all of them"
        )


def not_the_rebuilds(name: str) -> None:
    """Raises RefRefused for the branch of a rebuild."""
    if name.startswith(REBUILDING):
        raise RefRefused(f"{name} belongs to firn rebuild, which works on it: finish the rebuild (firn rebuild TABLE)")


def known(table: "Table", snapshot: int | None) -> int:
    """The snapshot, if the table has it. Raises NoSuchRef."""
    if snapshot is None:
        raise NoSuchRef(f"{shown(table)} has no snapshot yet: there is nothing to name")
    if table.metadata.snapshot_by_id(snapshot) is None:
        raise NoSuchRef(f"{shown(table)} has no snapshot {snapshot}, or it has expired (firn history {shown(table)})")
    return snapshot


def ref_of(metadata: "TableMetadata", name: str) -> Ref:
    """The tag or branch of this name. Raises NoSuchRef, which lists those there are."""
    found = refs(metadata)
    for one in found:
        if one.name == name:
            return one
    raise NoSuchRef(f"there is no tag or branch {name!r}; there are: {listed(found)}")


def listed(found: "Iterable[Ref]", kind: str | None = None) -> str:
    """Refs for the text of an error; of one kind if `kind` says so."""
    named = [one.name if kind else f"{one.name} ({one.kind})" for one in found if kind in (None, one.kind)]
    return ", ".join(named) or "none yet"


def _age(keep: timedelta | None) -> str:
    return "for good" if keep is None else f"for {keep}"
