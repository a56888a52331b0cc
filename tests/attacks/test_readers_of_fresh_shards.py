"""Readers with scopes and what waits for a table of several shards: what is folded of all tenants' changes is told of
those rows alone that the reader may read, whichever shard they come from or go to."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firn.changes.placement.map_changes import split_values
from firn.changes.placement.shard_map import Home
from firn.config.reader_scopes import Scope
from firn.errors import FirnError
from firn.log import shard_maps
from firn_lake.fresh.pending import NotFresh
from firn_lake.scoped_lake import ScopedLake
from firn_lake.sql.query import streamed_over
from firn_lake.tables import TableNotFound
from tests.integration.spark.test_commit import GONE, event
from tests.sharded_ground import REST, WHOLE, ShardedGround

HIDDEN = "zqx"
"""In each value that no reader here may read."""


def row(id: int, w: str | None, n: int = 0, v: str = "1") -> dict[str, Any]:
    return {"id": id, "v": v, "w": w, "n": n}


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShardedGround]:
    """Of tenant a are 1 and 2, and by now 5; 3 was b's and is a's, 6 was a's and is b's; of b and z all is hidden."""
    made = ShardedGround(tmp_path_factory.mktemp("fresh"), "{by: tenant(w), tenants: [a, b]}")
    theirs = [row(3, "b", 3, f"{HIDDEN}3"), row(4, "b", 4, f"{HIDDEN}4"), row(9, "z", 9, f"{HIDDEN}9")]
    mine = [row(1, "a", 1), row(2, "a", 2), row(6, "a", 6)]
    made.post([event("c", 100 + one["id"], one) for one in (*mine, *theirs)])
    made.commit(made.folded(), made.seal())
    made.post(
        [event("u", 200, row(2, "a", 22)), event("c", 201, row(5, "a", 5)), event("c", 202, row(8, "z", 8, HIDDEN))]
    )
    made.post([event("u", 203, row(3, "a", 33)), event("u", 204, row(6, "b", 66, f"{HIDDEN}6"))])
    made.post([event("u", 205, row(4, "b", 44, GONE)), event("d", 206, None, row(9, "z"))])
    under = made.under.map
    made.under = made.under.next(split_values(under, "rest", "zs", Home("zs.orders"), ["z"]), "", "a test")
    assert shard_maps.put(made.store, "spec", REST, made.under)
    yield made
    made.catalog.close()


def asked(ground: ShardedGround, scope: Scope, sql: str) -> list[dict[str, Any]]:
    tables = ScopedLake(ground.lake, scope).at(None, None, None, fresh=True)
    with streamed_over(tables, sql) as found:
        return [one for batch in found.batches for one in batch.to_pylist()]


MINE = Scope("a", (WHOLE,), rows={WHOLE: "w = 'a'"}, columns={WHOLE: ("id", "v", "n")})
ROWS = [{"id": 1, "n": 1}, {"id": 2, "n": 22}, {"id": 3, "n": 33}, {"id": 5, "n": 5}]


def test_rows_that_wait_are_told_to_whom_they_are(ground: ShardedGround) -> None:
    assert asked(ground, MINE, f"SELECT id, n FROM {WHOLE} ORDER BY id") == ROWS
    assert asked(ground, MINE, f"SELECT count(*) AS n, max(n) AS m FROM {WHOLE}") == [{"n": 4, "m": 33}]
    assert asked(ground, MINE, f"SELECT id FROM {WHOLE} WHERE n > 40 OR v LIKE '{HIDDEN}%'") == []
    everything = asked(ground, Scope("all", (WHOLE,)), f"SELECT id FROM {WHOLE} ORDER BY id")
    assert [one["id"] for one in everything] == [1, 2, 3, 4, 5, 6, 8]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(CAST(v AS INTEGER)) AS n FROM {}", "SELECT sum(1 / (n - 66)) AS n FROM {}",
        "SELECT sum(1 / (n - 44)) AS n FROM {}", "SELECT error(v) AS e FROM {} WHERE n > 40",
        "SELECT max(v) AS v FROM {} WHERE CAST(v AS INTEGER) > 0 OR true", "SELECT histogram(v) AS h FROM {}",
        "SUMMARIZE SELECT * FROM {}", "SELECT * FROM {} WHERE id = 6 OR id = 8 OR id = 9",
        "SELECT max(id)::TINYINT AS n FROM {}", "EXPLAIN ANALYZE SELECT * FROM {}",
    ],
)  # fmt: skip
def test_no_error_and_no_plan_tells_of_what_waits_for_others(ground: ShardedGround, sql: str) -> None:
    found = asked(ground, MINE, sql.format(WHOLE))
    assert HIDDEN not in str(found)


@pytest.mark.parametrize("name", ["w", "_firn_pos", "_firn_source", "_firn_held"])
def test_columns_that_are_left_out_are_not_there_fresh(ground: ShardedGround, name: str) -> None:
    with pytest.raises(FirnError, match=f'"{name}" not found') as told:
        asked(ground, MINE, f"SELECT {name} FROM {WHOLE}")
    assert HIDDEN not in str(told.value)


@pytest.mark.parametrize("shard", ["a.orders", "b.orders", "zs.orders", "rest.orders", "nobody.orders"])
def test_no_shard_is_a_table_to_who_reads_the_whole(ground: ShardedGround, shard: str) -> None:
    with pytest.raises(TableNotFound, match=f"no table '{shard}' in the lake; tables: spec.orders$"):
        asked(ground, MINE, f"SELECT * FROM {shard}")


def test_who_reads_a_shard_alone_is_told_of_the_rows_that_come_to_lie_in_it(ground: ShardedGround) -> None:
    of_a = Scope("a", ("a.orders",), rows={"a.orders": "n < 30"})
    assert [one["id"] for one in asked(ground, of_a, "SELECT id FROM a.orders ORDER BY id")] == [1, 2, 5]
    for other in (WHOLE, REST, "b.orders", "zs.orders"):
        with pytest.raises(TableNotFound, match=r"tables: a\.orders$"):
            asked(ground, of_a, f"SELECT * FROM {other}")
    # A shard that no commit has made yet, of rows that lie in the rest still.
    of_z = Scope("z", ("zs.orders",))
    assert asked(ground, of_z, "SELECT id, v FROM zs.orders") == [{"id": 8, "v": HIDDEN}]


@pytest.mark.parametrize(
    ("scope", "ids"),
    [
        (Scope("r", (WHOLE, "b.orders"), rows={"b.orders": "n < 10"}), [1, 5, 8]),
        (Scope("r", ("*.*",), rows={"zs.orders": "w = 'a'"}), [1, 2, 3, 5]),
        (Scope("r", ("*.orders",), rows={"*.orders": "w = 'a'", REST: "n < 10"}), [1, 5]),
    ],
)
def test_what_narrows_a_shard_narrows_the_whole_fresh_too(ground: ShardedGround, scope: Scope, ids: list[int]) -> None:
    """Also a shard that only the next commit makes."""
    assert [one["id"] for one in asked(ground, scope, f"SELECT id FROM {WHOLE} ORDER BY id")] == ids


def test_what_can_not_be_read_names_no_shard(ground: ShardedGround) -> None:
    files = list(Path(ground.catalog.load_table("b.orders").location().removeprefix("file://")).rglob("*.parquet"))
    contents = {path: path.read_bytes() for path in files}
    try:
        for path in files:
            path.unlink()
        with pytest.raises(FirnError) as told:
            asked(ground, MINE, f"SELECT * FROM {WHOLE}")
        assert not isinstance(told.value, NotFresh)
        assert "b.orders" not in str(told.value)
        assert "parquet" not in str(told.value)
    finally:
        for path, content in contents.items():
            path.write_bytes(content)
