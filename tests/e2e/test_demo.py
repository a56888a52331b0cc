"""`make demo`, as a newcomer runs it."""

import subprocess
import sys

import pytest

from firn_demo import versitygw
from tests.e2e.conftest import ROOT, as_deployed
from tests.soak import long_only


@pytest.mark.spark
@pytest.mark.parametrize(
    "storage", ["s3", pytest.param("file", marks=long_only), pytest.param("versitygw", marks=long_only)]
)
def test_the_demo_ends_with_every_row_equal(storage: str) -> None:
    if storage == "versitygw" and (why := versitygw.missing()):
        pytest.skip(why)
    command = [sys.executable, "-m", "firn_demo", "--storage", storage, *as_deployed()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    for line in ("accounts 4800/4800", "tellers 10/10", "branches 1/1", "history 12500/12500", "orders 6/6"):
        assert f"{line} rows equal" in done.stdout
