"""Job runs of the local EMR Serverless: states in their real order, retries, time-outs, cancels, and real processes.

SUBMITTED -> PENDING -> SCHEDULED -> RUNNING -> SUCCESS | FAILED, and CANCELLING -> CANCELLED from any of the first four
(EMR Serverless User Guide, "Job run states"). A failed attempt goes back to PENDING while the retry policy allows
another. One thread a run; the run's record is written to {jobs}/{run}/run.json at each step, so that tokens and history
survive a restart. Its output is in {jobs}/{run}/stdout and stderr.
"""

import contextlib
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlparse
from urllib.request import url2pathname

import msgspec

from firn_local import tether
from firn_local.image import prepare
from firn_local.spark_submit import SparkSubmit

FINAL = frozenset({"SUCCESS", "FAILED", "CANCELLED"})
DEFAULT_TIMEOUT_MINUTES = 720  # the service's default; 0 means none
_CANCEL_GRACE_SECONDS = 5


class JobRun(msgspec.Struct):
    """One job run. Times are seconds since the epoch; `steps` holds (attempt, state, time) in order."""

    application_id: str
    id: str
    arn: str
    request: dict[str, Any]
    """StartJobRun's parameters without the token, as sent: also what a repeated token is compared with."""
    client_token: str
    release_label: str
    created_at: float
    updated_at: float
    state: str = "SUBMITTED"
    details: str = ""
    attempt: int = 1
    started_at: float | None = None
    ended_at: float | None = None
    tags: dict[str, str] = {}
    steps: list[tuple[int, str, float]] = []

    @property
    def driver(self) -> dict[str, Any]:
        """The sparkSubmit driver of the request."""
        driver: dict[str, Any] = self.request["jobDriver"]["sparkSubmit"]
        return driver

    @property
    def timeout_minutes(self) -> int:
        """After how many minutes of running the service cancels the run; 0 for never."""
        return int(self.request.get("executionTimeoutMinutes", DEFAULT_TIMEOUT_MINUTES))


class Runner:
    """Runs jobs, at most `slots` at a time. `tell` hears of each state, with the one before it.

    `fetch(url) -> bytes` reads an s3:// URL: an entry point, and what a run's parameters name. `minute` is how many
    seconds a minute of executionTimeoutMinutes lasts, for tests. While `waits_for` says what this machine lacks for
    Spark, runs stay PENDING and say so.
    """

    def __init__(
        self,
        jobs: Path,
        spark: SparkSubmit,
        *,
        slots: int = 2,
        fetch: Callable[[str], bytes] | None = None,
        minute: float = 60.0,
        tell: Callable[[JobRun, str], None] = lambda _run, _before: None,
        waits_for: Callable[[], str] = lambda: "",
    ) -> None:
        self.jobs = jobs.resolve()
        self._spark = spark
        self._slots = threading.Semaphore(slots)
        self._fetch = fetch
        self._minute = minute
        self._lock = threading.Lock()
        self._preparing = threading.Lock()
        self._active: dict[str, _Active] = {}
        self._tell = tell
        self._waits_for = waits_for
        self._closing = False

    def submit(self, run: JobRun) -> None:
        """Take a run in state SUBMITTED and see it to its end in the background."""
        self._step(run, "SUBMITTED", "")
        active = _Active(run)
        active.thread = threading.Thread(target=self._drive, args=(active,), name=f"run-{run.id}", daemon=True)
        with self._lock:
            self._active[run.id] = active
        active.thread.start()

    def cancel(self, run: JobRun, grace: float = _CANCEL_GRACE_SECONDS) -> None:
        """CANCELLING at once; CANCELLED when the last of its processes is gone. SIGKILL comes after `grace` seconds."""
        with self._lock:
            active = self._active.get(run.id)
            if active is None or run.state in FINAL or active.cancel.is_set():
                return
            self._record(run, "CANCELLING", "The job run was cancelled.")
        active.grace = grace
        active.cancel.set()

    @property
    def idle(self) -> bool:
        """Whether no run is under way or waits."""
        return not self._active

    def wait(self, run_id: str, seconds: float) -> bool:
        """Wait for the run's end; False if it still goes on."""
        active = self._active.get(run_id)
        if active is None or active.thread is None:
            return True
        active.thread.join(seconds)
        return not active.thread.is_alive()

    def running(self) -> list[JobRun]:
        """The runs whose process is at work."""
        with self._lock:
            return [active.run for active in self._active.values() if active.run.state == "RUNNING"]

    def close(self) -> None:
        """Kill what runs, at once, with all its processes. Such runs end FAILED."""
        self._closing = True
        with self._lock:
            left = list(self._active.values())
        for active in left:
            active.grace = 0
            active.cancel.set()
        for active in left:
            if active.thread is not None:
                active.thread.join(5)

    def load(self) -> list[JobRun]:
        """The runs of earlier starts. One that was not at its end died with the stack: it is FAILED now."""
        runs = []
        for path in sorted(self.jobs.glob("*/run.json")):
            with contextlib.suppress(msgspec.DecodeError, OSError):  # a record cut short by a crash is not a run
                run = msgspec.json.decode(path.read_bytes(), type=JobRun)
                if run.state not in FINAL:
                    self._step(run, "FAILED", f"The stack stopped while the run was {run.state}.")
                runs.append(run)
        return runs

    def _drive(self, active: "_Active") -> None:
        run = active.run
        attempts = int((run.request.get("retryPolicy") or {}).get("maxAttempts", 1))
        deadline: float | None = None
        code: int | None = None
        details = ""
        try:
            while True:
                self._step(run, "PENDING", details or self._waits_for())
                if not self._slot(active):
                    break
                try:
                    self._step(run, "SCHEDULED", "")
                    if deadline is None and run.timeout_minutes:
                        deadline = time.monotonic() + run.timeout_minutes * self._minute
                    code = self._attempt(active, deadline)
                finally:
                    self._slots.release()
                if active.cancel.is_set() or code == 0 or run.attempt >= attempts:
                    break
                details = _failure(code, run.attempt, attempts)
                run.attempt += 1
            self._finish(active, None if active.cancel.is_set() else code, attempts)
        except Exception as error:  # noqa: BLE001 - whatever stops a run must end in its record, not in a lost thread
            self._step(run, "FAILED", f"The run could not be started: {error}")
        finally:
            with self._lock:
                self._active.pop(run.id, None)

    def _finish(self, active: "_Active", code: int | None, attempts: int) -> None:
        run = active.run
        if code is None and self._closing:
            self._step(run, "FAILED", "The stack stopped during the run.")
        elif code is None:
            self._step(run, "CANCELLED", active.reason)
        elif code == 0:
            self._step(run, "SUCCESS", "")
        else:
            self._step(run, "FAILED", _failure(code, run.attempt, attempts))

    def _slot(self, active: "_Active") -> bool:
        while not active.cancel.is_set():
            if self._waits_for():
                active.cancel.wait(0.1)
            elif self._slots.acquire(timeout=0.1):
                return True
        return False

    def _attempt(self, active: "_Active", deadline: float | None) -> int:
        """One start of spark-submit; returns its exit code."""
        run, folder = active.run, self.jobs / active.run.id
        scratch = folder / "tmp"
        scratch.mkdir(parents=True, exist_ok=True)
        with self._preparing:
            prepared = prepare(
                run.driver.get("sparkSubmitParameters") or "", scratch, self._read, self.jobs.parent / "job-files"
            )
        command = self._spark.arguments(
            run.driver,
            run.request.get("configurationOverrides") or {},
            self._entry_point(run.driver["entryPoint"], folder),
            scratch,
            prepared,
        )
        with (folder / "stdout").open("ab") as out, (folder / "stderr").open("ab") as err:
            if run.attempt > 1:
                for log in (out, err):
                    log.write(f"--- attempt {run.attempt} ---\n".encode())
                    log.flush()
            with subprocess.Popen(
                [sys.executable, "-S", "-E", tether.__file__, str(folder / "pid"), *command],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                cwd=scratch,
                env=self._spark.process_environment(scratch, prepared),
                start_new_session=True,
            ) as process:
                self._step(run, "RUNNING", "")
                code = self._watch(active, process, deadline)
        shutil.rmtree(scratch, ignore_errors=True)
        return code

    def _watch(self, active: "_Active", process: "subprocess.Popen[bytes]", deadline: float | None) -> int:
        stdin: IO[bytes] = process.stdin  # type: ignore[assignment]
        told = False
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(0.05)
            if deadline is not None and time.monotonic() > deadline and not active.cancel.is_set():
                minutes = active.run.timeout_minutes
                active.reason = f"The job run exceeded its execution timeout of {minutes} minutes."
                self._step(active.run, "CANCELLING", active.reason)
                active.cancel.set()
            if active.cancel.is_set() and not told:
                told = True
                with contextlib.suppress(OSError):
                    if active.grace > 0:
                        stdin.write(f"{active.grace}\n".encode())
                    stdin.close()

    def _entry_point(self, entry_point: str, folder: Path) -> str:
        """A local path for a path, a file:// or an s3:// URL. Raises OSError that names the entry point."""
        url = urlparse(entry_point)
        if url.scheme in ("", "file"):
            path = Path(url2pathname(url.path) if url.scheme else entry_point).absolute()
            if not path.is_file():
                raise FileNotFoundError(f"the entry point {entry_point} does not exist")
            return str(path)
        copy = folder / Path(url.path).name
        copy.write_bytes(self._read(entry_point))
        return str(copy)

    def _read(self, url: str) -> bytes:
        """What is at an s3:// URL. Raises OSError."""
        if self._fetch is None:
            raise OSError(f"{url} can't be read here: give a path or a file:// URL")
        return self._fetch(url)

    def _step(self, run: JobRun, state: str, details: str) -> None:
        with self._lock:
            # Once a run is being cancelled only its end may follow.
            if run.state == "CANCELLING" and state not in FINAL:
                return
            before = run.state
            self._record(run, state, details)
        self._tell(run, before)

    def _record(self, run: JobRun, state: str, details: str) -> None:
        """The record first, then the run itself: whoever is told a state finds it recorded."""
        now = time.time()
        steps = [*run.steps, (run.attempt, state, now)]
        changed: dict[str, Any] = {"details": details[:256], "updated_at": now, "steps": steps}
        if state == "RUNNING" and run.started_at is None:
            changed["started_at"] = now
        if state in FINAL:
            changed["ended_at"] = now
        changed["state"] = state  # last: whoever sees it sees the rest
        folder = self.jobs / run.id
        folder.mkdir(parents=True, exist_ok=True)
        new = folder / "run.json.new"
        new.write_bytes(msgspec.json.encode(msgspec.structs.replace(run, **changed)))
        new.replace(folder / "run.json")
        for name, value in changed.items():
            setattr(run, name, value)


class _Active:
    """A run on its way: how to stop it."""

    def __init__(self, run: JobRun) -> None:
        self.run = run
        self.cancel = threading.Event()
        self.grace: float = _CANCEL_GRACE_SECONDS
        self.reason = "The job run was cancelled."
        self.thread: threading.Thread | None = None


def _failure(code: int, attempt: int, attempts: int) -> str:
    cause = f"signal {code - 128}" if code > 128 else f"exit code {code}"
    return f"Job failed with {cause} in attempt {attempt} of {attempts}; see the run's stderr."
