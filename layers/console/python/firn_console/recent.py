"""What was found a moment ago is found again: pages ask every few seconds, and several at once."""

import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from firn.log.store import Store
from firn.log.store_cache import Remembered

K = TypeVar("K")
V = TypeVar("V")

_LEAST: Final = 1.0  # seconds that an answer stands
_MOST: Final = 20.0
_SHARE: Final = 5.0  # what took a second to find stands for five: looking is at most a sixth of the time
_MANY: Final = 2_000  # answers that are kept


class Recent(Generic[K, V]):
    """Answers by their key, of each store: made again once they are older than a second, and than five times what it
    took to make them, up to 20 seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known = Remembered[K, tuple[float, V]]()

    def get(self, store: Store, key: K, make: Callable[[], V]) -> V:
        """The answer, made by `make` if none stands. Raises what that raises."""
        known = self._known.of(store)
        found, now = known.get(key), self._clock()
        if found is not None and now < found[0]:
            return found[1]
        value = make()
        done = self._clock()
        if len(known) >= _MANY:
            known.clear()
        known[key] = done + min(_MOST, max(_LEAST, _SHARE * (done - now))), value
        return value
