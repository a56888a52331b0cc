"""A null is a value that a key may have. As the first and only value of a key that nobody declared it shows no type, so
no table can be made of it: the change is a dead letter that says so, and comes in by its replay once there is one."""

import json
from typing import Any

import pytest

from firn.ingest.replay import Choice, replay
from firn.log.dead_letters.letters import DeadLetter, read_dead
from firn.log.store import paths
from tests.emitters import STREAM, Emitted

RULE = {"app.t": "{to: lake.t, key: [id]}"}
DECLARED = {"app.t": "{to: lake.t, key: [id], columns: {id: long}}"}


def debezium(op: str, image: dict[str, Any] | None, lsn: int = 5, key: dict[str, Any] | None = None) -> bytes:
    source = {"connector": "postgresql", "schema": "app", "table": "t", "sequence": f'["{lsn}","{lsn}"]'}
    images = {"before": image, "after": None} if op == "d" else {"before": None, "after": image}
    event = {"op": op, "source": source, **images}
    return json.dumps(event if key is None else {"destination": "p.app.t", "key": key, "value": event}).encode()


def seed(op: str, image: dict[str, Any]) -> bytes:
    word, side = {"u": ("UPDATE", "newRow"), "d": ("DELETE", "oldRow")}[op]
    return json.dumps({"operation": word, "table": "app.t", side: image, "sequence": 5}).encode()


def letters(lake: Emitted) -> list[DeadLetter]:
    return [one for path in paths(lake.ground.store, "dead/") for one in read_dead(lake.ground.store, path)]


@pytest.mark.parametrize(
    "event",
    [
        debezium("u", {"id": None, "v": 1}), debezium("c", {"id": None, "v": None}), debezium("u", {"v": 1}),
        debezium("d", {"id": None, "v": 1}), debezium("d", {"id": None}), debezium("d", None, key={"id": None}),
        debezium("d", None, key={"x": 1}), seed("u", {"id": None, "v": 1}), seed("d", {"id": None, "v": 1}),
    ],
)  # fmt: skip
def test_the_first_change_with_a_null_key_is_a_dead_letter_that_says_so(event: bytes) -> None:
    lake = Emitted("auto", RULE)
    assert lake.post([event]).rejected == 0
    lake.commit()
    (letter,) = letters(lake)
    assert letter.reason == "no_key"
    assert "names id of its key" in letter.message
    assert lake.rows("t") == []


def test_once_there_is_a_table_its_replay_brings_the_row() -> None:
    lake = Emitted("auto", RULE)
    lake.take([debezium("c", {"id": None, "v": 1})], [debezium("c", {"id": 7, "v": 2}, 6)], each=1)
    assert lake.rows("t") == [{"id": 7, "v": 2}]
    list(replay(lake.ground.store, lake.config, STREAM, Choice(), clock=lake.tick))
    lake.commit()
    together = Emitted("auto", RULE)
    together.take([debezium("c", {"id": None, "v": 1}), debezium("c", {"id": 7, "v": 2}, 6)])
    assert [(row["id"], row["v"]) for row in lake.rows("t")] == [(7, 2), (None, 1)]
    assert [(row["id"], row["v"]) for row in together.rows("t")] == [(None, 1), (7, 2)]


def test_where_the_key_is_declared_a_null_is_a_row_of_its_own_from_the_first() -> None:
    lake = Emitted("auto", DECLARED)
    lake.take([debezium("u", {"id": None, "v": 1})], each=1)
    assert [row["v"] for row in lake.rows("t")] == [1]
    lake.take([debezium("d", {"id": None}, 6)])
    assert (lake.rows("t"), letters(lake)) == ([], [])
