"""Fresh reads of a table of several shards, of any history cut anywhere: the whole is what `fold` makes of all changes,
and each shard what the map of the next commit places in it, by maps of each kind, that change between the commit and
what waits."""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from firn.changes.merge.fold import Row, fold
from firn.changes.placement.shard_decision import placed
from tests.integration.spark.test_commit import event
from tests.integration.spark.test_specification import change, history
from tests.sharded_ground import ShardedGround
from tests.soak import few_cases, times

KINDS = [
    "{by: tenant(w), tenants: [a, b]}",
    "{by: hash(w), count: 3}",
    "{by: range(w), at: [a, b, c]}",
    "{by: geographic(w), to: {a: one, b: one, c: two}, else: rest}",
    "{by: hash(id), count: 3}",
]
PLACES = ("a", "b", "c", "z", None, "B")
SEEN = Counter[str]()


def told(seed: int, count: int, keys: int, truncates: float) -> list[dict[str, Any]]:
    """A random history whose `w` are few values, some of which no shard lists."""
    found = history(seed, count, keys, truncates=truncates)
    for one in found:
        if one["after"] is not None and str(one["after"]["w"]).startswith("w"):
            one["after"]["w"] = PLACES[hash((seed, one["source"]["lsn"])) % len(PLACES)]
    return found


def rows(events: Sequence[dict[str, Any]]) -> dict[Any, Row]:
    return dict(fold({}, map(change, events)).rows)


def plain(some: dict[Any, Row]) -> dict[int, Any]:
    return {key[0]: dict(row.values) for key, row in some.items()}


WHERE = ("w = 'a'", "w IS NULL", "w > 'a'", "w IN ('b', 'z') OR id = 2", "id = 1", "n >= 120 AND w = 'b'")


def check(ground: ShardedGround, dice: random.Random, events: Sequence[dict[str, Any]], *, waits: bool) -> None:
    wanted = rows(events)
    assert ground.whole() == plain(wanted)
    for where in dice.sample(WHERE, 2):
        keys = {key for key, row in plain(wanted).items() if _fits(row, where)}
        assert ground.whole(where) == {key: row for key, row in plain(wanted).items() if key in keys}, where
    shards = placed(ground.under.map, wanted)
    for name, mine in shards.items():
        table = str(ground.under.tables[name])
        if not waits and not ground.catalog.table_exists(table):
            continue
        where = dice.choice((None, None, *WHERE))
        found = {key: row for key, row in plain(mine).items() if where is None or _fits(row, where)}
        assert ground.shard(name, where) == found, (name, where)
        SEEN["rows of shards"] += len(mine)


def _fits(row: dict[str, Any], where: str) -> bool:
    w, n = row["w"], row["n"]
    return {
        "w = 'a'": w == "a", "w IS NULL": w is None, "w > 'a'": w is not None and w > "a",
        "w IN ('b', 'z') OR id = 2": w in ("b", "z") or row["id"] == 2, "id = 1": row["id"] == 1,
        "n >= 120 AND w = 'b'": n is not None and n >= 120 and w == "b",
    }[where]  # fmt: skip


@few_cases(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(times(1, 60, 4)))
def test_any_history_cut_anywhere_is_what_the_specification_places(tmp_path: Path, seed: int, kind: str) -> None:
    SEEN["cases"] += 1
    ground, dice = ShardedGround(tmp_path, kind), random.Random(f"{kind} {seed}")
    posted = told(seed, 50, 6, truncates=0.02)
    if dice.random() < 0.3:
        posted.append(event("t", 100 + dice.randrange(50)))
    delivered = posted + dice.choices(posted, k=15)
    dice.shuffle(delivered)
    cut = dice.randrange(0, len(delivered))
    if dice.random() < 0.3:
        ground.remap(dice, rows(delivered))
    if cut:
        ground.post(delivered[:cut])
        if dice.random() < 0.5:
            check(ground, dice, delivered[:cut], waits=True)  # no commit has made any of the tables
        ground.commit(ground.folded(), ground.seal())
        check(ground, dice, delivered[:cut], waits=False)
    middle = dice.randrange(cut, len(delivered) + 1)
    for first, last in ((cut, middle), (middle, len(delivered))):
        if first == last:
            continue
        SEEN["maps that changed"] += dice.random() < 0.6 and ground.remap(dice, rows(delivered[:last]))
        ground.post(delivered[first:last])
        check(ground, dice, delivered[:last], waits=True)
        if dice.random() < 0.5:
            ground.seal()
            check(ground, dice, delivered[:last], waits=True)
    ground.catalog.close()


def test_maps_changed_and_shards_had_rows() -> None:
    if SEEN["cases"] > 20:
        assert min(SEEN.values()) > 0, SEEN
