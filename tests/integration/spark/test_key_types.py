"""Keys of every type that a column can have, in both homes: random changes in any order equal the specification."""

import base64
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.changes.merge.fold import RowChange, fold, key_of
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import GONE, config, event, letters
from tests.integration.spark.test_specification import change
from tests.soak import few_cases, long_only, seeds, times

pytestmark = pytest.mark.spark

NAN = float("nan")


def single(number: float) -> float:
    """As 32 bits hold it."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


def in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@dataclass(frozen=True)
class Kind:
    """A type of keys: `values` as events have them, and as tables do. Some of them are equal."""

    type: str
    values: list[tuple[Any, Any]]


NUMBERS = [
    (0.0, 0.0), (-0.0, -0.0), ("NaN", NAN), ("Infinity", float("inf")), ("-Infinity", float("-inf")), (0.1, 0.1),
    (-0.1, -0.1), (1e300, 1e300), (5e-324, 5e-324), (-1.5, -1.5), *((n / 4, n / 4) for n in range(1, 40)),
]  # fmt: skip
LISTS: list[list[int | None] | None] = [[], [None], [1], [1, 2], [2, 1], [1, None], [12], *([n, n] for n in range(30))]
KINDS = {
    "double": Kind("double", NUMBERS),
    "float": Kind(
        "float",
        [(one if isinstance(one, str) else single(one), single(value)) for one, value in NUMBERS if one != 1e300],
    ),
    "boolean": Kind("boolean", [(True, True), (False, False)]),
    "binary": Kind(
        "binary",
        [(in_base64(one), one) for one in (b"", b"\0", b"\xff" * 30, *(bytes([n, 255 - n]) for n in range(40)))],
    ),
    "fixed": Kind("'fixed[2]'", [(in_base64(one), one) for one in (bytes([n, 255 - n]) for n in range(0, 256, 6))]),
    "list": Kind("list<long>", [(one, one) for one in LISTS]),
    "lists": Kind(
        "list<list<double>>",
        [([[one], []], [[value], []]) for one, value in NUMBERS] + [([None, [0.5, None]], [None, [0.5, None]])],
    ),
    "decimals": Kind("'list<decimal(9,2)>'", [([f"{n}.50"], [Decimal(f"{n}.5")]) for n in range(-20, 20)]),
}  # fmt: skip


def told_of(dice: random.Random, kind: Kind, changes: int) -> tuple[list[dict[str, Any]], list[RowChange]]:
    """Statements in the source's order: events, and as the specification knows them."""
    events, told = [], []
    for lsn in range(1_000, 1_000 + changes):
        chance, sent = dice.random(), dice.choice(kind.values)[0]
        row = {"id": sent, "v": f"v{lsn}", "w": f"w{lsn}"}
        if chance < 0.01 and lsn > 1_000:
            new = [event("t", lsn, None)]
        elif chance < 0.2:
            new = [event("d", lsn, None, {"id": sent})]
        elif chance < 0.35:
            new = [event("u", lsn, row | {"v": GONE}, before={"id": sent} if chance < 0.3 else None)]
        elif chance < 0.4:
            new = [event("d", lsn, None, {"id": sent})]
            new.append(event("c", lsn, row | {"id": dice.choice(kind.values)[0], "v": GONE}))
        else:
            new = [event(dice.choice("cur"), lsn, row)]
        events += new
        told += [as_table(change(one), kind) for one in new]
    return events, told


def as_table(one: RowChange, kind: Kind) -> RowChange:
    """The change with values as tables have them."""
    if one.op == "t":
        return one
    key = key_of([next(value for sent, value in kind.values if repr(sent) == repr(one.key[0]))])
    values = None if one.values is None else {**one.values, "id": key[0]}
    return replace(one, key=key, values=values)


@few_cases(1)
# `float` is known as `double` is, and `lists` as `list`.
@pytest.mark.parametrize("seed", seeds(1, 20))
@HOMES
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=long_only) if one in ("float", "lists") else one for one in KINDS]
)
def test_random_changes_equal_the_specification(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, seed: int, home: str
) -> None:
    commit_in(home, monkeypatch, events=40)
    dice, kind = random.Random(f"{name} {seed}"), KINDS[name]
    events, told = told_of(dice, kind, times(170, 300))
    order = sorted(range(len(events)), key=lambda at: events[at]["source"]["lsn"] + dice.randrange(120))
    order += dice.choices(order, k=times(20, 30))
    stream = "    debezium: {decimal.handling.mode: string}\n"
    lake = Lake(spark, tmp_path, config(f"key: [id], columns: {{id: {kind.type}, v: string, w: string}}", stream))
    known: list[RowChange] = []
    for first in range(0, len(order), 110):
        some = order[first : first + 110]
        lake.land([events[at] for at in some], at_once=50)
        known += [told[at] for at in some]
        expected = {key: (row.values["v"], row.values["w"]) for key, row in fold({}, known).rows.items()}
        rows = lake.rows("lake.t")
        assert {key_of([row["id"]]): (row["v"], row["w"]) for row in rows} == expected
        assert len(rows) == len(expected)
        said = lake.line("lake.t")
        assert (said["way"]["lookup"], said["dead"]) == (home, 0), said
        assert home == "driver" or name == "boolean" or len(some) < 80 or said["way"]["slices"] > 1, said


@HOMES
def test_a_key_of_several_such_columns_is_one(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch, events=20)
    one = lake(config("key: [f, l, b], columns: {f: double, l: list<string>, b: boolean, n: long}"))
    keys = [{"f": f, "l": [text], "b": b} for f in (0.0, "NaN", 1.5) for text in "xyz" for b in (True, False)]
    for turn in range(3):
        told = [key | {"f": -0.0 if key["f"] == 0.0 and turn else key["f"], "n": turn} for key in keys]
        one.land([event("u", 100 * turn + n, each) for n, each in enumerate(told, 10)])
    one.land([event("d", 900 + n, None, key) for n, key in enumerate(keys[1::2])])
    found = {key_of((row["f"], row["l"], row["b"])): row["n"] for row in one.rows("lake.t")}
    assert found == {key_of((float(key["f"]), key["l"], True)): 2 for key in keys[::2]}
    assert len(one.rows("lake.t")) == 9
    assert one.line("lake.t")["way"]["lookup"] == home


@long_only
@HOMES
def test_a_key_of_floats_that_became_doubles_is_found(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch)
    one = lake(config("key: [f], columns: {f: float, n: long}"))
    one.land([event("c", 10 + n, {"f": n / 2, "n": 0}) for n in range(9)])
    one.spark.sql("ALTER TABLE firn.lake.t ALTER COLUMN f TYPE double")
    one.land([event("u", 30 + n, {"f": n / 2, "n": 1}) for n in range(5)])
    found = sorted((row["f"], row["n"]) for row in one.rows("lake.t"))
    assert found == [(n / 2, int(n < 5)) for n in range(9)]
    assert one.line("lake.t")["way"]["lookup"] == home


@HOMES
def test_changes_that_cannot_have_a_key_are_dead_letters(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    """The table is not made, and no column of its key is to be seen. A truncate among them counts for what comes
    late."""
    commit_in(home, monkeypatch, events=3)
    one = lake(config("key: [nowhere]"))
    one.land([*(event("c", 10 + n, {"v": "a"}) for n in range(9)), event("t", 50, None)])
    assert [letter.reason for letter in letters(one)] == ["no_key"] * 9
    assert (one.line("lake.t")["status"], one.line("lake.t")["dead"]) == ("empty", 9)
    assert one.line("lake.t").get("way", {}).get("lookup", home) == home
    one.land([event("c", 40 + n, {"nowhere": n, "v": "late" if n < 10 else "new"}) for n in range(20)])
    assert {row["v"] for row in one.rows("lake.t")} == {"new"}
    assert one.line("lake.t")["way"]["lookup"] == home
