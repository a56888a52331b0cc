"""Events of emitters other than Debezium, as their documents show them: a function for each envelope of grammar.py.

What is wrong with some of them `Grammar.event` does. Documents: firn/changes/envelopes names each one's.
"""

import base64
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tests.attacks.grammar import Grammar

Tree = Any


def _time(n: int) -> str:
    return (datetime(2026, 11, 20, 23, 10, 34, tzinfo=UTC) + timedelta(microseconds=n)).isoformat()


def seed(of: "Grammar") -> Tree:
    dice = of.dice
    op = dice.choices("cudrt", (40, 40, 20, 8, 0.3))[0]
    before, after, _ = of.images(op)
    word = {"c": "INSERT", "u": "Update", "d": "delete", "r": "READ", "t": "TRUNCATE"}[op]
    event = {"operation": word, "table": f"app.{dice.choice(of.tables)}", "oldRow": before, "newRow": after}
    place = dice.choice(
        (
            {},
            {"sequence": of.n},
            {"lsn": f"0/{of.n:X}"},
            {"timestamp": _time(of.n)},
            {"timestamp": 1_795_216_234 + of.n},
        )
    )
    if op == "c" and dice.random() < 0.2:
        return {"createEntry": {"table": event["table"], "newRow": after} | place}
    return event | place


def supabase(of: "Grammar") -> Tree:
    op = of.dice.choices("cud", (40, 40, 20))[0]
    before, after, _ = of.images(op)
    word = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}[op]
    table = of.dice.choice(of.tables)
    return {"type": word, "table": table, "schema": "app", "record": after, "old_record": before}


def hasura(of: "Grammar") -> Tree:
    op = of.dice.choices("cudm", (40, 40, 20, 5))[0]
    before, after, _ = of.images("c" if op == "m" else op)
    word = {"c": "INSERT", "u": "UPDATE", "d": "DELETE", "m": "MANUAL"}[op]
    return {
        "created_at": _time(of.n), "delivery_info": {"current_retry": 0, "max_retries": 3}, "id": f"85558393-{of.n}",
        "event": {"op": word, "data": {"old": before, "new": after}, "session_variables": {"x-hasura-role": "admin"}},
        "table": {"name": of.dice.choice(of.tables), "schema": "app"}, "trigger": {"name": "t"},
    }  # fmt: skip


def sequin(of: "Grammar") -> Tree:
    dice = of.dice
    op = dice.choices("cudr", (40, 40, 20, 8))[0]
    before, after, names = of.images(op)
    changes = None
    if op == "u" and after:
        changes = {name: of.row(1, [name])[name] for name in names[:1]}
        after[names[-1]] = "unchanged_toast" if dice.random() < 0.2 else after[names[-1]]
    place: Tree = {"commit_lsn": of.n, "commit_idx": of.n % 5}
    message = {
        "record": before if op == "d" else after, "changes": changes,
        "action": {"c": "insert", "u": "update", "d": "delete", "r": "read"}[op],
        "metadata": {
            "table_schema": "app", "table_name": dice.choice(of.tables), "idempotency_key": str(of.n),
            "commit_timestamp": _time(of.n), "database_name": "shop", "consumer": {"id": "f47a", "name": "orders"},
            **({} if op == "r" and dice.random() < 0.5 else place),
        },
    }  # fmt: skip
    return {"data": [message] * dice.randrange(3)} if of.parts and dice.random() < 0.2 else message


def airbyte(of: "Grammar") -> Tree:
    dice = of.dice
    if dice.random() < 0.05:
        kind = dice.choice(("STATE", "LOG", "TRACE"))
        return {"type": kind, kind.lower(): {"message": "x"}}
    op = dice.choice("ccud")
    before, after, _ = of.images(op)
    row: Tree = before if op == "d" else after or {}
    deleted = _time(of.n) if op == "d" else None
    row |= dice.choice((
        {"_ab_cdc_lsn": of.n, "_ab_cdc_updated_at": _time(of.n), "_ab_cdc_deleted_at": deleted},
        {"_ab_cdc_log_file": f"bin.{of.n >> 12:06d}", "_ab_cdc_log_pos": of.n, "_ab_cdc_deleted_at": deleted},
        {},
    ))  # fmt: skip
    record = {"namespace": "app", "stream": dice.choice(of.tables), "data": row, "emitted_at": 1_795_216_234_000 + of.n}
    return {"type": "RECORD", "record": record}


def _extended(dice: random.Random) -> Tree:
    """A BSON value."""
    number = dice.getrandbits(60)
    return dice.choice((
        {"$oid": f"{number:024x}"}, {"$numberLong": str(number)}, {"$numberInt": "7"}, {"$numberDouble": "1.5"},
        {"$numberDouble": "NaN"}, {"$numberDecimal": "12.30"}, {"$date": _time(number % 10**9)},
        {"$date": {"$numberLong": str(number % 10**13)}}, {"$uuid": "123e4567-e89b-12d3-a456-426655440000"},
        {"$binary": {"base64": base64.b64encode(dice.randbytes(3)).decode(), "subType": "00"}}, {"$minKey": 1},
        {"$timestamp": {"t": 1, "i": 1}}, {"$regularExpression": {"pattern": "a", "options": ""}}, {"$undefined": True},
        {"a": [1, {"b": {"$numberInt": "1"}}]}, ["a", {"$oid": "6a"}], [], {}, "text", number, 1.5, None, True,
    ))  # fmt: skip


def mongodb(of: "Grammar") -> Tree:
    """Its collections have the key `id` too, which the tables of the attacks are declared with."""
    dice = of.dice
    kinds = ("insert", "update", "replace", "delete", "drop", "invalidate", "createIndexes")
    kind = dice.choices(kinds, (40, 40, 10, 20, 0.3, 1, 1))[0]
    key = dice.choice((dice.randrange(60), {"$oid": f"{dice.randrange(60):024x}"}, {"$numberLong": "7"}))
    fields = {dice.choice(("v", "n", "price", "us", "tags", "doc")): _extended(dice) for _ in range(3)}
    event: Tree = {
        "_id": {"_data": f"82{1_795_377_480 + of.n:08X}{1:08X}2B042C0100296E5A1004{of.n:032x}"}, "operationType": kind,
        "clusterTime": {"$timestamp": {"t": 1_795_377_480 + of.n, "i": 1}}, "wallTime": {"$date": _time(of.n)},
        "ns": {"db": "app", "coll": dice.choice(of.tables)},
    }  # fmt: skip
    if kind in ("invalidate", "createIndexes", "drop"):
        return event
    event["documentKey"] = {"_id": key}
    whole = {"_id": key, "id": dice.randrange(60)} | fields
    if kind in ("insert", "replace"):
        event["fullDocument"] = whole
    if kind == "delete" and dice.random() < 0.7:
        event["fullDocumentBeforeChange"] = whole
    if kind == "update":
        paths = {dice.choice(("v", "n", "doc.a", "tags.0", "doc.a.1.b")): _extended(dice) for _ in range(2)}
        cut = [{"field": "tags", "newSize": dice.randrange(3)}] if dice.random() < 0.2 else []
        removed = dice.sample(("v", "n", "doc.b", "tags.1"), dice.randrange(3))
        event["updateDescription"] = {"updatedFields": paths, "removedFields": removed, "truncatedArrays": cut}
        event |= dice.choice(({}, {"fullDocument": whole}, {"fullDocument": None}, {"fullDocumentBeforeChange": whole}))
    return event


EMITTERS: Final[Mapping[str, Callable[["Grammar"], Tree]]] = {
    "mongodb": mongodb, "sequin": sequin, "supabase": supabase, "hasura": hasura, "airbyte": airbyte, "seed": seed,
}  # fmt: skip
