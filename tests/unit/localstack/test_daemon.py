"""A process is known by the lock that it holds, however it ends."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from firn_deploy import DeployError
from firn_deploy.daemon import Daemon

SLEEPS = [sys.executable, "-c", "import time; print('hello', flush=True); time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)",
]


def said(daemon: Daemon, text: str) -> None:
    deadline = time.monotonic() + 20
    while text not in daemon.tail():
        assert time.monotonic() < deadline, daemon.tail()
        time.sleep(0.02)


def test_a_process_that_was_started_runs_until_it_is_stopped(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "sleeper")
    assert not daemon.running()
    daemon.start(SLEEPS, dict(os.environ))
    assert daemon.running()
    said(daemon, "hello")
    pid = daemon.pid()
    daemon.stop(10)
    assert not daemon.running()
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, 0)  # it was waited for, and is gone


def test_it_is_not_started_twice(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "sleeper")
    daemon.start(SLEEPS, dict(os.environ))
    try:
        with pytest.raises(DeployError, match="runs already"):
            Daemon(tmp_path, "sleeper").start(SLEEPS, dict(os.environ))
    finally:
        daemon.stop(10)


def test_one_that_was_killed_does_not_run_though_its_number_is_there(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "sleeper")
    daemon.start(SLEEPS, dict(os.environ))
    os.kill(daemon.pid(), signal.SIGKILL)
    os.waitpid(daemon.pid(), 0)
    assert not daemon.running()
    daemon.stop(0)  # nothing to stop, and nobody else is signalled


def test_a_number_that_belongs_to_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "sleeper.pid").write_text(f"{os.getpid()}\n")
    daemon = Daemon(tmp_path, "sleeper")
    assert not daemon.running()
    daemon.stop(0)


def test_one_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "deaf")
    daemon.start(STUBBORN, dict(os.environ))
    said(daemon, "deaf")
    daemon.stop(0.3)
    assert not daemon.running()
