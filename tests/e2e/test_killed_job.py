"""A job that dies in the middle: the next dispatch finishes its epochs, and each is in a table once."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import Stack
from tests.soak import long_only

CONFIG = """
streams:
  shop:
    tables:
      public.*: {to: "shop.{table}", key: [id]}
"""
pytestmark = pytest.mark.spark
PACKAGED = True


def post(stack: Stack, table: str, first: int, count: int) -> None:
    events = [
        {
            "op": "c",
            "before": None,
            "after": {"id": n, "v": f"v{n}"},
            "source": {
                "connector": "postgresql",
                "schema": "public",
                "table": table,
                "ts_ms": n,
                "sequence": f'["1","{n + 1}"]',
            },
        }
        for n in range(first, first + count)
    ]
    status, answer = stack.post("shop", json.dumps(events).encode())
    assert status == 202, answer


def dispatch(stack: Stack) -> dict[str, object]:
    status, answer = stack.request("POST", "/_firn/invoke/dispatch", b'{"force": true, "stream": "shop"}')
    assert status == 200, answer
    return answer["streams"][0]


def epochs_in_ancestry(stack: Stack, table: str) -> list[str]:
    loaded = stack.catalog().load_table(("shop", table))
    summaries = [dict(s.summary.additional_properties) for s in loaded.metadata.snapshots if s.summary]
    return [summary["firn.epoch.shop"] for summary in summaries if "firn.epoch.shop" in summary]


def wait_for(what: str, seconds: float, found: object) -> None:
    deadline = time.monotonic() + seconds
    while not found():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"{what} did not happen in {seconds} s"
        time.sleep(0.05)


@long_only  # tests/e2e/test_real_kills.py kills jobs at many moments
def test_a_job_killed_with_sigkill_is_finished_by_the_next_dispatch_once(stack: Stack) -> None:
    tables = [f"t{n}" for n in range(12)]
    for table in tables:
        post(stack, table, 0, 50)
    run = dispatch(stack)["run"]
    output: Path = stack.folder / "jobs" / str(run) / "stdout"
    # The first table's line says that it is committed; the others are not yet, and there is no cut.
    wait_for("the first commit", 180, lambda: output.exists() and '"table"' in output.read_text())
    pid = int((stack.folder / "jobs" / str(run) / "pid").read_text().split()[0])
    os.killpg(os.getpgid(pid), signal.SIGKILL)
    assert len(output.read_text().splitlines()) < len(tables) + 1, "the job was faster than the kill"

    stack.flush("shop")

    for table in tables:
        assert sorted(stack.read("shop", table)["id"].to_pylist()) == list(range(50))
        assert epochs_in_ancestry(stack, table) == ["1"], table
