"""`make demo`, as a newcomer runs it."""

import subprocess
import sys

import pytest

from tests.e2e.conftest import ROOT, as_deployed


@pytest.mark.spark
def test_the_demo_ends_with_every_row_equal() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "firn_demo", *as_deployed()], cwd=ROOT, capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for line in ("accounts 4800/4800", "tellers 10/10", "branches 1/1", "history 12500/12500", "orders 6/6"):
        assert f"{line} rows equal" in done.stdout
