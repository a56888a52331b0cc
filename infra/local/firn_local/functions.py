"""Functions and their execution environments: processes that take one invocation at a time, as in Lambda.

Processes rather than threads, because a handler's time-out then really ends it, a crash is only its own, Powertools'
resolvers need no locks, and handlers see the environment that the template declares and no other.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from firn_local.environment import source_path
from firn_local.fork_server import ForkedProcess, ForkServer
from firn_local.heaps import LARGE
from firn_local.other_s3 import key_of_caller
from firn_local.template import Function
from firn_local.worker import receive, send

MAX_PAYLOAD = 6_291_556
"""Bytes of an invocation's event or answer that Lambda takes (its quotas: 6 MB, and 100 bytes in practice)."""

_START_SECONDS = 60.0  # Lambda stops an environment's start after 10 s; here a loaded laptop may need longer


class FunctionError(Exception):
    """An invocation had no result. `kind` is Lambda's: Handled (the handler raised), Unhandled (crash or time-out)."""

    def __init__(self, kind: str, report: Mapping[str, Any]) -> None:
        super().__init__(f"{report.get('errorType', 'Error')}: {report.get('errorMessage', '')}")
        self.kind = kind
        self.report = dict(report)


class PayloadTooLarge(Exception):
    """The event is larger than Lambda takes."""


class FunctionRunner:
    """One function with at most `environments` processes. Callers beyond that wait.

    `environment` comes on top of the template's variables; output goes to {logs}/{name}.log. `python`: the interpreter,
    which has what the runtime brings. `forks`: what environments are forked from; None: each is started by itself.
    """

    def __init__(
        self,
        spec: Function,
        environment: Mapping[str, str],
        logs: Path,
        *,
        environments: int = 1,
        python: str = sys.executable,
        forks: ForkServer | None = None,
    ) -> None:
        self.spec = spec
        self._python, self._forks = python, forks
        self.last_error = ""
        self._variables = variables_of(spec, environment)
        logs.mkdir(parents=True, exist_ok=True)
        self._log = logs / f"{spec.name}.log"
        self._free = threading.Semaphore(environments)
        self._lock = threading.Lock()
        self._idle: list[_Environment] = []
        self._all: set[_Environment] = set()
        self._closed = False

    def warm(self) -> None:
        """Start an environment now. If that fails, the first invocation says so."""
        with self._free:
            environment = self._take()
            self._give(environment)

    def invoke(self, event: Any) -> Any:
        """Run the handler with `event`; returns its result. Raises FunctionError or PayloadTooLarge."""
        payload = msgspec.json.encode(event)
        if len(payload) > MAX_PAYLOAD:
            raise PayloadTooLarge(f"{self.spec.name}: an event of {len(payload)} bytes is over Lambda's {MAX_PAYLOAD}")
        with self._free:
            environment = self._take()
            try:
                result = environment.invoke(payload, self.spec.timeout)
            except FunctionError as error:
                self.last_error = str(error)
                if error.kind == "Unhandled":
                    self._drop(environment)
                else:
                    self._give(environment)
                raise
            except BaseException:
                self._drop(environment)
                raise
            self._give(environment)
            return result

    def reap(self, idle_seconds: float) -> None:
        """Stop environments that had nothing to do for so long; Lambda freezes and drops them too."""
        with self._lock:
            old = [e for e in self._idle if time.monotonic() - e.used > idle_seconds]
            self._idle = [e for e in self._idle if e not in old]
        for environment in old:
            self._drop(environment)

    def close(self) -> None:
        """Stop all environments, busy ones too."""
        with self._lock:
            self._closed = True
            left, self._idle = list(self._all), []
        for environment in left:
            self._drop(environment)

    def _take(self) -> "_Environment":
        with self._lock:
            if self._idle:
                return self._idle.pop()
            if self._closed:
                raise _failure("Stack.Stopped", f"{self.spec.name}: the stack is stopping")
        try:
            environment = _Environment(self.spec, self._variables, self._log, self._python, self._forks)
        except OSError as error:  # no memory or no descriptor is left, say: the next invocation tries again
            self.last_error = f"{self.spec.name}: no process could be started for it: {error}"
            raise _failure("Runtime.StartFailed", self.last_error) from error
        with self._lock:
            if not self._closed:
                self._all.add(environment)
                return environment
        environment.close()  # the stack has stopped meanwhile
        raise _failure("Stack.Stopped", f"{self.spec.name}: the stack is stopping")

    def _give(self, environment: "_Environment") -> None:
        environment.used = time.monotonic()
        with self._lock:
            self._idle.append(environment)

    def _drop(self, environment: "_Environment") -> None:
        environment.close()
        with self._lock:
            self._all.discard(environment)


class _Environment:
    """One worker process and its socket."""

    def __init__(
        self, spec: Function, variables: Mapping[str, str], log: Path, python: str, forks: ForkServer | None
    ) -> None:
        self._name = spec.name
        self._ready = False
        self.used = time.monotonic()
        self._process: subprocess.Popen[bytes] | ForkedProcess
        with log.open("ab") as output:
            if forks is None:
                self._process, self._socket = _started(spec.code, variables, python, output)
            else:
                self._process, self._socket = forks.start(spec.code, variables, output.fileno())

    def invoke(self, event: bytes, timeout: float) -> Any:
        if not self._ready:
            answer = self._receive(_START_SECONDS, "the start of the function")
            if "error" in answer:
                raise FunctionError("Unhandled", {**answer["error"], "phase": "init"})
            self._ready = True
        head = json.dumps({"id": str(uuid.uuid4()), "deadline": time.time() + timeout}).encode()
        with contextlib.suppress(OSError):  # if it died, the answer says how
            send(self._socket, head[:-1] + b',"event":' + event + b"}")
        answer = self._receive(timeout, "the invocation")
        if "error" in answer:
            raise FunctionError("Handled", answer["error"])
        return answer["result"]

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._socket.close()

    def _receive(self, timeout: float, what: str) -> dict[str, Any]:
        try:
            self._socket.settimeout(timeout)  # it is closed already where the stack has stopped meanwhile
            frame = receive(self._socket)
        except TimeoutError:
            raise _failure("Sandbox.Timedout", f"{self._name}: {what} took over {timeout:g} s") from None
        except OSError:
            frame = None
        if frame is None:
            self._process.kill()
            code = self._process.wait()
            raise _failure("Runtime.ExitError", f"{self._name}: its process ended with code {code}")
        answer: dict[str, Any] = msgspec.json.decode(frame)
        return answer


def _started(
    folder: Path, variables: Mapping[str, str], python: str, output: IO[bytes]
) -> "tuple[subprocess.Popen[bytes], socket.socket]":
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [python, "-P", "-m", "firn_local.worker", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(variables),
            cwd=folder,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,  # Ctrl-C is for the stack, which then stops its environments
        )
    return process, ours


def _failure(kind: str, message: str) -> FunctionError:
    return FunctionError("Unhandled", {"errorType": kind, "errorMessage": message})


def fork_server(functions: Sequence[Function], environment: Mapping[str, str], logs: Path) -> ForkServer:
    """What environments of these functions can be forked from: it has the variables that all of them have, and the
    folders that all of them import from."""
    each = [variables_of(spec, environment) for spec in functions]
    common = {name: value for name, value in each[0].items() if all(one.get(name) == value for one in each)}
    paths = [one["PYTHONPATH"].split(os.pathsep) for one in each]
    shared = [folder for folder in paths[0] if all(folder in some for some in paths)]
    logs.mkdir(parents=True, exist_ok=True)
    return ForkServer({**common, "PYTHONPATH": os.pathsep.join(shared)}, logs / "forks.log")


def variables_of(spec: Function, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of the handler's process: what Lambda sets, the template's variables, then the stack's."""
    # Of an installed Firn the layers are where the interpreter finds them.
    path = [str(spec.code), *map(str, filter(Path.is_dir, spec.layers)), source_path("infra/local")]
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.environ.get("HOME", "/"),
        "LANG": "C.UTF-8",
        "TZ": ":UTC",
        "MALLOC_MMAP_THRESHOLD_": str(LARGE),  # as of the stack itself
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "LAMBDA_TASK_ROOT": str(spec.code),
        "_HANDLER": spec.handler,
        "AWS_LAMBDA_FUNCTION_NAME": spec.name,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(spec.memory_mb),
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{spec.name}",
        "AWS_LAMBDA_LOG_STREAM_NAME": "local",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "POWERTOOLS_TRACE_DISABLED": "true",
        **spec.environment,
        **environment,
        **key_of_caller(spec.name, environment),
    }
