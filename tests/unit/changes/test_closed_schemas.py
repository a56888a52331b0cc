"""Rows of closed schemas: read again out of the log they are what they were, and so they are as patches."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from obstore.store import MemoryStore

from firn.changes.merge import decoded_rows
from firn.commit.staged_changes import Change, facts_of, raw_changes, said_by
from firn.config.reader import parse
from firn.ingest import accept
from firn.log import layout
from firn.log.store import get
from firn.tables.batch_facts import TableFacts
from firn.tables.routing import route
from firn.tables.table_plan import planned, with_schemas
from firn.tables.table_state import TableState

CONFIG = "streams: {web: {envelope: rows, tables: {users: {to: web.users, key: [id]%s}}}}"
SCHEMA = ", schema: {fields: [{name: id, type: int64, required: true}]}, unknown: %s"
FIELDS = (
    {"id": 1, "name": "id", "required": True, "type": "long"},
    {"id": 2, "name": "x", "required": False, "type": "long"},
)


def staged(rows: Sequence[bytes | dict[str, Any]], more: str = "") -> tuple[list[Change], Mapping[str, TableFacts]]:
    config, store = parse(CONFIG % more), MemoryStore()
    body = b"\n".join(row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows)
    done = accept.accept(store, config, "web", body, now=datetime(2026, 11, 25, tzinfo=UTC), table="users")
    data = get(store, layout.staged_path(done.batch_id)) or b""
    changes = list(raw_changes(data, 1, done.batch_id, 0, config.streams["web"].order))
    said = [fact | {"epoch": 1, "batch": done.batch_id} for fact in said_by(changes)]
    return changes, facts_of({("users", 1, changes[0]["op"]): len(changes)}, said)


@pytest.mark.parametrize(
    ("unknown", "row", "taken"),
    [
        ("reject", {"id": 1, "x": 1}, False),
        ("reject", {"id": 1, "x": "a"}, False),
        ("drop", {"id": 1, "x": 1}, True),
        ("drop", b'{"id": 1, "x": 1e999}', True),
    ],
)
def test_a_row_from_before_the_schema_is_judged_alike_now_and_out_of_the_log(
    unknown: str, row: bytes | dict[str, Any], taken: bool
) -> None:
    changes, facts = staged([row])
    settings = parse(CONFIG % (SCHEMA % unknown)).streams["web"]
    target = route(settings, facts).targets[0]
    decoding = planned(target, settings, None).decoding
    for one in (decoding, with_schemas(decoding, target, facts)):
        good, _ = decoded_rows.decoded(changes, one, mirror=True)
        assert bool(good) is taken


@pytest.mark.parametrize("value", [5, None])
def test_a_patch_says_nothing_of_a_column_that_its_schema_drops(value: int | None) -> None:
    more = SCHEMA % "drop" + ", update: patch"
    changes, facts = staged([{"id": 1, "x": value}], more)
    settings = parse(CONFIG % more).streams["web"]
    target = route(settings, facts).targets[0]
    properties = {"firn.key": '["id"]', "firn.mode": "mirror"}
    plan = planned(target, settings, TableState("m", properties, FIELDS, 1, ()))
    good, _ = decoded_rows.decoded(changes, plan.decoding, mirror=True)
    values = decoded_rows.row_change(good[0], plan.decoding).values
    assert values is not None
    assert "x" not in values
