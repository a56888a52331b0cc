"""Writers of the emitters' envelopes: one change of one row, or of one table, as each of them would send it.

`WRITERS[envelope]`: the number of the change, its op (c, u, d, r, t), its table, the row before and the row after ->
the event, as Python holds JSON; None for what the emitter does not send. A row's column `id` is its key. Shapes from
the emitters' documentation and recordings (tests/data/emitters).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

Row = Mapping[str, Any]
Event = dict[str, Any]
Write = Callable[[int, str, str, Row | None, Row | None], Event | None]

_TS: Final = 1795216234


def maxwell(n: int, op: str, table: str, before: Row | None, after: Row | None) -> Event | None:
    kind = {"c": "insert", "u": "update", "d": "delete", "r": "bootstrap-insert"}.get(op)
    if kind is None:  # a truncate makes nothing
        return None
    row = dict((before if op == "d" else after) or {})
    event: Event = {"database": "app", "table": table, "type": kind, "ts": _TS + n // 10}
    if op != "r":
        event |= {"xid": n // 3, **({"commit": True} if n % 3 == 2 else {"xoffset": n % 3})}
        event |= {"position": f"bin.{1 + n // 5_000:06d}:{n}", "server_id": 7}
    event |= {"primary_key": [row.get("id")], "primary_key_columns": ["id"], "data": row}
    if op == "u":
        old = {name: value for name, value in (before or {}).items() if row.get(name) != value}
        event["old"] = old
    return event


def canal(n: int, op: str, table: str, before: Row | None, after: Row | None) -> Event | None:
    if op == "t":
        return {"data": None, "database": "app", "es": _TS * 1000 + n, "gtid": "", "id": n // 5, "isDdl": True,
                "mysqlType": None, "old": None, "pkNames": None, "sql": f"truncate {table}", "sqlType": None,
                "table": table, "ts": _TS * 1000 + n, "type": "TRUNCATE"}  # fmt: skip
    kind = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}.get(op)
    if kind is None:  # it takes no snapshot
        return None
    row = dict((before if op == "d" else after) or {})
    old = {name: _text(value) for name, value in (before or {}).items() if row.get(name) != value}
    types = {name: _MYSQL.get(_kind(name, value), "text") for name, value in row.items()}
    return {
        "data": [{name: _text(value) for name, value in row.items()}], "database": "app", "es": _TS * 1000 + n,
        "gtid": "", "id": n // 5, "isDdl": False, "mysqlType": types, "old": [old] if op == "u" else None,
        "pkNames": ["id"], "sql": "", "sqlType": dict.fromkeys(row, 12), "table": table, "ts": _TS * 1000 + n + 5,
        "type": kind,
    }  # fmt: skip


_KINDS: Final = {"id": int, "n": int, "f": float}  # of columns that may be null


def _kind(name: str, value: Any) -> type:
    return _KINDS.get(name, type(value))


_MYSQL: Final = {int: "bigint(20)", float: "double", bool: "tinyint(1)"}


def _text(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else str(int(value) if isinstance(value, bool) else value)


def wal2json_2(n: int, op: str, table: str, before: Row | None, after: Row | None) -> Event | None:
    action = {"c": "I", "u": "U", "d": "D", "t": "T"}.get(op)
    if action is None:
        return None
    event: Event = {"action": action, "xid": n // 3, "timestamp": "2026-11-22 19:44:13.754953+00",
                    "lsn": f"{n >> 32:X}/{n & 0xFFFFFFFF:X}", "schema": "app", "table": table}  # fmt: skip
    if op == "t":
        return event
    if after is not None and op != "d":
        event["columns"] = _columns(after)
    if op != "c":
        event["identity"] = _columns({"id": (before or after or {}).get("id")})
    return event | {"pk": [{"name": "id", "type": "bigint"}]}


def _columns(row: Row) -> list[Event]:
    return [
        {"name": name, "type": _POSTGRES.get(_kind(name, value), "text"), "value": value} for name, value in row.items()
    ]


_POSTGRES: Final = {int: "bigint", float: "double precision", bool: "boolean"}


def wal2json_1(n: int, op: str, table: str, before: Row | None, after: Row | None) -> Event | None:
    kind = {"c": "insert", "u": "update", "d": "delete"}.get(op)
    if kind is None:
        return None
    change: Event = {"kind": kind, "schema": "app", "table": table}
    if after is not None and op != "d":
        told = _columns(after)
        for name in ("name", "type", "value"):
            change[f"column{name}s"] = [one[name] for one in told]
    change["pk"] = {"pknames": ["id"], "pktypes": ["bigint"]}
    if op != "c":
        old = (before or after or {}).get("id")
        change["oldkeys"] = {"keynames": ["id"], "keytypes": ["bigint"], "keyvalues": [old]}
    return {"xid": n, "nextlsn": f"{n >> 32:X}/{n & 0xFFFFFFFF:X}", "timestamp": "2026-11-22 19:44:13.7+00",
            "change": [change]}  # fmt: skip


def dms(n: int, op: str, table: str, before: Row | None, after: Row | None) -> Event | None:
    operation = {"c": "insert", "u": "update", "d": "delete", "r": "load"}.get(op, "truncate-table")
    metadata: Event = {"timestamp": "2024-07-29T00:58:17.983670Z", "record-type": "data" if op != "t" else "control",
                       "operation": operation, "partition-key-type": "schema-table", "schema-name": "app",
                       "table-name": table}  # fmt: skip
    if op != "r":
        metadata |= {
            "commit-timestamp": "2024-07-29T00:58:17.974340Z",
            "transaction-id": 1000 + n // 3,
            "stream-position": f"00000002/{n:08X}.3.00000002/{n:08X}",
            "transaction-record-id": 1 + n % 3,
        }
    if op == "t":
        return {"control": {}, "metadata": metadata}
    row = dict((before if op == "d" else after) or {})
    event: Event = {"data": row, "metadata": metadata}
    if op == "u" and before is not None:
        key = before.get("id")
        event["before-image"] = {} if key == row.get("id") else {"id": key}
    return event


def dynamodb(n: int, op: str, table: str, before: Row | None, after: Row | None) -> Event | None:
    name = {"c": "INSERT", "u": "MODIFY", "d": "REMOVE"}.get(op)
    if name is None:
        return None
    old, new = (None if row is None else {one: _typed(value) for one, value in row.items()} for row in (before, after))
    key = (old if op == "d" else new) or {}
    told: Event = {"ApproximateCreationDateTime": _TS, "Keys": {"id": key.get("id", {"N": "0"})}}
    told |= {"NewImage": new} if op != "d" else {}
    told |= {"OldImage": old} if old is not None and op != "c" else {}
    told |= {"SequenceNumber": f"{n:024d}", "SizeBytes": 26, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    return {"eventID": f"{n:032x}", "eventName": name, "eventVersion": "1.1", "eventSource": "aws:dynamodb",
            "awsRegion": "us-east-1", "dynamodb": told,
            "eventSourceARN": f"arn:aws:dynamodb:us-east-1:111122223333:table/{table}/stream/2026-01-01T00:00:00.000",
            }  # fmt: skip


def _typed(value: Any) -> Any:
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case int() | float():
            return {"N": str(value)}
        case str():
            return {"S": value}
        case list():
            return {"L": [_typed(one) for one in value]}
        case dict():
            return {"M": {name: _typed(one) for name, one in value.items()}}
    raise TypeError(value)


WRITERS: Final[Mapping[str, tuple[Write, ...]]] = {
    "maxwell": (maxwell,),
    "canal": (canal,),
    "wal2json": (wal2json_2, wal2json_1),
    "dms": (dms,),
    "dynamodb": (dynamodb,),
}


def together(first: Event, others: list[Event]) -> Event:
    """Several events as their emitter sends them in one: Canal's rows of one kind, wal2json's transaction."""
    if "change" in first:
        return first | {"change": [one for event in (first, *others) for one in event["change"]]}
    if first.get("isDdl") is False:
        every = [first, *others]
        old = None if first["old"] is None else [one for event in every for one in event["old"]]
        return first | {"data": [one for event in every for one in event["data"]], "old": old}
    return {"Records": [first, *others]}
