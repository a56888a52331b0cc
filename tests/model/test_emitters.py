"""What emitters sent, recorded with the final tables of their sources: Firn's tables are those, by type, in order and
shuffled; but for what the emitter itself loses, which is named here column by column."""

import base64
import json
import random
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import pytest

from firn.log import layout
from firn.log.dead_letters.letters import read_dead
from tests.emitters import STREAM, Emitted, differences, finals, in_order, lines, shuffled
from tests.soak import seeds

_KEYED: Final = "{{to: lake.{0}, key: [{1}]}}"
# Renames make no event: firn.yaml says them. What keys a table without one the emitter can't say.
_MYSQL: Final = {"mx.evolve": "{to: lake.evolve, renames: {label: b}}", "mx.late": "{to: lake.later}"}
_POSTGRES: Final = {
    "s.evolve": "{to: lake.evolve, key: [id], renames: {label: b}}",
    **{f"s.{name}": _KEYED.format(name, "id") for name in ("trunc_a", "trunc_b", "docs_full", "orders")},
}
# What Maxwell loses on MariaDB: fractions of seconds, zeros at the end of binary(4), year 0; what it writes otherwise.
_MAXWELL: Final = {
    "boot": {"created"}, "types": {"t6", "dt6", "ts6", "bi", "yr"} | {"vb", "bl", "st", "p"},
}  # fmt: skip
_CANAL: Final = {"types": {"l1", "p"}}  # latin1 is decoded as UTF-8; a geometry is compared below
_NAN: Final = {"types": {"f4", "f8", "n"}}  # NaN and infinities come as null
RECORDINGS: Final[Mapping[str, tuple[str, Mapping[str, str], Mapping[str, set[str]], set[str]]]] = {
    # Events; rules; columns that the emitter loses; tables that it can't keep: Maxwell and wal2json 1 tell no truncate.
    "maxwell/maxwell.ndjson.gz": ("maxwell", _MYSQL, _MAXWELL, {"trunc_a", "nopk"}),
    "canal/flat.ndjson.gz": ("canal", _MYSQL, _CANAL, {"boot", "nopk"}),
    "wal2json/v1.ndjson.gz": ("wal2json", _POSTGRES, _NAN, {"trunc_a", "trunc_b", "nopk_full", "uidx"}),
    "wal2json/v2.ndjson.gz": ("wal2json", _POSTGRES, _NAN, {"nopk_full", "uidx"}),
}


def check(lake: Emitted, recording: str) -> None:
    envelope, _, lost, gone = RECORDINGS[recording]
    tables = finals(envelope)
    wrong = {}
    for name, final in tables.items():
        rows = lake.rows(name)
        if name in gone:
            continue
        if not final.key:  # rows were only inserted
            assert len(rows) == len(final.rows), name
        elif found := differences(final, rows, frozenset(lost.get(name, ()))):
            wrong[name] = found[:5]
    assert wrong == {}


@pytest.mark.parametrize("recording", RECORDINGS)
@pytest.mark.parametrize("auto", [False, True])
def test_in_order_the_tables_are_the_sources(recording: str, auto: bool) -> None:
    envelope, rules, _, _ = RECORDINGS[recording]
    lake = Emitted("auto" if auto else envelope, rules)
    lake.take(*in_order(lines(recording)))
    check(lake, recording)


@pytest.mark.parametrize("seed", seeds(1, 60))
@pytest.mark.parametrize("recording", [one for one in RECORDINGS if not one.startswith("canal")])
def test_in_any_order_doubled_and_split_the_tables_are_the_sources(recording: str, seed: int) -> None:
    envelope, rules, _, _ = RECORDINGS[recording]
    lake = Emitted(envelope, rules)
    lake.take(*shuffled(lines(recording), random.Random(seed)))
    check(lake, recording)


def test_tables_have_the_types_of_the_source() -> None:
    canal = Emitted("canal")
    canal.take(*in_order(lines("canal/flat.ndjson.gz")))
    assert canal.columns("types") == {
        "id": "int", "i1": "int", "u1": "int", "bo": "int", "i8": "long", "u8": "decimal(20,0)", "d2": "decimal(10,2)",
        "d30": "string", "f": "float", "db": "double", "bt1": "long", "bt8": "long", "yr": "int", "d": "date",
        "t": "string", "t6": "string", "dt": "timestamp", "dt6": "timestamp", "ts": "timestamp", "ts6": "timestamp",
        "c": "string", "vc": "string", "tx": "string", "l1": "string", "en": "string", "st": "string", "js": "string",
        "bi": "binary", "vb": "binary", "bl": "binary", "p": "string",
    }  # fmt: skip
    place = json.loads(next(row["p"] for row in canal.rows("types") if row["id"] == 1))
    final = next(row["p"] for row in finals("canal")["types"].rows if row["id"] == "1")
    assert f"SRID={place['srid']};{base64.b64decode(place['wkb']).hex()}" == final
    for version in ("v1", "v2"):
        wal = Emitted("wal2json", _POSTGRES)
        wal.take(*in_order(lines(f"wal2json/{version}.ndjson.gz")))
        types = wal.columns("types")
        expected = {
            "id": "int", "b": "boolean", "i2": "int", "i8": "long", "f4": "float", "f8": "double", "n": "string",
            "n2": "decimal(12,2)", "uid": "uuid", "by": "binary", "d": "date", "tm": "string", "ts": "timestamp",
            "ts3": "timestamp", "tstz": "timestamptz", "ai": "string", "jb": "string", "mon": "string",
        }  # fmt: skip
        assert {name: types[name] for name in expected} == expected
    maxwell = Emitted("maxwell", _MYSQL)
    maxwell.take(*in_order(lines("maxwell/maxwell.ndjson.gz")))
    types = maxwell.columns("types")
    assert (types["u8"], types["d2"], types["d30"]) == ("decimal(38,0)", "double", "string")


def test_what_has_no_key_is_appended_each_change_once() -> None:
    events = lines("wal2json/v2.ndjson.gz")
    kinds = Counter(json.loads(line).get("table") for line in events)
    for seed in seeds(1, 20):
        lake = Emitted("wal2json", _POSTGRES)
        lake.take(*shuffled(events, random.Random(seed)))
        for table in ("nopk_full", "nopk_default", "ident_nothing"):
            assert len(lake.rows(table)) == kinds[table]


# --- deletes that hold nothing but a key


def keyed(op: str, place: int, key: dict[str, Any], row: dict[str, Any] | None = None) -> bytes:
    """A record of Debezium's."""
    source = {"connector": "postgresql", "schema": "s", "table": "t", "ts_ms": 1_760_000_000_000 + place}
    source["sequence"] = json.dumps([str(place), str(place)])
    return json.dumps({"key": key, "value": {"op": op, "before": None, "after": row, "source": source}}).encode()


def test_a_delete_that_holds_nothing_but_a_key_may_be_the_first_change_of_its_table() -> None:
    lake = Emitted("debezium")
    lake.take([keyed("d", 20, {"id": 1})], [keyed("c", 10, {"id": 1}, {"id": 1, "v": "late"})], each=1)
    assert (lake.rows("t"), lake.columns("t")) == ([], {"id": "long", "v": "string"})


@pytest.mark.parametrize("rule", ["{to: lake.t, key: [id]}", "{to: lake.t, mode: append}"])
def test_the_columns_of_a_key_that_a_delete_holds_are_the_mirrors_alone(rule: str) -> None:
    lake = Emitted("debezium", {"s.t": rule})
    row = keyed("c", 10, {"id": 1, "shard": "a"}, {"id": 1, "v": "a"})
    lake.take([row], [keyed("d", 20, {"id": 10**25, "shard": "a"})], each=1)
    if "append" in rule:
        assert lake.columns("t") == {"id": "long", "v": "string"}
    else:
        assert lake.columns("t") == {"id": "decimal(38,0)", "v": "string"}
        lake.take([keyed("c", 15, {"id": 10**25}, {"id": 10**25, "v": "late"})])
        assert [row["v"] for row in lake.rows("t")] == ["a"]


# --- DynamoDB


def value_of(attribute: dict[str, Any]) -> Any:
    """What a column holds of it."""
    ((kind, value),) = attribute.items()
    match kind:
        case "N":
            return Decimal(value)
        case "B":
            return base64.b64decode(value)
        case "NULL":
            return None
        case "NS":
            return [Decimal(one) for one in value]
        case "BS":
            return [base64.b64decode(one) for one in value]
        case "L" | "M":
            return plain(attribute)
    return value


def plain(attribute: dict[str, Any]) -> Any:
    ((kind, value),) = attribute.items()
    if kind == "L":
        return [plain(one) for one in value]
    if kind == "M":
        return {name: plain(one) for name, one in value.items()}
    return Decimal(value) if kind == "N" else None if kind == "NULL" else value


@pytest.mark.parametrize("view", ["new_image", "new_and_old_images"])
@pytest.mark.parametrize("seed", [None, *seeds(2, 60)])
def test_a_dynamodb_table_is_its_items(view: str, seed: int | None) -> None:
    events = lines(f"dynamodb/orders_{view}.ndjson")
    lake = Emitted("dynamodb" if seed else "auto")
    lake.take(*(in_order(events, 10) if seed is None else shuffled(events, random.Random(seed))))
    final = json.loads(b"".join(lines(f"dynamodb/orders_{view}.final.json")))
    items = [{name: value_of(one) for name, one in item.items()} for item in final]
    found = {(row["pk"], int(row["sk"])): row for row in lake.rows(f"orders_{view}")}
    assert found.keys() == {(item["pk"], int(item["sk"])) for item in items}
    for item in items:
        row = found[item["pk"], int(item["sk"])]
        assert {name: value for name, value in row.items() if value is not None} == {
            name: value for name, value in item.items() if value is not None
        }


def test_every_attribute_is_exact() -> None:
    """The first item has one of each type, and goes again before the end."""
    event = lines("dynamodb/orders_new_image.ndjson")[0]
    lake = Emitted("dynamodb")
    lake.take([event])
    (row,) = lake.rows("orders_new_image")
    item = json.loads(event)["dynamodb"]["NewImage"]
    for name, attribute in item.items():
        value = row.get(name)
        if isinstance(value, str) and next(iter(attribute)) in "LM":
            value = json.loads(value, parse_int=Decimal, parse_float=Decimal)
        if isinstance(value, str) and "N" in attribute:
            value = Decimal(value)
        assert value == value_of(attribute), name
    types = lake.columns("orders_new_image")
    told = {"s": "string", "n": "decimal(38,18)", "big": "long", "b": "binary", "bo": "boolean", "ss": "list<string>"}
    assert {name: types[name] for name in told} == told
    assert (types["ns"], types["bs"], types["sk"]) == ("list<decimal(21,2)>", "list<binary>", "long")


def test_a_stream_of_keys_alone_is_refused_with_the_setting_to_change() -> None:
    lake = Emitted("dynamodb")
    done = lake.post(lines("dynamodb/orders_keys_only.ndjson"))
    assert (done.accepted, done.rejected) == (0, 36)
    assert {error.reason for error in done.errors} == {"missing_image"}
    assert "set it to NEW_IMAGE or NEW_AND_OLD_IMAGES" in done.errors[0].message


# --- one event, several changes


def test_a_row_of_a_message_that_does_not_fit_is_a_letter_of_its_own_and_the_others_go_on() -> None:
    rows = [{"id": str(n), "v": "v", "b": text} for n, text in enumerate(("\u00ff", "\u4e2d", "x"), 1)]
    message = {
        "data": rows, "database": "mx", "es": 1795377363000, "id": 3, "isDdl": False, "pkNames": ["id"], "old": None,
        "mysqlType": {"id": "int(11)", "v": "text", "b": "blob"}, "sqlType": {"id": 4, "v": 2005, "b": 2004},
        "type": "INSERT", "table": "t", "ts": 1795377365376, "gtid": "", "sql": "",
    }  # fmt: skip
    lake = Emitted("canal")
    done = lake.post([json.dumps(message).encode()])
    assert (done.accepted, done.rejected, [one.index for one in done.errors]) == (2, 1, [1])
    lake.commit()
    assert {row["id"]: row["b"] for row in lake.rows("t")} == {1: b"\xff", 3: b"x"}
    (letter,) = read_dead(lake.ground.store, layout.batch_dead_path(done.batch_id))
    assert (letter.table, letter.reason) == ("mx.t", "bad_event")
    assert json.loads(letter.original)["data"] == [message["data"][1]]
    assert letter.stream == STREAM
