"""`auto` tells each envelope without a guess: of an event no two say that it is theirs."""

import json
import random
from typing import Any

import pytest

from firn.changes.envelopes.event_reader import Value, unwrap
from firn.changes.envelopes.registry import KNOWN
from tests.attacks.grammar import Grammar
from tests.emitter_events import WRITERS
from tests.emitters import lines

RECORDED = {
    "maxwell": ("maxwell/maxwell.ndjson.gz",), "canal": ("canal/flat.ndjson.gz",),
    "wal2json": ("wal2json/v1.ndjson.gz", "wal2json/v2.ndjson.gz"),
    "dynamodb": ("dynamodb/orders_new_image.ndjson", "dynamodb/orders_keys_only.ndjson"),
}  # fmt: skip
OTHERS = [name for name in KNOWN.envelopes if name not in WRITERS and not KNOWN.bare(name)]


def claimed(event: bytes) -> list[str]:
    """The envelopes that an event is one of, by `auto`."""
    value = unwrap(event)
    if not isinstance(value, Value):
        return []
    marked = [name for name, one in KNOWN.envelopes.items() if not one.marks.isdisjoint(value.fields)]
    if marked or "op" in value.fields:
        return marked or ["debezium"]
    return [name for name, one in KNOWN.envelopes.items() if one.recognises and one.recognises(value.fields)]


@pytest.mark.parametrize("envelope", RECORDED)
def test_what_was_recorded_is_its_emitters_and_no_others(envelope: str) -> None:
    for file in RECORDED[envelope]:
        assert {tuple(claimed(line)) for line in lines(file)} == {(envelope,)}


@pytest.mark.parametrize("envelope", [*WRITERS, *OTHERS])
def test_what_each_writes_is_its_own_alone(envelope: str) -> None:
    grammar = Grammar(random.Random(1), envelope, ("one", "two"), wrong=0)
    for _ in range(200):
        event: Any = json.loads(grammar.event())
        inside = event["Records"] if isinstance(event, dict) and set(event) == {"Records"} else [event]
        for one in inside:
            assert set(claimed(json.dumps(one).encode())) <= {envelope}


@pytest.mark.parametrize(
    "columns",
    [
        {"database": "shop", "type": "insert"},
        {"database": "shop", "table": "t", "type": "insert", "data": {"id": 7}, "ts": 1},
        {"database": "shop", "table": "t", "type": "INSERT", "es": 1, "isDdl": False, "data": [{"id": 7}]},
        {"type": "INSERT", "schema": "s", "table": "t", "record": {"id": 7}, "old_record": None},
        {"operation": "insert", "table": "t", "newRow": {"id": 7}},
    ],
)
def test_a_row_of_dms_is_one_whatever_its_columns_are_called(columns: dict[str, Any]) -> None:
    value = unwrap(json.dumps({"Op": "I", "id": 1, **columns}).encode())
    assert isinstance(value, Value)
    assert KNOWN.envelope_of(value, "auto") == "dms"
