"""`make demo CATALOG=… STORAGE=…` of every pair: each row equal, or refused with the reason before anything is started.
The table in docs/catalogs.md says which."""

import os
import subprocess
import sys

import pytest

from tests.demo import lacking
from tests.demo_pairs import PAIRS, refusal
from tests.hive import ROOT
from tests.soak import LONG

_ASKED = LONG or bool(os.environ.get("FIRN_PAIRS"))
pytestmark = [pytest.mark.spark, pytest.mark.skipif(not _ASKED, reason="takes long: make test-servers runs it")]
_EQUAL = ("accounts 4800/4800", "tellers 10/10", "branches 1/1", "history 12500/12500", "customers 8/8", "orders 6/6")


@pytest.mark.parametrize(("catalog", "storage"), PAIRS)
def test_every_row_of_the_demo_is_equal_or_the_pair_is_refused(catalog: str, storage: str) -> None:
    why = refusal(catalog, storage)
    if why is None and (lacks := lacking(catalog, storage)):
        pytest.skip(lacks)
    command = [sys.executable, "-m", "tests.demo", "--catalog", catalog, "--storage", storage]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    if why is not None:
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"demo: {why}\n")
        return
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    for line in _EQUAL:
        assert f"{line} rows equal" in done.stdout
    assert (f"The catalog is a {catalog} catalog at" in done.stdout) == (catalog != "sql")
