"""The embedded stack as a process of its own, as `firn up` runs it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from firn.client import Retry, StreamClient
from firn.deployment.stack import Stack
from firn.deployment.target import find_stack
from firn.errors import FirnError
from firn_demo.storages import IN_MEMORY, Storage


class StackDidNotStart(FirnError):
    """The stack ended, or did not answer in time; the text holds what it said."""


@contextmanager
def running_stack(
    folder: Path, config: Path, *options: str, keep: bool = False, seconds: float = 60.0, storage: Storage = IN_MEMORY
) -> Iterator[Stack]:
    """A stack in `folder` on a free port, with its data in `storage`; stopped at the end, and `folder` removed, unless
    `keep`.

    Nothing runs by schedule: what is committed, and when, is the caller's to say. `options`: more of firn_local's.
    Raises StackDidNotStart.
    """
    said = folder / "stack.log"
    command = [sys.executable, "-m", "firn_local", *storage.options, "--port", "0", "--no-schedules"]
    with said.open("wb") as log:
        process = subprocess.Popen(
            [*command, "--dir", str(folder), "--config", str(config), *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is ours to handle: the stack is stopped below, in order
            env=os.environ | {"PYTHONUNBUFFERED": "1", **storage.environment},
        )
    try:
        yield _answering(process, folder, said, seconds)
    except BaseException:
        keep = False
        raise
    finally:
        if not keep:
            _stop(process)
            shutil.rmtree(folder, ignore_errors=True)


def _answering(process: "subprocess.Popen[bytes]", folder: Path, said: Path, seconds: float) -> Stack:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise StackDidNotStart(f"the stack ended with exit code {process.returncode}:\n{said.read_text()}")
        try:
            stack = find_stack(folder)
            with StreamClient(stack.url, retry=Retry(tries=1, patience=0)) as client:
                client.request("GET", "/v1/health")
            return stack
        except FirnError:  # not written yet, or not answering yet
            time.sleep(0.1)
    raise StackDidNotStart(f"the stack did not answer within {seconds:.0f} s:\n{said.read_text()}")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
