"""The README's own commands, run as it shows them."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT

README = (ROOT / "README.md").read_text()
pytestmark = pytest.mark.spark


def blocks(kind: str) -> list[str]:
    """The README's code blocks of this kind, in order."""
    return re.findall(rf"```{re.escape(kind)}\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that looks like the repository, so that .firn lands in it, with the stack that the README starts."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("firn.yaml", "examples", ".venv", "layers", "functions", "infra", "spark_emr", "template.yaml"):
        (folder / name).symlink_to(ROOT / name)
    [command] = blocks("sh background")
    with (folder / "up.log").open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-ec", f"exec {command.strip()}"], cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
    about = folder / ".firn" / "stack.json"
    deadline = time.monotonic() + 60
    while not about.exists():
        assert process.poll() is None, (folder / "up.log").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield folder
    process.send_signal(signal.SIGINT)
    process.wait(30)
    shutil.rmtree(folder / ".firn", ignore_errors=True)


def run(checkout: Path, script: str) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "COLUMNS": "160"},
    )
    assert done.returncode == 0, f"$ {script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_readmes_commands_do_what_it_says(checkout: Path) -> None:
    outputs = [run(checkout, block) for block in blocks("sh run")]
    answer, told = outputs[0].split("}", 1)[0] + "}", outputs[0]
    assert '"accepted":2' in answer
    assert "Grace" in told
    assert json.loads(outputs[1])["accepted"] == 2
    assert outputs[2].count("paid") >= 2, "fresh, and committed"
    assert "shop.orders" in outputs[2]


def test_the_readmes_python_runs(checkout: Path) -> None:
    [python] = blocks("python")
    (checkout / "producer.py").write_text(python)
    run(checkout, ".venv/bin/python producer.py && .venv/bin/firn flush shop && .venv/bin/firn flush web")
    assert "Edsger" in run(checkout, '.venv/bin/firn query "SELECT name FROM web.users"')
    query = "SELECT order_id FROM shop.orders WHERE order_id = 2"
    assert '"order_id"' in run(checkout, f'.venv/bin/firn query --json "{query}"')
