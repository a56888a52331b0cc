"""Keeping a cut: a tag without an age on the snapshot of each of its tables, which no expiry takes away."""

from datetime import datetime
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table.refs import SnapshotRefType

from firn.errors import TerminalError, TransientError
from firn.staging import kept
from firn.staging.cuts import Cut
from firn.staging.kept import Kept
from firn.staging.store import Store
from firn.streams.names import TableName
from firn_lake.moments import NoSuchMoment

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_TRIES: Final = 10


class NameTaken(TerminalError):
    """A table has a tag or branch of that name already, on another snapshot."""


class TableBusy(TransientError):
    """Other commits always came first."""


def keep_cut(catalog: "Catalog", store: Store, name: str, cut: Cut, now: datetime) -> Kept:
    """Keep `cut` as `name`. Any number of times gives the same; what a crash left undone, the next call does.

    First a look at all tables, so that a cut that can't be kept leaves nothing; then the record, which makes the name
    this cut's; then the tags. Raises BadCutName, NameTaken, NoSuchMoment (a snapshot has expired), TableBusy,
    StorageUnavailable, UnknownOutcome.
    """
    kept.check_name(name)
    for table, snapshot in sorted(cut.tables.items()):
        _is_tagged(_load(catalog, table, cut), name, snapshot, cut)
    recorded = kept.record(store, name, cut, now)
    for table, snapshot in sorted(recorded.cut.tables.items()):
        _tag(catalog, table, name, snapshot, cut)
    return recorded


def _tag(catalog: "Catalog", table: str, name: str, snapshot: int, cut: Cut) -> None:
    for _ in range(_TRIES):
        loaded = _load(catalog, table, cut)
        if _is_tagged(loaded, name, snapshot, cut):
            return
        try:
            loaded.manage_snapshots().create_tag(snapshot, name).commit()  # no max_ref_age_ms: for ever
        except CommitFailedException:  # a commit of the stream came between
            continue
        return
    raise TableBusy(f"{table} could not be tagged, other commits came first {_TRIES} times: run it again")


def _is_tagged(table: "Table", name: str, snapshot: int, cut: Cut) -> bool:
    """Does the table have the tag? Raises NameTaken if the name is something else there, NoSuchMoment."""
    shown = ".".join(table.name())
    ref = table.metadata.refs.get(name)
    if ref is not None and (ref.snapshot_id != snapshot or ref.snapshot_ref_type != SnapshotRefType.TAG):
        kind = ref.snapshot_ref_type.value
        raise NameTaken(f"{shown} has a {kind} {name} of its own, on snapshot {ref.snapshot_id}: choose another name")
    if table.snapshot_by_id(snapshot) is None:
        raise NoSuchMoment(f"cut {cut.n} of {cut.stream} can't be kept: snapshot {snapshot} of {shown} has expired")
    return ref is not None


def _load(catalog: "Catalog", table: str, cut: Cut) -> "Table":
    try:
        return catalog.load_table(TableName.parse(table).identifier)
    except NoSuchTableError as error:
        raise NoSuchMoment(f"cut {cut.n} of {cut.stream} can't be kept: {table} is not in the lake any more") from error
