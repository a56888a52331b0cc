"""SIGKILL for the processes of a running stack: a job's whole tree, a function's worker, the stack itself."""

import json
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from firn_local.tether import kill_session
from tests.e2e.conftest import Stack
from tests.integration.snapshots import epochs_of


def dispatch(stack: Stack, stream: str) -> dict[str, Any]:
    """Seal what is there and start a job; what the dispatcher says of this stream."""
    event = json.dumps({"force": True, "stream": stream}).encode()
    status, answer = stack.request("POST", "/_firn/invoke/dispatch", event)
    assert status == 200, answer
    said: dict[str, Any] = answer["streams"][0]
    assert "error" not in said or not said["error"], said
    return said


def kill_job(stack: Stack, run: str, dice: random.Random, tables: int, seconds: float = 240) -> str:
    """SIGKILL of a job's spark-submit, its JVM and its Python workers, at a moment that the dice choose: while Spark
    starts, while it reads, or when so many tables are committed. -> which moment it was.

    tables  how many tables the job commits to: the moment is before the last one
    """
    folder = stack.folder / "jobs" / run
    until(f"the start of {run}", seconds, (folder / "pid").exists)
    pid = int((folder / "pid").read_text())
    done = dice.randrange(-1, tables)
    if done >= 0:
        until(f"table {done} of {run}", seconds, lambda: lines(folder) >= done or ended(folder))
    time.sleep(dice.uniform(0, 8 if done < 0 else 2 if done == 0 else 0.3))
    moment = "while Spark started" if done < 0 else f"after {lines(folder)} of {tables} tables"
    kill_session(pid, signal.SIGKILL)
    until(f"the end of {run}", 60, lambda: ended(folder))
    return moment


def idle(stack: Stack) -> None:
    """Wait until no job runs: one that has just committed still looks for more. For streams with `linger: 0s`."""
    jobs = stack.folder / "jobs"
    until("the end of all jobs", 120, lambda: all(ended(run.parent) for run in jobs.glob("*/run.json")))


def lines(folder: Path) -> int:
    """How many tables a job has told of."""
    output = folder / "stdout"
    return output.read_text().count('"table":') if output.exists() else 0


def ended(folder: Path) -> str:
    """How a run ended, "" if it has not."""
    with suppress(OSError, ValueError):
        state = str(json.loads((folder / "run.json").read_text())["state"])
        return state if state in ("SUCCESS", "FAILED", "CANCELLED") else ""
    return ""


def workers(stack: Stack, function: str) -> list[int]:
    """The processes of a function, which goes by the name of its source's folder. Linux: /proc."""
    parents, names = dict[int, int](), dict[int, str]()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            name, _, told = (process / "stat").read_text().partition("(")[2].rpartition(")")
            parents[int(process.name)], names[int(process.name)] = int(told.split()[1]), name
    # A worker is named after its function. It is a child of the stack, or forked from one: not those of `sam build`.
    its = stack.process.pid
    return [one for one, name in names.items() if name == function and its in (parents[one], parents.get(parents[one]))]


def kill_worker(stack: Stack, function: str) -> int:
    """SIGKILL of a function's processes -> how many there were."""
    found = workers(stack, function)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def until(what: str, seconds: float, found: Callable[[], object]) -> None:
    """Wait for something to become true. What costs much to look at is looked at less often: jobs need the cores."""
    began = time.monotonic()
    deadline = began + seconds
    while not found():
        now = time.monotonic()
        assert now < deadline, f"{what} did not happen in {seconds} s"
        time.sleep(max(0.02, min(2.0, 4 * (now - began))))
        began = time.monotonic()


def audited(stack: Stack, stream: str) -> None:
    """`firn audit` balances."""
    done = stack.firn("audit", stream, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def ancestry(stack: Stack, namespace: str, table: str, stream: str) -> list[int]:
    """The epochs that the snapshots of a table's ancestry name, oldest first."""
    return epochs_of(stack.catalog().load_table((namespace, table)), stream)
