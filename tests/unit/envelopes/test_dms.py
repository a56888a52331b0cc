"""AWS DMS's records and rows, as its guide has them."""

import random
from typing import Any

import pytest

from firn.changes.envelopes.parser import parse
from firn.changes.positions import by_arrival, position
from firn.errors import RequestError
from tests.emitters import Emitted, shuffled
from tests.unit.envelopes.reading import body, change, changes, ignored, refused, row

RULE = {"public.foo": "{to: lake.foo, key: [id]}"}
COMMIT = "2024-07-29T00:58:17.974340Z"


def record(operation: str, data: Any, **more: Any) -> dict[str, Any]:
    before = {"before-image": more.pop("before")} if "before" in more else {}
    metadata: dict[str, Any] = {
        "timestamp": "2024-07-29T00:58:17.983670Z", "record-type": "data", "operation": operation,
        "partition-key-type": "schema-table", "schema-name": "public", "table-name": "foo",
    }  # fmt: skip
    if operation != "load":
        metadata |= {
            "commit-timestamp": COMMIT, "stream-position": "00000002/7C007178.3.00000002/7C007178",
            "transaction-id": 1139, "transaction-record-id": 1,
        }  # fmt: skip
    return {"data": data, **before, "metadata": metadata | {k.replace("_", "-"): v for k, v in more.items()}}


def test_operations_are_changes() -> None:
    load, insert, update, delete = changes(
        "dms", record("load", {"id": 1}), record("insert", {"id": 1, "n": 1.5}),
        record("update", {"id": 1, "n": None}, before={}), record("delete", {"id": 1, "n": None}),
    )  # fmt: skip
    assert [one.op for one in (load, insert, update, delete)] == ["r", "c", "u", "d"]
    assert (insert.table, insert.ts, row(insert.after)) == ("public.foo", 1722214697974, {"id": 1, "n": 1.5})
    assert (update.before, row(delete.before), delete.after) == (None, {"id": 1, "n": None}, None)


def test_a_changed_key_shows_in_the_before_image_whatever_its_member_is_called() -> None:
    for name in ("before-image", "BI"):
        event = record("update", {"id": 45, "name": "Jane"})
        event = {name: {"id": 46}, **event}
        assert row(change("dms", event).before) == {"id": 46, "name": "Jane"}
    lake = Emitted("dms", RULE)
    lake.take(
        [body(record("insert", {"id": 46}), record("update", {"id": 45}, before={"id": 46}, transaction_record_id=2))]
    )
    assert lake.rows("foo") == [{"id": 45}]


def test_transactions_stand_in_the_order_of_their_commits_and_records_as_numbers() -> None:
    def place(**more: Any) -> bytes | None:
        found = change("dms", record("update", {"id": 1}, **more))
        return position(found.connector, found.op, found.order, 0)

    assert place(transaction_record_id=9) < place(transaction_record_id=10)  # type: ignore[operator]
    assert place(transaction_id=2**40) < place(commit_timestamp="2024-07-29T00:58:18Z", transaction_id=1)  # type: ignore[operator]
    second = "2024-07-29T00:58:18Z"
    early = place(commit_timestamp=second, stream_position="mysql-bin-changelog.000009:999:-1:1:2")
    later = place(commit_timestamp=second, stream_position="mysql-bin-changelog.000010:4:-1:1:2", transaction_id=1)
    assert early < later  # type: ignore[operator]


def test_shuffled_and_doubled_the_table_is_the_sources() -> None:
    events = [record("load", {"id": 1, "v": "loaded"}), record("load", {"id": 2, "v": "loaded"})]
    steps = [
        ("update", {"id": 1, "v": "a"}, {}),
        ("delete", {"id": 2}, None),
        ("update", {"id": 3, "v": "b"}, {"id": 1}),
    ]
    for n, (operation, data, before) in enumerate(steps, 2):
        more = {} if before is None else {"before": before}
        events.append(record(operation, data, transaction_id=1139 + n // 2, transaction_record_id=n, **more))
    events.append(record("insert", {"id": 2, "v": "again"}, commit_timestamp="2024-07-29T00:59:00Z"))
    for seed in range(20):
        lake = Emitted("dms", RULE)
        for request in shuffled([body(one) for one in events], random.Random(seed)):
            lake.take(request)
        assert sorted((one["id"], one["v"]) for one in lake.rows("foo")) == [(2, "again"), (3, "b")]


def test_without_transaction_details_a_change_counts_as_it_came_and_says_so() -> None:
    event = record("update", {"id": 1})
    for name in ("commit-timestamp", "stream-position", "transaction-record-id"):
        del event["metadata"][name]
    assert change("dms", event).order is None
    lake = Emitted("dms", RULE)
    lake.take([body(event | {"data": {"id": 1, "v": "first"}}, event | {"data": {"id": 1, "v": "second"}})])
    assert [one["v"] for one in lake.rows("foo")] == ["second"]
    assert by_arrival("dms", '["0199aabbccddeeff0011223344",3]')


def test_control_records_are_ignored_and_a_truncate_is_one() -> None:
    made = record("create-table", None, record_type="control") | {"control": {"table-def": {"columns": {}}}}
    exceptions = record(
        "create-table", None, record_type="control", schema_name="", table_name="awsdms_apply_exceptions"
    )
    assert ignored("dms", made, exceptions, record("drop-table", None, record_type="control")) == {"control": 3}
    assert change("dms", record("truncate-table", None, record_type="control")).op == "t"


def test_a_column_that_is_left_out_is_null() -> None:
    lake = Emitted("dms", RULE)
    lake.take([body(record("insert", {"id": 1, "v": "a"}), record("update", {"id": 1}, transaction_record_id=2))])
    assert lake.rows("foo") == [{"id": 1, "v": None}]


def test_rows_of_files_are_ordered_by_their_change_sequence_and_loaded_rows_are_beaten() -> None:
    head = {"ar_h_timestamp": "2024-07-29 00:58:17.974340", "timestamp": "2024-07-29 00:58:17.974340"}
    rows = [
        {"id": 1, "v": "loaded"},
        {"Op": "I", "id": 2, "v": "a", "AR_H_CHANGE_SEQ": "20240729005817970000000000000000009", **head},
        {"Op": "U", "id": 1, "v": "c", "AR_H_CHANGE_SEQ": "20240729005817970000000000000000011", **head},
        {"Op": "U", "id": 1, "v": "b", "AR_H_CHANGE_SEQ": "20240729005817970000000000000000010", **head},
        {"Op": "D", "id": 2, "v": "a", "AR_H_CHANGE_SEQ": "20240729005817970000000000000000012", **head},
    ]
    for seed in range(8):
        lake = Emitted("dms", {"hr.staff": "{to: lake.staff, key: [id]}"})
        for request in shuffled([body(one) for one in rows], random.Random(seed)):
            assert lake.post(request, table="hr.staff").rejected == 0
        lake.commit()
        (found,) = lake.rows("staff")
        assert (found["id"], found["v"], set(found)) == (1, "c", {"id", "v", "timestamp"})


def test_a_row_names_its_table_by_metadata_or_the_request_does() -> None:
    named = {"Op": "I", "id": 1, "ar_m_source_schema": "hr", "ar_m_source_table_name": "staff", "ar_h_change_seq": "7"}
    found = change("dms", named)
    assert (found.table, row(found.after), found.order) == ("hr.staff", {"id": 1}, "[7,null,null]")
    lake = Emitted("dms")
    done = lake.post([body({"Op": "I", "id": 1})], table="hr.staff")
    assert done.accepted == 1


def test_a_row_whose_table_nobody_names_is_a_letter_among_others_and_a_refusal_alone() -> None:
    lake = Emitted("auto")
    done = lake.post([body({"Op": "I", "id": 1}, record("insert", {"id": 1}))])
    assert (done.accepted, [(one.index, one.reason) for one in done.errors]) == (1, [(0, "missing_table")])
    with pytest.raises(RequestError, match="which table of the stream"):
        Emitted("dms").post([body({"Op": "I", "id": 1})])


def test_what_is_wrong_is_named() -> None:
    assert refused("dms", record("upsert", {}))[0] == "unknown_op"
    assert refused("dms", record("insert", None))[0] == "missing_image"
    assert refused("dms", record("insert", {}, table_name=""))[0] == "missing_table"
    assert refused("dms", record("insert", {}, commit_timestamp="soon"))[0] == "bad_event"
    assert refused("dms", record("update", {}) | {"a": {}, "b": {}})[0] == "bad_event"
    assert refused("dms", {"Op": "X", "ar_h_change_seq": "1"})[0] == "unknown_op"
    assert refused("dms", {"Op": "I", "ar_h_change_seq": "x"})[0] == "bad_event"


@pytest.mark.parametrize(
    "columns",
    [{"database": "d", "type": "t"}, {"operation": "o", "table": "t", "row": 1}, {"action": "I", "change": 1}],
)
def test_a_row_may_have_columns_called_like_members_of_other_envelopes(columns: dict[str, Any]) -> None:
    (found,) = parse(body({"Op": "I", "id": 1, **columns}), "dms").changes()
    assert row(found.after) == {"id": 1, **columns}
