"""One stack a folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from firn_local.claim import AlreadyRunning, Claim


def test_a_second_claim_names_the_first_and_works_after_its_release(tmp_path: Path) -> None:
    first, second = Claim(tmp_path), Claim(tmp_path)
    first.take()
    (tmp_path / "stack.json").write_text('{"url": "http://127.0.0.1:1"}')
    with pytest.raises(AlreadyRunning, match=rf"process {os.getpid()}, http://127.0.0.1:1.*--dir"):
        second.take()
    first.release()
    assert not (tmp_path / "stack.json").exists()
    second.take()
    second.release()


def test_a_claim_of_a_process_that_was_killed_is_no_obstacle(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys; from firn_local.claim import Claim;"
        "Claim(pathlib.Path(sys.argv[1])).take(); os.kill(os.getpid(), 9)"
    )
    path = str(Path(__file__).parents[3] / "infra" / "local")
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], env={**os.environ, "PYTHONPATH": path}, check=False)
    (tmp_path / "stack.json").write_text("{}")
    claim = Claim(tmp_path)
    claim.take()
    assert not (tmp_path / "stack.json").exists()
    assert (tmp_path / "stack.lock").read_text().strip() == str(os.getpid())
    claim.release()
