"""Events of every envelope, from the specification of their fields, and what is wrong with some of them.

One grammar for both ways of drawing from it: `Grammar(dice, envelope)` takes a `random.Random`, seeded for very many
events, or Hypothesis's own (`st.randoms()`) for few that shrink. Most events are as their connector writes them
(Debezium's documentation, "Data change events" of each connector; ExtractNewRecordState; CloudEvents 1.0 structured
JSON); of the others one to three members are not, or the text itself is broken (misplaced.py).

An event is JSON text, because much of what is wrong with events no JSON encoder would write: members twice, NaN, 1e400.
"""

import base64
import json
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from tests import emitter_events
from tests.attacks.emitters import EMITTERS
from tests.attacks.json_trees import Tree, Twice, Verbatim, at, places, replaced, text_of
from tests.attacks.misplaced import broken, misplaced

# --- what each connector says in `source` besides version, connector, name, ts_ms, snapshot, db: by the position `n`


def _lsn(n: int) -> str:
    return f"{n >> 16:08x}:{n & 0xFFFF:08x}:0001"


Fields = Callable[[int], dict[str, Tree]]

CONNECTORS: Final[dict[str, Fields]] = {
    "postgresql": lambda n: {
        "sequence": f'["{n - 1}","{n}"]', "schema": "app", "txId": n // 3, "lsn": n, "xmin": None, "origin": None,
    },
    "mysql": lambda n: {
        "sequence": None, "server_id": 223344, "gtid": None, "file": f"mysql-bin.{n >> 12:06d}", "pos": n,
        "row": n % 3, "thread": 7, "query": None,
    },
    "mariadb": lambda n: {
        "sequence": None, "server_id": 1, "gtid": "0-1-7", "file": f"mariadb-bin.{n >> 12:06d}", "pos": n, "row": 0,
    },
    "sqlserver": lambda n: {
        "schema": "app", "change_lsn": _lsn(n), "commit_lsn": _lsn(n + 1), "event_serial_no": 1 + n % 2,
    },
    "oracle": lambda n: {
        "schema": "app", "txId": "6.28.807", "scn": str(n), "commit_scn": str(n + 1), "ssn": n % 3,
        "rs_id": f"0x{n:06x}.00000001.0010", "redo_thread": 1, "user_name": "kermit", "lcr_position": None,
    },
    "mongodb": lambda n: {
        "rs": "rs0", "collection": "one", "ord": 1 + n % 7, "lsid": None, "txnNumber": None, "wallTime": None,
    },
    "db2": lambda n: {"schema": "app", "change_lsn": f"{n:032x}", "commit_lsn": f"{n + 1:032x}"},
    "informix": lambda n: {"schema": "app", "change_lsn": str(n), "commit_lsn": str(n + 1), "txId": "7"},
    "vitess": lambda n: {"sequence": None, "keyspace": "app", "shard": "-80", "vgtid": f'[{{"gtid":"MySQL56/{n}"}}]'},
    "spanner": lambda n: {
        "schema": "app", "low_watermark": n, "read_at_timestamp": n, "sequence": str(n % 3), "mod_number": 0,
        "ts_ns": 1795216234000000000 + n // 3, "value_capture_type": "OLD_AND_NEW_VALUES", "server_transaction_id": "t",
    },
    "cassandra": lambda n: {"schema": "app", "keyspace": "app", "cluster": "c", "file": "CommitLog-6.log", "pos": n},
    "firn": lambda n: {"schema": "app", "sequence": f"[1795216234000,{n}]"},
    "planetscale": lambda n: {"schema": "app", "sequence": str(n)},
    "": lambda n: {"schema": "app"},
}  # fmt: skip
# A stream has one source as a rule: what does not tell its place, or tells it in another's words, comes in between.
_LIKELY: Final = ("postgresql",) * 30 + tuple(CONNECTORS)

# --- columns: name, Connect schema, how a value is written


def _b64(number: int) -> str:
    return base64.b64encode(number.to_bytes(9, "big", signed=True)).decode()


Write = Callable[[random.Random], Tree]


def _named(kind: str, name: str, write: Write, **parameters: str) -> tuple[dict[str, Tree], Write]:
    schema: dict[str, Tree] = {"type": kind, "optional": True, "name": name, "version": 1}
    return (schema | {"parameters": parameters} if parameters else schema), write


def _plain(kind: str, write: Write, **more: Tree) -> tuple[dict[str, Tree], Write]:
    return {"type": kind, "optional": True, **more}, write


def _whole(bits: int) -> Write:
    return lambda dice: dice.choice((0, 1, -1, dice.getrandbits(bits - 1), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1))


_TIME: Final = "io.debezium.time."
_DATA: Final = "io.debezium.data."
_CONNECT: Final = "org.apache.kafka.connect.data."
_INT: Final = {"type": "int32", "optional": True}

COLUMNS: Final[dict[str, tuple[dict[str, Tree], Write]]] = {
    "v": _plain("string", lambda d: d.choice(("", "a", "é\n", "\U0001f9ca", '"', "x" * 50, str(d.random())))),
    "small": _plain("int16", _whole(16)),
    "n": _plain("int32", _whole(32)),
    "big": _plain("int64", _whole(64)),
    "yes": _plain("boolean", lambda d: d.random() < 0.5),
    "single": _plain("float", lambda d: d.choice((0.5, -1.25, 0, "NaN", 3.4e38))),
    "real": _plain("double", lambda d: d.choice((d.random(), 1e300, -0.0, "Infinity", "-Infinity", "NaN", 5e-324))),
    "raw": _plain("bytes", lambda d: base64.b64encode(d.randbytes(d.randrange(5))).decode()),
    "price": _named("bytes", _CONNECT + "Decimal", lambda d: _b64(d.randrange(-(10**9), 10**9)),
                    **{"scale": "2", "connect.decimal.precision": "12"}),
    "huge": _named("bytes", _CONNECT + "Decimal", lambda d: _b64(d.getrandbits(60)),
                   **{"scale": "40", "connect.decimal.precision": "60"}),
    "numeric": _named("struct", _DATA + "VariableScaleDecimal",
                      lambda d: {"scale": d.randrange(-3, 9), "value": _b64(d.getrandbits(30))}),
    "day": _named("int32", _TIME + "Date", lambda d: d.choice((0, 20_000, -719_162, -2147472691, 2**31 - 1))),
    "iso_day": _named("string", _TIME + "IsoDate", lambda d: d.choice(("2024-02-29Z", "-4713-01-01Z", "infinity"))),
    "at_ms": _named("int32", _TIME + "Time", lambda d: d.randrange(86_400_001)),
    "at_us": _named("int64", _TIME + "MicroTime", lambda d: d.randrange(-3_020_399_000_000, 3_020_399_000_001)),
    "at_ns": _named("int64", _TIME + "NanoTime", lambda d: d.randrange(86_400_000_000_000)),
    "ms": _named("int64", _TIME + "Timestamp", lambda d: d.choice((0, 1795216234000, -62135596800000, 2**62))),
    "us": _named("int64", _TIME + "MicroTimestamp", lambda d: d.choice((1, 9223372036825200000, -(2**50)))),
    "ns": _named("int64", _TIME + "NanoTimestamp", lambda d: d.choice((1_000, 1_001, 2**63 - 1))),
    "zoned": _named("string", _TIME + "ZonedTimestamp",
                    lambda d: d.choice(("2026-11-21T10:00:00.000001Z", "9999-12-31T23:59:59-01:00", "infinity"))),
    "zoned_time": _named("string", _TIME + "ZonedTime", lambda d: "10:00:00Z"),
    "connect_at": _named("int64", _CONNECT + "Timestamp", lambda d: d.randrange(2**41)),
    "connect_day": _named("int32", _CONNECT + "Date", lambda d: d.randrange(20_000)),
    "connect_time": _named("int32", _CONNECT + "Time", lambda d: d.randrange(86_400_000)),
    "span": _named("int64", _TIME + "MicroDuration", _whole(64)),
    "interval": _named("string", _TIME + "Interval", lambda d: "P1Y2M3DT4H5M6.789S"),
    "year": _named("int32", _TIME + "Year", lambda d: 2026),
    "uid": _named("string", _DATA + "Uuid", lambda d: f"{d.getrandbits(32):08x}-0000-4000-8000-00000000000A"),
    "doc": _named("string", _DATA + "Json", lambda d: d.choice(("{}", '{"a": [1, null]}', "[1.0, 1e2]", "null", "{"))),
    "kind": _named("string", _DATA + "Enum", lambda d: d.choice("abc"), allowed="a,b,c"),
    "bits": _named("bytes", _DATA + "Bits", lambda d: base64.b64encode(d.randbytes(2)).decode(), length="10"),
    "place": _named("struct", _DATA + "geometry.Point", lambda d: {"x": 1.5, "y": 2, "wkb": "AQ==", "srid": None}),
    "tags": _plain("array", lambda d: [d.choice(("a", None, "é")) for _ in range(d.randrange(3))],
                   items={"type": "string", "optional": True}),
    "numbers": _plain("array", lambda d: d.choice(([], [1, 2], [None])), items=_INT),
    "days": _plain("array", lambda d: [0, -2147472691], items={**_INT, "name": _TIME + "Date"}),
    "grid": _plain("array", lambda d: [[1], []], items={"type": "array", "optional": True, "items": _INT}),
    "hstore": _plain("map", lambda d: {"a": "b"}, keys={"type": "string"}, values={"type": "string", "optional": True}),
    "inner": _plain("struct", lambda d: {"a": d.randrange(9)}, fields=[{**_INT, "field": "a"}]),
}  # fmt: skip
_NAMES: Final = tuple(COLUMNS)

# --- what is wrong

NAMES: Final = (
    "ID", "Id", "V", "a.b", 'a"b', "a`b", "a\\b", "", " ", "é", "\U0001f9ca", "_firn_pos", "_firn_x", "__op", "pos",
    "__deleted", "op", "ts", "key", "select", "x" * 300, "a\nb", "a\0b", "\ud800", "c0", "class", "a/b", "a,b", "a=b",
    "$", "_c0", "schema", "payload", "before", "values", "element", "specversion", "rn", "file_path", "__lsn", "__file",
    "tags.element", "numbers.element", "_firn_held.key",
)  # fmt: skip
DEEP: Final = (20, 90, 900, 1_100, 5_000)
PLACEHOLDER: Final = "__debezium_unavailable_value"


def odd(dice: random.Random) -> Tree:
    """A value that few expect where it stands."""
    match dice.randrange(8):
        case 0:
            return dice.choice((None, True, False, {}, [], [[]], {"": None}, [None], {"a": {"b": [1]}}))
        case 1:
            whole = (
                0,
                -1,
                2**31,
                2**53 + 1,
                2**63 - 1,
                2**63,
                -(2**63),
                -(2**63) - 1,
                2**64,
                10**38,
                10**39,
                -(10**400),
            )
            return dice.choice((*whole, 0.1, -0.0, 1e16, 1e308, 5e-324, 1.5, 2.0))
        case 2:
            never = ("NaN", "Infinity", "-Infinity", "undefined", "01", "+1", "1.", "'a'", "tru", '"\x01"', '"\\x"', "")
            wide = ("1e400", "-1e400", "1E-400", "1e99999999", "-0", "-0.0", "1.0", "1e2", "0e0", "9" * 5_000)
            signs = ('"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"\\u0000a"', '"\\u0063"', '{"\\ud800":1}')
            return Verbatim(dice.choice(dice.choice((wide, wide, signs, never))))
        case 3:
            like = ("true", "null", "NaN", "1", "-1", "1e400", "9" * 30, "9" * 5_000, "٣", "²", "Infinity", "[1]", "{}")
            return dice.choice((*like, "", "x", "é" * 9, "\0", "\ud800", "c", "m", "t", " ", "a.b", "\U0010ffff"))
        case 4:
            return dice.choice((PLACEHOLDER, base64.b64encode(PLACEHOLDER.encode()).decode(), [PLACEHOLDER],
                                {PLACEHOLDER: PLACEHOLDER}, list(PLACEHOLDER.encode())))  # fmt: skip
        case 5:
            times = ("9999-12-31T23:59:60Z", "24:00:00", "-838:59:59", "0001-01-01T00:00:00+14", "infinity")
            days = ("10000-01-01", "0044-03-15 BC", "0000-00-00", "2024-02-30")
            return dice.choice((*times, *days, "2026-11-21T10:00:00.1234567"))
        case 6 if dice.random() < 0.2:
            deep, pair = dice.choice(DEEP), dice.choice((("[", "]"), ('{"a":', "}")))
            return Verbatim(pair[0] * deep + "1" + pair[1] * deep)
        case _:
            column = COLUMNS[dice.choice(_NAMES)]
            return column[1](dice)


def mutated(dice: random.Random, event: Tree) -> Tree:
    """The event with something wrong at one place of it."""
    *path, last = dice.choice(places(event))
    parent = at(event, path)
    if isinstance(parent, list) or dice.random() < 0.55:
        parent[last] = odd(dice)
        return event
    match dice.randrange(6):
        case 0:
            del parent[last]
        case 1:
            parent[last] = None
        case 2:
            parent[dice.choice(NAMES)] = parent.pop(last)
        case 3:
            parent[dice.choice(NAMES)] = odd(dice)
        case 4 if isinstance(parent[last], str | int):
            parent[last] = parent[last] * 2 if dice.random() < 0.5 else str(parent[last]).swapcase()
        case _:
            return replaced(event, path, Twice([*parent.items(), (last, odd(dice))]))
    return event


# --- the envelopes


class Grammar:
    """Events of one stream, one after the other: `event` draws the next. `wrong`: how many of them are not right;
    `parts`: whether an event may hold several; `connector`: Debezium's, of all of them; None: of any, most
    PostgreSQL's."""

    def __init__(
        self, dice: random.Random, envelope: str, tables: Sequence[str], *,
        wrong: float = 0.3, parts: bool = False, connector: str | None = None,
    ) -> None:  # fmt: skip
        self.dice, self.envelope, self.tables, self.wrong, self.parts = dice, envelope, tables, wrong, parts
        self.connector = connector
        self.n = 1_000

    def event(self) -> bytes:
        """The next one, in one line."""
        dice = self.dice
        self.n += dice.choice((1, 1, 1, 2, 0, -3))
        if dice.random() < 0.03:
            tree = self._marker()
        else:
            of = {
                "debezium": self._debezium, "flat": self._flat, "cloudevents": self._cloudevent, "rows": self._bare_row,
            } | {name: partial(emitted, self) for name, emitted in EMITTERS.items()} | {
                name: partial(self._emitted, name) for name in emitter_events.WRITERS
            }  # fmt: skip
            envelope = self.envelope
            if envelope == "auto":
                envelope = dice.choice(
                    (*("debezium", "flat", "cloudevents") * len(EMITTERS), *EMITTERS, *emitter_events.WRITERS)
                )
            tree = of[envelope]()
        # Copied, because the parts are shared.
        tree = json.loads(json.dumps(tree))
        wrong = dice.random() < self.wrong
        if wrong:
            for _ in range(dice.choice((1, 1, 1, 2, 3))):
                if isinstance(tree, dict) and tree:
                    tree = mutated(dice, tree) if dice.random() < 0.6 else misplaced(dice, tree, odd)
        text = text_of(tree, ascii=dice.random() < 0.5)
        if wrong and dice.random() < 0.1:
            text = broken(dice, text)
        return text.replace("\n", " ").encode("utf-8", "replace")

    def _marker(self) -> Tree:
        source = {"connector": "postgresql", "schema": "", "table": ""}
        return self.dice.choice((
            None,
            {"ts_ms": 1795216234000},
            {"status": "BEGIN", "id": "7:1", "event_count": None, "data_collections": None, "ts_ms": 1},
            {"op": "m", "ts_ms": 1, "source": source, "message": {"prefix": "p", "content": "AQ=="}},
            {"source": source, "databaseName": "shop", "schemaName": None, "ddl": "DROP TABLE x", "tableChanges": []},
            {"destination": "__debezium-heartbeat.shop", "key": {"serverName": "shop"}, "value": None},
            {"destination": "shop.app.one", "key": {"id": 1}, "value": None, "headers": []},
        ))  # fmt: skip

    def _op(self) -> str:
        return self.dice.choices(("c", "u", "d", "r", "t", "m", "x", "i"), (40, 40, 20, 8, 0.3, 1, 0.3, 0.3))[0]

    def _source(self) -> dict[str, Tree]:
        dice = self.dice
        connector = dice.choice(_LIKELY) if self.connector is None else self.connector
        source = {
            "version": "3.6.0.Final", "connector": connector, "name": "shop", "ts_ms": 1795216234000 + self.n,
            "snapshot": dice.choice(("false", "false", "true", "last", "incremental")), "db": "app",
            "table": dice.choice(self.tables), **CONNECTORS[connector](self.n),
        }  # fmt: skip
        if connector == "mongodb":
            source["collection"] = source.pop("table")
        return source

    def row(self, key: Tree, names: Sequence[str]) -> dict[str, Tree]:
        dice = self.dice
        return {"id": key} | {name: None if dice.random() < 0.1 else COLUMNS[name][1](dice) for name in names}

    def _bare_row(self) -> Tree:
        """It says its table in `table`, and whether it is a delete in `op`."""
        op = self._op()
        before, after, _ = self.images(op)
        return {"table": f"app.{self.dice.choice(self.tables)}", "op": op, **(before if op == "d" else after or {})}

    def images(self, op: str) -> tuple[Tree, Tree, list[str]]:
        """The row before, the row after, and the names of their columns."""
        dice = self.dice
        names = dice.sample(_NAMES, dice.randrange(1, 6))
        key = dice.randrange(60)
        old = dice.choice((key, key, key, key, dice.randrange(60)))
        before = self.row(old, names) if op == "d" or (op == "u" and dice.random() < 0.3) else None
        after = self.row(key, names) if op in "curxi" else None
        if op == "u" and after and dice.random() < 0.1:
            after[dice.choice(names)] = PLACEHOLDER
        return before, after, names

    def _debezium(self) -> Tree:
        dice, op, source = self.dice, self._op(), self._source()
        before, after, names = self.images(op)
        if source["connector"] == "mongodb":
            before, after = (one and text_of(one) for one in (before, after))
        number = dice.randrange(1, 9)
        event = {
            "before": before, "after": after, "source": source, "op": op, "ts_ms": source["ts_ms"] + 5,
            "ts_us": (source["ts_ms"] + 5) * 1_000, "ts_ns": (source["ts_ms"] + 5) * 1_000_000,
            "transaction": {
                "id": f"{self.n}:1", "total_order": number, "data_collection_order": 1,
                **({"transaction_epoch": 0, "transaction_rank": self.n} if source["connector"] == "vitess" else {}),
            } if dice.random() < (0.9 if source["connector"] == "vitess" else 0.2) else None,
        }  # fmt: skip
        if source["connector"] == "mongodb" and op == "u" and dice.random() < 0.6:
            event["updateDescription"] = self._description()
            event["after"] = event["after"] if dice.random() < 0.3 else None
        if op == "m":
            event |= {"message": {"transactional": False, "prefix": "p", "content": "AQ=="}}
        row = _struct(names)
        fields = [{**row, "field": "before"}, {**row, "field": "after"}, {"type": "string", "field": "op"}]
        return self._wrapped(event, {"type": "struct", "name": "shop.app.Envelope", "fields": fields}, before, after)

    def _description(self) -> Tree:
        """What MongoDB says that an update did."""
        dice = self.dice
        path = dice.choice(("v", "doc.a", "tags.0", "doc.a.1.b", "tags.900"))
        fields = {path: dice.choice((1, None, {"a": []}, "x"))}
        cut = [{"field": "tags", "size": dice.randrange(3)}] if dice.random() < 0.3 else None
        return {"removedFields": dice.choice((None, ["n", "doc.b"])), "updatedFields": text_of(fields),
                "truncatedArrays": cut}  # fmt: skip

    def _flat(self) -> Tree:
        dice, op, source = self.dice, self._op(), self._source()
        before, after, names = self.images(op)
        row = before if op == "d" else after
        said = {name: source[name] for name in source if name != "ts_ms" and (name == "table" or dice.random() < 0.9)}
        event = {
            **(row or {}), "__op": op, "__deleted": "true" if op == "d" else "false", "__source_ts_ms": source["ts_ms"],
            **{f"__{name}": one for name, one in said.items()},
        }  # fmt: skip
        event |= dice.choice(({}, {}, {"__ts_ms": 5, "__ts_ns": 5_000_000}, {"__transaction_total_order": 3}))
        if dice.random() < 0.05:
            del event["__op"]
        fields = [*_struct(names)["fields"], *({"type": "string", "field": name} for name in ("__op", "__table"))]
        return self._wrapped(event, {"type": "struct", "name": "shop.app.Value", "fields": fields}, before, after)

    def _cloudevent(self) -> Tree:
        dice, op, source = self.dice, self._op(), self._source()
        before, after, names = self.images(op)
        if source["connector"] == "mongodb":
            before, after = (one and text_of(one) for one in (before, after))
        data: Tree = {"before": before, "after": after}
        if dice.random() < 0.2:
            row = _struct(names)
            fields = [{**row, "field": "before"}, {**row, "field": "after"}]
            data = {"schema": {"type": "struct", "fields": fields}, "payload": data}
        attributes = {f"iodebezium{name.replace('_', '')}": one for name, one in source.items()}
        text = {name: str(one) if isinstance(one, int) else one for name, one in attributes.items()}
        return self._wrapped({
            "id": f"name:shop;lsn:{self.n}", "source": "/debezium/postgresql/shop", "specversion": "1.0",
            "type": "io.debezium.connector.postgresql.DataChangeEvent", "time": "2026-11-20T23:10:50.996Z",
            "datacontenttype": "application/json", "iodebeziumop": op, **text, "iodebeziumtxid": None,
            "iodebeziumtxtotalorder": dice.choice((None, None, "3")), "data": data,
        }, None, before, after)  # fmt: skip

    def _emitted(self, envelope: str) -> Tree:
        """An event of an emitter that is no connector of Debezium, sometimes several in one."""
        dice = self.dice
        tree = self._one_emitted(dice.choice(emitter_events.WRITERS[envelope]))
        if dice.random() > 0.1:
            return tree
        if "change" in tree or tree.get("isDdl") is False:
            return emitter_events.together(tree, [json.loads(json.dumps(tree)) for _ in range(dice.randrange(4))])
        return dice.choice(({"Records": [tree]}, {"topic": "t", "key": {"k": 1}, "value": tree}, tree))

    def _one_emitted(self, write: emitter_events.Write) -> Tree:
        dice = self.dice
        tree = None
        while tree is None:
            op = dice.choices("cudrt", (40, 40, 20, 8, 0.3))[0]
            before, after, _ = self.images(op)
            if op == "u" and before is None and after is not None and dice.random() < 0.7:
                before = after | {"v": "older"}
            rows = [row and {name: _plain_value(one) for name, one in row.items()} for row in (before, after)]
            tree = write(self.n, op, dice.choice(self.tables), *rows)
        return tree

    def _wrapped(self, event: Tree, schema: Tree, before: Tree, after: Tree) -> Tree:
        """Bare, with its inline schema, as a record with its key, or both."""
        dice = self.dice
        if schema is not None and dice.random() < 0.3:
            event = {"schema": schema, "payload": event}
        if dice.random() > 0.25:
            return event
        row = after or before
        key = {"id": row["id"]} if isinstance(row, dict) else dice.choice((None, {"id": 3}))
        if key and dice.random() < 0.3:
            key = {"schema": {"type": "struct", "fields": [{"type": "int64", "field": "id"}]}, "payload": key}
        return {"destination": f"shop.app.{dice.choice(self.tables)}", "key": key, "value": event, "headers": []}


def _plain_value(value: Tree) -> Tree:
    return value if isinstance(value, str | int | float | bool | None) else json.dumps(value)


def _struct(names: Sequence[str]) -> dict[str, Tree]:
    fields = [{"type": "int64", "optional": False, "field": "id"}]
    fields += [{**COLUMNS[name][0], "field": name} for name in names]
    return {"type": "struct", "optional": True, "fields": fields}
