from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from obstore.store import MemoryStore
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.update.snapshot import ManageSnapshots

from firn.errors import UnknownOutcome
from firn.log import cuts, layout, named_cuts
from firn.log.named_cuts import BadCutName, NoSuchCut
from firn.log.store import paths, put
from firn.tables.snapshot_history import NoSuchMoment
from firn_lake.refs.keep import drop_cut, keep_cut
from firn_lake.refs.names import NameTaken
from firn_lake.sql.query import query
from firn_lake.tables import history
from firn_lake.writing.commit import MovedOn
from tests.unit.log.interrupted_store import Died, InterruptedStore, When

NOW = datetime(2026, 3, 1, tzinfo=UTC)
COUNT = "SELECT (SELECT count(*) FROM shop.orders) AS orders, (SELECT count(*) FROM shop.clients) AS clients"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def lake(catalog: Catalog, orders: Table) -> Catalog:
    """`shop.orders` with 3 rows, then 5; `shop.clients` with 1 row, then 2."""
    rows = pa.table({"id": [1]})
    clients = catalog.create_table("shop.clients", rows.schema)
    clients.append(rows)
    clients.append(rows)
    return catalog


@pytest.fixture
def old(lake: Catalog, store: MemoryStore) -> cuts.Cut:
    """Cut 1: the first snapshot of both tables. There is a cut 2 of the second ones."""
    made = [
        cuts.make("shop", n, layout.instant(NOW), {t: history(lake.load_table(t))[n - 1].id for t in TABLES})
        for n in (1, 2)
    ]
    for cut in made:
        cuts.write(store, cut)
    return made[0]


TABLES = ("shop.orders", "shop.clients")


def tags(lake: Catalog, name: str) -> dict[str, Any]:
    refs = {table: lake.load_table(table).metadata.refs.get(name) for table in TABLES}
    return {
        table: ref and (ref.snapshot_id, ref.snapshot_ref_type.value, ref.max_ref_age_ms) for table, ref in refs.items()
    }


def test_a_query_at_a_cut_reads_every_table_there(lake: Catalog, old: cuts.Cut) -> None:
    assert query(lake, COUNT).to_pylist() == [{"orders": 5, "clients": 2}]
    assert query(lake, COUNT, cut=old).to_pylist() == [{"orders": 3, "clients": 1}]


def test_a_table_that_the_cut_does_not_hold_is_refused_and_not_read_as_it_is_now(lake: Catalog, old: cuts.Cut) -> None:
    partly = cuts.make("shop", 1, old.made_at, {"shop.clients": old.tables["shop.clients"]})
    with pytest.raises(NoSuchMoment, match=r"cut 1 of shop does not hold shop\.orders; it holds shop\.clients"):
        query(lake, COUNT, cut=partly)


def test_a_snapshot_of_the_cut_that_expired_is_named(lake: Catalog, old: cuts.Cut) -> None:
    table = lake.load_table("shop.clients")
    table.maintenance.expire_snapshots().by_id(old.tables["shop.clients"]).commit()
    with pytest.raises(NoSuchMoment, match=r"of shop\.clients, which cut 1 of shop names, has expired"):
        query(lake, COUNT, cut=old)


def test_keeping_tags_the_snapshot_of_each_table_for_ever(lake: Catalog, store: MemoryStore, old: cuts.Cut) -> None:
    keep_cut(lake, store, "before", old, NOW)
    assert tags(lake, "before") == {table: (old.tables[table], "tag", None) for table in TABLES}
    assert paths(store, layout.kept_prefix()) == ["cuts/_kept/before.json"]
    assert named_cuts.find(store, "before", None) == old
    assert query(lake, "SELECT count(*) AS n FROM shop.orders", "before").to_pylist() == [{"n": 3}]


def test_expiry_leaves_a_kept_cut_alone(lake: Catalog, store: MemoryStore, old: cuts.Cut) -> None:
    keep_cut(lake, store, "before", old, NOW)
    for table in TABLES:
        loaded = lake.load_table(table)
        loaded.maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(days=1)).commit()
    assert query(lake, COUNT, cut=old).to_pylist() == [{"orders": 3, "clients": 1}]


def test_keeping_again_changes_nothing(lake: Catalog, store: MemoryStore, old: cuts.Cut) -> None:
    first = keep_cut(lake, store, "before", old, NOW)
    where = lake.load_table("shop.orders").metadata_location
    assert keep_cut(lake, store, "before", old, NOW + timedelta(days=1)) == first
    assert lake.load_table("shop.orders").metadata_location == where


def test_a_name_never_moves_to_another_cut(lake: Catalog, store: MemoryStore, old: cuts.Cut) -> None:
    keep_cut(lake, store, "before", old, NOW)
    newer = named_cuts.find(store, "2", "shop")
    with pytest.raises((BadCutName, NameTaken), match="before"):
        keep_cut(lake, store, "before", newer, NOW)
    with pytest.raises(BadCutName, match="before is kept already, for cut 1 of shop, and names never move"):
        named_cuts.record(store, "before", newer, NOW)
    assert tags(lake, "before") == {table: (old.tables[table], "tag", None) for table in TABLES}


def test_a_tag_of_somebody_else_is_not_moved_and_nothing_is_recorded(
    lake: Catalog, store: MemoryStore, old: cuts.Cut
) -> None:
    with pytest.raises(NameTaken, match=r"shop\.orders has a tag month-end of its own"):
        keep_cut(lake, store, "month-end", named_cuts.find(store, "2", None), NOW)
    assert tags(lake, "month-end")["shop.clients"] is None
    assert paths(store, layout.kept_prefix()) == []
    keep_cut(lake, store, "month-end", old, NOW)  # there the tag says the same already


def test_what_died_between_record_and_tags_is_finished_by_the_next_call(
    lake: Catalog, store: MemoryStore, old: cuts.Cut
) -> None:
    with pytest.raises(Died):
        keep_cut(lake, InterruptedStore(store, at=1, when="after"), "before", old, NOW)
    assert set(tags(lake, "before").values()) == {None}
    keep_cut(lake, store, "before", old, NOW)
    assert None not in tags(lake, "before").values()


def test_a_dropped_cut_holds_nothing_and_its_name_is_free(lake: Catalog, store: MemoryStore, old: cuts.Cut) -> None:
    keep_cut(lake, store, "before", old, NOW)
    keep_cut(lake, store, "month", old, NOW)
    assert drop_cut(lake, store, "before").cut == old
    assert set(tags(lake, "before").values()) == {None}
    assert None not in tags(lake, "month").values()
    assert paths(store, layout.kept_prefix()) == ["cuts/_kept/month.json"]
    with pytest.raises(NoSuchCut, match=r"no cut is kept as 'before' \(kept: month\)"):
        drop_cut(lake, store, "before")
    newer = named_cuts.find(store, "2", None)
    assert keep_cut(lake, store, "before", newer, NOW).cut == newer


def test_dropping_takes_no_tag_of_somebody_else_and_needs_no_table(
    lake: Catalog, store: MemoryStore, old: cuts.Cut
) -> None:
    keep_cut(lake, store, "before", old, NOW)
    orders = lake.load_table("shop.orders")
    newest = orders.metadata.current_snapshot_id
    assert newest is not None
    orders.manage_snapshots().remove_tag("before").commit()
    orders.manage_snapshots().create_tag(newest, "before").commit()
    lake.drop_table("shop.clients")
    drop_cut(lake, store, "before")
    assert lake.load_table("shop.orders").metadata.refs["before"].snapshot_id == newest
    assert paths(store, layout.kept_prefix()) == []


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(1, 3))
def test_what_died_while_it_was_dropped_is_finished_by_the_next_call(
    lake: Catalog, store: MemoryStore, old: cuts.Cut, at: int, when: When
) -> None:
    keep_cut(lake, store, "before", old, NOW)
    with pytest.raises(Died):
        drop_cut(lake, InterruptedStore(store, at=at, when=when), "before")
    if named_cuts.read(store, "before") is not None:
        drop_cut(lake, store, "before")
    assert set(tags(lake, "before").values()) == {None}
    assert paths(store, layout.kept_prefix()) == []


@pytest.mark.parametrize("lost", [False, True])
def test_a_tag_that_was_not_dropped_leaves_the_name(
    lake: Catalog, store: MemoryStore, old: cuts.Cut, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lost`: it was, and the answer did not come."""
    keep_cut(lake, store, "before", old, NOW)
    real = type(lake).commit_table

    def dies(self: Catalog, table: Table, *arguments: Any) -> Any:
        if table.name()[-1] == "orders":
            if lost:
                real(self, table, *arguments)
            raise OSError("away")
        return real(self, table, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(type(lake), "commit_table", dies)
        with pytest.raises(UnknownOutcome):
            drop_cut(lake, store, "before")
    assert named_cuts.read(store, "before") is not None
    drop_cut(lake, store, "before")
    assert set(tags(lake, "before").values()) == {None}
    assert paths(store, layout.kept_prefix()) == []


def test_a_commit_that_comes_between_is_no_failure(
    lake: Catalog, store: MemoryStore, old: cuts.Cut, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, races = ManageSnapshots.commit, [True, True]

    def raced(self: ManageSnapshots) -> None:
        if races and races.pop():
            lake.load_table("shop.clients").append(pa.table({"id": [9]}))
            raise CommitFailedException("another commit came first")
        real(self)

    monkeypatch.setattr(ManageSnapshots, "commit", raced)
    keep_cut(lake, store, "before", old, NOW)
    assert None not in tags(lake, "before").values()
    races.extend([True] * 100)
    with pytest.raises(MovedOn, match="moved on"):
        keep_cut(lake, store, "again", old, NOW)


def test_an_expired_or_dropped_table_leaves_nothing_kept(lake: Catalog, store: MemoryStore, old: cuts.Cut) -> None:
    lake.load_table("shop.orders").manage_snapshots().remove_tag("month-end").commit()
    lake.load_table("shop.orders").maintenance.expire_snapshots().by_id(old.tables["shop.orders"]).commit()
    with pytest.raises(NoSuchMoment, match=r"snapshot \d+ of shop\.orders has expired"):
        keep_cut(lake, store, "before", old, NOW)
    lake.drop_table("shop.orders")
    with pytest.raises(NoSuchMoment, match=r"shop\.orders is not in the lake any more"):
        keep_cut(lake, store, "before", old, NOW)
    assert tags_of_clients(lake) == {"main"}
    assert paths(store, layout.kept_prefix()) == []


@pytest.mark.parametrize("name", ["", "a b", "../x", "-x", "_x", "x" * 65, "12", "main", "2026-01-31", "a/b"])
def test_a_name_that_could_mean_something_else_is_refused(
    lake: Catalog, store: MemoryStore, old: cuts.Cut, name: str
) -> None:
    with pytest.raises(BadCutName):
        keep_cut(lake, store, name, old, NOW)
    assert paths(store, layout.kept_prefix()) == []


def test_a_cut_is_found_by_number_name_or_as_the_newest(store: MemoryStore, old: cuts.Cut) -> None:
    assert named_cuts.find(store, "1", None) == old
    assert named_cuts.find(store, None, None).n == 2
    cuts.write(store, cuts.make("crm", 2, old.made_at, {"crm.leads": 5}))
    cuts.write(store, cuts.make("crm", 7, old.made_at, {"crm.leads": 6}))
    assert named_cuts.streams(store) == ["crm", "shop"]
    assert named_cuts.find(store, "2", "crm").tables == {"crm.leads": 5}
    for wanted, stream, told in (
        ("2", None, "cut 2 could be of crm, shop: name one with --stream"),
        (None, None, "several streams have cuts: name one with --stream: crm, shop"),
        ("5", "crm", "no commit ended at epoch 5. The next one that holds it is 7 of crm"),
        ("9", None, "the newest is 7 of crm, 2 of shop"),
        ("9", "nobody", "nobody has none yet"),
        ("9", "../x", "is not a stream's name"),
        ("lost", None, "no cut is kept as 'lost' .kept: none."),
    ):
        with pytest.raises(NoSuchCut, match=told):
            named_cuts.find(store, wanted, stream)


def test_a_kept_cut_is_found_after_its_own_object_expired(store: MemoryStore, old: cuts.Cut) -> None:
    named_cuts.record(store, "before", old, NOW)
    store.delete(layout.cut_path("shop", 1))
    assert named_cuts.find(store, "before", "shop") == named_cuts.find(store, "1", None) == old
    with pytest.raises(NoSuchCut, match="before is a cut of shop, not of crm"):
        named_cuts.find(store, "before", "crm")


def test_kept_cuts_are_not_taken_for_cuts_of_a_stream(store: MemoryStore, old: cuts.Cut) -> None:
    named_cuts.record(store, "x", old, NOW)
    put(store, f"{layout.kept_prefix()}/{1:020d}.json", b"{}")
    assert named_cuts.streams(store) == ["shop"]
    assert cuts.numbers(store, "shop") == [1, 2]


def tags_of_clients(lake: Catalog) -> set[str]:
    return set(lake.load_table("shop.clients").metadata.refs)
