"""Tags and branches: making, dropping and moving them, and what is refused because it would hide something."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from obstore.store import MemoryStore
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from firn.errors import UnknownOutcome
from firn.log import cuts
from firn.tables.snapshot_history import NoSuchMoment
from firn_lake.lake import Lake
from firn_lake.lake_table import LakeTable
from firn_lake.refs.branches import NotAhead
from firn_lake.refs.keep import keep_cut
from firn_lake.refs.names import BadRefName, NameTaken, NoSuchRef, RefRefused
from firn_lake.writing.commit import MovedOn
from firn_lake.writing.stream_ownership import FedByStream, streams_of

NOW = datetime(2026, 3, 1, tzinfo=UTC)
COLUMNS = pa.schema([("id", pa.int64())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)}, COLUMNS)


@pytest.fixture
def own(catalog: Catalog) -> Table:
    """A table that no stream feeds, with two snapshots on main and one more on the branch audit."""
    catalog.create_namespace_if_not_exists("own")
    table = catalog.create_table("own.numbers", COLUMNS)
    table.append(rows(1))
    table.append(rows(2))
    table.manage_snapshots().create_branch(table.metadata.current_snapshot_id or 0, "audit").commit()
    table.append(rows(3), branch="audit")
    return table


@pytest.fixture
def table(catalog: Catalog, own: Table) -> LakeTable:
    return Lake(catalog).table("own.numbers")


@pytest.fixture
def fed(catalog: Catalog, orders: Table) -> LakeTable:
    store = MemoryStore()
    return Lake(catalog, lambda: store).table("shop.orders")


def ids(table: LakeTable, **how: object) -> list[int]:
    return sorted(row["id"] for row in table.read(**how).pylist())  # type: ignore[arg-type]


def test_refs_are_told_with_their_snapshot_and_age(table: LakeTable) -> None:
    first = table.snapshots()[0]
    table.tag("first", first.id, keep=timedelta(days=30))
    found = {one.name: one for one in table.refs()}
    assert list(found) == ["audit", "first", "main"]
    assert (found["first"].kind, found["first"].snapshot, found["first"].time) == ("tag", first.id, first.time)
    assert (found["first"].keep, found["main"].keep) == (timedelta(days=30), None)


def test_a_tag_and_a_branch_begin_at_any_moment(table: LakeTable) -> None:
    first = table.snapshots()[0]
    table.tag("by-time", first.time)
    table.branch("work", "by-time")
    assert ids(table, as_of="by-time") == ids(table, as_of="work") == [1]
    assert table.tag("now").snapshot == table.snapshots()[1].id
    with pytest.raises(NoSuchMoment):
        table.tag("never", "2001-01-01")


def test_the_same_tag_again_changes_nothing_and_another_snapshot_is_refused(table: LakeTable) -> None:
    first, second, _ = table.snapshots()
    made = table.tag("first", first.id)
    where = table.iceberg.metadata_location
    assert table.tag("first", first.id) == made
    assert table.iceberg.metadata_location == where
    with pytest.raises(
        NameTaken, match=r"has a tag first already, .* There are: audit \(branch\), first \(tag\), main"
    ):
        table.tag("first", second.id)
    with pytest.raises(NameTaken, match="has the tag first there already, kept for good: drop it first"):
        table.tag("first", first.id, keep=timedelta(days=1))


def test_a_tag_and_a_branch_never_share_a_name(table: LakeTable) -> None:
    with pytest.raises(NameTaken, match="has a branch audit already"):
        table.tag("audit", "audit")
    table.tag("done")
    with pytest.raises(NameTaken, match="has a tag done already"):
        table.branch("done")


@pytest.mark.parametrize("name", ["", "20260131", "2026-01-31", "a b", "-x", "x" * 65])
def test_a_name_is_told_apart_from_ids_and_times(table: LakeTable, name: str) -> None:
    with pytest.raises(BadRefName, match="can't name a tag"):
        table.tag(name)


def test_no_one_is_told_to_drop_main(table: LakeTable) -> None:
    with pytest.raises(NameTaken, match=r"has a branch main already, on snapshot \d+: choose another name\. There are"):
        table.tag("main")


def test_a_tag_has_to_stay_for_a_while(table: LakeTable) -> None:
    with pytest.raises(BadRefName, match="write how long the tag stays"):
        table.tag("short", keep=timedelta(0))


def test_a_table_without_snapshots_has_nothing_to_name(catalog: Catalog) -> None:
    catalog.create_namespace("own")
    catalog.create_table("own.empty", COLUMNS)
    with pytest.raises(NoSuchRef, match=r"own\.empty has no snapshot yet"):
        Lake(catalog).table("own.empty").tag("first")


def test_tags_and_branches_are_dropped_and_main_is_not(table: LakeTable) -> None:
    table.tag("done")
    table.drop("done")
    table.drop("audit")
    assert [one.name for one in table.refs()] == ["main"]
    with pytest.raises(RefRefused, match=r"main is what own\.numbers is"):
        table.drop("main")
    with pytest.raises(NoSuchRef, match=r"no tag or branch 'done'; there are: main \(branch\)"):
        table.drop("done")


def test_the_tag_of_a_kept_cut_stays(catalog: Catalog, fed: LakeTable) -> None:
    store = fed._lake.store
    assert store is not None
    first = fed.snapshots()[0].id
    cut = cuts.make("shop", 1, "2026-03-01T00:00:00.000Z", {"shop.orders": first})
    keep_cut(catalog, store(), "closing", cut, NOW)
    with pytest.raises(RefRefused, match="the tag closing holds cut 1 of shop, which firn cut keep keeps for good"):
        fed.drop("closing")
    fed.drop("month-end")  # a tag that no cut knows
    with pytest.raises(RefRefused, match="this lake was opened by its catalog alone"):
        Lake(catalog).table("shop.orders").drop("closing")
    assert [one.name for one in fed.refs()] == ["closing", "main"]


def test_the_tag_of_a_kept_cut_stays_in_a_table_whose_name_needs_quotes(catalog: Catalog, fed: LakeTable) -> None:
    catalog.rename_table("shop.orders", ("shop", "order-items"))
    items, store = fed._lake.table('shop."order-items"'), fed._lake.store
    assert store is not None
    cut = cuts.make("shop", 1, "2026-03-01T00:00:00.000Z", {"shop.order-items": items.snapshots()[0].id})
    keep_cut(catalog, store(), "closing", cut, NOW)
    with pytest.raises(RefRefused, match="the tag closing holds cut 1 of shop"):
        items.drop("closing")


def test_a_property_that_only_looks_like_progress_is_none(catalog: Catalog) -> None:
    catalog.create_namespace("own")
    table = catalog.create_table("own.free", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}), {"firn.epoch.x": "soon"})
    assert streams_of(catalog.load_table("own.free").metadata) == ()


def test_the_branch_of_a_rebuild_is_its_own(fed: LakeTable) -> None:
    fed.iceberg.manage_snapshots().create_branch(fed.snapshots()[0].id, "rebuild-1").commit()
    for attempt in (
        lambda: fed.drop("rebuild-1"),
        lambda: fed.fast_forward("rebuild-1", "main"),
        lambda: fed.tag("rebuild-2"),
        lambda: fed.branch("rebuild-2"),
    ):
        with pytest.raises(RefRefused, match="belongs to firn rebuild"):
            attempt()


def test_a_branch_moves_forward_and_never_back(table: LakeTable) -> None:
    first = table.snapshots()[0].id
    table.fast_forward("main", "audit")
    assert ids(table) == [1, 2, 3]
    assert table.fast_forward("main", "audit").snapshot == table.snapshots()[-1].id
    with pytest.raises(NotAhead, match=f"snapshot {first} does not descend from main"):
        table.fast_forward("main", first)


def test_a_tag_never_moves(table: LakeTable) -> None:
    table.tag("first", table.snapshots()[0].id)
    with pytest.raises(RefRefused, match="first is a tag, which never moves; branches: audit, main"):
        table.fast_forward("first", "main")


def test_a_branchs_own_retention_moves_with_it(table: LakeTable, own: Table) -> None:
    first, second, _ = table.snapshots()
    own.refresh()
    own.manage_snapshots().create_branch(first.id, "slow", 1, 2, 3).commit()
    table.fast_forward("slow", second.id)
    ref = table.iceberg.metadata.refs["slow"]
    assert (ref.snapshot_id, ref.max_ref_age_ms, ref.max_snapshot_age_ms, ref.min_snapshots_to_keep) == (
        second.id, 1, 2, 3,
    )  # fmt: skip


def test_rows_of_no_stream_do_not_reach_main_of_a_fed_table_by_a_branch(fed: LakeTable, orders: Table) -> None:
    fed.branch("fix")
    orders.refresh()
    orders.append(pa.table({"id": [9], "amount": [9.0], "note": ["x"]}), branch="fix")
    with pytest.raises(FedByStream, match=r"shop\.orders is fed by stream shop: .* firn send shop FILE"):
        fed.fast_forward("main", "fix")
    with pytest.raises(FedByStream):
        fed.cherry_pick(fed.snapshots()[-1].id)


def test_main_of_a_fed_table_goes_forward_over_the_streams_own_commits(fed: LakeTable) -> None:
    first, second = fed.snapshots()
    fed.iceberg.manage_snapshots().rollback_to_snapshot(first.id).commit()  # by hand, with another tool
    fed.fast_forward("main", second.id)
    assert ids(fed) == [1, 2, 3, 4, 5]


def test_an_append_is_picked_once(table: LakeTable, own: Table) -> None:
    picked = table.snapshots()[-1].id
    own.refresh()
    own.append(rows(4))
    done = table.cherry_pick(picked)
    assert ids(table) == [1, 2, 3, 4]
    assert table.cherry_pick(picked) == done
    assert ids(table) == [1, 2, 3, 4]
    newest = table.snapshot()
    assert newest is not None
    assert newest.id == done


def test_an_append_onto_mains_own_head_is_a_step_forward(table: LakeTable) -> None:
    picked = table.snapshots()[-1].id
    assert table.cherry_pick(picked) == picked
    assert len(table.snapshots()) == 3


def test_only_appends_are_picked(table: LakeTable, own: Table) -> None:
    own.refresh()
    own.delete("id = 3", branch="audit")
    own.append(rows(4))
    deleted = next(one.id for one in table.snapshots() if one.operation == "delete")
    with pytest.raises(RefRefused, match="is not an append but delete"):
        table.cherry_pick(deleted)
    with pytest.raises(NoSuchRef, match=r"own\.numbers has no snapshot 12"):
        table.cherry_pick(12)


def test_a_ref_that_moved_meanwhile_is_told(catalog: Catalog, table: LakeTable, own: Table) -> None:
    stale = table.iceberg
    own.refresh()
    own.append(rows(5))
    from firn_lake.refs import branches

    with pytest.raises(MovedOn, match=r"own\.numbers moved on, another commit came first; nothing was done"):
        branches.fast_forward(stale, "main", stale.metadata.refs["audit"].snapshot_id)


def test_commits_to_other_refs_do_no_harm_to_a_tag(
    table: LakeTable, own: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, first = type(table.iceberg.catalog), table.snapshots()[0].id
    commit, left = kind.commit_table, [5, 6, 7]

    def late(*given: Any) -> Any:
        if left:
            with monkeypatch.context() as plain:
                plain.setattr(kind, "commit_table", commit)
                own.refresh()
                own.append(rows(left.pop()))
            raise CommitFailedException("another came first")
        return commit(*given)

    monkeypatch.setattr(kind, "commit_table", late)
    assert table.tag("first", first).snapshot == first
    assert ids(table) == [1, 2, 5, 6, 7]


def test_an_answer_that_is_lost_is_told_as_unknown(table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise ConnectionError("reset by peer")

    monkeypatch.setattr(type(table.iceberg.catalog), "commit_table", lost)
    with pytest.raises(UnknownOutcome, match=r"no clear answer to a commit to own\.numbers.*reset by peer"):
        table.tag("maybe")
    monkeypatch.setattr(
        type(table.iceberg.catalog), "commit_table", lambda *_: (_ for _ in ()).throw(CommitFailedException("no"))
    )
    with pytest.raises(MovedOn):
        table.tag("no")
