"""A pause, through the packaged functions and jobs: schedules, events and a job that lingers."""

import json
import subprocess
import sys
import time
from typing import Any

import pytest

from firn.log import epochs
from firn.log.store import open_store
from tests.e2e.conftest import Stack
from tests.e2e.killing import audited, until
from tests.e2e.test_lingering_job import insert, keys, runs_of
from tests.soak import long_only

pytestmark = pytest.mark.spark

OPTIONS = ("--schedule-seconds", "1")
CONFIG = """
streams:
  shop:
    commit: {every: 1s, fresh: 1s, linger: 1h}
    tables:
      app.t: {to: shop.t, key: [id]}
"""

# It looks for as long as a function may run that had asked before the pause: here none takes more than seconds.
PAUSE = """
import sys
from firn_cli.commands import pause
from firn_cli.main import main
pause._SETTLE_SECONDS = 8.0
sys.exit(main(["pause", *sys.argv[1:]]))
"""


def paused(stack: Stack, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-c", PAUSE, *arguments, "--json", "--dir", str(stack.folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@long_only  # tests/unit/dispatch, tests/model/test_lingering.py and tests/faults show it without Spark
def test_a_pause_ends_the_job_that_lingers_and_starts_none_until_it_is_resumed(stack: Stack) -> None:
    insert(stack, "shop", 1)
    until("the first row", 120, lambda: stack.catalog().table_exists("shop.t") and keys(stack, "shop") == [1])
    (first,) = runs_of(stack.folder)
    done = paused(stack, "--stop")
    assert (done["running"], done["stopped"]) == ({}, True)
    assert json.loads((first / "run.json").read_text())["state"] == "SUCCESS", "it ended by itself, within its linger"
    store = open_store(stack.about["staging"])
    sealed = epochs.numbers(store, "shop")
    insert(stack, "shop", 2)
    time.sleep(5)  # some ticks
    assert runs_of(stack.folder) == [first]
    assert (epochs.numbers(store, "shop"), keys(stack, "shop")) == (sealed, [1])
    assert "firn resume" in stack.firn("flush", check=False).stderr
    stack.firn("resume")
    until("the second row", 120, lambda: keys(stack, "shop") == [1, 2])
    assert len(runs_of(stack.folder)) == 2
    paused(stack, "--wait")
    audited(stack, "shop")
