"""Maxwell's JSON: https://maxwells-daemon.io/dataformat/"""

from typing import Any

import pytest

from firn.changes.envelopes.row_images import with_exact_numbers
from firn.changes.positions import by_arrival, position
from firn.config.reader import parse as parse_config
from tests.emitters import Emitted
from tests.unit.envelopes.reading import body, change, changes, ignored, refused, row


def event(kind: str = "insert", **more: Any) -> dict[str, Any]:
    return {
        "database": "mx", "table": "hot", "type": kind, "ts": 1795377025, "xid": 4240, "xoffset": 0,
        "position": "bin.000001:132855", "primary_key": [1], "primary_key_columns": ["id"], "data": {"id": 1, "v": "h"},
    } | more  # fmt: skip


def test_rows_have_their_key_their_time_and_their_place() -> None:
    found = change("maxwell", event())
    assert (found.op, found.table, found.ts) == ("c", "mx.hot", 1795377025000)
    assert (row(found.key), row(found.before), row(found.after)) == ({"id": 1}, None, {"id": 1, "v": "h"})
    deleted = change("maxwell", event("delete"))
    assert (row(deleted.key), row(deleted.before), deleted.after) == ({"id": 1}, {"id": 1, "v": "h"}, None)


def test_a_changed_key_is_in_the_row_before() -> None:
    found = change("maxwell", event("update", data={"id": 10, "v": "a"}, old={"id": 1}))
    assert (row(found.before), row(found.after), row(found.key)) == (
        {"id": 1, "v": "a"},
        {"id": 10, "v": "a"},
        {"id": 10},
    )


def test_the_last_row_of_a_transaction_is_above_all_others_of_it_and_files_compare_as_numbers() -> None:
    last = event(commit=True)
    del last["xoffset"]
    first, tenth, end, later = (
        position(one.connector, one.op, one.order, 0)
        for one in changes("maxwell", event(), event(xoffset=10), last, event(position="bin.10:4"))
    )
    assert first < tenth < end < later


def test_a_bootstrapped_row_is_beaten_by_every_change_and_by_a_later_bootstrap() -> None:
    read = event("bootstrap-insert")
    for name in ("xid", "xoffset", "position"):
        del read[name]
    early, late, streamed = changes("maxwell", read, read | {"ts": 1795377026}, event(position="bin.1:4"))
    places = [position(one.connector, one.op, one.order, 0) for one in (early, late, streamed)]
    assert early.op == "r"
    assert places == sorted(places)
    assert not by_arrival("maxwell", early.order)


def test_without_a_position_a_change_counts_as_it_came_and_says_so() -> None:
    bare = {name: one for name, one in event().items() if name not in ("position", "xoffset", "primary_key_columns")}
    assert (found := change("maxwell", bare)).order is None
    assert found.key is None
    lake = Emitted("maxwell", {"mx.hot": "{to: lake.hot, key: [id]}"})
    lake.take([body(bare | {"data": {"id": 1, "v": "new"}})], [body(bare)], each=1)
    assert lake.rows("hot") == [{"id": 1, "v": "h"}]
    with_place = Emitted("maxwell")
    with_place.take([body(event("update", data={"id": 1, "v": "new"}, position="bin.2:4"))], [body(event())], each=1)
    assert with_place.rows("hot") == [{"id": 1, "v": "new"}]


def test_what_changes_no_row_is_ignored_by_reason() -> None:
    ddl = {
        "type": "table-drop",
        "database": "mx",
        "table": "t",
        "ts": 1795377025000,
        "sql": "DROP",
        "position": "b.1:4",
    }
    made = {
        "type": "database-create",
        "database": "mx",
        "charset": "utf8mb4",
        "ts": 1,
        "sql": "CREATE",
        "position": "b.1:4",
    }
    started = {"database": "mx", "table": "t", "type": "bootstrap-start", "ts": 1, "data": {}}
    assert ignored("maxwell", ddl, made, started) == {"schema_change": 2, "snapshot": 1}


def test_what_is_wrong_is_named() -> None:
    assert refused("maxwell", event("upsert"))[0] == "unknown_op"
    assert refused("maxwell", event(table=""))[0] == "missing_table"
    assert refused("maxwell", event(data=None)) == ("missing_image", "insert comes without the row in `data`")
    assert "switch its encryption off" in refused("maxwell", event(data=None, encrypted={"iv": "", "bytes": ""}))[1]
    assert refused("maxwell", event(position="nowhere"))[0] == "bad_event"
    assert refused("maxwell", event(ts=2**60))[0] == "bad_event"


@pytest.mark.parametrize(
    ("number", "kept"),
    [
        (b"12345678901234567890.12345678901234567890", b'"12345678901234567890.12345678901234567890"'),
        (b"99999999.99", b"99999999.99"),
        (b"1.7976931348623157E308", b"1.7976931348623157E308"),
        (b"0.1000000000000000055511151231257827", b'"0.1000000000000000055511151231257827"'),
        (b"0.10000000000000000000", b"0.10000000000000000000"),
        (b"18446744073709551615", b"18446744073709551615"),
        (b"-123456789012345.67", b"-123456789012345.67"),
        (b"123456789012345678.9", b'"123456789012345678.9"'),
        (b'"12345678901234567890.1"', b'"12345678901234567890.1"'),
        (b"1.12345678901234567e-400", b'"1.12345678901234567e-400"'),
    ],
)
def test_a_number_that_a_double_does_not_keep_becomes_text(number: bytes, kept: bytes) -> None:
    assert with_exact_numbers({"n": number})["n"] == kept


def test_no_digit_of_a_column_without_a_type_is_lost() -> None:
    lake = Emitted("maxwell")
    whole = body(event(data={})).replace(b'"data": {}', b'"data": {"id": 1, "a": 12345678901234567890.12, "b": 2.50}')
    lake.take([whole])
    assert lake.rows("hot") == [{"id": 1, "a": "12345678901234567890.12", "b": 2.5}]


def test_a_decimal_that_firn_yaml_declares_is_read_by_its_digits() -> None:
    exact = '{"id": 1, "a": 12345678901234567890.12, "b": 3.00}'
    lake = Emitted("maxwell", {"mx.hot": "{to: lake.hot, columns: {a: 'decimal(38,2)', b: 'decimal(10,2)'}}"})
    whole = body(event(data={})).decode().replace('"data": {}', f'"data": {exact}')
    lake.take([whole.encode()])
    (found,) = lake.rows("hot")
    assert (str(found["a"]), str(found["b"])) == ("12345678901234567890.12", "3.00")
    assert parse_config("streams: {a: {envelope: maxwell, tables: {t: {to: l.t}}}}").streams["a"].decimal == "double"
