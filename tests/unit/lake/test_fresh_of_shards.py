"""Fresh reads of a table of several shards: which shards they open, and what they can't show."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import StringType

from firn.changes.metadata_columns import LOOKED, OP, POSITION, SOURCE
from firn.changes.placement.map_changes import merge, move, split_values
from firn.changes.placement.shard_map import Home
from firn.config.names import TableName
from firn.log import cuts, holds, published_configs, shard_maps
from firn.log.holds import Quarantine
from firn.log.store import open_store
from firn.tables.table_state import NEWEST
from firn_lake.answers import answer_rows
from firn_lake.fresh.key_lookup import KeyColumns
from firn_lake.fresh.pending import Look, NotFresh
from firn_lake.fresh.pending_table import state_of, waiting
from firn_lake.lake import Lake
from firn_lake.question_parameters import Query
from firn_lake.sql.duck import Limits
from firn_lake.sql.query import Tables, query
from firn_lake.tables import TableNotFound
from tests.integration.spark.test_commit import GONE, event
from tests.sharded_ground import CONFIG, REST, WHOLE, ShardedGround
from tests.unit.lake.test_fresh import FACTS

TENANTS = "{by: tenant(w), tenants: [a, b]}"


def row(id: int, w: str | None, n: int = 0, v: str | None = "v") -> dict[str, Any]:
    return {"id": id, "v": v, "w": w, "n": n}


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[ShardedGround]:
    """1 and 2 in a, 3 in b, 4 and 5 in the rest."""
    made = ShardedGround(tmp_path, TENANTS)
    places = enumerate(("a", "a", "b", None, "z"), 1)
    made.post([event("c", 100 + id, row(id, w)) for id, w in places])
    made.commit(made.folded(), made.seal())
    yield made
    made.catalog.close()


def opened(ground: ShardedGround, sql: str) -> tuple[list[int], set[str]]:
    """Ids, and which tables were opened."""
    lake, names = ground.lake, set[str]()
    found = query(
        ground.catalog, sql, fresh=lake.fresh(), wholes=lake.wholes, on_read=lambda one: names.add(".".join(one))
    )
    return [one["id"] for one in found.to_pylist()], names


@pytest.mark.parametrize(
    ("waits", "where", "ids", "others"),
    [
        ([], "w = 'a'", [1, 2], {"a.orders"}),
        ([event("u", 200, row(3, "b", 1))], "w = 'a'", [1, 2], {"a.orders"}),
        ([event("u", 200, row(3, "z"))], "w = 'a'", [1, 2], {"a.orders"}),
        ([event("u", 200, row(1, "b"))], "w = 'a'", [2], {"a.orders"}),
        ([event("d", 200, None, row(1, "a"))], "w = 'a'", [2], {"a.orders"}),
        ([event("u", 200, row(9, "z"))], "w IS NULL", [4], set()),
        # Whether 3 is in a has only b to say: what waits may be older than what is there.
        ([event("u", 200, row(3, "a"))], "w = 'a'", [1, 2, 3], {"a.orders", "b.orders"}),
        ([event("u", 50, row(3, "a"))], "w = 'a'", [1, 2], {"a.orders", "b.orders"}),
        ([event("u", 200, row(3, GONE, 7))], "w = 'b' AND n = 7", [3], {"a.orders", "b.orders"}),
        ([event("u", 200, row(3, "a"))], "true", [1, 2, 3, 4, 5], {"a.orders", "b.orders"}),
    ],
)
def test_only_shards_that_may_tell_of_the_rows_are_opened(
    ground: ShardedGround, waits: list[Any], where: str, ids: list[int], others: set[str]
) -> None:
    if waits:
        ground.post(waits)
    found, names = opened(ground, f"SELECT id FROM {WHOLE} WHERE {where} ORDER BY id")
    assert (found, names) == (ids, {REST, *others})


@pytest.mark.parametrize("where", ["w IS NULL", "w IS NULL OR w = 'a'", "w = 'a'"])
def test_a_late_delete_brings_a_row_to_the_rest_that_loses_the_value_it_was_placed_by(
    tmp_path: Path, where: str
) -> None:
    """Its newest change left the value out, and it had that from before the delete."""
    ground = ShardedGround(tmp_path, TENANTS)
    ground.post([event("c", 101, row(1, "a")), event("c", 102, row(2, "b")), event("u", 200, row(2, GONE, 7))])
    ground.commit(ground.folded(), ground.seal())
    assert ground.whole()[2]["w"] == "b"
    ground.post([event("d", 150, None, row(2, "b"))])
    wanted = {1: row(1, "a"), 2: row(2, None, 7)}
    assert ground.whole() == wanted
    fits = [id for id, word in ((1, "'a'"), (2, "NULL")) if word in where]
    assert ground.whole(where) == {id: wanted[id] for id in fits}
    assert ground.by_table(REST) == {2: wanted[2]}


def test_an_answer_names_the_shards_that_were_opened_fresh_or_not(ground: ShardedGround) -> None:
    ground.post([event("u", 200, row(3, "b", 1))])
    for fresh in (None, ground.lake.fresh()):
        tables = Tables(ground.catalog, fresh=fresh, wholes=ground.lake.wholes)
        read: list[tuple[str, ...]] = []
        assert list(answer_rows(tables, Query(f"SELECT id FROM {WHOLE} WHERE w = 'a'"), Limits(), read.append).parts)
        assert sorted(map(".".join, read)) == ["a.orders", REST], fresh


def test_the_keys_that_are_looked_for_are_compared_as_one_however_many_shards_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As columns of Arrow: 500,000 keys take a second, and a table has up to 100 shards."""
    ground, made = ShardedGround(tmp_path, "{by: hash(w), count: 6}"), list[int]()
    ground.post([event("c", 100 + id, row(id, str(id))) for id in range(20)])
    ground.commit(ground.folded(), ground.seal())
    ground.post([event("u", 200, row(id, str(id), 7)) for id in range(20)])
    as_columns = KeyColumns.__init__

    def count(self: KeyColumns, key: Any, keys: Any, schema: Any) -> None:
        made.append(len(keys))
        as_columns(self, key, keys, schema)

    monkeypatch.setattr(KeyColumns, "__init__", count)
    found = ground.lake.sql(f"SELECT id, n FROM {WHOLE} ORDER BY id", fresh=True).pylist()
    assert found == [{"id": id, "n": 7} for id in range(20)]
    assert made == [20, 20], "once to look rows up, and once to leave them out"


def test_where_the_key_tells_the_shard_no_other_is_opened(tmp_path: Path) -> None:
    ground = ShardedGround(tmp_path, "{by: hash(id), count: 4}")
    ground.post([event("c", 100 + id, row(id, "a")) for id in range(20)])
    ground.commit(ground.folded(), ground.seal())
    ground.post([event("u", 200, row(7, "b"))])
    found, names = opened(ground, f"SELECT id FROM {WHOLE} WHERE id = 7 AND w = 'b'")
    assert found == [7]
    assert len(names) == 2
    assert len(opened(ground, f"SELECT id FROM {WHOLE} WHERE w = 'b'")[1]) == 5


def test_a_map_counts_with_the_next_change_of_the_table(ground: ShardedGround) -> None:
    """Of what is stored, as of what waits."""

    def change_map(after: Any) -> None:
        ground.under = ground.under.next(after, "2026-11-21T00:00:00.000Z", "a test")
        assert shard_maps.put(ground.store, "spec", REST, ground.under)

    change_map(split_values(ground.under.map, "rest", "zs", Home("zs.orders"), ["z"]))
    assert sorted(ground.by_table("rest.orders")) == [4, 5]
    with pytest.raises(TableNotFound):
        ground.by_table("zs.orders")  # no change that waits has the map
    ground.post([event("u", 200, row(1, "a", 1))])
    assert sorted(ground.by_table("rest.orders")) == [4]
    assert sorted(ground.by_table("zs.orders")) == [5]
    ground.seal()
    change_map(move(merge(ground.under.map, ["b"], "a"), "zs", Home("moved.orders")))
    assert sorted(ground.by_table("b.orders")) == [3], "what is sealed is under the map that its epoch names"
    ground.post([event("u", 201, row(4, None, 1))])
    assert sorted(ground.by_table("a.orders")) == [1, 2, 3]
    assert sorted(ground.by_table("moved.orders")) == [5]
    for gone in ("b.orders", "zs.orders"):
        with pytest.raises((NotFresh, TableNotFound), match=f"{gone} is no shard of {WHOLE}|no table"):
            ground.by_table(gone)
    assert sorted(ground.whole()) == [1, 2, 3, 4, 5]


def test_what_can_not_be_shown_says_so(ground: ShardedGround) -> None:
    case = Quarantine(
        1, "spec", 1, "2026-11-21T00:00:00.000Z", "rolled_back", "something is wrong", "fix it", table=REST
    )
    assert holds.hold(ground.store, case)
    for table in (WHOLE, "a.orders", REST):
        with pytest.raises(NotFresh, match=r"rest\.orders is held.*something is wrong; fix it"):
            ground.by_table(table)


def test_a_key_in_two_shards_at_one_cut_says_so(ground: ShardedGround) -> None:
    of = ground.catalog.load_table("b.orders")
    of.append(ground.catalog.load_table("a.orders").scan(snapshot_id=ground.named("a")).to_arrow().select(
        [field.name for field in of.schema().fields]
    ))  # fmt: skip
    snapshot = of.refresh().current_snapshot()
    assert snapshot is not None
    ground.name("b", snapshot.snapshot_id)
    ground.post([event("u", 200, row(1, "z"))])
    with pytest.raises(NotFresh, match=r"the row \(1,\) of spec\.orders is in the shards a and b"):
        ground.whole()


def test_a_column_that_is_being_rewritten_says_so(ground: ShardedGround) -> None:
    rest = ground.catalog.load_table(REST)
    with rest.update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("v")
    with rest.update_schema() as change:
        change.add_column("v", StringType())
    rest.delete("id = 4")
    ground.post([event("u", 200, row(1, "a"))])
    with pytest.raises(NotFresh, match=r"rewriting the column v of the shards of spec\.orders: run firn flush"):
        ground.whole()


def test_a_shard_of_no_rule_and_a_table_in_the_place_of_one_say_so(ground: ShardedGround, tmp_path: Path) -> None:
    published_configs.publish(ground.store, CONFIG.replace("        shard: SHARD\n", "").replace("{shard}.", "lake."))
    lake = Lake(ground.catalog, lambda: open_store(f"file://{tmp_path}/staging"))
    with pytest.raises(NotFresh, match=r"a\.orders is a shard of rest\.orders, and the published configuration has no"):
        lake.sql("SELECT * FROM a.orders", fresh=True).arrow()
    (tmp_path / "other").mkdir()
    other = ShardedGround(tmp_path / "other", TENANTS)
    other.catalog.create_namespace("rest")
    other.catalog.create_table(REST, ground.catalog.load_table(REST).schema())
    with pytest.raises(NotFresh, match=r"rest\.orders is there already, and no shard that Firn made"):
        other.whole()


def test_the_answer_names_a_moment_and_no_other_is_asked_for(ground: ShardedGround) -> None:
    with pytest.raises(NotFresh, match="fresh is now"):
        ground.lake.table(WHOLE).read(as_of=datetime(2026, 1, 1), fresh=True)
    snapshot = ground.catalog.load_table(REST).metadata.current_snapshot_id
    assert ground.lake.table(WHOLE).read(fresh=True).snapshot == snapshot


def test_a_row_that_a_delete_took_is_found_in_the_shard_in_which_it_was_then(
    ground: ShardedGround, tmp_path: Path
) -> None:
    """Where the log has nothing of it any more: a row that was moved has the values of the one that it was."""
    rest = ground.catalog.load_table(REST)
    before = rest.metadata.current_snapshot_id
    moved = [event("d", 300, None, row(1, "a")), event("c", 300, row(9, GONE, 9, GONE))]
    ground.post(moved[:1])
    [waits] = waiting(Look(ground.store), TableName.parse(REST), state_of(rest))
    [deleted] = [change for _, change in waits.decoded() if change is not None]
    epoch = ground.seal()
    of = ground.catalog.load_table("a.orders")
    of.delete("id = 1")
    snapshot = of.refresh().current_snapshot()
    assert snapshot is not None
    ground.name("a", snapshot.snapshot_id, epoch)
    tables = {REST: rest.refresh().metadata.current_snapshot_id or 0}
    assert cuts.write(
        ground.store, cuts.make("spec", epoch, "2026-11-21T00:00:00.000Z", tables, progress={REST: epoch})
    )
    facts = ground.catalog.create_table(f"{REST}__deletes", FACTS, properties={"firn.mode": "deletes"})
    fact = {"id": 1, OP: "d", POSITION: deleted.order[1:], LOOKED: str(before), SOURCE: None}
    facts.append(pa.Table.from_pylist([fact], FACTS), {NEWEST: deleted.order.hex()})
    for path in (tmp_path / "staging/staged").rglob("*.parquet"):
        path.unlink()
    ground.post(moved[1:])
    assert ground.whole()[9] == {"id": 9, "v": "v", "w": "a", "n": 9}
    assert sorted(ground.by_table("a.orders")) == [2, 9]
