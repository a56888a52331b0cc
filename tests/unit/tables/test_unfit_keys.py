"""A key of a type that tells no rows apart is refused by its name: in firn.yaml, in changes, in a table."""

import json
from typing import Any

import pytest

from firn.config.reader import parse
from firn.errors import ConfigError
from firn.tables.batch_facts import TableFacts
from firn.tables.planning import KeyChanged
from firn.tables.routing import route
from firn.tables.table_plan import Planned, planned
from firn.tables.table_state import KEY, TableState
from tests.unit.spark.test_rules import columns

MAP = {"type": "map", "key-id": 3, "key": "string", "value-id": 4, "value": "int", "value-required": False}
STRUCT = {"type": "struct", "fields": [{"id": 3, "name": "x", "required": False, "type": "int"}]}


def list_of(element: Any) -> dict[str, Any]:
    return {"type": "list", "element-id": 9, "element": element, "element-required": False}


def table(kind: Any, key: list[str] | None = None) -> TableState:
    fields = ({"id": 1, "name": "id", "required": False, "type": "long"},
              {"id": 2, "name": "m", "required": False, "type": kind})  # fmt: skip
    return TableState("s3://lake/t", {} if key is None else {KEY: json.dumps(key)}, fields, 1, ())


def plan(rule: str, state: TableState | None, named: tuple[str, ...] = ()) -> Planned:
    settings = parse(f"streams: {{web: {{tables: {{a.t: {{to: web.t{rule}}}}}}}}}").streams["web"]
    facts = TableFacts(seen=[columns(id="long")], keyed=[], keys={named: 1} if named else {})
    return planned(route(settings, {"a.t": facts}).targets[0], settings, state)


@pytest.mark.parametrize(
    "kind", ["map<string, int>", "list<map<string, int>>", "struct<x: int>", "list<struct<x: int>>"]
)
def test_a_key_that_firn_yaml_declares_so_is_an_error_of_its_line(kind: str) -> None:
    with pytest.raises(ConfigError, match=r"'m' is a (map|struct)"):
        plan(f", key: [m], columns: {{m: '{kind}'}}", None)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("map<string, int>", "a map"),
        ("struct<x: int>", "a struct"),
        ("list<map<string, int>>", "a list with a map in it"),
    ],
)
def test_a_key_that_changes_name_makes_no_table_and_is_told_by_its_name(kind: str, said: str) -> None:
    told = plan(f", columns: {{m: '{kind}'}}", None, ("m",)).decoding.no_key
    assert told == (
        f"the column m, which is in its key, is {said}, by which Firn tells no rows apart; name other columns under "
        "`key` in firn.yaml, and replay"
    )


@pytest.mark.parametrize(
    ("kind", "said"),
    [(MAP, "a map"), (STRUCT, "a struct"), (list_of(MAP), "a list of a map"), ("geometry", "a geometry")],
)
@pytest.mark.parametrize("declared", [False, True])
def test_a_table_that_is_adopted_under_such_a_key_is_held_with_the_reason(kind: Any, said: str, declared: bool) -> None:
    rule = ", key: [m]" if not declared else ", columns: {m: 'map<string, int>'}"
    with pytest.raises(KeyChanged, match=f"the table's column m, which is in its key, is {said}, by which Firn tells"):
        plan(rule, table(kind), ("m",) if declared else ())


def test_a_table_of_firns_own_is_held_too() -> None:
    with pytest.raises(KeyChanged, match="column m, which is in its key, is a map"):
        plan("", table(MAP, ["m"]))


@pytest.mark.parametrize("kind", ["float", "double", "binary", "uuid", list_of("string"), list_of(list_of("long"))])
def test_what_tells_rows_apart_is_a_key(kind: Any) -> None:
    found = plan(", key: [m]", table(kind))
    assert (found.key, found.decoding.no_key) == (("m",), None)
