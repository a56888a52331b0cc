"""Tables that were shards are removed once nothing that can be read names them; and what shards and their columns tell
of where they could be split."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table.snapshots import Snapshot

from firn.changes.decode.types import LONG, STRING
from firn.changes.placement.map_changes import merge, move, split
from firn.changes.placement.shard_map import Home
from firn.config.sharding import Sharding
from firn.log import shard_maps
from firn.tables.shard_changes import taken_back
from firn.tables.shard_names import SHARD_DROPPED, SHARD_OF, SHARD_PASSED, SHARDS_MAP
from firn_cli.main import main
from firn_lake.shard_moves import not_free
from firn_lake.sharded.former_tables import former_tables, mark_dropped, remove, unmark_dropped
from firn_lake.sharded.shard_loads import ShardColumns, loads_of, written
from tests.sharded_lake import ShardedLake

RANGES = Sharding("range", "n", "{shard}.orders", at=("10",), kind=LONG)
TEXTS = Sharding("tenant", "w", "{shard}.orders", values={"a": "a"}, kind=STRING)

CONFIG = """
streams:
  shop:
    tables:
      public.orders:
        to: '{shard}.orders'
        key: [id]
        columns: {w: string, n: long}
        shard: {by: range(n), at: ['10']}
"""


def rows(first: int, count: int, w: str | None = "w") -> list[dict[str, Any]]:
    return [{"id": n, "w": w, "n": n} for n in range(first, first + count)]


def summary_of(snapshot: Snapshot) -> dict[str, str]:
    return snapshot.summary.additional_properties if snapshot.summary else {}


def test_a_former_table_goes_once_no_snapshot_of_the_rest_is_read_in_it(tmp_path: Path) -> None:
    lake = ShardedLake(tmp_path, RANGES, config=CONFIG)
    lake.commit(*rows(0, 20))
    first = lake.under
    lake.remap(lambda now: move(now, "s1", Home("big.orders")))
    assert former_tables(lake.catalog, lake.whole, [first, lake.under]) == [], "no row has moved yet"
    lake.commit({"id": 0, "w": "x", "n": 0})
    (told,) = former_tables(lake.catalog, lake.whole, [lake.under])
    assert (told.table, told.rows, told.needed) == ("s1.orders", 10, 1)
    assert told.bytes > 0
    lake.commit({"id": 1, "w": "x", "n": 1})
    rest = lake.table("rest")
    now = rest.metadata.current_snapshot_id
    old = [one.snapshot_id for one in rest.snapshots() if SHARDS_MAP not in summary_of(one) and one.snapshot_id != now]
    rest.maintenance.expire_snapshots().by_ids(old).commit()
    before = lake.lake.table("shop.orders").read().pylist()
    (told,) = former_tables(lake.catalog, lake.whole, [lake.under])
    assert told.needed == 0
    mark_dropped(lake.catalog, lake.whole, "s1.orders")
    mark_dropped(lake.catalog, lake.whole, "s1.orders")  # whoever died in between begins again
    said = lake.catalog.load_table(("s1", "orders")).properties
    assert (said.get(SHARD_DROPPED), said.get(SHARD_OF)) == ("rest.orders", None)
    back = move(lake.under.map, "s1", Home("s1.orders"))
    assert "is being removed; run firn shards remove-former" in (not_free(lake.catalog, lake.under, back) or "")
    unmark_dropped(lake.catalog, lake.whole, "s1.orders")
    assert not_free(lake.catalog, lake.under, back) is None
    mark_dropped(lake.catalog, lake.whole, "s1.orders")
    assert [one.table for one in former_tables(lake.catalog, lake.whole, [lake.under])] == ["s1.orders"]
    remove(lake.catalog, "s1.orders")
    assert former_tables(lake.catalog, lake.whole, [lake.under]) == []
    assert lake.lake.table("shop.orders").read().pylist() == before
    assert not list((tmp_path / "warehouse" / "s1").rglob("*.parquet"))


def test_a_table_of_somebody_else_is_no_former_one(tmp_path: Path) -> None:
    lake = ShardedLake(tmp_path, RANGES)
    lake.commit(*rows(0, 20))
    lake.remap(lambda now: merge(now, ["s1"], "s0"))
    lake.commit({"id": 0, "w": "x", "n": 0})
    lake.catalog.purge_table(("s1", "orders"))
    lake.catalog.create_table(("s1", "orders"), lake.columns)
    assert former_tables(lake.catalog, lake.whole, [lake.under]) == []


def _stack_of(lake: ShardedLake, folder: Path) -> None:
    known = lake.catalog.properties
    said = {"staging": f"file://{folder}/staging", "warehouse": known["warehouse"], "catalog_uri": known["uri"]}
    (folder / "stack.json").write_text(json.dumps(said | {"url": "http://127.0.0.1:9"}))


def test_a_shard_of_a_version_that_rows_only_pass_through_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Epochs wait under a version that is not the newest any more: a job that commits them is about to name its
    shards."""
    lake = ShardedLake(tmp_path, RANGES, config=CONFIG)
    lake.commit(*rows(0, 20))
    _stack_of(lake, tmp_path)
    lake.remap(lambda now: move(now, "s0", Home("big.orders")))
    back = lake.under.next(move(lake.under.map, "s0", Home("s0.orders")), "2026-11-21T00:00:00.000Z", "back")
    assert shard_maps.put(lake.store, "shop", "rest.orders", lake.under)
    assert shard_maps.put(lake.store, "shop", "rest.orders", back)
    lake.change({"id": 0, "w": "x", "n": 0})
    lake.commit(dies_after=1)
    assert main(["shards", "remove-former", "rest.orders", "--dir", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == []
    lake.commit()
    assert len(lake.lake.table("shop.orders").read().pylist()) == 20


def test_what_lists_new_tenants_alone_is_not_taken_back_by_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = ShardedLake(tmp_path, RANGES, config=CONFIG)
    lake.commit(*rows(0, 20))
    _stack_of(lake, tmp_path)
    lake.remap(lambda now: move(now, "s0", Home("big.orders")))
    for made, told in (
        (replace(lake.under, why="new tenants: a"), "the next commit would list them again"),
        (
            lake.under.next(replace(lake.under.map, version=lake.under.number + 1), "", "a person"),
            "takes back version 3: a person",
        ),
    ):
        assert shard_maps.put(lake.store, "shop", "rest.orders", made)
        main(["shards", "undo", "rest.orders", "--dir", str(tmp_path), "--dry-run"])
        out, error = capsys.readouterr()
        assert told in " ".join((out + error).split())


def test_a_former_table_that_somebody_has_tagged_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = ShardedLake(tmp_path, RANGES, config=CONFIG)
    lake.commit(*rows(0, 20))
    lake.remap(lambda now: split(now, "s1", "s2", Home("s2.orders"), at=15))
    lake.commit({"id": 15, "w": "x", "n": 15})
    lake.remap(lambda now: merge(now, ["s1", "s2"], "s0"))
    lake.commit({"id": 0, "w": "x", "n": 0})
    assert shard_maps.put(lake.store, "shop", "rest.orders", lake.under)
    rest = lake.table("rest")
    now = rest.metadata.current_snapshot_id
    rest.maintenance.expire_snapshots().by_ids([n for n, _ in lake.cuts if n != now]).commit()
    tagged = lake.catalog.load_table("s1.orders")
    snapshot = tagged.metadata.current_snapshot_id
    assert snapshot is not None
    tagged.manage_snapshots().create_tag(snapshot, "audit").commit()
    _stack_of(lake, tmp_path)

    def removed() -> tuple[list[str], dict[str, int]]:
        assert main(["shards", "remove-former", "rest.orders", "--dir", str(tmp_path), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        return told["removed"], {one["table"]: one["needed"] for one in told["former"]}

    assert removed() == (["s2.orders"], {"s1.orders": 1, "s2.orders": 0})
    lake.catalog.load_table("s1.orders").manage_snapshots().remove_tag("audit").commit()
    assert removed() == (["s1.orders"], {"s1.orders": 0})


def test_a_table_whose_name_is_written_otherwise_now_is_no_former_one(tmp_path: Path) -> None:
    """Some catalogs keep names in lower case: both are one table there."""
    lake = ShardedLake(tmp_path, RANGES)
    lake.commit(*rows(0, 20))
    lake.remap(lambda now: move(now, "s1", Home("big.orders")))
    lake.remap(lambda now: move(now, "s1", Home("S1.orders")))
    assert "s1.orders" in lake.under.ever
    assert [one.table for one in former_tables(lake.catalog, lake.whole, [lake.under])] == []


def test_what_no_row_has_moved_by_is_taken_back(tmp_path: Path) -> None:
    lake = ShardedLake(tmp_path, RANGES)
    first = lake.under
    with pytest.raises(ValueError, match="the rows are under version 1, the newest, already"):
        taken_back(first, first)
    lake.remap(lambda now: split(now, "s1", "s2", Home("s2.orders"), at=15))
    lake.remap(lambda now: merge(now, ["s0"], "s1"))
    back = taken_back(lake.under, first)
    assert (back.version, back.spread, back.homes) == (4, first.map.spread, first.map.homes)
    made = lake.under.next(back, "", "undo")
    assert made.left == {"s2.orders"}
    with pytest.raises(ValueError, match="version 4 moves nothing"):
        taken_back(made, first)


def test_a_new_shard_has_no_name_that_another_rule_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No table need be there yet."""
    other = "  web:\n    tables:\n      public.s: {to: s2.orders, key: [id]}\n"
    lake = ShardedLake(tmp_path, RANGES, config=CONFIG + other)
    lake.commit(*rows(0, 40))
    known = lake.catalog.properties
    said = {"staging": f"file://{tmp_path}/staging", "warehouse": known["warehouse"], "catalog_uri": known["uri"]}
    (tmp_path / "stack.json").write_text(json.dumps(said | {"url": "http://127.0.0.1:9"}))
    assert main(["shards", "rebalance", "rest.orders", "--rows", "20", "--dir", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == ["split s1: s3 from 25"]


def test_shards_tell_what_they_have_and_where_they_could_be_split(tmp_path: Path) -> None:
    lake = ShardedLake(tmp_path, RANGES)
    lake.commit(*rows(0, 40))
    look = ShardColumns(lake.catalog, lake.under.map)
    assert (look.middle("s1"), look.middle("s0"), look.middle("rest")) == (25, 5, None)
    assert {name: one.rows for name, one in loads_of(lake.catalog, lake.under.map).items()} == {
        "s0": 10, "s1": 30, "rest": 0,
    }  # fmt: skip
    assert written(lake.table("s1")) is None, "no commit of a job is there"
    table = lake.table("s1")
    for n, passed in ((1, 0), (2, 0), (3, 4)):
        said = {"firn.epoch.shop": str(n)} | ({SHARD_PASSED: str(passed)} if passed else {})
        table.append(pa.Table.from_pylist(rows(100 * n, 4), schema=lake.columns), snapshot_properties=said)
        time.sleep(0.01)
    told = [one.timestamp_ms for one in table.refresh().metadata.snapshots][-3:]
    assert written(table) == 4 * 1000 / (told[-1] - told[0]), "what passed was written by nobody, nor is the first"
    same = ShardedLake(tmp_path / "same", RANGES)
    same.commit(*({"id": n, "w": "w", "n": 30 if n else 50} for n in range(9)), {"id": 9, "w": "w", "n": None})
    assert ShardColumns(same.catalog, same.under.map).middle("s1") == 50
    same.commit({"id": 0, "w": "w", "n": 30})
    assert ShardColumns(same.catalog, same.under.map).middle("s1") is None
    texts = ShardedLake(tmp_path / "texts", TEXTS)
    texts.commit(*rows(0, 3, "a"), *rows(10, 5, "b"), *rows(20, 2, "Ü"), *rows(30, 1, None))
    assert ShardColumns(texts.catalog, texts.under.map).values("rest") == {"b": 5, "Ü": 2}
    assert ShardColumns(texts.catalog, texts.under.map).values("a") == {"a": 3}
