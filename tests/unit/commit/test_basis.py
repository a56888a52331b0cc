"""What a plan for a table rests on, and which field a column was before the table was altered."""

import json
from typing import Any

import pytest

from firn.changes.decode.types import STRING, Column
from firn.tables.table_state import field_before, parse

FIELDS = [{"id": 1, "name": "id"}, {"id": 2, "name": "v"}, {"id": 3, "name": "v__firn_new"}]


def metadata(**others: Any) -> str:
    """A table with two snapshots on main, the newer of which says `said`."""
    said = others.pop("said", {})
    snapshots = [
        {"snapshot-id": 1, "summary": {"firn.epoch.s": "1", "firn.schema": "1", "firn.rebuild": "1"}},
        {"snapshot-id": 2, "parent-snapshot-id": 1, "summary": said},
    ]
    schema = {"schema-id": 0, "fields": []}
    table = {"location": "x", "table-uuid": "u", "schemas": [schema], "current-schema-id": 0, "snapshots": snapshots}
    table |= {"properties": {"firn.mode": "mirror", "firn.key": '["id"]'}, "current-snapshot-id": 2}
    return json.dumps(table | others)


def test_the_same_table_is_the_same_basis_whatever_was_committed_to_it() -> None:
    assert parse(metadata()).basis == parse(metadata(said={"firn.epoch.s": "2", "firn.schema": "1"})).basis


@pytest.mark.parametrize(
    "other",
    [
        {"table-uuid": "another"},
        {"properties": {"firn.mode": "append", "firn.key": '["id"]'}},
        {"properties": {"firn.mode": "mirror", "firn.key": '["v"]'}},
        {"properties": {}},
        {"said": {"firn.schema": "2"}},
        {"said": {"firn.rebuild": "2"}},
        {"current-snapshot-id": None},
    ],
)
def test_another_table_is_another_basis(other: dict[str, Any]) -> None:
    assert parse(metadata(**other)).basis != parse(metadata()).basis


def test_the_next_basis_is_the_one_that_an_alteration_leaves() -> None:
    before = parse(metadata()).basis
    assert before.next() == parse(metadata(said=before.next().summary())).basis


@pytest.mark.parametrize(
    ("column", "number", "found"),
    [
        (Column("v", STRING), 2, 2),  # as it was
        (Column("w", STRING, earlier=("v",)), 2, 2),  # renamed
        (Column("v", STRING), 7, 2),  # retyped
        (Column("w", STRING, earlier=("v",)), 7, 2),  # both
        (Column("v", STRING), 3, 3),  # in the midst of it
        (Column("new", STRING), 8, None),
    ],
)
def test_a_column_is_found_among_earlier_fields(column: Column, number: int, found: int | None) -> None:
    field = field_before(column, number, FIELDS)
    assert (field and field["id"]) == found
