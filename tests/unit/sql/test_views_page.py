"""docs/views.md is executed: its configuration parses and passes the check, its error is real."""

import re
from pathlib import Path

import pytest

from firn.config.reader import parse
from firn.errors import ConfigError
from firn_sql.configured import check_sql
from firn_sql.views import functions

PAGE = (Path(__file__).parents[3] / "docs" / "views.md").read_text(encoding="utf-8")
EXAMPLE, TIMED = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_passes_the_check() -> None:
    config = parse(EXAMPLE)
    check_sql(config)
    found = {str(one.table): one for one in config.streams["shop"].views}
    assert list(found) == ["sales.by_region", "sales.best", "sales.without"]
    assert [one.every for one in found.values()] == [300, 0, 0]


def test_the_example_of_time_passes_the_check() -> None:
    config = parse(EXAMPLE + TIMED.removeprefix("views:\n"))
    check_sql(config)
    assert [one.every for one in config.streams["shop"].views if one.by_clock] == [3600, 300]


def test_the_refusal_is_what_the_check_says() -> None:
    wrong = EXAMPLE.replace("o JOIN", "o LEFT JOIN").replace("o.customer_id = c.id", "o.customer_id < c.id")
    with pytest.raises(ConfigError) as raised:
        check_sql(parse(wrong))
    (shown,) = re.findall(r"```text\n(.*?)\n```", PAGE, re.DOTALL)
    assert str(raised.value) == shown


def test_the_functions_that_it_names_are_those_of_views() -> None:
    listed = PAGE.partition("- `GROUP BY` with")[2].partition("\n- windows")[0]
    named = {one.partition("(")[0] for one in re.findall(r"`([a-z_]+[^`]*)`", listed)}
    assert named <= functions.AGGREGATES
    assert {"count", "sum", "median", *functions.ANY - {"arbitrary"}} <= named
