"""All shards of a table read as one: the rows of a cut, of the shards that a filter needs."""

from pathlib import Path
from typing import Any

import pytest

from firn.changes.decode.types import STRING
from firn.config.sharding import Sharding
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


def row(id: int, w: str | None, n: int | None = None) -> dict[str, Any]:
    return {"id": id, "w": w, "n": n}


@pytest.fixture
def made(tmp_path: Path) -> ShardedLake:
    found = ShardedLake(tmp_path, TENANTS, config=CONFIG)
    found.commit(row(1, "acme", 1), row(2, "umbrella", 2), row(3, None, 3), row(4, "other", 4))
    found.commit(row(1, "umbrella", 1), row(5, "acme", 5), deleted=[4])
    return found


def test_sql_reads_all_shards_at_the_newest_cut(made: ShardedLake) -> None:
    sql = "SELECT id, w, n FROM shop.orders ORDER BY id"
    assert made.lake.sql(sql).pylist() == made.told
    before = made.told
    made.commit(row(2, "acme", 7), row(6, None, 6), dies_after=1)  # 2 is in acme by now, and in umbrella too
    assert made.lake.sql("SELECT count(*) AS n FROM acme.orders WHERE id = 2").pylist() == [{"n": 1}]
    assert made.lake.sql(sql).pylist() == before
    assert made.lake.table("shop.orders").read().arrow().num_rows == len(before)
    made.commit()
    assert made.lake.sql(sql).pylist() == made.told != before
