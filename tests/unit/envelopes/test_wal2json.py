"""wal2json's two formats: https://github.com/eulerto/wal2json"""

import random
from decimal import Decimal
from typing import Any

import pytest

from firn.changes.positions import position
from firn.log import layout
from firn.log.dead_letters.letters import read_dead
from tests.emitters import Emitted, lines, shuffled
from tests.unit.envelopes.reading import body, change, changes, ignored, refused, row, types

ID = {"name": "id", "type": "integer", "value": 1}


def one(action: str = "I", **more: Any) -> dict[str, Any]:
    told = {"action": action, "xid": 870, "timestamp": "2026-11-22 19:44:13.754953+00", "lsn": "0/1E93B00",
            "schema": "s", "table": "t", "pk": [{"name": "id", "type": "integer"}]}  # fmt: skip
    if action in "IU":
        told["columns"] = [ID, {"name": "v", "type": "text", "value": "a"}]
    if action in "UD":
        told["identity"] = [ID]
    return told | more


def transaction(*kinds: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"xid": 870, "nextlsn": "0/1E93DC8", "timestamp": "2026-11-22 19:44:13.754953+00", "change": kinds} | more


def kind(kind: str, n: int = 1, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "kind": kind,
        "schema": "s",
        "table": "t",
        "pk": {"pknames": ["id"], "pktypes": ["integer"]},
    }
    if kind != "delete":
        told |= {"columnnames": ["id", "v"], "columntypes": ["integer", "text"], "columnvalues": [n, "a"]}
    if kind != "insert":
        told["oldkeys"] = {"keynames": ["id"], "keytypes": ["integer"], "keyvalues": [n]}
    return told | more


def test_both_formats_tell_the_same_of_a_row() -> None:
    for new, old in (("I", "insert"), ("U", "update"), ("D", "delete")):
        first, second = change("wal2json", one(new)), change("wal2json", transaction(kind(old)))
        told = [(x.op, x.table, x.ts, x.key, x.before, x.after, x.schema) for x in (first, second)]
        assert told[0] == told[1]
        assert (first.table, first.ts, row(first.key)) == ("s.t", 1795376653754, {"id": 1})


def test_the_changes_of_a_transaction_stand_in_their_order() -> None:
    found = changes("wal2json", transaction(*[kind("insert", n) for n in range(12)]))
    places = [position(x.connector, x.op, x.order, 0) for x in found]
    assert places == sorted(places)
    assert len(set(places)) == 12
    (later,) = changes("wal2json", transaction(kind("insert"), nextlsn="1/0"))
    assert places[-1] < position(later.connector, later.op, later.order, 0)


def test_a_change_that_cannot_be_taken_is_replayed_in_its_place() -> None:
    lake = Emitted("wal2json")
    broken = kind("update", 2, columnvalues=[1])
    done = lake.post([body(transaction(kind("insert", 2), broken, kind("delete", 3)))])
    assert (done.accepted, [(x.index, x.reason) for x in done.errors]) == (2, [(1, "bad_event")])
    (letter,) = read_dead(lake.ground.store, layout.batch_dead_path(done.batch_id))
    assert row(letter.original) == transaction(broken) | {"place": 1, "change": [broken]}
    mended = row(letter.original)
    mended["change"][0]["columnvalues"] = [2, "b"]
    assert change("wal2json", mended).order == f"[{0x1E93DC8},1,null]"


def test_unchanged_large_values_are_kept_and_taken_along_by_a_changed_key() -> None:
    big = {"name": "big", "type": "text", "value": "x" * 3000}
    two = ID | {"value": 2}
    moved = one("U", lsn="0/3", columns=[two, {"name": "v", "type": "text", "value": "c"}])
    history = [
        one(lsn="0/1", columns=[ID, {"name": "v", "type": "text", "value": "a"}, big]),
        one("U", lsn="0/2", columns=[ID, {"name": "v", "type": "text", "value": "b"}]),
        moved,
        one("U", lsn="0/4", columns=[two, {"name": "v", "type": "text", "value": None}], identity=[two]),
    ]
    for seed in range(12):
        lake = Emitted("wal2json")
        for request in shuffled([body(x) for x in history], random.Random(seed)):
            for event in request:
                lake.take([event])
        assert lake.rows("t") == [{"id": 2, "v": None, "big": "x" * 3000}]


def test_what_the_row_before_holds_and_the_row_after_leaves_out_did_not_change() -> None:
    full = one("U", columns=[ID], identity=[ID, {"name": "big", "type": "text", "value": "x"}])
    assert row(change("wal2json", full).after) == {"id": 1, "big": "x"}


def test_text_that_looks_like_debeziums_placeholder_is_text() -> None:
    lake = Emitted("wal2json")
    text = "__debezium_unavailable_value"
    lake.take([body(one(), one("U", lsn="0/1E93B01", columns=[ID, {"name": "v", "type": "text", "value": text}]))])
    assert lake.rows("t") == [{"id": 1, "v": text}]


def test_a_truncate_of_two_tables_at_one_lsn_empties_both() -> None:
    lake = Emitted("wal2json")
    both = [one(lsn="0/1"), one(lsn="0/2", table="u")]
    cut = [one("T", lsn="0/3", pk=None), one("T", lsn="0/3", table="u", pk=None)]
    lake.take([body(*both)], [body(*cut)], each=1)
    assert (lake.rows("t"), lake.rows("u")) == ([], [])


def test_what_changes_no_row_is_ignored_by_reason() -> None:
    message = {"action": "M", "xid": None, "lsn": "0/1", "transactional": False, "prefix": "p", "content": "c"}
    begin = {"action": "B", "xid": 1, "lsn": "0/1", "nextlsn": "0/2"}
    old = transaction({"kind": "message", "transactional": True, "prefix": "p", "content": "c"})
    found = ignored("wal2json", message, begin, begin | {"action": "C"}, transaction(), old)
    assert found == {"message": 2, "transaction": 3}


@pytest.mark.parametrize(
    ("kind", "value", "column"),
    [
        ("numeric(12,2)", "9999999999.99", "decimal(12,2)"), ("numeric(5,-2)", "12300", "decimal(7,0)"),
        ("numeric", "123456789012345678901234567890.123456789", "string"), ("bigint", "9223372036854775807", "long"),
        ("timestamp(3) without time zone", '"2024-02-29 23:59:59.123"', "timestamp"), ("smallint", "-32768", "int"),
        ("timestamp with time zone", '"2024-02-29 18:14:59.999999+00"', "timestamptz"), ("bytea", '"00ff10"', "binary"),
        ("time(3) without time zone", '"23:59:59.999"', "string"), ("integer[]", '"{1,NULL,3}"', "string"),
        ("bit(8)", '"10101010"', "string"), ("s.mood", '"paid"', "string"),
        ("uuid", '"6b1f0e7c-5a5d-4c1e-9a53-000000000001"', "uuid"),
        ("real", "1.1", "float"), ("double precision", '"NaN"', "double"), ("money", '"$1,234.56"', "string"),
    ],
)  # fmt: skip
def test_types_are_postgresqls_own(kind: str, value: str, column: str) -> None:
    event = body(one(columns=[ID, {"name": "c", "type": kind, "value": 0}])).replace(
        b'"value": 0', b'"value": ' + value.encode()
    )
    lake = Emitted("wal2json")
    lake.take([event])
    assert lake.columns("t")["c"] == column
    (found,) = lake.rows("t")
    text = value.strip('"')
    if column.startswith("decimal") or kind in ("numeric", "bigint", "smallint"):
        assert Decimal(found["c"]) == Decimal(text)
    elif column == "string" and not kind.startswith("time"):
        assert found["c"] == text


def test_numbers_as_text_are_numbers() -> None:
    """numeric-data-types-as-string."""
    told = [
        ("i", "integer", '"5"'),
        ("r", "real", '"1.5"'),
        ("n", "numeric(4,1)", '"10.0"'),
        ("x", "real", '"Infinity"'),
    ]
    columns = ", ".join(f'{{"name": "{name}", "type": "{kind}", "value": {value}}}' for name, kind, value in told)
    event = body(one(columns=[ID])).decode().replace('"value": 1}]', '"value": 1}, ' + columns + "]", 1)
    lake = Emitted("wal2json")
    lake.take([event.encode()])
    (found,) = lake.rows("t")
    assert (found["i"], found["r"], str(found["n"]), found["x"]) == (5, 1.5, "10.0", float("inf"))


def test_without_an_lsn_changes_count_as_they_come() -> None:
    bare = {name: value for name, value in one().items() if name != "lsn"}
    assert change("wal2json", bare).order is None
    lake = Emitted("wal2json")
    later = bare | {"action": "U", "columns": [ID, {"name": "v", "type": "text", "value": "b"}], "identity": [ID]}
    lake.take(
        [body(bare, later)], [body({name: x for name, x in transaction(kind("delete")).items() if name != "nextlsn"})]
    )
    assert lake.rows("t") == []


def test_without_types_they_are_told_by_the_values() -> None:
    found = change("wal2json", one(columns=[{"name": "id", "value": 1}]))
    assert found.schema is None
    assert types(change("wal2json", one())) == {"id": "int", "v": "string"}


def test_what_is_wrong_is_named() -> None:
    assert refused("wal2json", one("X"))[0] == "unknown_op"
    assert refused("wal2json", one(lsn="nowhere"))[0] == "bad_event"
    assert refused("wal2json", one(timestamp="soon"))[0] == "bad_event"
    assert refused("wal2json", one(table=""))[0] == "missing_table"
    assert refused("wal2json", one("D", identity=None))[0] == "missing_image"
    assert refused("wal2json", one(columns=[]))[0] == "missing_image"
    assert refused("wal2json", {"xid": 1})[0] == "missing_op"
    assert refused("wal2json", transaction(kind("upsert")))[0] == "unknown_op"


def test_equal_rows_of_a_keyless_table_are_as_many_as_there_were() -> None:
    events = [line for line in lines("wal2json/v1.ndjson.gz") if b'"nopk_default"' in line]
    lake = Emitted("wal2json")
    lake.take(events * 2, events)
    assert len(lake.rows("nopk_default")) == 3
