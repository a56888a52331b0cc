"""Large values that an update left unchanged and out of line (TOAST), and keys that change, through every emitter that
may leave one out: the table is the source's, in any order, doubled and split anyhow."""

import json
import random
from typing import Any

import pytest

from tests import emitter_events
from tests.property.test_event_histories import LARGE_COLUMNS, Emitter, Row, Step, Write, replayed
from tests.soak import seeds, times

PLACEHOLDER = "__debezium_unavailable_value"


def kept(step: Step) -> list[str]:
    """The large columns that an update does not change."""
    old, new = step.old, step.new
    return [] if old is None or new is None else [name for name in LARGE_COLUMNS if old[name] == new[name]]


def parted(step: Step) -> list[Step]:
    """The step as Debezium tells it: a changed key is a delete and a create at one position."""
    if step.old is None or step.new is None or step.old["id"] == step.new["id"]:
        return [step]
    return [Step(step.number, "d", step.old, None), Step(step.number, "c", step.old, step.new)]


def told(step: Step, *, full: bool) -> tuple[Row | None, Row | None]:
    """The row before and after as PostgreSQL's log has them. `full`: under REPLICA IDENTITY FULL."""
    unchanged = [] if full else kept(step)
    after = None if step.new is None else step.new | dict.fromkeys(unchanged, PLACEHOLDER)
    if step.op == "t" or step.old is None or step.op == "c":
        return None, after
    if full:
        return step.old, after
    return (dict.fromkeys(step.old) | {"id": step.old["id"]} if step.op == "d" else None), after


def source_of(step: Step) -> Row:
    commit = 1_000 * (step.number // 3)
    lsn = commit + step.number % 3 + 1
    place = {"sequence": f'["{commit}","{lsn}"]', "lsn": lsn}
    return {"connector": "postgresql", "schema": "public", "table": "t"} | place


def debezium(*, full: bool) -> Write:
    def write(step: Step, dice: random.Random) -> list[Any]:
        found: list[Any] = []
        for part in parted(step):
            before, after = told(part, full=full)
            found.append({"before": before, "after": after, "source": source_of(part) | {"ts_ms": 1}, "op": part.op})
            if part.op == "d" and dice.random() < 0.3:
                found.append(None)  # its tombstone
        return found

    return write


def flat(step: Step, _: random.Random) -> list[Any]:
    found = []
    for part in parted(step):
        before, after = told(part, full=False)
        deleted = "true" if part.op == "d" else "false"
        marks = {"__op": part.op, "__deleted": deleted, "__ts_ms": 1}
        marks |= {f"__{name}": one for name, one in source_of(part).items()}
        found.append({**(after or before or {}), **marks})
    return found


def cloudevent(step: Step, _: random.Random) -> list[Any]:
    found = []
    for part in parted(step):
        before, after = told(part, full=False)
        attributes = {f"iodebezium{name}": str(one) for name, one in source_of(part).items()}
        event = {"specversion": "1.0", "id": str(part.number), "source": "/debezium", "type": "x"}
        found.append(event | attributes | {"iodebeziumop": part.op, "data": {"before": before, "after": after}})
    return found


def wal2json(version: int, *, full: bool = False) -> Write:
    """What did not change is left out of the columns, but for a row before that holds it."""
    emitted = (emitter_events.wal2json_1, emitter_events.wal2json_2)[version - 1]

    def write(step: Step, _: random.Random) -> list[Any]:
        new = step.new and {name: one for name, one in step.new.items() if name not in kept(step)}
        event = emitted(step.number, step.op, "t", step.old, new)
        if event is None or not full or step.old is None:
            return [] if event is None else [event]
        if version == 2:
            return [event | {"identity": emitter_events._columns(step.old)}]
        columns = emitter_events._columns(step.old)
        (change,) = event["change"]
        old = {f"key{name}s": [one[name] for one in columns] for name in ("name", "type", "value")}
        # Under FULL format 1 tells no key: the table has one of its own.
        change = {name: one for name, one in change.items() if name != "pk"} | {"oldkeys": old}
        return [event | {"change": [change]}]

    return write


def airbyte(step: Step, _: random.Random) -> list[Any]:
    """Debezium's placeholder passes through. A changed key is a delete and a record, and nothing says that they belong
    together: what the record leaves out is lost there (docs/sources/webhooks.md)."""
    row = step.new if step.new is not None else {"id": (step.old or {})["id"]}
    deleted = None if step.new is not None else "2026-01-01T00:00:00Z"
    data = row | dict.fromkeys(kept(step), PLACEHOLDER) | {"_ab_cdc_lsn": step.number, "_ab_cdc_deleted_at": deleted}
    record = {"namespace": "public", "stream": "t", "data": data, "emitted_at": 1}
    return [{"type": "RECORD", "record": record}]


def whole(name: str) -> Write:
    """An emitter that has no words for what did not change: it sends all of it."""
    (emitted,) = emitter_events.WRITERS[name]

    def write(step: Step, _: random.Random) -> list[Any]:
        event = emitted(step.number, step.op, "t", step.old, step.new)
        return [] if event is None else [json.loads(json.dumps(event))]

    return write


EMITTERS = {
    "debezium": Emitter("debezium", debezium(full=False), truncates=True),
    "debezium, full": Emitter("debezium", debezium(full=True), truncates=True),
    "flat": Emitter("flat", flat),
    "cloudevents": Emitter("cloudevents", cloudevent, truncates=True),
    "wal2json 1": Emitter("wal2json", wal2json(1)),
    "wal2json 1, full": Emitter("wal2json", wal2json(1, full=True)),
    "wal2json 2": Emitter("wal2json", wal2json(2), truncates=True),
    "wal2json 2, full": Emitter("wal2json", wal2json(2, full=True), truncates=True),
    "airbyte": Emitter("airbyte", airbyte, moves=False),
    "maxwell": Emitter("maxwell", whole("maxwell")),
    "dms": Emitter("dms", whole("dms"), truncates=True),
}  # fmt: skip


@pytest.mark.parametrize("name", EMITTERS)
def test_what_an_update_left_out_is_kept_through_every_change_of_its_key(name: str) -> None:
    for number in seeds(times(16, 3_000), 3_000):
        source, found = replayed(EMITTERS[name], random.Random(number))
        assert found == source, f"FIRN_SEED={number}"
