"""A process that outlives the command that started it, known by a lock that the kernel drops when it dies.

A process id alone would lie after a crash, when the number belongs to somebody else.
"""

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from firn_deploy import DeployError


class Daemon:
    """{folder}/{name}.pid, which the process holds locked, and {folder}/{name}.log."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._pid = folder / f"{name}.pid"

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it in a session of its own. Raises DeployError if it runs already."""
        lock = os.open(self._pid, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with self.log.open("ab") as log:
                process = subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.log.parent,
                    start_new_session=True,
                    pass_fds=(lock,),  # open there as well, and so locked, until it ends
                )
            os.ftruncate(lock, 0)
            os.write(lock, f"{process.pid}\n".encode())
        except BlockingIOError:
            raise DeployError(f"{self.name} runs already (process {self.pid()})") from None
        finally:
            os.close(lock)

    def running(self) -> bool:
        """Whether it is alive."""
        try:
            lock = os.open(self._pid, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def pid(self) -> int:
        """Its process id; only while it runs is it anybody's."""
        return int(self._pid.read_text() or 0)

    def stop(self, seconds: float) -> None:
        """SIGTERM, and SIGKILL after so many seconds. Nothing if it does not run. Raises DeployError if it stays."""
        for sign, patience in ((signal.SIGTERM, seconds), (signal.SIGKILL, 10.0)):
            if not self.running():
                break
            with suppress(ProcessLookupError):
                os.kill(self.pid(), sign)
            pid, deadline = self.pid(), time.monotonic() + patience
            while self.running() and time.monotonic() < deadline:
                time.sleep(0.05)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0 if not self.running() else os.WNOHANG)  # where this very process started it
        if self.running():
            raise DeployError(f"{self.name} (process {self.pid()}) does not stop: look at {self.log}")
        self._pid.unlink(missing_ok=True)

    def tail(self, lines: int = 20) -> str:
        """The end of its log."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return ""
