"""The worker process as the query function sees it: started ahead, asked through pipes, watched, and killed when it
takes more than a question may.

A query can't be trusted to stop: DuckDB's memory limit and interrupt reach only what DuckDB does in its own buffers and
between its chunks of rows, and its parser and ours know neither. What counts is the memory that is resident, for
address space is reserved and never used by the allocators of DuckDB and PyArrow. Lambda has no /dev/shm: no
multiprocessing, whose queues and locks need it (docs/adr/0039-a-query-is-a-process.md).
"""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from firn.errors import FirnError
from firn_lake.query_protocol import (
    DONE,
    HEAD,
    PART,
    QUESTION,
    READY,
    Done,
    Head,
    Question,
    Refusal,
    Refused,
    receive,
    send,
)

_LOOK_SECONDS: Final = 0.01  # between looks at what the worker takes: memory grows by some 2 GB a second at most
_GRACE_SECONDS: Final = 1.0  # for DuckDB's own interrupt, which leaves the worker as it is
STARTS_SECONDS: Final = 30.0  # until a worker is ready at the latest: it takes one or two
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class NotStarted(FirnError):
    """The worker ended before it could be asked, or was not ready in time. The text says how, and holds nothing of any
    question."""


@dataclass(frozen=True)
class Bounds:
    """What the worker may take for one question before it is killed.

    memory       bytes that are resident, of the whole process
    cpu_seconds  of all its threads together
    """

    memory: int
    cpu_seconds: float


class QueryProcess:
    """A worker, and after it was killed the next one. One question at a time: others wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worker = _Worker()

    def await_ready(self, seconds: float = STARTS_SECONDS) -> None:
        """Wait until it can be asked, so long at most. Raises NotStarted: the next worker is begun then."""
        with self._lock:
            self._await_ready(seconds)

    def ask(
        self, question: Question, bounds: Bounds, began: Callable[[Head], None], part: Callable[[bytes], None]
    ) -> Done:
        """Have a question answered: `began` hears what the answer is, and `part` gets its bytes in order.

        Raises Refused (413 for more than its bounds, 500 if it ended the worker, and whatever the worker refuses),
        NotStarted, and what `began` and `part` raise: whatever was handed over is then to be thrown away.
        """
        with self._lock:
            self._await_ready(STARTS_SECONDS)
            try:
                done = self._worker.ask(question, bounds, began, part)
            except Refused:
                self._keep(bounds)
                raise
            except BaseException:
                self._replace()
                raise
            self._keep(bounds)
            return done

    def resident(self) -> int:
        """Bytes of the worker's memory."""
        return self._worker.resident()

    def close(self) -> None:
        """End the worker."""
        self._worker.close()

    def _await_ready(self, seconds: float) -> None:
        if not self._worker.is_alive:
            self._replace()
        try:
            self._worker.await_ready(seconds)
        except BaseException:
            self._replace()
            raise

    def _keep(self, bounds: Bounds) -> None:
        # What an allocator keeps for later is missing for the next question.
        if not self._worker.is_alive or self._worker.resident() > bounds.memory // 2:
            self._replace()

    def _replace(self) -> None:
        self._worker.close()
        self._worker = _Worker()


class _Worker:
    def __init__(self) -> None:
        theirs, self._questions = os.pipe()
        self._answers, ours = os.pipe()
        self._ready = False
        self._why: Refusal | None = None
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-m", "firn_lake.query_worker", str(theirs), str(ours)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            pass_fds=(theirs, ours),
        )
        os.close(theirs)
        os.close(ours)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def await_ready(self, seconds: float) -> None:
        """Wait until it can be asked, so long at most. Raises NotStarted."""
        if self._ready:
            return
        said = select.poll()
        said.register(self._answers, select.POLLIN)
        if not said.poll(seconds * 1000):
            raise NotStarted(f"the worker was not ready after {seconds:g} seconds")
        frame = receive(self._answers)
        if frame is None:
            raise NotStarted(f"the worker {_ended(self._process.wait())} while it started")
        if frame[0] != READY:
            raise NotStarted(msgspec.json.decode(frame[1], type=Refusal).message)
        self._ready = True

    def ask(
        self, question: Question, bounds: Bounds, began: Callable[[Head], None], part: Callable[[bytes], None]
    ) -> Done:
        answered = threading.Event()
        watch = threading.Thread(target=self._watch, args=(bounds, question.seconds, answered), daemon=True)
        watch.start()
        try:
            done = self._answer(question, began, part)
        finally:
            answered.set()
            watch.join()
        if done is None or self._why is not None:
            code = self._process.wait()
            raise Refused(self._why or _refusal_of(code))
        return done

    def _answer(self, question: Question, began: Callable[[Head], None], part: Callable[[bytes], None]) -> Done | None:
        # A worker that is gone says nothing: the end of its answers tells how it went.
        with suppress(BrokenPipeError):
            send(self._questions, QUESTION, msgspec.json.encode(question))
        while (frame := receive(self._answers)) is not None:
            kind, content = frame
            if kind == PART:
                part(content)
            elif kind == HEAD:
                began(msgspec.json.decode(content, type=Head))
            elif kind == DONE:
                return msgspec.json.decode(content, type=Done)
            else:
                raise Refused(msgspec.json.decode(content, type=Refusal))
        return None

    def resident(self) -> int:
        told = self._told("statm").split()
        return int(told[1]) * _PAGE if told else 0

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._questions, self._answers):
            os.close(pipe)

    def _watch(self, bounds: Bounds, seconds: float, answered: threading.Event) -> None:
        began, cpu = time.monotonic(), self._cpu_seconds()
        while not answered.wait(_LOOK_SECONDS):
            if self.resident() > bounds.memory:
                self._why = _too_large(f"{bounds.memory // 1_000_000:,} MB of memory", "fewer rows or columns")
            elif time.monotonic() - began > seconds + _GRACE_SECONDS:
                self._why = _too_large(f"its {seconds:g} seconds", "less")
            elif self._cpu_seconds() - cpu > bounds.cpu_seconds:
                self._why = _too_large(f"{bounds.cpu_seconds:g} seconds of CPU", "less")
            if self._why is not None:
                self._process.kill()
                return

    def _cpu_seconds(self) -> float:
        told = self._told("stat").rpartition(")")[2].split()
        return (int(told[11]) + int(told[12])) / _TICKS if told else 0.0

    def _told(self, what: str) -> str:
        """A file of the worker's in /proc; "" where there is none, as on a Mac: time alone is limited there."""
        with suppress(OSError), open(f"/proc/{self._process.pid}/{what}") as file:
            return file.read()
        return ""


def _too_large(taken: str, keep: str) -> Refusal:
    return Refusal(413, "too_large", f"the query took more than {taken}: have it read and keep {keep}", kind="Killed")


def _refusal_of(code: int) -> Refusal:
    if code == -signal.SIGKILL:  # and not by us: so the kernel does when memory ends
        return Refusal(413, "too_large", "the query took more memory than there was: have it keep less", kind="Killed")
    how = _ended(code)
    text = f"the process that ran the query {how}: write the query otherwise, less deeply nested or with smaller values"
    return Refusal(500, "query_crashed", text, kind=how)


def _ended(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
