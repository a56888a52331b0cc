"""`firn up` as a process of its own on a port that it keeps, and the firn.yaml that it watches."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from examples.sources.processes import Server, free_port
from firn.client import Retry, StreamClient
from firn.deployment.stack import Stack
from firn.deployment.target import find_stack
from firn.errors import FirnError


class FirnUp:
    """The embedded stack with its data as files in `folder`: they outlive any kill. What is due is committed every
    10 s, not every minute. `queue_stream`: the stream of queue messages that name none (Debezium Server's never do)."""

    def __init__(self, folder: Path, queue_stream: str | None = None) -> None:
        self.folder, self.port = folder, free_port()
        self.config = folder / "firn.yaml"
        folder.mkdir(parents=True)
        command = [sys.executable, "-m", "firn_local", "--schedule-seconds", "10", "--dir", folder, "--port", self.port]
        named = ["--queue-stream", queue_stream] if queue_stream else []
        self._server = Server("firn", [str(part) for part in [*command, "--config", self.config, *named]], folder)

    def start(self) -> None:
        """Start it and wait until it answers. Raises ServerFailed."""
        self._server.start()
        self._server.wait(self._answers, 90)

    def kill(self) -> None:
        """SIGKILL of the stack: functions and Spark jobs go with it, whatever they have in hand."""
        self._server.kill()

    def stop(self) -> None:
        """Ctrl-C."""
        self._server.stop(30, signal.SIGINT)

    def stack(self) -> Stack:
        """Its addresses. Raises NoStack."""
        return find_stack(self.folder)

    def aws_endpoint(self) -> str:
        """Where its S3 and SQS are."""
        return str(json.loads((self.folder / "stack.json").read_text())["aws_endpoint"])

    def kill_functions(self) -> int:
        """SIGKILL of the functions' processes, whatever they have in hand -> how many there were (Linux: /proc)."""
        parents = dict[int, int]()
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, ValueError, IndexError):
                if b"firn_local.zygote" in (process / "cmdline").read_bytes():
                    parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        killed = 0
        for worker, parent in parents.items():
            # They are forked from a process of the stack, which stays.
            if parents.get(parent) == self._server.pid:
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
                    killed += 1
        return killed

    def edit(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Change firn.yaml as its owner would."""
        written = yaml.safe_load(self.config.read_text(encoding="utf-8"))
        change(written)
        new = self.config.with_suffix(".new")
        new.write_text(yaml.safe_dump(written, sort_keys=False, allow_unicode=True), encoding="utf-8")
        new.replace(self.config)

    def change(self, change: Callable[[dict[str, Any]], None]) -> None:
        """`edit`, and wait until the running stack has taken it. Raises FirnError."""
        before = self._published()
        self.edit(change)
        deadline = time.monotonic() + 30
        while self._published() == before:
            if time.monotonic() > deadline:
                raise FirnError(f"the stack did not take {self.config} within 30 s: see {self._server.log}")
            time.sleep(0.2)

    def _published(self) -> str:
        with StreamClient(self.stack().url, retry=Retry(tries=1, patience=0)) as client:
            return str(client.request("GET", "/v1/health")["config"])

    def _answers(self) -> bool:
        try:
            return bool(self._published())
        except FirnError:  # not written yet, or not answering yet
            return False
