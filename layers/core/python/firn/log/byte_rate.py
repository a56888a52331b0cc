"""Bytes a second: a bucket for one process, and the account of all of them that dispatch keeps in a stream's state."""

import math
import threading
import time
from collections.abc import Callable
from typing import Final

# Epochs are sealed in lumps, and dispatch looks once a minute: so many seconds' bytes may come at once before the
# account of a stream that keeps its rate is in debt.
LUMPS: Final = 180


class ByteBucket:
    """Lets in `rate` bytes a second on average, after a pause the bytes of `burst` seconds at once. `rate` 0: all.

    A request is let in while the bucket is not empty, and may leave it in debt: so one that is larger than the bucket
    is never shut out, and the mean is still the rate.
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic, *, burst: float = 2.0) -> None:
        self.rate, self._clock = rate, clock
        self._most = rate * burst
        self._left, self._at = self._most, clock()
        self._lock = threading.Lock()

    def take(self, size: int) -> int:
        """Let in a request of `size` bytes: 0, or the whole seconds after which it is worth another try."""
        if not self.rate:
            return 0
        with self._lock:
            now = self._clock()
            self._left = min(self._most, self._left + (now - self._at) * self.rate)
            self._at = now
            if self._left <= 0:
                return max(1, math.ceil(-self._left / self.rate))
            self._left -= size
            return 0


def debt_after(debt: float, seconds: float, taken: int, rate: float) -> float:
    """What a stream has taken above its rate, in bytes, `seconds` after it was `debt` and with `taken` bytes more.
    Below 0: what it may take at once, for LUMPS seconds at most. Pure."""
    return max(-LUMPS * rate, debt - max(0.0, seconds) * rate + taken)
