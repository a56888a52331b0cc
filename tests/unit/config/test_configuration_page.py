"""docs/configuration.md is executed: its examples parse, its example errors are real, and it names every setting."""

import re
from pathlib import Path
from typing import get_args

import pytest

from firn.changes.decode import source_encodings
from firn.changes.envelopes import registry
from firn.config import (
    deployments,
    file_sinks_reader,
    maintenance_reader,
    model,
    reader,
    storage_classes,
    table_rules_reader,
)
from firn.config.file_sinks import COMPRESSIONS
from firn.config.file_sinks_reader import ROLL_KEYS
from firn.config.modes import MODES
from firn.errors import ConfigError

PAGE = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_parses(example: str) -> None:
    assert reader.parse(example).streams


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4


def test_the_example_errors_are_what_the_parser_says() -> None:
    wrong = EXAMPLES[0].replace("60s", "60").replace("mode: mirror ", "mode: mirrored ").replace("reads:", "read:")
    with pytest.raises(ConfigError) as raised:
        reader.parse(wrong)
    told = [re.sub(r"yaml:\d+", "yaml", line) for line in str(raised.value).splitlines()]
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert told == [re.sub(r"yaml:\d+", "yaml", line) for line in shown.splitlines()]


def test_every_setting_and_every_word_is_documented() -> None:
    words = [*reader._STREAM_KEYS, *table_rules_reader.RULE_KEYS, *reader._DEBEZIUM, *deployments._KEYS, "targets"]
    words += [f"commit.{key}" for key in reader._COMMIT_KEYS] + [f"backlog.{key}" for key in reader._BACKLOG_KEYS]
    words += [f"care.{section}.{key}" for section, keys in maintenance_reader.KEYS.items() for key in keys]
    words += [f"files.{key}" for key in file_sinks_reader.KEYS] + [f"files.roll.{key}" for key in ROLL_KEYS]
    words += [*COMPRESSIONS, *COMPRESSIONS["parquet"]]
    words += storage_classes.known_classes(None)
    words += registry.KNOWN.names
    words += MODES
    for kind in (model.SnapshotReads, model.CatalogType, source_encodings.OutOfRange):
        words += get_args(kind)
    for kind in (
        source_encodings.DecimalMode,
        source_encodings.TimeMode,
        source_encodings.BinaryMode,
        source_encodings.IntervalMode,
    ):
        words += get_args(kind)
    assert [word for word in words if f"`{word}`" not in PAGE and f"`{word}." not in PAGE] == []
