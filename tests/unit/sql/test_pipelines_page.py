"""docs/pipelines.md is executed: its configuration parses and passes the check, its error is real, and it names every
function."""

import re
from pathlib import Path

import pytest

from firn.config.reader import parse
from firn.errors import ConfigError
from firn_sql import allowed
from firn_sql.configured import check_pipelines

PAGE = (Path(__file__).parents[3] / "docs" / "pipelines.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_passes_the_check() -> None:
    config = parse(EXAMPLE)
    check_pipelines(config)
    assert [one.name for one in config.streams["web"].pipelines] == ["clean", "europe", "items", "raw"]


def test_the_refusal_is_what_the_check_says() -> None:
    with pytest.raises(ConfigError) as raised:
        check_pipelines(parse(EXAMPLE.replace("lower(trim(name))", "sum(id)")))
    (shown,) = re.findall(r"```text\n(.*?)\n```", PAGE, re.DOTALL)
    assert str(raised.value) == shown


def test_every_function_is_named_and_no_other() -> None:
    table = PAGE.partition("| numbers |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([^`]+)`", table)) == {one for one in allowed.FUNCTIONS | {"now"} if one[0].isalpha()} - {
        "IS DISTINCT FROM",
        "IS NOT DISTINCT FROM",
    }
