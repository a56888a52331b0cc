"""docs/configuration.md is executed: its examples parse, its example errors are real, and it names every setting."""

import re
from pathlib import Path
from typing import get_args

import pytest

from firn.changes import declared
from firn.errors import ConfigError
from firn.streams import care, care_reading, config, deployments, reading

PAGE = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_parses(example: str) -> None:
    assert config.parse(example).streams


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4


def test_the_example_errors_are_what_the_parser_says() -> None:
    wrong = EXAMPLES[0].replace("60s", "60").replace("mode: mirror ", "mode: mirrored ").replace("reads:", "read:")
    with pytest.raises(ConfigError) as raised:
        config.parse(wrong)
    told = [re.sub(r"yaml:\d+", "yaml", line) for line in str(raised.value).splitlines()]
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert told == [re.sub(r"yaml:\d+", "yaml", line) for line in shown.splitlines()]


def test_every_setting_and_every_word_is_documented() -> None:
    words = [*reading._STREAM_KEYS, *reading._RULE_KEYS, *reading._DEBEZIUM, *deployments._KEYS, "targets"]
    words += [f"commit.{key}" for key in reading._COMMIT_KEYS] + [f"backlog.{key}" for key in reading._BACKLOG_KEYS]
    words += [f"care.{section}.{key}" for section, keys in care_reading.KEYS.items() for key in keys]
    words += get_args(care.StorageClass)
    for kind in (config.Envelope, config.Mode, config.SnapshotReads, config.CatalogType, declared.OutOfRange):
        words += get_args(kind)
    for kind in (declared.DecimalMode, declared.TimeMode, declared.BinaryMode, declared.IntervalMode):
        words += get_args(kind)
    assert [word for word in words if f"`{word}`" not in PAGE and f"`{word}." not in PAGE] == []
