"""Of a member that stands twice in an object the last counts, everywhere: in ingest whatever the envelope, alone and
among others, in a table's rows in both homes of the engine, and in fresh reads (docs/types.md)."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.changes.change import COLUMNS, Parsed
from firn.changes.decode.inference import seen_in
from firn.changes.envelopes.parser import parse
from firn.changes.envelopes.registry import KNOWN
from firn_lake.lake import Lake as Reader
from tests.attacks.grammar import Grammar
from tests.attacks.json_trees import Tree, Twice, at, places, replaced, text_of
from tests.attacks.test_events import Stream
from tests.soak import seeds


def another(value: Tree) -> Tree:
    """A value of the same kind: what an envelope reads itself has to be of its kind each time."""
    if isinstance(value, bool) or value is None or isinstance(value, dict | list):
        return copy.deepcopy(value)
    if isinstance(value, str):
        return "7" if value.isdecimal() else "zz"
    return 7


def with_twins(tree: Tree, dice: random.Random) -> Tree:
    """The tree with another value before some member of each of up to three objects."""
    inside = [path for path in places(tree) if isinstance(path[-1], str)]
    for *path, name in sorted(dice.sample(inside, min(3, len(inside))), key=len, reverse=True):
        parent = at(tree, path)
        if type(parent) is not dict:
            continue
        twin = [(name, another(parent[name]))]
        members = [both for one, value in parent.items() for both in (*(twin if one == name else ()), (one, value))]
        tree = replaced(tree, path, Twice(members))
    return tree


def meant(parsed: Parsed) -> list[Any]:
    """What the request holds, rows and keys as what their text means."""
    columns: list[Any] = [getattr(parsed, name) for name in COLUMNS]
    told = [[json.loads(one) if isinstance(one, bytes) else one for one in column] for column in columns]
    return [*told, parsed.ignored, [(one.index, one.code) for one in parsed.rejected]]


@pytest.mark.parametrize("envelope", KNOWN.names)
def test_an_event_with_twins_before_its_members_is_the_event(envelope: str) -> None:
    for number in seeds(25, 6_000):
        dice = random.Random(number)
        grammar = Grammar(dice, envelope, ("one", "two"), wrong=0, parts=True)
        trees = [json.loads(grammar.event()) for _ in range(3)]
        twins = [with_twins(copy.deepcopy(tree), dice) if isinstance(tree, dict) else tree for tree in trees]
        plain, twice = ([text_of(one).encode() for one in some] for some in (trees, twins))
        assert meant(parse(b"\n".join(twice), envelope)) == meant(parse(b"\n".join(plain), envelope)), (
            f"FIRN_SEED={number}"
        )
        for one, other in zip(twice, plain, strict=True):
            assert meant(parse(one, envelope)) == meant(parse(other, envelope)), f"FIRN_SEED={number}"


ROWS = (
    b'{"id":9,"id":1,"v":5,"v":"a","n":"x","n":1}',
    b'{"id":2,"v":"b","n":2,"n":null}',
    b'{"v":7,"id":3,"n":3,"v":null,"v":"c"}',
    b'{"id":4,"v":"d","v":"__debezium_unavailable_value","v":"e","n":4}',
)


def test_types_follow_from_the_last() -> None:
    told = {one.name: str(one.type) for one in seen_in(ROWS)}
    assert told == {one.name: str(one.type) for one in seen_in([text_of(json.loads(row)).encode() for row in ROWS])}


@pytest.mark.spark
@pytest.mark.parametrize("home", ["driver", "slices"])
def test_the_last_counts_in_each_home_and_in_fresh_reads(
    spark: SparkSession, tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTOOLS_LOG_LEVEL", "CRITICAL")
    monkeypatch.setenv("FIRN_DRIVER_EVENTS", "0" if home == "slices" else "1000000")
    stream = Stream(spark, tmp_path, "debezium")
    source = b'{"connector":"postgresql","schema":"app","table":"two","table":"one","sequence":"[\\"%d\\",\\"%d\\"]"}'
    stream.post([b'{"op":"c","after":{"id":9,"v":"","n":0},"source":%b}' % (source % (9, 9))])
    stream.flush()
    stream.post(
        [
            b'{"op":"d","op":"u","before":null,"after":null,"after":%b,"source":%b}' % (row, source % (n, n))
            for n, row in enumerate(ROWS, 1)
        ]
    )
    expected = [{"id": row["id"], "v": row["v"], "n": row["n"]} for row in map(json.loads, ROWS)]
    expected.append({"id": 9, "v": "", "n": 0})
    table = Reader(stream.lake.catalog, lambda: stream.lake.store).table
    for fresh in (True, False):
        found = sorted(table("lake.one").read(fresh=fresh).pylist(), key=lambda row: row["id"])
        assert [{name: row[name] for name in ("id", "v", "n")} for row in found] == expected
        if fresh:
            stream.flush()
