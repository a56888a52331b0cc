"""Canal's flat messages, and Tencent's flavour of them."""

from typing import Any

import pytest

from firn.changes.positions import by_arrival
from tests.emitters import Emitted
from tests.unit.envelopes.reading import body, change, changes, ignored, refused, row, types


def message(kind: str = "INSERT", **more: Any) -> dict[str, Any]:
    return {
        "data": [{"id": "10", "v": "a"}], "database": "mx", "es": 1795377363000, "gtid": "", "id": 3, "isDdl": False,
        "mysqlType": {"id": "int(11)", "v": "text"}, "old": None, "pkNames": ["id"], "sql": "",
        "sqlType": {"id": 4, "v": 2005}, "table": "t", "ts": 1795377365376, "type": kind,
    } | more  # fmt: skip


def typed(kind: str, text: str | None, code: int = 12) -> Any:
    """A value of this type as the table has it, and the type of its column."""
    lake = Emitted("canal")
    sent = message(data=[{"id": "1", "c": text}], mysqlType={"id": "int", "c": kind}, sqlType={"id": 4, "c": code})
    lake.take([body(sent)])
    (found,) = lake.rows("t")
    return found["c"], lake.columns("t")["c"]


def test_each_row_of_a_message_is_a_change() -> None:
    found = changes("canal", message(data=[{"id": "1", "v": "a"}, {"id": "2", "v": None}]))
    assert [(one.op, one.table, row(one.key), row(one.after)) for one in found] == [
        ("c", "mx.t", {"id": "1"}, {"id": "1", "v": "a"}), ("c", "mx.t", {"id": "2"}, {"id": "2", "v": None}),
    ]  # fmt: skip
    assert {one.ts for one in found} == {1795377363000}
    assert types(found[0]) == {"id": "int", "v": "string"}


def test_updates_hold_the_row_before_where_it_was_another() -> None:
    rows = [{"id": "10", "v": "a"}, {"id": "2", "v": "b"}]
    moved, same = changes("canal", message("UPDATE", data=rows, old=[{"id": "1"}, {}]))
    assert (row(moved.before), row(moved.after)) == ({"id": "1", "v": "a"}, {"id": "10", "v": "a"})
    assert (same.before, row(same.after)) == (None, {"id": "2", "v": "b"})
    (deleted,) = changes("canal", message("DELETE"))
    assert (deleted.op, row(deleted.before), deleted.after) == ("d", {"id": "10", "v": "a"}, None)


def test_a_truncate_is_one_and_other_ddl_is_ignored() -> None:
    ddl = {"isDdl": True, "data": None, "mysqlType": None, "sqlType": None, "pkNames": None, "sql": "truncate table t"}
    found = change("canal", message("TRUNCATE", **ddl))
    assert (found.op, found.table, found.after) == ("t", "mx.t", None)
    create = message("QUERY", **ddl | {"sql": "CREATE DATABASE d", "table": ""})
    assert ignored("canal", message("ALTER", **ddl), create) == {"schema_change": 2}


def test_rows_count_as_they_come() -> None:
    lake = Emitted("canal")
    rows = [{"id": "1", "v": str(n)} for n in range(3)]
    lake.take([body(message(data=rows[:2]), message("UPDATE", data=[rows[2]], old=[{"v": "1"}]))])
    assert [one["v"] for one in lake.rows("t")] == ["2"]
    lake.take([body(message("TRUNCATE", isDdl=True, data=None))])
    assert lake.rows("t") == []
    assert by_arrival("canal", '["0199aabbccddeeff0011223344",3]')


@pytest.mark.parametrize(
    ("kind", "text", "code", "value", "column"),
    [
        ("decimal(10,2)", "3.0", 3, "3.00", "decimal(10,2)"),
        ("DECIMAL(10,2) unsigned", "-99999999.99", 3, "-99999999.99", "decimal(10,2)"),
        ("decimal(40,20)", "12345678901234567890.12345678901234567890", 3,
         "12345678901234567890.12345678901234567890", "string"),
        ("bigint(20) unsigned", "18446744073709551615", -5, "18446744073709551615", "decimal(20,0)"),
        ("int(10) unsigned zerofill", "0000000042", 4, "42", "long"),
        ("INTEGER", "-5", 4, "-5", "int"),
        ("bit(1)", "1", -7, "1", "long"),
        ("bit(64)", "18446744073709551615", -7, "18446744073709551615", "decimal(20,0)"),
        ("year(4)", "0000", 12, "0", "int"),
        ("double", "1.7976931348623157E308", 8, "1.7976931348623157e+308", "double"),
        ("float(7,3)", "0.1", 7, "0.1", "float"),
        ("date", "2024-02-29", 91, "19782", "date"),
        ("date", "0000-00-00", 91, "None", "date"),
        ("date", "2024-00-15", 91, "None", "date"),
        ("datetime(6)", "2024-02-29 23:59:59.999999", 93, "1709251199999999", "timestamp"),
        ("timestamp", "0000-00-00 00:00:00", 93, "None", "timestamp"),
        ("time(6)", "-838:59:59.999999", 92, "-838:59:59.999999", "string"),
        ("enum('a','it''s','\u00fc,(')", "3", 4, "\u00fc,(", "string"),
        ("enum('a','it''s')", "2", 4, "it's", "string"),
        ("enum('a','b')", "0", 4, "", "string"),
        ("enum('1','2')", "2", 12, "2", "string"),
        ("set('x','y','z')", "5", 2004, "x,z", "string"),
        ("set('x','y')", "0", 2004, "", "string"),
        ("binary(4)", "ab", 2004, "b'ab\\x00\\x00'", "binary"),
        ("varbinary(50)", "\x80\u00ff", 2004, "b'\\x80\\xff'", "binary"),
        ("blob", "", 2004, "b''", "binary"),
        ("json", '{"a": 1.0}', 12, '{"a": 1.0}', "string"),
        ("point", "\x00\x00\x00\x00\x01\x01\x00\x00\x00" + "\x00" * 16, 2004,
         '{"wkb":"AQEAAAAAAAAAAAAAAAAAAAAAAAAA","srid":0}', "string"),
        ("some new type", "7", 1111, "7", "string"),
    ],
)  # fmt: skip
def test_values_are_of_their_type(kind: str, text: str, code: int, value: str, column: str) -> None:
    found, name = typed(kind, text, code)
    assert (f"{found:.1f}" if column == "float" else str(found), name) == (value, column)


def test_of_tencents_flavour_a_declared_column_is_what_it_is() -> None:
    sent = message(es=1795377363, mysqlType=None, sqlType=None, pkNames=None)
    sent["data"] = [{"id": "7", "d": "2024-02-29", "n": "1.50", "yes": "1", "at": "2024-01-01 00:00:00", "v": "x"}]
    columns = "{id: long, d: date, n: 'decimal(5,2)', yes: boolean, at: timestamp}"
    lake = Emitted("canal", {"mx.t": f"{{to: lake.t, key: [id], columns: {columns}}}"})
    lake.take([body(sent)])
    (found,) = lake.rows("t")
    told = {name: str(value) for name, value in found.items()}
    assert told == {"id": "7", "d": "19782", "n": "1.50", "yes": "True", "at": "1704067200000000", "v": "x"}
    assert change("canal", sent).ts == 1795377363000


def test_a_column_without_a_type_is_text_and_not_lost() -> None:
    found = change("canal", message(data=[{"id": "10", "v": "a", "new": "x"}]))
    assert types(found) == {"id": "int", "v": "string", "new": "string"}


def test_what_is_wrong_is_named() -> None:
    assert refused("canal", message("REPLACE"))[0] == "unknown_op"
    assert refused("canal", message(table=""))[0] == "missing_table"
    assert refused("canal", message(data=None))[0] == "missing_image"
    assert refused("canal", message("UPDATE", data=[{}, {}], old=[{}]))[1] == "`data` and `old` are not of equal length"
    assert refused("canal", message(mysqlType={"id": 5}))[0] == "bad_event"
    code, why = refused("canal", message(mysqlType={"id": "int", "v": "blob"}, data=[{"id": "1", "v": "\u4e2d"}]))
    assert (code, why) == ("bad_event", "`data.v` does not fit its `mysqlType`: it holds other signs than bytes")
    label = message(mysqlType={"id": "int", "v": "enum('b')"}, sqlType={"id": 4, "v": 4})
    assert "no label" in refused("canal", label)[1]


@pytest.mark.parametrize(
    ("kind", "text"),
    [("enum('a','b')", "0000000005"), ("enum('a','b')", "9" * 5_000), ("set('a','b')", "0" * 20 + "9")],
)
def test_digits_that_name_no_label_are_refused_however_many_there_are(kind: str, text: str) -> None:
    code, why = refused("canal", message(data=[{"c": text}], mysqlType={"c": kind}, sqlType={"c": 4}))
    assert (code, "`data.c`" in why) == ("bad_event", True)


@pytest.mark.parametrize("inside", ["²", "9" * 5_000])
def test_a_length_that_is_none_does_not_count(inside: str) -> None:
    found = change("canal", message(data=[{"c": "x"}], mysqlType={"c": f"binary({inside})"}, sqlType={"c": -2}))
    assert row(found.after) == {"c": "eA=="}
