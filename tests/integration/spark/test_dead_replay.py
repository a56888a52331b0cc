"""A corpus with every 50th event broken, each in another way: the others land, and after the causes are fixed a replay
brings the rest. Then the tables are those of the unbroken run, Firn's own columns included."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.ingest import accept
from firn.ingest.replay import Choice, Replayed, replay
from firn.log import published_configs
from firn.log.dead_letters.letters import DeadLetter, read_dead
from firn.log.layout import dead_prefix
from firn.log.store import paths
from tests.integration.spark.spark_lake import CORPUS, Lake, ndjson, values
from tests.integration.spark.test_corpus import KEYLESS, KEYS, config
from tests.soak import long_only

pytestmark = pytest.mark.spark

RIGHT = config(KEYS, envelope="auto")
# Two causes that the configuration is to blame for: a type that fits nobody, and a table of two schemas.
WRONG = RIGHT.replace('to: "spec.pkchange"', 'to: "spec.pkchange", columns: {id: uuid}').replace(
    "    tables:\n", '    tables:\n      "x.bulk": {to: "x.bulk", key: [id]}\n'
)
EACH = 50
AT_ONCE = 700
Event = dict[str, Any]


def text(event: Any) -> str:
    return json.dumps(event, ensure_ascii=False)  # as ndjson does: an image's bytes decide between equal positions


def changed(event: Event, **members: Any) -> str:
    return text(event | members)


def flat_without_schema(event: Event) -> str:
    """As ExtractNewRecordState would flatten it, but for the schema."""
    source = event["source"]
    row = event["before"] if event["op"] == "d" else event["after"]
    told = {"__op": event["op"], "__table": source["table"], "__sequence": source["sequence"]}
    told |= {"__connector": "postgresql", "__source_ts_ms": source["ts_ms"], "__lsn": source["lsn"]}
    transaction = event.get("transaction")
    return text(row | told | ({"__transaction_total_order": transaction["total_order"]} if transaction else {}))


# By the reason that the letter gets; those of the configuration need no hand.
BREAKS: dict[str, Callable[[Event], str]] = {
    "bad_json": lambda e: text(e)[:-9],
    "unknown_op": lambda e: changed(e, op="x"),
    "missing_op": lambda e: changed(e, op=None),
    "missing_table": lambda e: changed(e, source={k: v for k, v in e["source"].items() if k != "table"}),
    "bad_event": lambda e: changed(e, source=e["source"] | {"ts_ms": "yesterday"}),
    "not_an_object": lambda e: text([e["op"]]),
    "missing_image": lambda e: changed(e, before=None, after=None),
    "bad_position": lambda e: changed(e, source=e["source"] | {"sequence": '["a", "b"]'}),
    "no_key": lambda e: changed(e, before=None, after={"Q": 1}) if e["op"] != "d" else changed(e, before={"Q": 1}),
}
OF_BULK = {"ambiguous_table": flat_without_schema}


def broken(events: list[Event]) -> tuple[list[str], dict[int, str]]:
    """The lines to send, and which of the events are broken in which way. Of the small tables every tenth change is."""
    lines = [text(event) for event in events]
    ways: dict[int, str] = {}
    small = 0
    for number, event in enumerate(events):
        source = event.get("source") or {}
        table = source.get("table")
        # A column takes its type from all that is seen at first; what is dead then is not seen.
        if (
            event.get("op") not in ("c", "u", "d", "r")
            or not table
            or table in ("evolve", "evolve_full", "types", "pkchange")
        ):
            continue
        small += table != "bulk"
        if number % EACH != EACH // 2 and (table == "bulk" or small % 10):
            continue
        known = BREAKS | (OF_BULK if table == "bulk" else {})
        if table in KEYLESS:
            known = {name: how for name, how in known.items() if name != "no_key"}
        way = list(known)[len(ways) % len(known)]
        ways[number] = way
        lines[number] = known[way](event)
    return lines, ways


def letters(lake: Lake) -> dict[tuple[str, int], DeadLetter]:
    return {
        (path, row): letter
        for path in paths(lake.store, dead_prefix("spec"))
        for row, letter in enumerate(read_dead(lake.store, path))
    }


def replayed(lake: Lake, **how: Any) -> list[Replayed]:
    def clock() -> Any:
        lake.now += timedelta(seconds=1)
        return lake.now

    return list(replay(lake.store, lake.config, "spec", how.pop("choice", Choice()), clock=clock, **how))


def tables(lake: Lake) -> dict[str, list[str]]:
    """All rows of all tables with all columns, in an order of their own. A flattened image has other bytes than the
    row in an envelope, and so another hash at the end of its place in the order: of `bulk`, that is left out."""
    names = [f"spec.{name}" for _, name in lake.catalog.list_tables("spec") if not name.endswith("__deletes")]
    return {
        name: sorted(
            repr(
                sorted(
                    (column, value[:-8] if (name, column) == ("spec.bulk", "_firn_pos") else value)
                    for column, value in row.items()
                    if value is not None
                )
            )
            for row in lake.rows(name)
        )
        for name in names
    }


@long_only
def test_after_a_replay_the_tables_equal_those_of_the_unbroken_run(spark: SparkSession, tmp_path: Path) -> None:
    events = values(CORPUS / "spec" / "plain.ndjson.gz")
    whole = Lake(spark, tmp_path / "whole", RIGHT)
    whole.land(events)

    lines, ways = broken(events)
    lake = Lake(spark, tmp_path / "broken", WRONG)
    number: dict[tuple[str, int], int] = {}
    for first in range(0, len(lines), AT_ONCE):
        lake.now += timedelta(seconds=1)
        some = lines[first : first + AT_ONCE]
        done = accept.accept(lake.store, lake.config, "spec", "\n".join(some).encode(), now=lake.now)
        number |= {(done.batch_id, index): first + index for index in range(len(some))}
    assert lake.commit(lake.seal()) == 0, lake.lines

    # Each broken event, and only these, is a letter: with its reason, its place, and its bytes where they were kept.
    found = letters(lake)
    of_config = {key: x for key, x in found.items() if x.table == "s.pkchange"}
    by_event = {number[x.batch, x.index]: x for key, x in found.items() if key not in of_config}
    assert {n: x.reason for n, x in by_event.items()} == ways
    assert set(ways.values()) == {*BREAKS, *OF_BULK}
    assert {x.reason for x in of_config.values()} == {"type_mismatch"}
    assert len(of_config) == 13
    assert all(x.original.decode() == lines[n] for n, x in by_event.items() if x.change is None)
    counted = Counter(dict.fromkeys(ways.values(), 0))
    for line in lake.lines:
        counted.update({line["reason"]: line["dlq_total"]} if "dlq_total" in line else {})
    assert counted["bad_position"] == sum(way == "bad_position" for way in ways.values())

    # The configuration is fixed: what it was to blame for comes back, the rest says why not.
    lake.config = published_configs.publish(lake.store, RIGHT)
    first_time = replayed(lake)
    cured = len(of_config) + sum(way == "ambiguous_table" for way in ways.values())
    again = {"bad_position", "no_key"}  # these are found at the commit: they go, and die again
    assert sum(one.letters for one in first_time) == cured + sum(way in again for way in ways.values())
    assert lake.commit(lake.seal()) == 0, lake.lines
    assert sum(one.letters for one in replayed(lake, choice=Choice(reason="ambiguous_table"))) == 0

    # The others are corrected by hand. Letters that died again tell by their origin which event they are.
    corrected: dict[tuple[str, int], bytes] = {}
    for key, letter in letters(lake).items():
        origin = letter.change.origin if letter.change and letter.change.origin else f"{letter.batch}:{letter.index}"
        batch, _, index = origin.rpartition(":")
        corrected[key] = ndjson([events[number[batch, int(index)]]])
    second_time = replayed(lake, corrected=corrected)
    assert sum(one.letters for one in second_time) == len(ways) - sum(w == "ambiguous_table" for w in ways.values())
    assert [dict(one.still) for one in second_time if one.still] == []
    assert lake.commit(lake.seal()) == 0, lake.lines
    assert sum(one.letters for one in replayed(lake, corrected=corrected)) == 0

    got, expected = tables(lake), tables(whole)
    assert got.keys() == expected.keys()
    assert [(name, set(got[name]) ^ set(expected[name])) for name in got if got[name] != expected[name]] == []
