"""Keeping a cut, and dropping it: a tag without an age in each of its tables, and in the views over them, which no
expiry takes away."""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table.refs import SnapshotRefType

from firn.config.names import TableName
from firn.log import named_cuts, published_configs
from firn.log.cuts import Cut
from firn.log.named_cuts import Kept
from firn.log.store import Store
from firn.tables.snapshot_history import NoSuchMoment
from firn.views.view_sources import views_of
from firn_lake.reading.moments import snapshot_in
from firn_lake.refs.names import NameTaken, manage

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.update.snapshot import ManageSnapshots


def keep_cut(
    catalog: "Catalog", store: Store, name: str, cut: Cut, now: datetime, tell: Callable[[str], None] = lambda _: None
) -> Kept:
    """Keep `cut` as `name`. Any number of times gives the same; what a crash left undone, the next call does.

    First a look at all tables, so that a cut that can't be kept leaves nothing; then the record, which makes the name
    this cut's; then the tags. A view that has no snapshot of the cut keeps no cut from being kept: `tell` takes a line
    about it, and one about a view that is of an earlier cut.

    Raises BadCutName, NameTaken, NoSuchMoment (a snapshot has expired), MovedOn, StorageUnavailable, UnknownOutcome.
    """
    named_cuts.check_name(name)
    before = named_cuts.read(store, name)
    views = before.views if before is not None else _views_in(catalog, store, cut, tell)
    for table, snapshot in sorted({**cut.tables, **views}.items()):
        _is_tagged(_load(catalog, table, cut), name, snapshot, cut)
    recorded = named_cuts.record(store, name, cut, now, views)
    for table, snapshot in sorted(recorded.tables.items()):
        _tag(catalog, table, name, snapshot, cut)
    return recorded


def drop_cut(catalog: "Catalog", store: Store, name: str) -> Kept:
    """Let go of the cut kept as `name`: of its tags, then of the name. What a crash left undone, the next call does.
    -> what was kept

    Its snapshots go with the next expiry, if nothing else needs them; a tag that was there before the cut was kept goes
    too. Raises NoSuchCut, MovedOn, StorageUnavailable, UnknownOutcome.
    """
    found = named_cuts.named(store, name)
    for table, snapshot in sorted(found.tables.items()):
        with suppress(NoSuchTableError):
            loaded = catalog.load_table(TableName.parse(table).identifier)
            ref = loaded.metadata.refs.get(name)
            if ref is not None and (ref.snapshot_id, ref.snapshot_ref_type) == (snapshot, SnapshotRefType.TAG):
                manage(loaded, name, lambda managed: managed._remove_ref_snapshot(name), holds=False)
    named_cuts.forget(store, name)
    return found


def _views_in(catalog: "Catalog", store: Store, cut: Cut, tell: Callable[[str], None]) -> dict[str, int]:
    """Of each view that rests on what the cut's stream feeds the snapshot that reading at the cut gives."""
    found = dict[str, int]()
    config = published_configs.find(store)
    for view in views_of(config, cut.stream) if config is not None else ():
        try:
            table = catalog.load_table(view.table.identifier)
            if table.metadata.properties.get("firn.mode") == "view":
                found[str(view.table)], said = snapshot_in(table, cut)
                if said:
                    tell(said)
        except NoSuchTableError:
            tell(f"the view {view.table} is not made yet, and not kept")
        except NoSuchMoment as error:
            tell(f"the view {view.table} is not kept: {error}")
    return found


def _tag(catalog: "Catalog", table: str, name: str, snapshot: int, cut: Cut) -> None:
    loaded = _load(catalog, table, cut)

    def tag(managed: "ManageSnapshots") -> None:
        if not _is_tagged(loaded, name, snapshot, cut):  # it is loaded again for each try
            managed.create_tag(snapshot, name)  # without an age: for ever

    if not _is_tagged(loaded, name, snapshot, cut):
        manage(loaded, name, tag)


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
