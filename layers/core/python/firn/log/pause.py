"""A paused stack starts no job: `config/paused.json` is there. It lies in the staging store, so that the functions and
jobs of an embedded stack and of a deployment find it alike, and beside the configuration, which all of them may read.

Since when is the storage's own time of the object, which holds nothing: pausing twice leaves the first time.
"""

import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

from firn.log import layout
from firn.log.store import Store, modified, put_if_absent, remove

CACHE_SECONDS: Final = 5.0


def begin(store: Store) -> None:
    """Pause, unless it is. Raises StorageUnavailable, UnknownOutcome (ask again)."""
    put_if_absent(store, layout.PAUSED, b"{}")


def end(store: Store) -> None:
    """Jobs may start again. Raises StorageUnavailable: it may be paused or not then, ask again."""
    remove(store, [layout.PAUSED])


def since(store: Store) -> datetime | None:
    """Since when it is paused, None if it is not. Raises StorageUnavailable."""
    return modified(store, layout.PAUSED)


class Watch:
    """Whether a store's stack is paused, for who asks again and again: looked at again after `seconds`."""

    def __init__(
        self, store: Store, seconds: float = CACHE_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._seconds, self._clock = store, seconds, clock
        self._looked: float | None = None
        self._paused = False

    def __call__(self) -> bool:
        """Raises StorageUnavailable."""
        now = self._clock()
        if self._looked is None or now - self._looked >= self._seconds:
            self._paused = since(self._store) is not None
            self._looked = now
        return self._paused
