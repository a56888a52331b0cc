"""The command line of spark_emr/rebuild.py."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "spark_emr" / "rebuild.py"
PLACES = ["--staging", "s3://s", "--warehouse", "s3://w", "--catalog-uri", "sqlite:///c.db"]


@pytest.fixture(scope="module")
def parse() -> Callable[..., Any]:
    found: Callable[..., Any] = runpy.run_path(str(SCRIPT))["parse"]
    return lambda *words: found([*PLACES, "--table", "shop.orders", *words])


def test_exactly_one_way_is_asked_for(parse: Callable[..., Any]) -> None:
    assert parse("--run", "a1", "--into", "shop.again", "--to", "7", "--partial").into == "shop.again"
    assert parse("--run", "a1", "--in-place", "--number", "3").number == 3
    assert parse("--run", "a1", "--check").check is True


@pytest.mark.parametrize(
    "words",
    [
        ("--run", "a1"),
        ("--run", "a1", "--check", "--in-place"),
        ("--run", "a1", "--in-place", "--to", "7"),
        ("--run", "a1", "--check", "--partial"),
        ("--run", "../a", "--check"),
        ("--check",),
    ],
)
def test_anything_else_is_a_wrong_command_line(parse: Callable[..., Any], words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(*words)
    assert ended.value.code == 2
