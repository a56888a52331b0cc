"""Tables are cared for by hand and by schedule, through the commands and functions that a user has, by real jobs."""

import json
import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.e2e.conftest import Stack
from tests.e2e.killing import audited, until
from tests.soak import LONG, long_only

pytestmark = pytest.mark.spark

CONFIG = """
care: {expire: {at_least: 20, at_most: 20}}
streams:
  shop:
    commit: {fresh: 1s, linger: 120s}
    tables:
      app.t: {to: shop.t, key: [id]}
"""
COMMITS = 5


def post(stack: Stack, op: str, *ids: int) -> None:
    for n in ids:
        post.lsn += 1  # type: ignore[attr-defined]
        lsn = str(post.lsn)  # type: ignore[attr-defined]
        source = {"connector": "postgresql", "schema": "app", "table": "t", "sequence": json.dumps([lsn, lsn])}
        row = {"id": n, "note": f"note {lsn}"}
        event = {"op": op, "before": row if op == "d" else None, "after": None if op == "d" else row, "source": source}
        status, answer = stack.post("shop", json.dumps(event).encode())
        assert status == 202, answer


post.lsn = 0  # type: ignore[attr-defined]


def rows(stack: Stack) -> list[int]:
    return sorted(stack.read("shop", "t")["id"].to_pylist())


def said(stack: Stack, *arguments: str) -> dict[str, Any]:
    done: dict[str, Any] = json.loads(stack.firn(*arguments, "--json").stdout)
    return done


def files(stack: Stack) -> int:
    return len(list(stack.catalog().load_table(("shop", "t")).scan().plan_files()))


@long_only
def test_a_table_is_compacted_and_tidied_by_hand_and_says_how_it_is(stack: Stack) -> None:
    for n in range(COMMITS):
        post(stack, "c", *range(n * 10, n * 10 + 10))
        post(stack, "d", n * 10)
        stack.flush("shop")
    kept = [n for n in range(COMMITS * 10) if n % 10]
    assert (rows(stack), files(stack)) == (kept, COMMITS)
    stack.firn("pause")  # the job that lingers ends
    until("the end of the commit job", 60, lambda: not running(stack))
    stack.firn("resume")

    # Nothing is known yet; the schedules' functions find nothing to do.
    assert stack.request("GET", "/v1/tables/shop.t/health")[0] == 404
    assert stack.request("POST", "/_firn/invoke/compact", b"{}")[1]["run"] is None

    if LONG:
        tidied(stack)

    done = said(stack, "compact", "shop.t")
    assert {line["status"] for line in done["lines"]} == {"done"}, done
    assert (rows(stack), files(stack)) == (kept, 1)

    status, health = stack.request("GET", "/v1/tables/shop.t/health")
    due = {} if LONG else {"orphans": "never looked for"}
    assert (status, health["files"], health["deleted"], health["due"]) == (200, 1, 0, due)
    [stream] = said(stack, "status")
    assert [(one["table"], one["orphans"]) for one in stream["tables"]] == [("shop.t", 0 if LONG else None)]

    post(stack, "c", 0)
    stack.flush("shop")
    assert rows(stack) == [0, *kept]
    audited(stack, "shop")


def tidied(stack: Stack) -> None:
    """A job removes what a dead one left, and no more. In CI tests/integration/spark/test_orphans.py shows it."""
    left = Path(unquote(urlsplit(stack.catalog().load_table(("shop", "t")).location()).path)) / "data" / "left.parquet"
    left.write_bytes(b"of a job that died")
    os.utime(left, (time.time() - 10 * 86_400,) * 2)
    young = left.with_name("young.parquet")
    young.write_bytes(b"of a job at work")
    said(stack, "remove-orphans", "shop.t")
    assert (left.exists(), young.exists()) == (False, True)


def running(stack: Stack) -> bool:
    runs = [json.loads((run / "run.json").read_text()) for run in (stack.folder / "jobs").iterdir()]
    return any(run["state"] not in ("SUCCESS", "FAILED", "CANCELLED") for run in runs)
