"""The rate limit in front of the embedded stack: a token bucket of bytes, where API Gateway counts requests.

A request is let in while the bucket is not empty, and may leave it in debt: so one that is larger than the bucket is
never shut out, and the mean is still the rate.
"""

import math
import threading
import time
from collections.abc import Callable

DEFAULT_RATE = 10_000_000
"""Bytes a second."""

_BURST_SECONDS = 2.0


class ByteBucket:
    """Lets in `rate` bytes a second on average, after a pause the bytes of two seconds at once. `rate` 0: all."""

    def __init__(self, rate: float = DEFAULT_RATE, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._most = rate * _BURST_SECONDS
        self._left, self._at = self._most, clock()
        self._lock = threading.Lock()

    def take(self, size: int) -> int:
        """Let in a request of `size` bytes: 0, or the whole seconds after which it is worth another try."""
        if not self._rate:
            return 0
        with self._lock:
            now = self._clock()
            self._left = min(self._most, self._left + (now - self._at) * self._rate)
            self._at = now
            if self._left <= 0:
                return max(1, math.ceil(-self._left / self._rate))
            self._left -= size
            return 0
