"""Execution environments that are forked from one process (`worker_forks`), as the host sees them."""

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from firn_local.worker import receive

MODULES = (
    "aws_lambda_powertools.logging",
    "firn.config.reader",
    "firn.function_context",
    "firn.function_metrics",
    "firn.ingest.request",
    "firn.ingest.queue",
    "firn.dispatch.scheduled_rounds",
    "firn.alerts.scheduled_alerts",
)
"""What functions load at their start: of this the embedded stack has one copy."""

_SECONDS = 60.0  # until it has loaded all that, on a loaded laptop


class ForkServer:
    """Starts environments, of which `common` is what all their variables agree in. Safe in threads. Where its process
    was killed, the next start begins another."""

    def __init__(self, common: Mapping[str, str], log: Path) -> None:
        self._common, self._log = dict(common), log
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._generation = 0

    def start(self, folder: Path, variables: Mapping[str, str], ours: int, log: int) -> "ForkedProcess":
        """A worker in `folder` with these variables, the descriptors of its socket and its log. Raises OSError."""
        request = msgspec.json.encode({"folder": str(folder), "variables": variables})
        with self._lock:
            if self._server is None or self._server.poll() is not None:
                self._begin()
            try:
                process = self._asked(request, [ours, log])["process"]
            except OSError:
                self._begin()
                process = self._asked(request, [ours, log])["process"]
            return ForkedProcess(self, self._generation, process)

    def end(self, generation: int, process: int) -> int:
        """Kills a process that was started here, and waits -> its code. Where the one that it was forked from was
        killed meanwhile, nobody can tell it: it ends with its socket, and counts as killed."""
        with self._lock, suppress(OSError):
            if self._generation == generation:
                return int(self._asked(msgspec.json.encode({"end": process}), [])["code"])
        return -signal.SIGKILL

    def close(self) -> None:
        """End it. The environments end with their sockets."""
        with self._lock:
            self._stop()

    def _begin(self) -> None:
        self._stop()
        ours, theirs = socket.socketpair()
        ours.settimeout(_SECONDS)
        with theirs, self._log.open("ab") as log:
            self._server = subprocess.Popen(
                [sys.executable, "-P", "-m", "firn_local.worker_forks", str(theirs.fileno()), *MODULES],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._common,
                cwd="/",
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._socket = ours
        self._generation += 1

    def _stop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._server is not None:
            self._server.kill()
            self._server.wait()
        self._server = self._socket = None

    def _asked(self, request: bytes, descriptors: list[int]) -> dict[str, Any]:
        """Raises OSError, also where it ends instead of answering."""
        if self._socket is None:
            raise ConnectionResetError("the fork server was stopped")
        socket.send_fds(self._socket, [len(request).to_bytes(4, "big") + request], descriptors)
        frame = receive(self._socket)
        if frame is None:
            raise ConnectionResetError(f"the process that functions are forked from ended: see {self._log}")
        answer: dict[str, Any] = msgspec.json.decode(frame)
        return answer


class ForkedProcess:
    """A forked environment, with as much of subprocess.Popen as its owner needs."""

    def __init__(self, server: ForkServer, generation: int, process: int) -> None:
        self._server, self._generation, self.pid = server, generation, process
        self._lock = threading.Lock()
        self._code: int | None = None

    def poll(self) -> int | None:
        """Its code, once it was waited for."""
        return self._code

    def kill(self) -> None:
        """End it now."""
        self.wait()

    def wait(self) -> int:
        """Its code. What has not ended by then is killed."""
        with self._lock:
            if self._code is None:
                self._code = self._server.end(self._generation, self.pid)
            return self._code


def possible(python: str) -> bool:
    """Whether environments of this interpreter can be forked: it is our own, and the system lets processes go on after
    a fork (libraries of macOS do not)."""
    return python == sys.executable and sys.platform == "linux"
