"""The commands of the README, the tutorial and the how-to pages, run as they show them, in one folder with one stack;
and the HTTP API, held to its own description while the stack is up."""

import json
import os
import re
import shutil
import signal
import subprocess
import textwrap
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.site import http_api
from tests.e2e.conftest import ROOT
from tests.soak import SEED, long_only, times

README = (ROOT / "README.md").read_text()
# In the order in which they are read. What one posts the next may read.
PAGES = (
    "tutorial/first-rows", "how-to/own-application", "how-to/debezium", "how-to/duckdb", "how-to/pyiceberg",
    "how-to/time-travel", "how-to/rename-a-column", "how-to/secure", "how-to/monitor", "how-to/restore",
    "explanation/cuts", "how-to/failing-job", "how-to/leave",
)  # fmt: skip
# `make soak` runs these too: each starts jobs for what another test shows.
LONG_PAGES = (
    "how-to/time-travel",
    "how-to/rename-a-column",
    "how-to/restore",
    "explanation/cuts",
    "how-to/failing-job",
    "how-to/leave",
)
SEEN = {
    "tutorial/first-rows": ["Lisbon", "pro"],
    "how-to/own-application": ["3"],
    "how-to/rename-a-column": ["Edith    free", "Frances  pro", "Jean     free"],
    "how-to/time-travel": ["'plan': 'free'", "'before': 'free', 'after': 'pro'"],
    "how-to/failing-job": ["key_changed", "Karen"],
    "explanation/cuts": ["before-the-move"],
}
SCHEMATHESIS = ROOT / ".venv-docs" / "bin" / "schemathesis"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
pytestmark = pytest.mark.spark


def blocks(kind: str) -> list[str]:
    """The README's code blocks of this kind, in order."""
    return re.findall(rf"```{re.escape(kind)}\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that looks like the repository, so that .firn lands in it, with the stack that the README starts."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copy(ROOT / "firn.yaml", folder)  # the tutorial adds a rule
    for name in ("examples", ".venv", "layers", "functions", "infra", "spark_emr", "template.yaml"):
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
        env={**os.environ, "COLUMNS": "160", "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"},
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


def test_every_page_with_commands_is_run() -> None:
    pages = [page for part in ("tutorial", "how-to", "explanation") for page in (ROOT / "docs" / part).glob("*.md")]
    runs = {f"{page.parent.name}/{page.stem}" for page in pages if re.search("```(sh|python) run", page.read_text())}
    assert runs == set(PAGES)


@pytest.mark.parametrize("page", [pytest.param(one, marks=long_only) if one in LONG_PAGES else one for one in PAGES])
def test_the_pages_commands_run(checkout: Path, page: str) -> None:
    found = re.findall(r"^( *)```(sh|python) run\n(.*?)^ *```", (ROOT / "docs" / f"{page}.md").read_text(), re.S | re.M)
    assert found
    # One process a page: a python block is a program of its own, as a reader would type it.
    script = "\n".join(
        textwrap.dedent(code) if language == "sh" else f"python - <<'PROGRAM'\n{textwrap.dedent(code)}PROGRAM"
        for _, language, code in found
    )
    told = run(checkout, script)
    assert all(word in told for word in SEEN.get(page, ()))


@pytest.mark.skipif(not SCHEMATHESIS.exists(), reason="make setup-docs")
def test_the_http_api_is_as_it_is_described(checkout: Path) -> None:
    about = json.loads((checkout / ".firn" / "stack.json").read_text())
    document = http_api.document()
    names = {"stream": ["web", "shop", "none"], "table": ["web.users", "users", "no.such"], "batch": ["web.none"]}
    for methods in document["paths"].values():
        for operation in methods.values():
            for one in operation.get("parameters", ()):
                if one["in"] == "path":
                    one["schema"] = {"enum": names[one["name"]]}
    sql = ["SELECT 1 AS one", "SELECT * FROM web.users", "SELECT id FROM web.users WHERE id = 7", "SELEC"]
    document["components"]["schemas"]["Query"]["properties"]["sql"] = {"enum": sql}
    (checkout / "openapi.json").write_text(json.dumps(document))
    before = statuses(about)
    command = [str(SCHEMATHESIS), "run", "openapi.json", "--url", about["url"], "--checks", CHECKS]
    command += ["--phases", "coverage,fuzzing", "-n", str(times(8, 400)), "--seed", str(SEED)]
    command += ["--warnings", "off", "--no-shrink", "--suppress-health-check", "all"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    came = {status for status, count in statuses(about).items() if count > before.get(status, 0)}
    assert {"200", "202", "400", "404"} <= came, "some answers were never asked for"


def statuses(about: dict[str, Any]) -> dict[str, int]:
    with urllib.request.urlopen(about["url"] + "/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = re.findall(r'firn_api_requests_total\{status="(\d+)"\} (\d+)', text)
    return {status: int(count) for status, count in found}
