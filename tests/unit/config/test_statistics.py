"""`care.statistics` of firn.yaml."""

import pytest

from firn.config.maintenance import Statistics
from firn.config.names import TableName
from firn.config.reader import parse
from firn.errors import ConfigError

RULES = "public.a: {to: lake.a}, public.b: {to: lake.b, care: {statistics: {partitions: yes}}}"
TABLES = f"streams: {{s: {{tables: {{{RULES}}}}}}}"


def test_nothing_is_counted_unless_asked_for() -> None:
    known = parse(TABLES)
    assert not known.care_of(TableName.parse("lake.a")).statistics.on
    assert known.care_of(TableName.parse("lake.b")).statistics == Statistics((), True)


def test_a_rule_says_more_than_what_is_said_for_all() -> None:
    known = parse("care: {statistics: {columns: [x, y, x], every: 6h}}\n" + TABLES)
    assert known.care_of(TableName.parse("lake.a")).statistics == Statistics(("x", "y"), False, 21_600)
    assert known.care_of(TableName.parse("lake.b")).statistics == Statistics(("x", "y"), True, 21_600)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("{every: 59m}", "less than 1h"),
        ("{columns: {x: y}}", "columns"),
        ("{partitions: maybe}", "neither true nor false"),
        ("{column: [x]}", "column"),
        (f"{{columns: [{', '.join(f'c{n}' for n in range(33))}]}}", "33 names, and 32 are counted"),
    ],
)
def test_what_is_wrong_is_named(wrong: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse(f"care: {{statistics: {wrong}}}\n{TABLES}")
