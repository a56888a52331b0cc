"""What a run leaves behind, its arguments, record, logs, files and tables: none of it holds a secret that it used."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from firn_local.stack import Options, Stack
from tests.postgresql import as_catalog, postgresql
from tests.soak import long_only

pytestmark = [pytest.mark.spark, pytest.mark.stack, long_only]

ROOT = Path(__file__).resolve().parents[3]
CONFIG = """streams:
  web:
    envelope: rows
    commit: {linger: 0s}  # a job that stays would have the password already
    tables:
      users: {to: web.users, key: [id], mode: mirror, columns: {id: long, name: string}}
"""
# Of the environment, which functions and jobs are given: none of them is needed for this catalog.
CANARIES = {
    "PYICEBERG_CATALOG__FIRN__TOKEN": "c4nary-token",
    "AZURE_STORAGE_ACCOUNT_KEY": "YzRuYXJ5LWtleQ==",
    "AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=c4nary-sas",
}


def firn(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "firn_cli.main", *arguments, "--dir", str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip


def post(url: str, identifier: int) -> None:
    body = json.dumps([{"id": identifier, "name": "a"}]).encode()
    where = f"{url}/v1/streams/web/tables/users"
    with urllib.request.urlopen(urllib.request.Request(where, body, {"Content-Type": "application/json"}), timeout=90):
        pass


@pytest.fixture
def database(tmp_path: Path) -> Iterator[tuple[str, str, Path]]:
    """The catalog's address, its password, and the file that holds it and lies outside of what is looked at."""
    with postgresql() as address:
        secret = tmp_path / "secret"
        yield as_catalog(address, secret), secret.read_text(), secret


def command_lines() -> str:
    """Of every process that may be looked at, now."""
    found = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(one.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return "\n".join(found)


def test_no_secret_is_in_what_a_run_leaves_behind_whether_it_ends_well_or_is_let_in_nowhere(
    database: tuple[str, str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    address, password, secret = database
    for name, value in CANARIES.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "firn"
    (tmp_path / "firn.yaml").write_text(CONFIG)
    options = Options(folder, port=0, config=tmp_path / "firn.yaml", schedules=False, catalog=address)
    said: list[str] = []
    with Stack(options, say=said.append) as stack:
        post(stack.description["url"], 1)
        good = firn(folder, "flush", "web")
        assert good.returncode == 0, good.stdout + good.stderr
        read = firn(folder, "query", "--json", "SELECT id FROM web.users")
        assert json.loads(read.stdout) == [{"id": 1}]
        secret.write_text("wr0ng-c4nary")
        post(stack.description["url"], 2)
        bad = firn(folder, "flush", "web")
        assert bad.returncode != 0
        refused = firn(folder, "query", "--json", "SELECT id FROM web.users")
        assert refused.returncode != 0
        running = command_lines()
    out = "".join([*said, *capfd.readouterr(), running, *(x.stdout + x.stderr for x in (good, read, bad, refused))])
    (tmp_path / "firn" / "shown").write_text(out)
    canaries = {password, quote(password, safe=""), "wr0ng-c4nary", *CANARIES.values()}
    files = [path for path in folder.rglob("*") if path.is_file()]
    held = {str(path.relative_to(folder)) for path in files for one in canaries if one.encode() in path.read_bytes()}
    assert held == set()
    runs = [json.loads(path.read_text()) for path in folder.glob("jobs/*/run.json")]
    assert len(runs) >= 2
    assert "firn.credential" in json.dumps(runs), "the place of the secret is what jobs are told"
    assert f"{urlsplit(address).username}@" in json.dumps(runs)
    assert "refuses the connection" in bad.stderr
    assert "password authentication failed" in refused.stderr
    assert os.environ["AZURE_STORAGE_ACCOUNT_KEY"], "the job had them in its environment"
