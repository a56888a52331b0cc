"""All shards of a table read as one: the rows of a cut, of the shards that a filter needs."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.types import LongType, StringType

from firn.changes.decode.types import STRING
from firn.changes.placement.map_changes import admit, merge, move, split_values
from firn.changes.placement.shard_map import Home
from firn.config.reader_scopes import Scope
from firn.config.sharding import Sharding
from firn.tables.shard_cut import summary
from firn.tables.shard_names import SHARDS_MAP, SHARDS_VERSION
from firn.tables.snapshot_history import NoSuchMoment
from firn_lake.changes.cursor import BadCursor
from firn_lake.lake import Lake
from firn_lake.reading.unreadable import UnreadableFile
from firn_lake.scoped_lake import ScopedLake
from firn_lake.sharded.whole_version import PrunedWhole
from firn_lake.sql.query import streamed_over
from firn_lake.tables import TableNotFound
from firn_lake.whole_table import SeveralTables
from tests.sharded_lake import ShardedLake

CONFIG = """
streams:
  shop:
    tables:
      public.orders:
        to: '{shard}.orders'
        key: [id]
        columns: {w: string}
        shard: {by: tenant(w), tenants: [acme, umbrella]}
"""
TENANTS = Sharding("tenant", "w", "{shard}.orders", values={"acme": "acme", "umbrella": "umbrella"}, kind=STRING)
ALL = "SELECT id, w, n FROM shop.orders ORDER BY id"


def row(id: int, w: str | None, n: int | None = None) -> dict[str, Any]:
    return {"id": id, "w": w, "n": n}


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda one: int(one["id"]))


class Loads:
    """A catalog that says which tables were loaded of it."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog, self.names = catalog, list[str]()

    def load_table(self, identifier: tuple[str, ...]) -> Table:
        self.names.append(".".join(identifier))
        return self._catalog.load_table(identifier)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[ShardedLake]:
    found = ShardedLake(tmp_path, TENANTS, config=CONFIG)
    found.commit(row(1, "acme", 1), row(2, "umbrella", 2), row(3, None, 3), row(4, "other", 4))
    found.commit(row(1, "umbrella", 1), row(5, "acme", 5), deleted=[4])
    yield found
    found.catalog.close()


def test_sql_reads_all_shards_at_the_newest_cut(made: ShardedLake) -> None:
    assert made.lake.sql(ALL).pylist() == made.told
    before = made.told
    made.commit(row(2, "acme", 7), row(6, None, 6), dies_after=1)  # 2 is in acme by now, and in umbrella too
    assert made.lake.sql("SELECT count(*) AS n FROM acme.orders WHERE id = 2").pylist() == [{"n": 1}]
    assert made.lake.sql(ALL).pylist() == before
    assert made.lake.table("shop.orders").read().count() == len(before)
    made.commit()
    assert made.lake.sql(ALL).pylist() == made.told != before


def test_only_the_shards_that_a_filter_needs_are_opened(made: ShardedLake) -> None:
    loads = Loads(made.catalog)
    lake = Lake(loads, lambda: made.store)  # type: ignore[arg-type]
    for where, opened in (
        ("w = 'acme'", {"acme.orders"}), ("w IN ('acme', 'x')", {"acme.orders"}), ("w IS NULL", set()),
        ("w > 'b'", {"umbrella.orders"}), ("w = 'acme' AND w = 'umbrella'", set()),
        ("w = 'acme' OR n = 2", {"acme.orders", "umbrella.orders"}), ("n = 2", {"acme.orders", "umbrella.orders"}),
    ):  # fmt: skip
        loads.names.clear()
        found = lake.sql(f"SELECT id FROM shop.orders WHERE {where}").arrow().num_rows
        assert set(loads.names) == {"rest.orders", *opened}, where
        assert found == sum(
            {"acme": "w = 'acme'", None: "w IS NULL"}.get(one["w"]) == where for one in made.told
        ) or where not in ("w = 'acme'", "w IS NULL")
    told = lake.table("shop.orders").prune("w = 'acme'")
    assert isinstance(told, PrunedWhole)
    assert (told.shards, told.left_out) == (("rest.orders", "acme.orders"), ("umbrella.orders",))
    assert {one.verdict for one in told.files if "/rest" in one.path} == {"bounds"}
    assert str(told).startswith("2 of 3 shards are opened, and of these 1 of ")
    assert told.plain()["shards_left_out"] == ["umbrella.orders"]


def test_what_a_shard_lacks_is_null_and_what_is_narrower_is_wide(made: ShardedLake) -> None:
    with made.table("rest").update_schema() as change:
        change.add_column("more", StringType())
        change.update_column("n", LongType())
    made.columns = pa.schema([*list(made.columns)[:2], ("n", pa.int64()), ("more", pa.string())])
    made.commit(row(7, None, 2**40) | {"more": "x"})
    sql = "SELECT id, n, more FROM shop.orders WHERE {} ORDER BY id"
    found = made.lake.sql(sql.format("true")).arrow()
    assert (found.schema.field("n").type, found.schema.field("more").type) == (pa.int64(), pa.string())
    assert found.to_pylist() == [{name: one[name] for name in ("id", "n", "more")} for one in made.told]
    assert [one["id"] for one in made.lake.sql(sql.format("more IS NULL")).pylist()] == [1, 2, 3, 5]
    assert [one["id"] for one in made.lake.sql(sql.format("more = 'x' OR n = 5")).pylist()] == [5, 7]
    read = made.lake.table("shop.orders").read(["id"], "more is null and n < 1099511627776")
    assert sorted(one["id"] for one in read.pylist()) == [1, 2, 3, 5]
    first, _ = made.cuts[0]
    assert made.lake.sql(f"SELECT * FROM shop.orders FOR VERSION AS OF {first}").arrow().schema.names == [
        "id",
        "w",
        "n",
    ]


def test_a_column_that_is_being_rewritten_is_that_of_the_cut(made: ShardedLake) -> None:
    before = made.told

    def rewrite(shard: str) -> None:
        table = made.table(shard)
        rows = table.scan().to_arrow()
        with table.update_schema(allow_incompatible_changes=True) as change:
            change.delete_column("n")
        with table.update_schema() as change:
            change.add_column("n", StringType())
        texts = pa.array([None if one is None else f"n{one}" for one in rows.column("n").to_pylist()], pa.string())
        table.overwrite(rows.drop_columns("n").append_column("n", texts))

    for shard in ("rest", "acme", "umbrella"):
        rewrite(shard)
        found = made.lake.sql(ALL).arrow()
        assert (found.schema.field("n").type, found.to_pylist()) == (pa.int32(), before)
    made.columns = pa.schema([*list(made.columns)[:2], ("n", pa.string())])
    made.commit()
    found = made.lake.sql(ALL).pylist()
    assert [one["n"] for one in found] == [f"n{one['n']}" for one in before]
    (first, _), _, (last, _) = made.cuts
    assert made.lake.table("shop.orders").read(as_of=first).schema.field("n").type == pa.int32()
    assert {one["_change"] for one in made.lake.table("shop.orders").changes(made.cuts[1][0], last).pylist()} == {
        "update"
    }


def test_a_row_that_moved_is_an_update_in_the_changes(made: ShardedLake) -> None:
    table = made.lake.table("shop.orders")
    (first, _), (second, _) = made.cuts
    found = sorted((one["_change"], one["id"], one["w"]) for one in table.changes(first, second).pylist())
    assert found == [("delete", 4, "other"), ("insert", 5, "acme"), ("update", 1, "umbrella")]
    assert table.changes(first, second, columns=["n"]).counts() == {"insert": 1, "update": 0, "delete": 1}
    assert table.changes(None, second).counts()["insert"] == 4
    assert table.changes(second).counts() == {"insert": 0, "update": 0, "delete": 0}


def test_it_is_a_table_among_the_others(made: ShardedLake) -> None:
    (whole,) = (one for one in made.lake.tables() if one.shards)
    assert (whole.name, whole.rows, whole.key) == ("shop.orders", 4, ("id",))
    assert whole.shards == ("rest.orders", "acme.orders", "umbrella.orders")
    table = made.lake.table("shop.orders")
    assert table.summary() == whole
    assert table.columns() == {"id": "long", "w": "string", "n": "int"}
    assert {(one.added, one.total) for one in table.snapshots()} == {(None, None)}
    assert table.snapshot() == table.snapshots()[-1]
    assert repr(table) == "<table shop.orders: id, w, n>"


def test_what_is_of_one_table_is_refused_by_name(made: ShardedLake) -> None:
    table = made.lake.table("shop.orders")
    for ask in (
        lambda: table.append([]), lambda: table.rollback(1), lambda: table.tag("x"), lambda: table.expire(),
        lambda: table.evolve(drop=["n"]), lambda: table.iceberg,
    ):  # fmt: skip
        with pytest.raises(SeveralTables, match=r"shop\.orders is the shards of a table.* such as rest\.orders"):
            ask()


def test_it_is_followed_from_cut_to_cut(made: ShardedLake) -> None:
    table = made.lake.table("shop.orders")
    (first, _), (last, _) = made.cuts
    (changes,) = table.follow(first, until="main")
    found = sorted((one["_change"], one["id"], one["w"]) for one in changes.pylist())
    assert found == [("delete", 4, "other"), ("insert", 5, "acme"), ("update", 1, "umbrella")]
    made.commit(row(2, "acme", 7), row(3, None, 9), dies_after=1)
    assert list(table.follow(changes.cursor, until="main")) == [], "what a job that died has left is of no cut"
    made.commit()
    (more,) = table.follow(changes.cursor.json(), until="main")
    assert more.counts() == {"insert": 0, "update": 2, "delete": 0}
    with made.table("rest").transaction() as rewrite:
        rewrite.set_properties({"a": "b"})
    assert list(table.follow(more.cursor, until="main")) == []
    with pytest.raises(BadCursor, match=r"of another table than shop\.orders"):
        list(table.follow(made.lake.table("rest.orders").changes(first, last).cursor, until="main"))
    with pytest.raises(BadCursor, match=r"of another table than rest\.orders"):
        list(made.lake.table("rest.orders").follow(more.cursor, until="main"))


def test_who_follows_it_sees_a_column_that_is_rewritten_once_all_shards_have_it(made: ShardedLake) -> None:
    table = made.lake.table("shop.orders")
    *_, changes = table.follow(until="main")
    assert changes.counts()["insert"] == 4
    for shard in ("rest", "acme"):
        of = made.table(shard)
        rows = of.scan().to_arrow()
        with of.update_schema(allow_incompatible_changes=True) as change:
            change.delete_column("n")
        with of.update_schema() as change:
            change.add_column("n", StringType())
        of.overwrite(rows.drop_columns("n").append_column("n", pa.nulls(rows.num_rows, pa.string())))
        assert list(table.follow(changes.cursor, until=datetime.now(UTC))) == []


def test_who_follows_it_from_before_a_column_got_another_type_goes_on(made: ShardedLake) -> None:
    """As of one table: what is from before is null, in a shard that left the map since, too."""
    table = made.lake.table("shop.orders")
    (first, _), (second, _) = made.cuts
    made.remap(lambda now: merge(now, ["acme", "umbrella"], "rest"))
    made.commit()
    rest = made.table("rest")
    rows = rest.scan().to_arrow()
    texts = rows["n"].cast(pa.string())
    with rest.update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("n")
    with rest.update_schema() as change:
        change.add_column("n", StringType())
    told = summary({}, made.under, made.under.number)
    rest.overwrite(rows.drop_columns("n").append_column("n", texts), snapshot_properties=told)
    (early,) = table.follow(first, until=second)
    assert sorted((one["_change"], one["id"], one["n"]) for one in early.pylist()) == [
        ("delete", 4, None), ("insert", 5, None), ("update", 1, None),
    ]  # fmt: skip
    (late,) = table.follow(early.cursor, until="main")
    assert sorted((one["id"], one["n"]) for one in late.pylist()) == [(1, "1"), (2, "2"), (3, "3"), (5, "5")]
    assert late.counts() == {"insert": 0, "update": 4, "delete": 0}
    assert table.changes(first).counts() == {"insert": 1, "update": 3, "delete": 1}


def test_a_table_of_that_name_stays_what_it_is(made: ShardedLake) -> None:
    made.catalog.create_namespace("shop")
    made.catalog.create_table("shop.orders", pa.schema([("x", pa.string())]))
    assert made.lake.sql("SELECT * FROM shop.orders").schema.names == ["x"]
    assert not any(one.shards for one in made.lake.tables())


def test_a_shard_that_is_none_any_more_is_not_read(made: ShardedLake) -> None:
    made.catalog.rename_table("acme.orders", "acme.other")
    with pytest.raises(UnreadableFile, match=r"acme\.orders, a shard of shop\.orders, is not in the lake"):
        made.lake.sql(ALL).arrow()
    (whole,) = (one for one in made.lake.tables() if one.shards)
    assert (whole.rows, whole.shards) == (None, ("rest.orders", "umbrella.orders"))
    made.catalog.create_table("acme.orders", made.columns)
    with pytest.raises(UnreadableFile, match=r"acme\.orders is no shard of shop\.orders"):
        made.lake.sql(ALL).arrow()


def _lists(made: ShardedLake) -> tuple[list[str], list[str]]:
    """The names that are told to who may read everything, and to a reader of all."""
    told = ScopedLake(made.lake, Scope("r", ("*.*",))).tables()
    return [one.name for one in made.lake.tables()], [one["name"] for one in told]


def test_a_list_of_tables_does_not_rest_on_shards_that_no_commit_has_made(made: ShardedLake) -> None:
    made.catalog.drop_table("rest.orders")
    made.catalog.create_table("rest.orders", made.columns)
    names = ["acme.orders", "rest.orders", "umbrella.orders"]
    assert _lists(made) == (names, names)


def test_a_list_of_tables_does_not_rest_on_a_map_that_has_expired(made: ShardedLake) -> None:
    made.remap(lambda now: move(now, "acme", Home("big.orders")))
    for number in (7, 8):
        made.commit(row(number, "acme"))
    made.table("rest").maintenance.expire_snapshots().by_id(made.cuts[-2][0]).commit()
    names = ["acme.orders", "big.orders", "rest.orders", "umbrella.orders"]
    assert _lists(made) == (names, names)
    with pytest.raises(NoSuchMoment, match="version 2 of the map"):
        ScopedLake(made.lake, Scope("r", ("*.*",))).table("shop.orders")


def scoped(made: ShardedLake, *tables: str, **narrowed: Any) -> list[dict[str, Any]]:
    lake = ScopedLake(made.lake, Scope("r", tables, **narrowed)).at(None, None, None, fresh=False)
    with streamed_over(lake, "SELECT * FROM shop.orders ORDER BY id") as found:
        return pa.Table.from_batches(list(found.batches), found.schema).to_pylist()


def test_a_scope_that_is_one_tenants_opens_that_shard(made: ShardedLake) -> None:
    loads = Loads(made.catalog)
    lake = ScopedLake(
        Lake(loads, lambda: made.store),  # type: ignore[arg-type]
        Scope("r", ("shop.orders",), rows={"shop.orders": "w = 'acme'"}),
    )
    with streamed_over(lake.at(None, None, None, fresh=False), "SELECT id FROM shop.orders") as found:
        assert [one["id"] for batch in found.batches for one in batch.to_pylist()] == [5]
    assert set(loads.names) == {"rest.orders", "acme.orders"}


def test_each_moment_is_read_by_the_map_that_it_is_under(made: ShardedLake) -> None:
    made.commit(row(7, "new", 7))
    made.remap(lambda now: admit(now, {"new": Home("new.orders")}))
    made.commit(row(8, "new", 8), dies_after=2)
    assert made.lake.sql(ALL).pylist() == made.cuts[-1][1]
    made.commit()
    made.remap(lambda now: move(now, "acme", Home("big.orders")))
    made.commit(row(2, "acme", 2))
    made.remap(lambda now: merge(now, ["umbrella"], "rest"))
    made.commit(row(9, "umbrella", 9))
    made.remap(lambda now: split_values(now, "rest", "late", Home("umbrella.orders"), ["other", "umbrella"]))
    made.commit(row(4, "other"))
    table = made.lake.table("shop.orders")
    opened = []
    for snapshot, wanted in made.cuts:
        assert by_id(table.read(as_of=snapshot).pylist()) == wanted
        mine = [one for one in wanted if one["w"] == "new"]
        assert by_id(table.read(filter="w = 'new'", as_of=snapshot).pylist()) == mine
        found = table.prune("w = 'acme'", snapshot)
        assert isinstance(found, PrunedWhole)
        opened.append((*found.shards, "", *found.left_out))
    before = ("rest.orders", "acme.orders", "", "umbrella.orders")
    assert opened[2:] == [
        before, ("rest.orders", "acme.orders", "", "new.orders", "umbrella.orders"),
        ("rest.orders", "big.orders", "", "new.orders", "umbrella.orders"),
        ("rest.orders", "big.orders", "", "new.orders"),
        ("rest.orders", "big.orders", "", "umbrella.orders", "new.orders"),
    ]  # fmt: skip
    assert sorted(made.lake.tables(), key=lambda one: one.name)[-2].shards == tuple(opened[-1][i] for i in (0, 1, 3, 4))
    (first, rows), *_, (last, wanted) = made.cuts
    now = {one["id"]: one for one in rows}
    for change in table.changes(first, last, steps=True).pylist():
        told = {name: change[name] for name in ("id", "w", "n")}
        now |= {told["id"]: told}
        if change["_change"] == "delete":
            del now[told["id"]]
        assert (change["_change"], change["_before"]) != ("update", told), (
            "a row whose shard alone is another has not changed"
        )
    assert [now[key] for key in sorted(now)] == wanted


def test_a_map_whose_snapshot_has_expired_is_one_that_a_newer_one_may_have(made: ShardedLake) -> None:
    made.remap(lambda now: move(now, "acme", Home("big.orders")))
    for number in (7, 8):
        made.commit(row(number, "acme"))
    lost, last = made.cuts[-2][0], made.cuts[-1][0]
    rest = made.table("rest")
    said = rest.snapshot_by_id(lost).summary.additional_properties  # type: ignore[union-attr]
    rest.maintenance.expire_snapshots().by_id(lost).commit()
    with pytest.raises(
        NoSuchMoment, match=r"version 2 of the map of the shards of shop\.orders, which counted at that"
    ):
        made.lake.sql(ALL)
    now = rest.refresh().snapshot_by_id(last).summary.additional_properties  # type: ignore[union-attr]
    rest.append(rest.scan(limit=0).to_arrow(), {name: (now | said)[name] for name in (SHARDS_MAP, SHARDS_VERSION)})
    assert made.lake.sql(ALL).pylist() == made.told
    assert by_id(made.lake.table("shop.orders").read(as_of=last).pylist()) == made.told


def test_a_scope_has_the_shards_of_every_map(made: ShardedLake) -> None:
    first = made.cuts[-1][0]
    made.remap(lambda now: admit(now, {"new": Home("new.orders")}))
    made.commit(row(8, "new", 8))
    made.remap(lambda now: merge(now, ["umbrella"], "rest"))
    made.commit()
    assert scoped(made, "shop.orders") == made.told
    for shard in ("new.orders", "umbrella.orders"):
        with pytest.raises(TableNotFound):
            ScopedLake(made.lake, Scope("r", ("shop.orders", "acme.*"))).table(shard)
    # One that is none any more, and one that was none yet.
    assert scoped(made, "*.*", rows={"umbrella.*": "n > 7"}) == [row(8, "new", 8)]
    assert scoped(made, "*.*", rows={"new.orders": "n = 5"}) == [row(5, "acme", 5)]
    lake = ScopedLake(made.lake, Scope("r", ("shop.*",), rows={"new.orders": "n = 5"}))
    with streamed_over(
        lake.at(None, None, None, fresh=False), f"SELECT id FROM shop.orders FOR VERSION AS OF {first}"
    ) as found:
        assert [one["id"] for batch in found.batches for one in batch.to_pylist()] == [5]
    told = lake.table("shop.orders").changes(first, None, steps=False, columns=None).pylist()
    assert told == []


def test_a_scope_may_name_the_whole_and_narrow_it(made: ShardedLake) -> None:
    assert scoped(made, "shop.orders") == made.told
    for tables in (("acme.*", "rest.*", "umbrella.*"), ("acme.orders",), ("shop.order",)):
        with pytest.raises(TableNotFound):
            scoped(made, *tables)
    rows = {"shop.*": "w = 'acme'"}
    assert scoped(made, "shop.*", rows=rows, columns={"shop.orders": ("id",)}) == [{"id": 5}]
    # What narrows a shard narrows the whole: else it would be the way around.
    narrowed = scoped(made, "*.*", rows={"acme.*": "n > 5"}, columns={"umbrella.orders": ("id", "n")})
    assert narrowed == []
    assert scoped(made, "*.*", rows={"rest.*": "n >= 5"}) == [row(5, "acme", 5)]
