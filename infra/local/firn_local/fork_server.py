"""Execution environments that are forked from one process (`zygote`), as the host sees them."""

import json
import os
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
        self._closed = False

    def start(self, folder: Path, variables: Mapping[str, str], log: int) -> tuple["ForkedProcess", socket.socket]:
        """A worker in `folder` with these variables and the descriptor of its log -> and our end of its socket. Raises
        OSError."""
        # ASCII: a variable may have bytes that are no UTF-8.
        request = json.dumps({"folder": str(folder), "variables": dict(variables)}).encode()
        with self._lock:
            if self._closed:
                raise ConnectionResetError("the stack is stopping")
            if self._server is None or self._server.poll() is not None:
                self._begin()
            try:
                return self._forked(request, log)
            except OSError:
                self._begin()
                return self._forked(request, log)

    def end(self, generation: int, process: int) -> int:
        """Kills a process that was started here, and waits -> its code. Where the one that it was forked from was
        killed meanwhile, nobody can tell it: it counts as killed."""
        with self._lock, suppress(OSError):
            if self._generation == generation:
                return int(self._asked(msgspec.json.encode({"end": process}), [])["code"])
        return -signal.SIGKILL

    def close(self) -> None:
        """End it, for good. The environments end with their sockets."""
        with self._lock:
            self._closed = True
            self._stop()

    def _forked(self, request: bytes, log: int) -> tuple["ForkedProcess", socket.socket]:
        """Each try has a socket of its own: one that was forked by a server that died before it said so ends with it,
        and shares none with its successor."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = self._asked(request, [theirs.fileno(), log])["process"]
        except BaseException:
            ours.close()
            raise
        return ForkedProcess(self, self._generation, process), ours

    def _begin(self) -> None:
        self._stop()
        ours, theirs = socket.socketpair()
        ours.settimeout(_SECONDS)
        with theirs, self._log.open("ab") as log:
            self._server = subprocess.Popen(
                [sys.executable, "-P", "-m", "firn_local.zygote", str(theirs.fileno()), *MODULES],
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
        """Raises OSError, also where it ends instead of answering. One that has not answered is stopped: its answer
        would be taken for that of the next question."""
        if self._socket is None:
            raise ConnectionResetError("the fork server was stopped")
        try:
            socket.send_fds(self._socket, [len(request).to_bytes(4, "big") + request], descriptors)
            frame = receive(self._socket)
            if frame is None:
                raise ConnectionResetError(f"the process that functions are forked from ended: see {self._log}")
        except BaseException:
            self._stop()
            raise
        answer: dict[str, Any] = msgspec.json.decode(frame)
        return answer


class ForkedProcess:
    """A forked environment, with as much of subprocess.Popen as its owner needs."""

    def __init__(self, server: ForkServer, generation: int, process: int) -> None:
        self._server, self._generation, self.pid = server, generation, process
        self._lock = threading.Lock()
        self._code: int | None = None
        self._handle = _handle_of(process)

    def poll(self) -> int | None:
        """Its code, once it was waited for."""
        return self._code

    def kill(self) -> None:
        """End it now."""
        self.wait()

    def wait(self) -> int:
        """Its code. What has not ended by then is killed, at once: also where the server is busy, or is gone."""
        with self._lock:
            if self._code is None:
                if self._handle is not None:
                    with suppress(OSError):
                        signal.pidfd_send_signal(self._handle, signal.SIGKILL)
                    os.close(self._handle)
                    self._handle = None
                self._code = self._server.end(self._generation, self.pid)
            return self._code


def _handle_of(process: int) -> int | None:
    """What stands for this process and no later one of its id; None where the kernel has no such (before 5.3)."""
    try:
        return os.pidfd_open(process)
    except OSError:
        return None


def can_fork(python: str) -> bool:
    """Whether environments of this interpreter can be forked: it is our own, and the system lets processes go on after
    a fork (libraries of macOS do not)."""
    return python == sys.executable and sys.platform == "linux"
