"""Programs that stand still before each of their calls, until a test lets them go on: any interleaving, told by hand.

Each is a thread, and only one of them, or the test itself, runs at any moment: whoever lets another go on waits for it.
So a run is the same each time, and hypothesis can replay and shrink it.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

from tests.faults.calls import READS, Died, Fault, Gate, Where, failed

T = TypeVar("T")


class Process:
    """`pending` names the call it stands before, None once it has ended; `age` is for whoever needs it."""

    def __init__(self, gate: "Turns", name: str, program: Callable[[], object]) -> None:
        self.name = name
        self.pending: str | None = None
        self.ended = False
        self._program = program
        self._error: BaseException | None = None
        self._dead = False
        self._free = False
        self._fault: Fault | None = None
        self._lasting: Fault | None = None
        self._mine = threading.Semaphore(0)
        self._theirs = threading.Semaphore(0)
        self._gate = gate
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)

    def start(self) -> None:
        """As far as its first call."""
        self._thread.start()
        self._theirs.acquire()
        self._look()

    def step(self, fault: Fault | None = None) -> None:
        """Makes the pending call, well or with a fault, and goes on to the next one."""
        if not self.ended:
            self._fault = fault
            self._mine.release()
            self._theirs.acquire()
            self._look()

    def finish(self, fault: Fault | None = None) -> None:
        """Goes on to its end, while every call of it works, or fails like this."""
        self._free, self._lasting = True, fault
        self.step(fault)

    def kill(self, fault: Fault = "dies before") -> None:
        """It is no more, whatever it tries."""
        self.step(fault)
        assert self.ended

    def call(self, where: Where, name: str, effect: Callable[[], T]) -> T:
        """In its own thread: stands still, then makes the call."""
        if self._dead:
            raise Died(name)
        if not self._free:
            self.pending = name
            self._theirs.release()
            self._mine.acquire()
        fault, self._fault = self._fault, self._lasting
        if fault is None:
            return effect()
        self._dead = fault.startswith("dies")
        return failed(where, name, fault, effect)

    def _live(self) -> None:
        self._gate.of[threading.get_ident()] = self
        try:
            self._program()
        except Died:
            pass
        except BaseException as error:  # noqa: BLE001 (a thread's failure has to reach the test)
            self._error = error
        del self._gate.of[threading.get_ident()]
        self.pending, self.ended = None, True
        self._theirs.release()

    def _look(self) -> None:
        if self.ended:
            self._thread.join()
        if self._error is not None:
            error, self._error = self._error, None
            raise error


class Turns(Gate):
    """Each call stops its own process; calls of the test itself go through. `effects` counts what may have changed
    something."""

    def __init__(self) -> None:
        self.of: dict[int, Process] = {}
        self.effects = 0

    def call(self, where: Where, name: str, effect: Callable[[], T]) -> T:
        """The calling process's turn."""

        def counted() -> T:
            self.effects += name.split()[0] not in READS
            return effect()

        process = self.of.get(threading.get_ident())
        return counted() if process is None else process.call(where, name, counted)
