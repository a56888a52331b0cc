"""How far a download is: one line that moves in a terminal, and two lines anywhere else."""

import sys
import time
from typing import TextIO

_WIDTH = 30


class ProgressBar:
    """`what` is fetched; `update` it with bytes, and `end` it."""

    def __init__(self, what: str, out: TextIO = sys.stdout) -> None:
        self._what, self._out, self._moves = what, out, out.isatty()
        self._began: float | None = None
        self._total = 0

    def update(self, done: int, total: int) -> None:
        """`done` of `total` bytes are here."""
        self._total = max(total, 1)
        if self._began is None:
            self._began = time.monotonic()
            if not self._moves:
                self._line(f"{self._what}: {_mb(total)}")
        if self._moves:
            filled = min(_WIDTH, _WIDTH * done // self._total)
            bar = "█" * filled + "░" * (_WIDTH - filled)
            self._out.write(f"\r{self._what}: {bar} {_mb(done)} of {_mb(total)}\x1b[K")
            self._out.flush()

    def end(self) -> None:
        """It is over, whether all came or not."""
        if self._began is not None and self._moves:
            self._out.write("\n")
        self._began = None

    def _line(self, text: str) -> None:
        self._out.write(f"{text}\n")
        self._out.flush()


def _mb(size: int) -> str:
    return f"{size / 1_000_000:.0f} MB"
