"""`firn up` with staging and warehouse on each cloud: rows in by HTTP, a job, and commands that read them."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firn_local.environment import CLOUD_JARS

pytestmark = [pytest.mark.spark, pytest.mark.stack]

ROOT = Path(__file__).resolve().parents[3]
CONFIG = """care: {tier: {cold_after: 1d}}
streams:
  web:
    envelope: rows
    tables:
      users: {to: web.users, key: [id], mode: mirror, columns: {id: long, name: string}, partition_by: [name]}
"""


def environment(server: Any) -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "FIRN_"))}
    return mine | server.environment


def firn(folder: Path, server: Any, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "firn_cli.main", *arguments, "--dir", str(folder)],
        env=environment(server), cwd=ROOT, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def posted(url: str, body: Any) -> str:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=90) as answer:
        return str(answer.read().decode())


@pytest.fixture
def stack(server: Any, tmp_path: Path) -> Iterator[dict[str, Any]]:
    if len(list(CLOUD_JARS.glob("*.jar"))) < 2:
        pytest.skip("the clouds' jars are not here: run `make setup-servers`")
    (tmp_path / "firn.yaml").write_text(CONFIG)
    places = ("--staging", server.url("stack/staging"), "--warehouse", server.url("stack/warehouse"))
    with (tmp_path / "stack.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "firn_cli.main", "up", "--dir", str(tmp_path / "firn"), "--port", "0"),
                *("--config", str(tmp_path / "firn.yaml"), "--no-schedules", *places),
            ],
            env=environment(server), cwd=ROOT, stdout=log, stderr=log,
        )  # fmt: skip
    about = tmp_path / "firn" / "stack.json"
    deadline = time.monotonic() + 120
    while not about.exists():
        assert process.poll() is None, (tmp_path / "stack.log").read_text()
        assert time.monotonic() < deadline, (tmp_path / "stack.log").read_text()
        time.sleep(0.1)
    yield json.loads(about.read_text())
    process.send_signal(signal.SIGINT)
    process.wait(60)


def test_rows_are_staged_read_and_committed_there_and_no_file_holds_the_key(
    server: Any, stack: dict[str, Any], tmp_path: Path
) -> None:
    folder = tmp_path / "firn"
    rows = [{"id": 1, "name": "ä/ö 100%"}, {"id": 2, "name": "b"}]
    assert json.loads(posted(f"{stack['url']}/v1/streams/web/tables/users", rows))["accepted"] == 2
    sql = "SELECT id, name FROM web.users ORDER BY id"
    assert json.loads(firn(folder, server, "query", "--json", "--fresh", sql)) == rows
    firn(folder, server, "flush", "web")
    assert json.loads(firn(folder, server, "query", "--json", sql)) == rows
    assert "ä/ö 100%" in posted(f"{stack['url']}/v1/query", {"sql": sql})
    told = json.loads(firn(folder, server, "tier", "web.users", "--json"))
    kind = "Cool" if "AZURE_STORAGE_ACCOUNT_KEY" in server.environment else "NEARLINE"
    assert (told["tiered"]["kind"], told["tiered"]["files"] > 0, told["rules"]) == (kind, True, [])
    assert not (folder / "staging").exists() or not list((folder / "staging").rglob("*.parquet"))
    key = server.environment.get("AZURE_STORAGE_ACCOUNT_KEY", "no key at all")
    held = [path for path in folder.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]
    assert held == []
