"""What another engine did to a fed table, as its metadata tells: columns that went, rows that came."""

import json
from typing import Any

import pytest

from firn.changes.decode.types import STRING, Column
from firn.errors import TerminalError
from firn.quarantine.rules import Standing, failed_table, holds
from firn.tables.failures import failure
from firn.tables.planning import ColumnGone, check_gone, plan_columns
from firn.tables.table_state import TableState, parse

FED = {"operation": "append", "firn.epoch.shop": "3", "firn.format": "1"}


def metadata(schemas: list[list[str]], snapshots: list[tuple[int, dict[str, Any]]]) -> str:
    """A table whose schemas have these columns, the last one now; its snapshots in a row, each with its schema."""
    fields = [
        [{"id": n, "name": name, "required": False, "type": "string"} for n, name in enumerate(names)]
        for names in schemas
    ]
    return json.dumps(
        {
            "location": "file:///t", "current-schema-id": len(schemas) - 1,
            "schemas": [{"schema-id": n, "fields": some} for n, some in enumerate(fields)],
            "current-snapshot-id": len(snapshots) - 1, "refs": {"b": {"snapshot-id": len(snapshots) - 1}},
            "snapshots": [
                {"snapshot-id": n, "parent-snapshot-id": n - 1, "schema-id": schema, "summary": summary}
                for n, (schema, summary) in enumerate(snapshots)
            ],
        }
    )  # fmt: skip


def state(schemas: list[list[str]], snapshots: list[tuple[int, dict[str, Any]]]) -> TableState:
    return parse(metadata(schemas, snapshots))


def test_a_column_that_a_stream_filled_and_that_is_called_otherwise_now_is_gone() -> None:
    assert state([["id", "v"], ["id", "label"]], [(0, FED)]).gone == {"v"}
    later = (1, {"operation": "append"})
    assert state([["id", "v"], ["id"]], [(0, FED), later]).gone == {"v"}
    assert state([["id", "v"], ["id"], ["id", "v"]], [(0, FED), later]).gone == frozenset(), "it was added again"


def test_what_went_before_a_stream_fed_the_table_is_its_owners_affair() -> None:
    assert state([["id", "v"], ["id"]], [(0, {"operation": "append"}), (1, FED)]).gone == frozenset()
    assert state([["id", "v"], ["id"]], []).gone == frozenset()


def test_a_branch_on_which_all_rows_are_made_again_lacks_nothing() -> None:
    assert parse(metadata([["id", "v"], ["id"]], [(0, FED)]), "b").gone == frozenset()


def test_what_was_dropped_on_purpose_may_come_back() -> None:
    text = json.loads(metadata([["id", "v", "w"], ["id"]], [(0, FED)]))
    assert parse(json.dumps(text | {"properties": {"firn.dropped": "[1]"}})).gone == {"w"}


@pytest.mark.parametrize(
    ("told", "gone"), [('["v"]', {"w"}), ('["v", 2]', set()), ('["nowhere", null, 1.5]', {"v", "w"})]
)
def test_names_that_the_property_held_before_are_read_too(told: str, gone: set[str]) -> None:
    text = json.loads(metadata([["id", "v", "w"], ["id"]], [(0, FED)]))
    assert parse(json.dumps(text | {"properties": {"firn.dropped": told}})).gone == gone


@pytest.mark.parametrize("told", ["v", "5", "[[1]]", '[{"v": 1}]'])
def test_a_property_that_is_no_list_of_columns_is_refused_with_what_to_write(told: str) -> None:
    text = json.loads(metadata([["id", "v"], ["id"]], [(0, FED)]))
    with pytest.raises(TerminalError, match=r"firn\.dropped is .*; set it to the field ids .* or to \"\[\]\""):
        parse(json.dumps(text | {"properties": {"firn.dropped": told}}))


def test_a_column_that_came_back_may_not_go_unseen_a_second_time() -> None:
    text = json.loads(metadata([["id", "v"], ["id"], ["id", "v"], ["id"]], [(0, FED), (1, FED), (2, FED)]))
    text["schemas"][2]["fields"][1]["id"] = 2  # Iceberg gives no id twice
    dropped_once = {"properties": {"firn.dropped": "[1]"}}
    assert parse(json.dumps(text | dropped_once)).gone == {"v"}, "the second one was dropped by somebody else"


def test_changes_that_bring_a_column_that_is_gone_are_not_applied() -> None:
    there = [Column("id", STRING)]
    with pytest.raises(ColumnGone, match=r"dropped or renamed the column v .*renames: \{NEW: OLD\}.*add the column"):
        check_gone(plan_columns(there, (), [[Column("v", STRING)]]), {"v"})
    check_gone(plan_columns(there, (), [[Column("w", STRING)]]), {"v"})


def test_without_a_column_of_firns_own_no_change_is_applied() -> None:
    with pytest.raises(ColumnGone, match="no column _firn_pos any more"):
        check_gone(plan_columns([Column("id", STRING)], (), []), {"_firn_pos"})


def test_it_holds_the_table_at_once() -> None:
    found = failure(ColumnGone("gone"))
    assert found.kind == "column_gone"
    assert holds(found.kind, 1)
    held = failed_table("shop", "s.t", found.kind, found.text, Standing(2, 2), 3, 3, "now")
    assert "firn rebuild s.t --in-place" in held.advice
    assert held.reason == "failed"


@pytest.mark.parametrize(
    ("newest_first", "count"),
    [
        ([], 0), ([{"operation": "append"}], 0), ([FED, {"operation": "append"}], 0),
        ([{"operation": "append"}, FED], 1),
        ([{"operation": "overwrite"}, {"operation": "replace"}, {"operation": "delete"}, FED, {"operation": "x"}], 2),
        ([{"operation": "append", "firn.format": "1"}, {"operation": "replace"}, FED], 0),
    ],
)  # fmt: skip
def test_rows_that_others_wrote_since_a_commit_are_counted(newest_first: list[dict[str, str]], count: int) -> None:
    found = state([["id"]], [(0, summary) for summary in reversed(newest_first)])
    assert found.rows_by_others == count


def test_rows_that_others_wrote_are_counted_as_long_as_their_snapshots_are_kept() -> None:
    theirs, own = {"operation": "append"}, {"operation": "append", "firn.format": "1"}
    before_it_was_fed = [theirs, theirs]
    newest_first = [FED, theirs, {"operation": "replace"}, FED, own, {"operation": "delete"}, FED, *before_it_was_fed]
    found = state([["id"]], [(0, summary) for summary in reversed(newest_first)])
    assert (found.rows_by_others, found.kept_by_others) == (0, 2)
