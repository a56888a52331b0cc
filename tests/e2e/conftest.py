"""A whole embedded stack for a test module: real HTTP in, real Spark, real tables out.

The functions that run are those that would be deployed, as `sam build` leaves them, on the Python that Lambda has
(without Python 3.13 they are this checkout's). So is the job, as `make package` packs it, where a job is killed, where
modules share a stack, in the demo and in the deployment. That of the other modules is this checkout's in CI: to bring a
package takes 6 CPU seconds a stack, and to compile it 2 a job.
"""

import fcntl
import functools
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from firn_deploy import sam
from firn_local.environment import RUNTIME_PYTHON, TEMPLATE
from infra.package import job
from tests.gate import made_in
from tests.soak import LONG

ROOT = Path(__file__).resolve().parents[2]
# Where the session's processes find what one of them has built, until it ends: whoever starts them makes it.
_KEPT = None if "PYTEST_E2E_BUILT" in os.environ else tempfile.TemporaryDirectory(prefix="firn-e2e-")
_SCRATCH = Path(os.environ.setdefault("PYTEST_E2E_BUILT", _KEPT.name if _KEPT else ""))
CORPUS = ROOT / "tests" / "data" / "corpus"


@dataclass
class Stack:
    """A running stack, as a user meets it: a URL, a folder, and the firn command."""

    process: subprocess.Popen[bytes]
    folder: Path
    about: dict[str, Any]

    def post(self, stream: str, body: bytes, **headers: str) -> tuple[int, dict[str, Any]]:
        """POST to a stream. Header names are written with _ for -."""
        named = {"Content-Type": "application/json"} | {k.replace("_", "-"): v for k, v in headers.items()}
        return self.request("POST", f"/v1/streams/{stream}", body, named)

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        named = {"X-Firn-Token": self.about["token"]} | (headers or {})
        request = urllib.request.Request(self.about["url"] + path, data=body, method=method, headers=named)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"{}")

    def firn(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the firn command against this stack."""
        done = subprocess.run(
            [sys.executable, "-m", "firn_cli.main", *arguments, "--dir", str(self.folder)],
            capture_output=True,
            text=True,
            timeout=400,
            cwd=ROOT,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def flush(self, *streams: str) -> None:
        self.firn("flush", *streams)

    def catalog(self) -> SqlCatalog:
        env = self.about["env"]
        return SqlCatalog(
            "firn",
            uri=self.about["catalog_uri"],
            warehouse=self.about["warehouse"],
            **{
                "s3.endpoint": self.about["aws_endpoint"],
                "s3.access-key-id": env.get("AWS_ACCESS_KEY_ID", "test"),
                "s3.secret-access-key": env.get("AWS_SECRET_ACCESS_KEY", "test"),
                "s3.region": env.get("AWS_DEFAULT_REGION", "us-east-1"),
            },
        )

    def read(self, namespace: str, table: str) -> pa.Table:
        return self.catalog().load_table((namespace, table)).scan().to_arrow()


@contextmanager
def _once(name: str) -> Iterator[tuple[Path, bool]]:
    """A folder of the session, and whether a process has filled it already; whoever comes meanwhile waits."""
    folder, done = _SCRATCH / name, _SCRATCH / f"{name}.done"
    with (_SCRATCH / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder, done.exists()
        done.touch()


@functools.cache
def packaged_job() -> Path:
    """The job, packaged for this Python, once a session."""
    with _once("job") as (folder, done):
        if not done:
            job.build(folder, "{}.{}".format(*sys.version_info[:2]), level=1)
    return folder


@functools.cache
def built() -> Path:
    """The folder in which `sam build` has built the functions, once a session; its cache beside it. What `make check`
    has built of the same sources is taken from its cache."""
    with _once("sam") as (folder, done):
        if not done:
            folder.mkdir(exist_ok=True)
            made = ROOT / ".aws-sam"
            if (made / "build.toml").exists() and (made / "cache").exists():
                shutil.copy(made / "build.toml", folder)
                (folder / "cache").symlink_to(made / "cache")
            sam.build(folder, TEMPLATE)
    return folder / "build"


def as_deployed(*, packaged: bool = True) -> list[str]:
    """The embedded stack's options to run what would be deployed; `packaged`: the job too."""
    functions = ["--built", str(built())] if RUNTIME_PYTHON.exists() else []
    return [*(["--job", str(packaged_job())] if packaged else []), *functions]


def start_stack(folder: Path, config: str, *options: str, packaged: bool = True) -> Stack:
    """Start a stack in `folder` and wait until it answers."""
    folder.mkdir(parents=True, exist_ok=True)
    config_file = folder / "firn.yaml"
    config_file.write_text(config)
    log = (folder / "stack.log").open("ab")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "firn_local", "--dir", str(folder), "--port", "0", "--config", str(config_file)),
            *(options if "--schedule-seconds" in options else ("--no-schedules", *options)),
            *as_deployed(packaged=packaged),
        ],
        stdout=log,
        stderr=log,
        cwd=ROOT,
    )
    about = folder / "stack.json"
    deadline = time.monotonic() + 180  # it uploads 175 MB first, on a machine that may be busy
    while time.monotonic() < deadline:
        assert process.poll() is None, (folder / "stack.log").read_text()
        if about.exists():
            said = json.loads(about.read_text())
            if said["pid"] == process.pid:
                return Stack(process, folder, said)
        time.sleep(0.1)
    process.kill()
    raise AssertionError("the stack did not start:\n" + (folder / "stack.log").read_text())


def stop_stack(stack: Stack) -> None:
    stack.process.send_signal(signal.SIGINT)
    try:
        stack.process.wait(30)
    except subprocess.TimeoutExpired:
        os.kill(stack.process.pid, signal.SIGKILL)
        raise


@pytest.fixture(scope="module")
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The module's stack: its CONFIG, its OPTIONS for firn_local if it has any, and whether its job is PACKAGED."""
    running = start_stack(
        tmp_path_factory.mktemp("stack"), request.module.CONFIG, *getattr(request.module, "OPTIONS", ()),
        packaged=LONG or getattr(request.module, "PACKAGED", False),
    )  # fmt: skip
    yield running
    stop_stack(running)


@dataclass
class Sharing:
    """The stack of the modules that only send and read, while it runs; whether all that they send is committed."""

    stack: Stack | None = None
    committed: bool = False


def _users(request: pytest.FixtureRequest) -> list[pytest.Function]:
    """The tests that ask for `shared` below: elsewhere the name means something else."""
    mine = made_in(Path(__file__).parent, request.session)
    return [item for item in mine if isinstance(item, pytest.Function) and "shared" in item.fixturenames]


def _modules(request: pytest.FixtureRequest) -> list[Any]:
    return sorted({item.module for item in _users(request)}, key=lambda module: str(module.__name__))


@pytest.fixture(scope="session")
def sharing() -> Iterator[Sharing]:
    one = Sharing()
    yield one
    if one.stack is not None:
        stop_stack(one.stack)


@pytest.fixture
def shared(
    request: pytest.FixtureRequest, sharing: Sharing, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """One stack for the modules that only send and read, with the STREAMS of each, until the last test of theirs. Its
    storage is S3, the other modules' is files."""
    if sharing.stack is None:
        config = "streams:\n" + "".join(module.STREAMS for module in _modules(request))
        sharing.stack = start_stack(tmp_path_factory.mktemp("shared"), config, "--s3")
    yield sharing.stack
    if request.node is _users(request)[-1]:
        stopped, sharing.stack = sharing.stack, None
        stop_stack(stopped)


@pytest.fixture
def committed(request: pytest.FixtureRequest, sharing: Sharing, shared: Stack) -> Stack:
    """The shared stack, once each module's `send` has sent what its tests look for, and one job has committed all."""
    if not sharing.committed:
        for module in _modules(request):
            module.send(shared)
        shared.flush()
        sharing.committed = True
    return shared


def lines_of(file: Path) -> bytes:
    return gzip.decompress(file.read_bytes())
