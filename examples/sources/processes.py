"""Servers as processes: started on loopback, watched, killed on purpose, and never left behind."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from firn.errors import FirnError


class ServerFailed(FirnError):
    """A server ended, or did not get ready in time; the text holds the end of its log."""


def free_port() -> int:
    """A port of 127.0.0.1 that nobody uses now. Kept by its user over restarts, so it is chosen beforehand."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def tail(log: Path, lines: int = 25) -> str:
    """The last lines of a log, "" if there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 65_536))
            return "\n".join(file.read().decode("utf-8", "replace").splitlines()[-lines:])
    except OSError:
        return ""


class Server:
    """One process in a session of its own: Ctrl-C reaches only us, and we stop it in order. Its log is kept over
    restarts. `user`: run as this user (root only)."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        folder: Path,
        *,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> None:
        self.name, self.folder = name, folder
        self.log = folder / f"{name}.log"
        self._command = [str(part) for part in command]
        self._environment = {**os.environ, **(environment or {})}
        self._user = user
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._process.pid if self.running and self._process else None

    @property
    def running(self) -> bool:
        """Started and not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it; `wait` says when it is ready."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=self._user,
            )

    def wait(self, ready: Callable[[], bool], seconds: float = 90.0) -> None:
        """Wait until `ready`. Raises ServerFailed."""
        deadline = time.monotonic() + seconds
        while not ready():
            if not self.running:
                code = self._process.returncode if self._process else None
                raise ServerFailed(f"{self.name} ended with exit code {code}:\n{tail(self.log)}")
            if time.monotonic() > deadline:
                raise ServerFailed(f"{self.name} was not ready after {seconds:.0f} s:\n{tail(self.log)}")
            time.sleep(0.1)

    def kill(self) -> None:
        """SIGKILL, as a machine that dies would: nothing is finished, nothing is said."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def stop(self, seconds: float = 20.0, sign: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to end, and kill it if it does not in time."""
        if self._process is None or not self.running:
            return
        self._process.send_signal(sign)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
