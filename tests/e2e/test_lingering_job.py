"""One real job for many epochs and streams: Spark starts once."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Stack
from tests.e2e.killing import audited, until
from tests.soak import long_only

pytestmark = pytest.mark.spark

CONFIG = """
streams:
  shop:
    commit: {fresh: 1s, linger: 10s}
    tables:
      app.t: {to: shop.t, key: [id]}
  other:
    commit: {fresh: 1s}
    tables:
      app.t: {to: other.t, key: [id]}
"""
ROUNDS = 3


def insert(stack: Stack, stream: str, n: int) -> None:
    source: dict[str, Any] = {"connector": "postgresql", "schema": "app", "table": "t"}
    event = {"op": "c", "after": {"id": n}, "source": source | {"sequence": json.dumps([str(n), str(n + 1)])}}
    status, answer = stack.post(stream, json.dumps(event).encode())
    assert status == 202, answer


def keys(stack: Stack, stream: str) -> list[int]:
    return sorted(stack.read(stream, "t")["id"].to_pylist())


@long_only  # tests/e2e/test_care.py has a job that lingers
def test_what_comes_while_a_job_is_up_needs_no_other_one(stack: Stack) -> None:
    insert(stack, "shop", 1)
    stack.flush("shop")
    insert(stack, "other", 1)
    # Nobody dispatches: the job seals.
    for n in range(2, 2 + ROUNDS):
        insert(stack, "shop", n)
        until(f"row {n}", 60, lambda n=n: n in keys(stack, "shop"))
    until("the other stream's row", 60, lambda: _has(stack, "other"))
    assert keys(stack, "shop") == list(range(1, 2 + ROUNDS))
    runs = runs_of(stack.folder)
    assert len(runs) == 1, runs
    until("the end of the job", 90, lambda: json.loads((runs[0] / "run.json").read_text())["state"] == "SUCCESS")
    # A job that has closed is followed by another.
    insert(stack, "shop", 100)
    insert(stack, "other", 2)
    stack.flush()
    assert keys(stack, "shop")[-1] == 100
    assert keys(stack, "other") == [1, 2]
    assert len(runs_of(stack.folder)) == 2
    audited(stack, "shop")
    audited(stack, "other")


def runs_of(folder: Path) -> list[Path]:
    time.sleep(0.1)
    return sorted(path.parent for path in (folder / "jobs").glob("*/run.json"))


def _has(stack: Stack, stream: str) -> bool:
    try:
        return bool(keys(stack, stream))
    except Exception:  # noqa: BLE001 (the table is not there yet)
        return False
