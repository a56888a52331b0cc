"""Random histories of a table through what each emitter writes of them, and back: the table is the source's, in any
order, doubled and split anyhow where the emitter tells an order; as it came where it tells none."""

import copy
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.pure_mirror import Table, stream, table_of
from tests.soak import seeds, times

Row = dict[str, Any]
LARGE = "x" * 40
LARGE_COLUMNS = ("big", "wide")


@dataclass(frozen=True)
class Step:
    """One change of a source: `number` rises; `old` and `new` are the row before and after (a truncate has neither).
    `later`: the row of that key after some further steps, None if it is gone by then."""

    number: int
    op: str
    old: Row | None
    new: Row | None
    later: Row | None = None


def history(dice: random.Random, *, moves: bool, truncates: bool, nested: bool) -> tuple[list[Step], dict[int, Row]]:
    """Steps, and the rows that are left."""
    rows: dict[int, Row] = {}
    states, steps = [], []
    for number in range(1, dice.randint(2, 24)):
        key = dice.randint(1, 4)
        old = rows.get(key)
        drawn = dice.random()
        if truncates and drawn < 0.06:
            rows, step = {}, Step(number, "t", None, None)
        elif old is None:
            new = {"id": key} | _values(dice, nested)
            step, rows = Step(number, "c", None, new), rows | {key: new}
        elif drawn < 0.25:
            rows = {k: row for k, row in rows.items() if k != key}
            step = Step(number, "d", old, None)
        else:
            new = _changed(dice, old, nested)
            free = [k for k in range(1, 9) if k not in rows]
            if moves and free and drawn < 0.4:
                new["id"] = dice.choice(free)
            rows = {k: row for k, row in rows.items() if k != key} | {new["id"]: new}
            step = Step(number, "u", old, new)
        steps.append(step)
        states.append(rows)
    found = []
    for place, step in enumerate(steps):
        later = None
        if step.new is not None:
            later = states[min(place + dice.choice((0, 0, 1, 3)), len(states) - 1)].get(step.new["id"])
        found.append(Step(step.number, step.op, step.old, step.new, later))
    return found, rows


def _values(dice: random.Random, nested: bool) -> Row:
    row: Row = {
        "n": dice.choice((None, dice.randint(-5, 5), 2**53 + dice.randint(0, 9))),
        "v": dice.choice((None, "", "a", "é\"'")),
        **{name: LARGE + str(dice.randint(0, 9)) for name in LARGE_COLUMNS},
    }
    if nested:
        row["addr"] = dice.choice((None, {"zip": str(dice.randint(0, 99)), "deep": {"a": 1}}))
        row["tags"] = [str(dice.randint(0, 9)) for _ in range(dice.randint(0, 4))]
    return row


def _changed(dice: random.Random, old: Row, nested: bool) -> Row:
    drawn = _values(dice, nested)
    names = dice.sample(sorted(drawn), dice.randint(1, len(drawn)))
    return old | {name: drawn[name] for name in names}


def requests_of(emitter: "Emitter", dice: random.Random) -> tuple[list[bytes], Table]:
    """The requests of a history, and what is left at the source."""
    steps, rows = history(dice, moves=emitter.moves, truncates=emitter.truncates, nested=emitter.nested)
    events = [event for step in steps for event in emitter.write(step, dice)]
    if emitter.ordered:
        events += dice.sample(events, dice.randint(0, len(events)))
        dice.shuffle(events)
    bodies = []
    while events:
        some = dice.randint(1, len(events))
        bodies.append(json.dumps(events[:some] if some > 1 or dice.random() < 0.5 else events[0]).encode())
        events = events[some:]
    key = emitter.key_value
    return bodies, {(key(k),): row | {emitter.key: key(k)} for k, row in rows.items()}


def replayed(emitter: "Emitter", dice: random.Random) -> tuple[Table, Table]:
    """What is left at the source, and what a table holds."""
    bodies, source = requests_of(emitter, dice)
    found = table_of(bodies, stream(dice.choice((emitter.envelope, "auto"))), [emitter.key])
    return shown(source, emitter), shown(found, emitter)


def shown(table: Table, emitter: "Emitter") -> Table:
    """Without nulls and what an emitter adds; documents as documents."""
    found = {}
    for key, row in table.items():
        told = {name: one for name, one in row.items() if one is not None and name in emitter.columns}
        found[key] = {name: json.loads(one) if _is_json(one) else one for name, one in told.items()}
    return found


def _is_json(value: object) -> bool:
    return isinstance(value, str) and value[:1] in ("{", "[")


Write = Callable[[Step, random.Random], list[Any]]


@dataclass(frozen=True)
class Emitter:
    """How one writes the steps of a history, and what it can tell."""

    envelope: str
    write: Write
    ordered: bool = True
    moves: bool = True
    truncates: bool = False
    nested: bool = False
    key: str = "id"
    key_value: Callable[[int], Any] = int

    @property
    def columns(self) -> frozenset[str]:
        return frozenset({self.key, "n", "v", *LARGE_COLUMNS, "addr", "tags"})


def at(number: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=number)


# --- webhooks and Firn's own plain form


def seed(step: Step, dice: random.Random) -> list[Any]:
    word = {"c": "INSERT", "u": "update", "d": "Delete", "t": "TRUNCATE"}[step.op]
    return [{"operation": word, "table": "t", "oldRow": step.old, "newRow": step.new, "sequence": step.number}]


def seed_by_lsn(step: Step, dice: random.Random) -> list[Any]:
    (event,) = seed(step, dice)
    del event["sequence"]
    if step.op == "c" and dice.random() < 0.5:
        return [{"createEntry": {"table": "t", "newRow": step.new, "lsn": f"0/{step.number:X}"}}]
    return [event | {"lsn": dice.choice((step.number, str(step.number), f"0/{step.number:X}"))}]


def seed_by_arrival(step: Step, dice: random.Random) -> list[Any]:
    (event,) = seed(step, dice)
    del event["sequence"]
    return [event]


def supabase(step: Step, _: random.Random) -> list[Any]:
    word = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}[step.op]
    return [{"type": word, "table": "t", "schema": "public", "record": step.new, "old_record": step.old}]


def hasura(step: Step, dice: random.Random) -> list[Any]:
    word = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}[step.op]
    event = {
        "created_at": at(step.number).isoformat().replace("+00:00", dice.choice(("", "Z"))),
        "delivery_info": {"current_retry": 0, "max_retries": 0},
        "event": {"op": word, "data": {"old": step.old, "new": step.new}, "session_variables": None},
        "id": f"85558393-{step.number}", "table": {"name": "t", "schema": "public"}, "trigger": {"name": "all"},
    }  # fmt: skip
    again = copy.deepcopy(event)
    again["event"]["op"] = "MANUAL"
    return [event, again] if dice.random() < 0.1 else [event]


def sequin(step: Step, dice: random.Random) -> list[Any]:
    record = dict(step.new or step.old or {})
    changes = None
    if step.op == "u" and step.old and step.new:
        changes = {name: step.old[name] for name in step.new if step.old[name] != step.new[name]}
        record |= dict.fromkeys(set(LARGE_COLUMNS) - changes.keys(), "unchanged_toast")
    message = {
        "record": record, "changes": changes,
        "action": {"c": "insert", "u": "update", "d": "delete"}[step.op],
        "metadata": {
            "table_schema": "public", "table_name": "t", "idempotency_key": str(step.number), "commit_timestamp":
            at(step.number).isoformat(), "commit_lsn": 10**9 + step.number // 3, "commit_idx": step.number % 3,
        },
    }  # fmt: skip
    return [{"data": [message]} if dice.random() < 0.4 else message]


def airbyte(step: Step, _: random.Random) -> list[Any]:
    """A changed key is a delete of the old one and a record of the new one: from Debezium inside."""

    def record(row: Row, place: int, deleted: str | None) -> Any:
        told = {"_ab_cdc_lsn": place, "_ab_cdc_updated_at": at(place).isoformat(), "_ab_cdc_deleted_at": deleted}
        data = {"id": row["id"]} | told if deleted else row | told
        return {"type": "RECORD", "record": {"namespace": "public", "stream": "t", "data": data, "emitted_at": 1}}

    found: list[Any] = [{"type": "STATE", "state": {"type": "STREAM"}}]
    if step.old and (step.op == "d" or (step.new and step.old["id"] != step.new["id"])):
        found.append(record(step.old, 2 * step.number, "2026-01-01T00:00:00Z"))
    if step.new:
        found.append(record(step.new, 2 * step.number + 1, None))
    return found


# --- MongoDB


def oid(key: int) -> str:
    return f"64b0{key:020x}"


def document(row: Row | None) -> Any:
    """As drivers print it: what is null is a field that is not there, or null."""
    if row is None:
        return None
    told = {name: one for name, one in row.items() if name != "id" and one is not None}
    if isinstance(told.get("n"), int) and told["n"] % 2:
        told["n"] = {"$numberLong": str(told["n"])}
    return {"_id": {"$oid": oid(row["id"])}} | told


def described(old: Row, new: Row, *, whole: bool) -> Any:
    """The update from one to the other. `whole`: of whole fields, else as far inside as may be."""
    updated: Row = {}
    removed: list[str] = []
    cut: list[Any] = []
    for name in sorted(new.keys() - {"id"}):
        was, now = old.get(name), new[name]
        if was == now:
            continue
        if now is None:
            removed.append(name)
        elif not whole and isinstance(was, dict) and isinstance(now, dict):
            updated |= {f"{name}.{part}": now[part] for part in now if was.get(part) != now[part]}
        elif not whole and isinstance(was, list) and isinstance(now, list) and was and now:
            if len(now) < len(was):
                cut.append({"field": name, "newSize": len(now)})
            updated |= {f"{name}.{i}": one for i, one in enumerate(now) if i >= len(was) or was[i] != one}
        else:
            updated[name] = now
    return {"updatedFields": updated, "removedFields": removed, "truncatedArrays": cut}


def change_stream(step: Step, kind: str) -> Any:
    row = step.new or step.old or {}
    seconds, place = 1_795_377_480 + step.number // 4, step.number % 4 + 1
    token = f"82{seconds:08X}{place:08X}2B042C0100296E5A1004{'ab' * 16}46645F696400{oid(row.get('id', 0))}0004"
    event = {
        "_id": {"_data": token}, "operationType": kind,
        "clusterTime": {"$timestamp": {"t": seconds, "i": place}}, "ns": {"db": "shop", "coll": "t"},
    }  # fmt: skip
    return event if kind == "drop" else event | {"documentKey": {"_id": {"$oid": oid(row["id"])}}}


def mongodb(step: Step, dice: random.Random) -> list[Any]:
    """Without the document: what updates change, of whole fields and within them; and replacements."""
    kind = {"c": "insert", "u": dice.choice(("update", "update", "replace")), "d": "delete", "t": "drop"}[step.op]
    event = change_stream(step, kind)
    if kind in ("insert", "replace"):
        event["fullDocument"] = document(step.new)
    elif kind == "update" and step.old and step.new:
        event["updateDescription"] = described(step.old, step.new, whole=dice.random() < 0.3)
    return [event, {"operationType": "invalidate"}] if kind == "drop" else [event]


def mongodb_looked_up(step: Step, dice: random.Random) -> list[Any]:
    (event, *more) = mongodb(step, dice)
    if event["operationType"] == "update" and step.old and step.new:
        event["updateDescription"] = described(step.old, step.new, whole=False)
        event["fullDocument"] = document(step.later)
    return [event, *more]


def mongodb_pre_images(step: Step, dice: random.Random) -> list[Any]:
    (event, *more) = mongodb(step, dice)
    if event["operationType"] == "update" and step.old and step.new:
        event["updateDescription"] = described(step.old, step.new, whole=False)
    if step.op in "ud":
        event["fullDocumentBeforeChange"] = document(step.old)
    return [event, *more]


def debezium_mongodb(step: Step, op: str, mode: str) -> list[Any]:
    row = step.new or step.old or {}
    second = 1_795_377_480 + step.number // 4
    source = {
        "version": "3.3.0.Final", "connector": "mongodb", "name": "m", "ts_ms": 1000 * second,
        "snapshot": "false", "db": "shop", "rs": "rs0", "collection": "t", "ord": step.number % 4 + 1, "lsid": None,
        "txnNumber": None, "wallTime": None,
    }  # fmt: skip
    value: dict[str, Any] = {
        "before": None, "after": None, "updateDescription": None, "source": source, "op": op, "ts_ms": 1, "transaction":
        None,
    }  # fmt: skip
    if op == "c":
        value["after"] = json.dumps(document(step.new))
    if op == "u" and step.old and step.new:
        told = described(step.old, step.new, whole=False)
        cut = [{"field": one["field"], "size": one["newSize"]} for one in told["truncatedArrays"]]
        value["updateDescription"] = {
            "updatedFields": json.dumps(told["updatedFields"]), "removedFields": told["removedFields"] or None,
            "truncatedArrays": cut or None,
        }  # fmt: skip
        if mode == "full":
            value["after"] = json.dumps(document(step.later or step.new))
        if mode == "before":
            value["before"] = json.dumps(document(step.old))
    key = {"id": json.dumps({"$oid": oid(row["id"])})}
    return [{"destination": "m.shop.t", "key": key, "value": value, "headers": []}]


def in_mode(mode: str) -> Write:
    return lambda step, _: debezium_mongodb(step, step.op, mode)


# --- Debezium's connectors whose rows or orders are their own


def debezium(step: Step, source: Row, **more: Any) -> list[Any]:
    """A changed key is a delete and a create at one position, or one update with both images."""
    source = {"name": "s", "ts_ms": 1, "table": "t"} | source
    return [{"before": step.old, "after": step.new, "op": step.op, "source": source} | more]


def vitess(step: Step, dice: random.Random) -> list[Any]:
    rank = step.number // 3
    transaction = {
        "id": "x", "total_order": step.number % 3 + 1, "data_collection_order": 1, "transaction_epoch": rank // 4,
        "transaction_rank": rank % 4 + 60,
    }  # fmt: skip
    return debezium(step, {"connector": "vitess", "keyspace": "k", "shard": "-80"}, transaction=transaction)


def spanner(step: Step, _: random.Random) -> list[Any]:
    """Of an update the columns that did not change are null, before and after."""
    before, after = step.old, step.new
    if step.op == "u" and step.old and step.new:
        changed = {"id", *(name for name in step.new if step.old[name] != step.new[name])}
        before, after = ({name: row[name] if name in changed else None for name in row} for row in (step.old, step.new))
    told = {
        "connector": "spanner", "ts_ns": 1_670_955_531_785_000_000 + step.number // 3, "mod_number": 0,
        "sequence": f"{step.number % 3:08d}", "value_capture_type": "OLD_AND_NEW_VALUES",
    }  # fmt: skip
    return debezium(Step(step.number, step.op, before, after), told)


def sqlserver(step: Step, _: random.Random) -> list[Any]:
    commit, change = step.number // 3 + 1, step.number % 3 + 1
    told = {
        "connector": "sqlserver", "schema": "dbo", "db": "testDB", "snapshot": False, "event_serial_no": "1",
        "commit_lsn": f"00000027:{commit:08x}:0005", "change_lsn": f"00000027:{commit:08x}:{change:04x}",
    }  # fmt: skip
    return debezium(step, told)


EMITTERS = {
    "seed": Emitter("seed", seed, truncates=True),
    "seed by lsn": Emitter("seed", seed_by_lsn, truncates=True),
    "seed by arrival": Emitter("seed", seed_by_arrival, ordered=False, truncates=True),
    "supabase": Emitter("supabase", supabase, ordered=False),
    "hasura": Emitter("hasura", hasura),
    "sequin": Emitter("sequin", sequin),
    "airbyte": Emitter("airbyte", airbyte),
    "mongodb": Emitter("mongodb", mongodb, moves=False, truncates=True, nested=True, key="_id", key_value=oid),
    "mongodb, looked up": Emitter("mongodb", mongodb_looked_up, moves=False, nested=True, key="_id", key_value=oid),
    "mongodb, pre-images": Emitter("mongodb", mongodb_pre_images, moves=False, nested=True, key="_id", key_value=oid),
    "debezium mongodb": Emitter("debezium", in_mode("patch"), moves=False, nested=True, key="_id", key_value=oid),
    "debezium mongodb, looked up": Emitter(
        "debezium", in_mode("full"), moves=False, nested=True, key="_id", key_value=oid
    ),
    "debezium mongodb, pre-images": Emitter(
        "debezium", in_mode("before"), moves=False, nested=True, key="_id", key_value=oid
    ),
    "vitess": Emitter("debezium", vitess, truncates=True),
    "spanner": Emitter("debezium", spanner, moves=False),
    "sqlserver": Emitter("debezium", sqlserver),
}  # fmt: skip


@pytest.mark.parametrize("name", EMITTERS)
def test_a_history_through_an_emitter_is_the_sources_table(name: str) -> None:
    for number in seeds(times(16, 2_000), 2_000):
        source, found = replayed(EMITTERS[name], random.Random(number))
        assert found == source, f"FIRN_SEED={number}"
