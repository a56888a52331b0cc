"""What a process has seen in a store and need not look at again."""

import weakref
from typing import Generic, TypeVar

from firn.log.store import Store

K = TypeVar("K")
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """A dict for each store object while it lives: obstore's can't be hashed, so by identity."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Store], dict[K, V]]] = {}

    def of(self, store: Store) -> dict[K, V]:
        """What is known of this very store object."""
        held = self._known.get(id(store))
        if held is None or held[0]() is not store:
            held = self._known[id(store)] = (weakref.ref(store), {})
        return held[1]

    def clear(self) -> None:
        """Forget all: as a process that has just begun."""
        self._known.clear()
