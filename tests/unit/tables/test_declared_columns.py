"""Columns that firn.yaml declares, where a table that Firn did not make has one of the name."""

import json

import pytest

from firn.config.names import TableName
from firn.config.reader import parse as config
from firn.errors import TerminalError
from firn.tables.batch_facts import TableFacts
from firn.tables.routing import Target
from firn.tables.table_plan import planned
from firn.tables.table_state import TableState

MAP = {"type": "map", "key-id": 4, "key": "string", "value-id": 5, "value": "long", "value-required": False}


@pytest.mark.parametrize("mode", ["mirror", "append"])
@pytest.mark.parametrize(
    ("declared", "kind", "made", "works"),
    [
        ("time", "time", False, False),
        ("time", "time", True, False),
        ("'map<string, long>'", MAP, False, False),
        ("'map<string, long>'", MAP, True, True),
        ("'fixed[3]'", "fixed[3]", False, False),
        ("'fixed[3]'", "fixed[3]", True, True),
        ("long", "long", False, True),
    ],
)
def test_one_that_no_change_can_fill_is_told(declared: str, kind: object, made: bool, works: bool, mode: str) -> None:
    keyed, works = mode == "mirror", works or (mode == "append" and declared != "time")
    rule = "key: [id]" if keyed else "mode: append"
    settings = config(
        "warehouse: file:///x\ncatalog: {type: sql}\n"
        f"streams: {{shop: {{tables: {{a.t: {{to: lake.t, {rule}, columns: {{x: {declared}}}}}}}}}}}"
    ).streams["shop"]
    fields = ({"id": 1, "name": "id", "required": False, "type": "long"},)
    there = (*fields, {"id": 2, "name": "x", "required": False, "type": kind})
    properties = {"firn.key": json.dumps(["id"] if keyed else []), "firn.mode": mode} if made else {}
    state = TableState("file:///t", properties, there, None, ())
    target = Target(TableName("lake", "t"), settings.tables[0], ("a.t",), (TableFacts(),))
    if works:
        assert [column.name for column in planned(target, settings, state).columns.columns] == ["id", "x"]
    else:
        with pytest.raises(TerminalError, match=r"declares the column x, whose type in the table is one that no"):
            planned(target, settings, state)
