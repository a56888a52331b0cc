"""`delete_when` as a condition: what it says of rows, and where it is refused."""

import json
from typing import Any

import pytest

from firn.config.condition_text import parse
from firn.config.reader import parse as config
from firn.config.sql_text import SqlRefused
from firn.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "true", "false"),
    [
        ("status = 'gone'", [{"status": "gone"}], [{"status": "Gone"}, {"status": None}, {}, {"status": ["gone"]}]),
        ("deleted", [{"deleted": True}], [{"deleted": False}, {"deleted": "true"}, {"deleted": 1}, {}]),
        ("deleted_at IS NOT NULL", [{"deleted_at": 0}, {"deleted_at": {}}], [{"deleted_at": None}, {}]),
        ("NOT (n < 5 OR n >= 7)", [{"n": 5}, {"n": 6.9}], [{"n": 4}, {"n": 7}, {"n": "6"}, {}]),
        ("n BETWEEN -1 AND +2.5", [{"n": -1}, {"n": 2.5}], [{"n": 2.51}, {"n": -2}]),
        ("n != 1 and not s in ('a', 'b')", [{"n": 2, "s": "c"}], [{"n": 2, "s": "a"}, {"n": 2}, {"s": "c"}]),
        ("n = 9007199254740993", [{"n": 9007199254740993}], [{"n": 9007199254740992}]),
        ("n = 1", [{"n": 1.0}], [{"n": True}, {"n": "1"}]),
        ("s LIKE 'a%b_c%'", [{"s": "abxc"}, {"s": "a--b\n!b?c-"}], [{"s": "abc"}, {"s": "xabxc"}, {"s": 1}]),
        ("s LIKE '%'", [{"s": ""}, {"s": "x"}], [{}]),
        ("s NOT LIKE '_'", [{"s": ""}, {"s": "xy"}], [{"s": "x"}, {}]),
        ('meta."is gone" = true', [{"meta": {"is gone": True}}], [{"meta": {}}, {"meta": "x"}, {"meta": None}, {}]),
        ("x IS NOT TRUE", [{}, {"x": False}, {"x": "t"}], [{"x": True}]),
        ("x IS FALSE", [{"x": False}], [{}, {"x": None}]),
        ("a = b", [{"a": 1, "b": 1}, {"a": "", "b": ""}], [{"a": 1, "b": "1"}, {}]),
        ("a = 1 OR b = 1", [{"b": 1}, {"a": 1, "b": "x"}], [{"a": 2}]),
    ],
)
def test_a_row_is_a_delete_where_the_condition_is_true(text: str, true: list[Any], false: list[Any]) -> None:
    condition = parse(text)
    assert [condition.holds(json.dumps(row).encode()) for row in true] == [True] * len(true)
    assert [condition.holds(json.dumps(row).encode()) for row in false] == [False] * len(false)


def test_what_is_unknown_is_not_true_and_neither_is_its_opposite() -> None:
    for text in ("n = 1", "NOT n = 1", "NOT (NOT n = 1)", "n = 1 OR n <> 1"):
        assert not parse(text).holds(b'{"n": "1"}')


def test_its_fields_are_known() -> None:
    assert parse("a = 1 OR NOT (b.c IS NULL AND 'x' = d)").fields == {"a", "b", "d"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1, column 1: there is no condition"),
        ("a = ", "the condition ends behind '='"),
        ("a == 1", "line 1, column 4: '=' stands where a field or a value should"),
        ("a = NULL", "nothing is equal to NULL; write IS NULL"),
        ("a = 1; DROP TABLE x", "line 1, column 6: ';' stands where the condition has ended"),
        ("lower(a) = 'x'", "lower is a function, and a delete is told by what fields hold"),
        ("now() > at", "now is a function"),
        ("a = 1 OR", "the condition ends behind 'OR'"),
        ("(a = 1", "the condition ends behind '1'"),
        ("a IN (SELECT x FROM y)", ", column 14: ) is missing before 'x'"),
        ("a NOT = 1", "NOT stands before something else than IN, BETWEEN or LIKE"),
        ("'x'", "a value alone is no condition"),
        ("1 IS NULL", "IS looks at a field"),
        ("a IS x", "IS is followed by something else"),
        ("a LIKE b", "LIKE needs a text"),
        ("a LIKE '" + "_" * 201 + "'", "the text has more than 200 characters"),
        ("a = 1x", "'1x' is not a number"),
        ("a = 1e999999999999999999999", "is not a number"),
        ("a = -'x'", "'x' is not a number"),
        ("a.", "the condition ends behind '.'"),
        ("a. = 1", "a name is missing behind the point"),
        ("(" * 40 + "a" + ")" * 40, "more than 30 levels deep"),
        ("NOT " * 40 + "a", "more than 30 levels deep"),
        (".".join("a" * 40), "more than 30 levels deep"),
        ("a = 1 OR " * 300 + "a", "there are more than 1,000 words and marks"),
        ("a = '" + "x" * 10_000 + "'", "more than 10,000 bytes"),
        ("a = $1", "$ is for parameters"),
        ("a = 'x", "a text begins here and does not end"),
    ],
)
def test_what_it_may_not_say_is_refused_with_its_place(text: str, told: str) -> None:
    with pytest.raises(SqlRefused) as raised:
        parse(text)
    assert told in str(raised.value)


def stream(more: str) -> str:
    return f"streams:\n  web:\n    envelope: rows\n{more}    tables: {{users: {{to: web.users, key: [id]}}}}\n"


def test_firn_yaml_takes_it_without_op_field() -> None:
    found = config(stream("    delete_when: \"status = 'gone' AND at IS NOT NULL\"\n")).streams["web"]
    assert found.delete_if == parse("status = 'gone' AND at IS NOT NULL")
    assert found.own_fields == {"status", "at"}
    values = config(stream("    op_field: status\n    delete_when: gone\n")).streams["web"]
    assert values.delete_if is None
    assert values.delete_when == {"gone"}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (
            "    delete_when: lower(a) = 'x'\n",
            "firn.yaml:4: streams.web.delete_when: is a condition without op_field: line 1, column 1: lower is a func",
        ),
        (
            "    delete_when: [a, b]\n",
            "says which values make a delete, and op_field is missing; write op_field: op, or",
        ),
    ],
)
def test_firn_yaml_names_what_it_can_not_be(more: str, told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        config(stream(more))
    assert told in str(raised.value)
