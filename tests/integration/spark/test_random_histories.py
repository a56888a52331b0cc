"""The random histories of tests/property, by Spark and Iceberg: many of them at once, since each has keys of its own.

What concerns a source table as a whole, its truncates, the histories of one table have in common.
"""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.changes.merge.fold import RowChange, fold
from firn_spark.tables import evolve
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import GONE, event
from tests.integration.spark.test_specification import PARTITIONS, change
from tests.soak import LONG, few_cases, seeds

pytestmark = pytest.mark.spark
AT_ONCE = 200 if LONG else 60  # histories of one table
KEYS = 4  # of one history
NAMES = ("id", "v", "w", "n")
_GONE = frozenset({"v", "w"})


def histories(dice: random.Random, tables: str) -> list[list[dict[str, Any]]]:
    """Statements in the source's order, each with what every history has of it, at a position of its own."""
    found = []
    for lsn in range(1_000, 1_000 * dice.randrange(5, 11), 1_000):
        if dice.random() < 0.15:
            found.append([event("t", lsn, table=one) for one in sorted({dice.choice(tables), dice.choice(tables)})])
        else:
            found.append(
                [one for number in range(AT_ONCE) for one in statement(dice, lsn + number, number * KEYS, tables)]
            )
    return found


def statement(dice: random.Random, lsn: int, first: int, tables: str) -> list[dict[str, Any]]:
    key, table, chance = first + dice.randrange(KEYS), dice.choice(tables), dice.random()
    row = {"id": key, "v": f"v{lsn}", "w": f"w{lsn}", "n": lsn}
    gone = {name: GONE for name in sorted(_GONE) if dice.random() < 0.5}
    nothing: dict[str, Any] = {"v": None, "w": None, "n": 0}
    if chance < 0.2:
        return [event("d", lsn, None, nothing | {"id": key}, table=table)]
    if chance < 0.35:
        return [event(dice.choice("cr"), lsn, row, table=table)]
    if chance < 0.85:
        return [event("u", lsn, row | gone, table=table)]
    to = first + (key - first + 1 + dice.randrange(KEYS - 1)) % KEYS
    moved = event("c", lsn, row | gone | {"id": to}, table=table)
    return [event("d", lsn, None, nothing | {"id": key}, table=table), moved]


def expected(come: Sequence[Mapping[str, Any]]) -> dict[int, Any]:
    changes: list[RowChange] = [change(dict(one)) for one in come]
    return {key[0]: dict(row.values) for key, row in fold({}, changes).rows.items()}


@few_cases(1)
@pytest.mark.parametrize("seed", seeds(1, 5))
@pytest.mark.parametrize("tables", ["a", "abc"] if LONG else ["abc"])
@pytest.mark.parametrize("version", ["2", "3"])
def test_many_random_histories_equal_the_specification_after_each_epoch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, tables: str, version: str
) -> None:
    """Shuffled, doubled and split, on either way of a commit, drawn for each epoch; in both of Iceberg's formats."""
    monkeypatch.setitem(evolve._PROPERTIES, evolve.FORMAT_VERSION, version)
    dice = random.Random(f"{seed}-{tables}")
    told = [one for some in histories(dice, tables) for one in some]
    delivered = told + dice.choices(told, k=len(told) // 4)
    dice.shuffle(delivered)
    lake, come = Lake(spark, tmp_path, PARTITIONS), []
    size = -(-len(delivered) // dice.choice((2, 3, 4)))
    for first in range(0, len(delivered), size):
        monkeypatch.setenv("FIRN_DRIVER_EVENTS", dice.choice(("20000", "0")))
        come += delivered[first : first + size]
        lake.land(delivered[first : first + size], at_once=300)
        found = lake.by_key("lake.t", "id") if lake.catalog.table_exists(("lake", "t")) else {}
        rows = {key: {name: row[name] for name in NAMES} for key, row in found.items()}
        assert rows == expected(come), f"seed {seed}, tables {tables}"
