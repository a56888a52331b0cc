"""The command line of spark_emr/backfill.py."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "spark_emr" / "backfill.py"
PLACES = ["--staging", "memory://s", "--warehouse", "file:///w", "--catalog-uri", "sqlite:////c"]


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("backfill_entry", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_reads_what_it_is_started_with(script: ModuleType) -> None:
    given = script.parse(["--stream", "shop", "--backfill", "01ab", *PLACES])
    assert (given.stream, given.backfill, given.staging) == ("shop", "01ab", "memory://s")


@pytest.mark.parametrize("wrong", [["--stream", "shop"], ["--stream", "shop", "--backfill", "../x"]])
def test_what_is_missing_or_wrong_ends_with_2(script: ModuleType, wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        script.parse([*wrong, *PLACES])
    assert ended.value.code == 2
