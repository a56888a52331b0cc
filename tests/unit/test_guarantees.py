"""docs/guarantees.md names a test for each promise: none may be missing."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+(?:\.py)?(?:::\w+)?/?)`", (ROOT / "docs" / "guarantees.md").read_text())))


@cache
def functions(file: str) -> frozenset[str]:
    """Those at the top of a file of tests."""
    return frozenset(re.findall(r"^def (\w+)\(", (ROOT / file).read_text(), re.MULTILINE))


def test_the_page_names_tests() -> None:
    assert len(NAMED) > 20


@pytest.mark.parametrize("name", NAMED)
def test_each_named_test_exists(name: str) -> None:
    file, _, function = name.partition("::")
    assert (ROOT / file).exists(), f"{file} does not exist"
    if function:
        assert function in functions(file), f"{file} has no {function}"
