"""What passes from shard to shard by another map: of random files, whose table numbers its columns otherwise than the
one that rows come to, each row that no change names goes where the map says, and is noted where it leaves."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.changes.decode.types import DATE, LONG, STRING, Column, Type, decimal
from firn.changes.decode.types import UUID as UUIDS
from firn.changes.merge.fold import key_of
from firn.changes.metadata_columns import HELD, OTHERS_ID, POSITION
from firn.changes.placement.shard_decision import Passage
from firn.changes.placement.shard_map import Bands, Home, Listed, ShardMap, even
from firn_spark.driver import shard_passages
from firn_spark.driver.shard_passages import DecidedKeys, RowMover, ShardFiles
from firn_spark.files import values
from firn_spark.files.write import Layout
from firn_spark.tables.objects import Objects
from tests.soak import LONG as SOAK

HOMES = {name: Home(f"{name}.t") for name in ("a", "b", "rest")}
NEXT = ("a", "b", "b", "rest")
KINDS: Mapping[str, tuple[Type, Sequence[Any]]] = {
    "long": (LONG, (-3, 0, 9, 10, 11, 2**40, None)),
    "string": (STRING, ("", "a", "b", "zoo", "Ünter", None)),
    "date": (DATE, (0, 19_000, -1, None)),
    "decimal(9,2)": (decimal(9, 2), None or ()),
    "uuid": (UUIDS, (str(UUID(int=7)), str(UUID(int=2**127)), None)),
}


def fields(named: Sequence[tuple[str, Any]], first: int) -> list[pa.Field]:
    """Of a table that numbers its columns from `first`."""
    return [
        values.file_field({"name": name, "type": kind, "id": first + n, "required": False})
        for n, (name, kind) in enumerate(named)
    ]


HELD_FIELD = {"type": "map", "key-id": 80, "key": "int", "value-id": 81, "value": "binary", "value-required": True}


def map_over(dice: random.Random, kind: Type) -> ShardMap:
    if kind.name == "string" and dice.random() < 0.5:
        return ShardMap(2, "tenant", "w", kind, Listed({"a": "a", "zoo": "b"}), "rest", HOMES)
    return ShardMap(2, "hash", "w", kind, Bands(even(4), NEXT), "rest", HOMES)


@pytest.mark.parametrize("seed", range(40 if SOAK else 6))
def test_rows_go_where_the_map_says_and_leave_where_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = random.Random(f"passages {seed}")
    kind, some = KINDS[name := dice.choice(["long", "string", "date", "uuid"])]
    shards, count = map_over(dice, kind), dice.choice((0, 1, 200, 3_000))
    key = [Column("id", LONG), Column("u", UUIDS)][: dice.choice((1, 2))]
    rows = [
        {
            "id": n if dice.random() < 0.9 else None,
            "u": str(UUID(int=n)),
            "w": dice.choice(some),
            "v": f"v{n}",
            POSITION: bytes([1, n % 256]),
            HELD: dice.choice((None, None, [(4, b"\1"), (99, b"\2"), (OTHERS_ID, b"\3")])),
        }
        for n in range(count)
    ]
    told = [("id", "long"), ("u", "uuid"), ("w", name), ("v", "string"), (POSITION, "binary"), (HELD, HELD_FIELD)]
    there = fields(told, 1)
    mine = fields([*reversed(told), ("late", "long")], 20)
    path = f"{tmp_path}/file.parquet"
    kinds = {"id": LONG, "u": UUIDS, "w": kind, "v": STRING}
    cells = [
        values.written([row[of.name] for row in rows], kinds[of.name], of)
        if of.name in kinds
        else pa.array([row[of.name] for row in rows], of.type)
        for of in there
    ]
    pq.write_table(pa.table(cells, schema=pa.schema(there)), path, row_group_size=700, store_schema=False)
    gone = pa.array(sorted(dice.sample(range(count), count // 5)), pa.int64())
    named = {key_of([row[of.name] for of in key]) for row in dice.sample(rows, count // 4)}
    layout = Layout(tuple(mine), {}, None, None, {}, (), (Column("id", LONG),), [(f"file://{tmp_path}/", "")], "file:/")
    monkeypatch.setattr(shard_passages, "_ROWS", 500)
    into = {"a": ShardFiles(layout), "b": ShardFiles(layout)}
    passing = {"a": Passage(frozenset({"x"})), "b": Passage(frozenset({"x"})), "rest": Passage(loses=True)}
    # Some of them were decided by columns.
    others = sorted((one for one in named if None not in one and dice.random() < 0.5), key=repr)
    parts = list(zip(*others, strict=True)) or [()] * len(key)
    columns = [values.sought(values.keyed(some, of.type), of.type) for some, of in zip(parts, key, strict=True)]
    keys = DecidedKeys(key, named - {*others}, pa.table(columns, names=["c0", "c1"][: len(columns)]))
    mover = RowMover(None, shards, [Column(of, kinds[of]) for of in kinds], keys, into, passing)
    with Objects("file:/").open(path) as file:
        mover.read_file(file, path, gone, there, frozenset(into), "rest")
    passed = mover.read([])

    left = [row for n, row in enumerate(rows) if n not in set(gone.to_pylist())]
    passes = [row for row in left if key_of([row[of.name] for of in key]) not in named]
    for shard in ("a", "b"):
        wanted = [row for row in passes if shards.of(row["w"]) == shard]
        found = [
            row for one in passed[shard].files for row in pq.read_table(one.path.removeprefix("file://")).to_pylist()
        ]
        assert sum(one.rows for one in passed[shard].files) == len(wanted)
        for row in found:
            assert row.pop("late") is None
            assert row.pop(HELD) in (None, [(22, b"\1"), (OTHERS_ID, b"\3")]), "ids are the target's"
        as_stored = [{of: row[of] for of in row if of not in (HELD, "late")} for row in wanted]
        assert sorted(row["v"] for row in found) == sorted(row["v"] for row in as_stored)
        by_v = {row["v"]: row for row in as_stored}
        assert all((row["id"], row[POSITION]) == (by_v[row["v"]]["id"], by_v[row["v"]][POSITION]) for row in found)
        assert len(passed[shard].files) >= len(wanted) // 1_200
    places = passed["rest"].gone.get(path, pa.array([], pa.int64())).to_pylist()
    assert sorted(rows[n]["v"] for n in places) == sorted(r["v"] for r in passes if shards.of(r["w"]) != "rest")
    assert len(set(places)) == len(places)
    assert not passed["a"].gone
