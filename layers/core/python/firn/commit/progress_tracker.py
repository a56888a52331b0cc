"""How far the commit of a range is: what its engine tells, put into storage every few seconds (log/job_progress.py).

It is advice. Nothing that it does can fail the job or hold it up: a thread of its own writes, errors end in the log,
and a commit that takes less than one interval writes nothing.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from firn.errors import FirnError
from firn.log import job_progress, layout
from firn.log.batches import FORMAT
from firn.log.job_progress import EVERY_SECONDS, STAGES, JobProgress, Stage
from firn.log.store import Store

# What of a commit's time each stage takes, about (docs/performance.md): an estimate only, the same in both homes.
_SHARES: Final[Mapping[Stage, float]] = {"reading": 0.4, "folding": 0.3, "writing": 0.25, "committing": 0.05}
_AS_STAGED: Final = 0.5  # of reading is over when the changes are there as they were staged; then they are decoded
_LEAST: Final = 0.05  # of the work must be done before anything is estimated
_log: Final = logging.getLogger(__name__)


@dataclass
class RangeProgress:
    """What of one range is done. Safe to use from several threads; every method is quick and raises nothing.

    `rows`: changes of the range. Its tables are planned once it is read; they begin with decoding what is theirs.
    """

    rows: int = 0
    share: Callable[[], float | None] = lambda: None
    """How much of what the engine counts just now is done, 0 to 1; None where it counts nothing."""
    end: Callable[[], None] = lambda: None
    """The range is over: nothing is told of it any more."""
    _read: int = 0
    _tables: dict[str, tuple[int, int]] = field(default_factory=dict)  # rows, and the number of the stage; 4: done
    _counted: set[str] = field(default_factory=set)  # tables whose stage the engine counts; "" is the whole range
    _best: tuple[int, int] = (0, 0)  # stage, rows: an engine that counts anew takes no step back
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, rows: int) -> None:
        """So many changes more are read."""
        with self._lock:
            self._read += rows

    def plan(self, tables: Mapping[str, int]) -> None:
        """The range is read as it was staged; these tables decode so many changes of it each."""
        with self._lock:
            for name, rows in tables.items():
                self._tables.setdefault(name, (rows, 0))

    def enter(self, table: str, stage: Stage) -> None:
        """A table is at this stage now. A second try of a table begins again, and is no step back."""
        with self._lock:
            rows, number = self._tables.get(table, (self.rows, 0))
            self._tables[table] = rows, max(number, STAGES.index(stage))

    def done(self, table: str) -> None:
        """A table's commit has ended, whichever way."""
        with self._lock:
            rows, _ = self._tables.get(table, (self.rows, 0))
            self._tables[table] = rows, len(STAGES)

    @contextmanager
    def counting(self, table: str = "") -> Iterator[None]:
        """In the `with`, `share` tells how far a table's stage is, or, without a name, the reading of the range."""
        with self._lock:
            self._counted.add(table)
        try:
            yield
        finally:
            with self._lock:
                self._counted.discard(table)

    def seen(self) -> tuple[Stage, int, int, float, int, int]:
        """-> the stage that something is at last, changes that have it behind them, all of them; how much of all work
        is done, 0 to 1; tables that are done, all of them."""
        share = self._asked()
        with self._lock:
            known = list(self._tables.items())
            counted = set(self._counted)
            read = min(self.rows, self._read)
        if not known:
            part = max(read / self.rows if self.rows else 0.0, share if "" in counted else 0.0) * _AS_STAGED
            rows = self._forward(0, round(self.rows * part))
            return "reading", rows, self.rows, part * _SHARES["reading"], 0, 0
        planned = sum(rows for _, (rows, _) in known)
        numbers = [number for _, (_, number) in known]
        at = min(min(numbers), len(STAGES) - 1)
        inside = {name: share if name in counted else 0.0 for name, _ in known}
        inside |= {name: _AS_STAGED + (1 - _AS_STAGED) * inside[name] for name, (_, number) in known if number == 0}
        past = sum(rows * (1.0 if n > at else inside[name] if n == at else 0.0) for name, (rows, n) in known)
        work = sum(rows * _work(n, inside[name]) for name, (rows, n) in known)
        done = sum(number == len(STAGES) for number in numbers)
        rows = self._forward(at, round(past))
        return STAGES[at], min(rows, planned), planned, work / planned if planned else 0.0, done, len(known)

    def _forward(self, at: int, rows: int) -> int:
        with self._lock:
            stage, most = self._best
            self._best = at, max(rows, most) if at == stage else rows
            return self._best[1]

    def _asked(self) -> float:
        try:
            found = self.share() if self._counted else None
        except Exception as error:  # noqa: BLE001 (the engine may be at its end: advice is not worth a failure)
            _log.debug("the engine does not say how far it is: %s", error)
            return 0.0
        return 0.0 if found is None else min(1.0, max(0.0, found))


def _work(number: int, inside: float) -> float:
    """How much of a table's work is done at stage `number`, of which `inside` is."""
    behind = sum(_SHARES[stage] for stage in STAGES[:number])
    return behind + (inside * _SHARES[STAGES[number]] if number < len(STAGES) else 0.0)


@dataclass
class Estimate:
    """Seconds that are left, by how long what is done took: a new guess when more is done than ever, counted down in
    between."""

    _done: float = 0.0
    _left: float | None = None
    _since: float = 0.0

    def left(self, done: float, elapsed: float) -> int | None:
        """`done`: 0 to 1; `elapsed`: seconds since the beginning. None while too little is done."""
        if done > self._done and done >= _LEAST:
            self._done, self._left, self._since = done, elapsed * (1 - done) / done, elapsed
        return None if self._left is None else max(1, round(self._left - (elapsed - self._since)))


class ProgressTracker:
    """Tells of the ranges that one job run commits. `run`: its name."""

    def __init__(
        self,
        store: Store,
        run: str,
        now: Callable[[], datetime],
        every: float = EVERY_SECONDS,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._run, self._now, self._every, self._steady = store, run, now, every, steady

    def begin(
        self, stream: str, first: int, last: int, rows: int, share: Callable[[], float | None] = lambda: None
    ) -> RangeProgress:
        """A range of `rows` changes, told of until `end` of what is given back is called."""
        over = threading.Event()
        progress = RangeProgress(rows, share, over.set)
        started, at = self._steady(), layout.instant(self._now())
        estimate = Estimate()

        def told() -> JobProgress:
            stage, done, planned, work, tables, all_tables = progress.seen()
            left = estimate.left(work, self._steady() - started)
            return JobProgress(
                FORMAT, self._run, stream, first, last, stage, done, planned, tables, all_tables, at,
                layout.instant(self._now()), left,
            )  # fmt: skip

        def run() -> None:
            while not over.wait(self._every):
                try:
                    job_progress.write(self._store, told())
                except FirnError as error:
                    _log.debug("the progress of %s is not told: %s", stream, error)
                except Exception as error:  # noqa: BLE001 (advice: whatever it is, the job goes on)
                    _log.warning("the progress of %s is not told any more: %s", stream, error)
                    return

        threading.Thread(target=run, name=f"progress-{stream}", daemon=True).start()
        return progress


def silent() -> RangeProgress:
    """A progress that nobody is told of."""
    return RangeProgress()
