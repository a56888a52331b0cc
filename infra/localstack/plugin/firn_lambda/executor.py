"""Runs a Python function of LocalStack's as a process on this machine, with its layers.

One execution environment is one `python -m awslambdaric HANDLER` that talks to one RuntimeApi; it takes one event at a
time, is killed when it is over its time, and started again for the next event, as in Lambda. The layers' folders are on
its path, the last one first; nothing is copied.

FIRN_LAMBDA_PYTHON is the Python that has awslambdaric and boto3, FIRN_LAMBDA_LOGS the folder that gets one log file a
function.
"""

import json
import logging
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from contextlib import suppress
from pathlib import Path
from typing import Any

from localstack import config
from localstack.services.lambda_.invocation.executor_endpoint import StatusErrorException
from localstack.services.lambda_.invocation.lambda_models import InvocationResult
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor

from firn_lambda.runtime_api import Invocation, RuntimeApi

PYTHON = os.environ.get("FIRN_LAMBDA_PYTHON", "python3.13")
LOGS = Path(os.environ.get("FIRN_LAMBDA_LOGS") or tempfile.gettempdir())
STARTUP_SECONDS = 60
_log = logging.getLogger(__name__)


class ProcessExecutor(RuntimeExecutor):  # type: ignore[misc]
    """One execution environment, as LocalStack drives it: start, invoke again and again, stop."""

    def __init__(self, id: str, function_version: Any) -> None:
        super().__init__(id=id, function_version=function_version)
        self.name = str(function_version.id.function_name)
        self._home = Path(tempfile.mkdtemp(prefix=f"{self.name}-"))
        self._printed = self._home / "printed"  # since the last event
        self._environment: dict[str, str] = {}
        self._api: RuntimeApi | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._started: Future[None] = Future()
        self._result: tuple[str, Future[tuple[bytes, bool]]] | None = None
        self._stopping = False

    def start(self, env_vars: dict[str, Any]) -> None:
        """Start the process and wait until it asks for its first event. Raises StatusErrorException with its reason."""
        version = self.function_version.config
        if not str(version.runtime).startswith("python3."):
            raise NotImplementedError(f"{self.name}: runs Python functions from zip files only, not {version.runtime}")
        code = version.code.get_unzipped_code_location()
        layers = [Path(layer.code.get_unzipped_code_location()) / "python" for layer in reversed(version.layers)]
        given = {name: str(value) for name, value in env_vars.items() if value is not None}
        self._environment = {
            **given,
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(self._home),
            "TMPDIR": str(self._home),
            "TZ": "UTC",
            "LANG": "C.UTF-8",
            "PYTHONUNBUFFERED": "1",
            "LAMBDA_TASK_ROOT": str(code),
            "PYTHONPATH": os.pathsep.join(map(str, (code, *layers))),
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{version.runtime}",
        }
        self._spawn()

    def stop(self) -> None:
        """Kill the process; an event that it works on fails."""
        self._stopping = True
        self._kill()
        if self._api is not None:
            self._api.close()
        self._ended("the environment was stopped")
        shutil.rmtree(self._home, ignore_errors=True)

    def invoke(self, payload: dict[str, str]) -> Any:
        """Hand over one event and wait for its result, at most the function's time-out."""
        if self._process is None or self._process.poll() is not None:
            self._spawn()  # it was over its time before, or it crashed
        version, id = self.function_version.config, payload["invoke-id"]
        future: Future[tuple[bytes, bool]] = Future()
        self._result = id, future
        began = time.monotonic()
        assert self._api is not None  # noqa: S101
        deadline = int((time.time() + version.timeout) * 1000)
        self._api.give(
            Invocation(id, payload["payload"].encode(), deadline, payload["invoked-function-arn"], payload["trace-id"])
        )
        try:
            body, failed = future.result(timeout=version.timeout)
        except Late:
            self._kill()
            body, failed = _error("Sandbox.Timedout", f"{id} Task timed out after {version.timeout}.00 seconds"), True
        self._result = None
        took = (time.monotonic() - began) * 1000
        printed = self.get_logs()
        report = f"REPORT RequestId: {id}\tDuration: {took:.2f} ms\tMemory Size: {version.memory_size} MB"
        logs = f"START RequestId: {id}\n{printed}END RequestId: {id}\n{report}\n"
        with (LOGS / f"{self.name}.log").open("a") as kept:
            kept.write(logs)
        self._printed.write_bytes(b"")  # the process appends to it, so it goes on at its start
        return InvocationResult(id, body, is_error=failed, logs=logs)

    def get_logs(self) -> str:
        """What the process has printed since its last event."""
        try:
            return self._printed.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def get_address(self) -> str:
        """Loopback."""
        return "127.0.0.1"

    def get_endpoint_from_executor(self) -> str:
        """Where a function finds LocalStack: LocalStack puts it into AWS_ENDPOINT_URL."""
        return "127.0.0.1"

    def get_runtime_endpoint(self) -> str:
        """An address that only LocalStack's own runtime asks for."""
        return f"http://127.0.0.1:{config.GATEWAY_LISTEN[0].port}/_localstack_lambda/{self.id}"

    @classmethod
    def prepare_version(cls, function_version: Any) -> None:
        """Unpack the code and the layers."""
        for archive in (function_version.config.code, *(layer.code for layer in function_version.config.layers)):
            archive.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version: Any) -> None:
        """Nothing was made that LocalStack does not remove itself."""

    def _spawn(self) -> None:
        if self._api is not None:
            self._api.close()
        started: Future[None] = Future()
        self._started = started
        self._api = RuntimeApi(self._ready, self._answered, self._init_failed)
        with self._printed.open("ab") as out:
            self._process = process = subprocess.Popen(
                [PYTHON, "-m", "awslambdaric", self._environment["_HANDLER"]],
                cwd=self._environment["LAMBDA_TASK_ROOT"],
                env={**self._environment, "AWS_LAMBDA_RUNTIME_API": self._api.address},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        threading.Thread(target=self._reap, args=(process,), daemon=True).start()
        started.result(timeout=STARTUP_SECONDS)

    def _reap(self, process: "subprocess.Popen[bytes]") -> None:
        code = process.wait()
        if process is self._process and not self._stopping:
            self._ended(f"Runtime exited with error: exit status {code}")

    def _ended(self, why: str) -> None:
        """Whoever waits for the process waits no longer."""
        self._init_failed(_error("Runtime.ExitError", why))
        if self._result is not None:
            self._answered(self._result[0], _error("Runtime.ExitError", f"RequestId: {self._result[0]} {why}"), True)

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(5)

    def _ready(self) -> None:
        with suppress(Exception):  # it is so already, or the environment was stopped
            self._started.set_result(None)

    def _init_failed(self, reason: bytes) -> None:
        if not self._started.done():
            _log.warning("%s did not start: %s\n%s", self.name, reason.decode(errors="replace"), self.get_logs())
            self._started.set_exception(StatusErrorException("Environment startup failed", payload=reason))

    def _answered(self, id: str, body: bytes, failed: bool) -> None:
        if self._result is not None and self._result[0] == id and not self._result[1].done():
            self._result[1].set_result((body, failed))


def _error(kind: str, message: str) -> bytes:
    return json.dumps({"errorType": kind, "errorMessage": message}).encode()
