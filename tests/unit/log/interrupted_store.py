"""A store whose n-th call is interrupted: the process dies there, or somebody else acts in between."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from obstore.store import MemoryStore

When = Literal["before", "after"]


class Died(BaseException):
    """The process ended. No `except Exception` may swallow it."""


class InterruptedStore:
    """Passes calls on to `inner`. Before or after its call number `at` (from 1) it runs `act`; if that raises, the
    process counts as dead, and every further call raises Died. `calls` counts what got this far."""

    def __init__(self, inner: MemoryStore, at: int = 0, when: When = "before", act: Callable[[], None] | None = None):
        self.inner = inner
        self.calls = 0
        self.dead = False
        self._at, self._when, self._act = at, when, act or _die
        self._lock = threading.Lock()

    def put(self, path: str, file: bytes, *, mode: str) -> Any:
        return self._call(lambda: self.inner.put(path, file, mode=mode))  # type: ignore[call-overload]

    def get(self, path: str) -> Any:
        return self._call(lambda: self.inner.get(path))

    def get_range(self, path: str, *, start: int, end: int) -> Any:
        return self._call(lambda: self.inner.get_range(path, start=start, end=end))

    def head(self, path: str) -> Any:
        return self._call(lambda: self.inner.head(path))

    def list(self, prefix: str | None = None, *, offset: str | None = None) -> Iterable[Sequence[Mapping[str, Any]]]:
        chunks: Iterable[Sequence[Mapping[str, Any]]] = self._call(lambda: self.inner.list(prefix, offset=offset))
        return chunks

    def delete(self, paths: str) -> Any:
        return self._call(lambda: self.inner.delete(paths))

    def _call(self, effect: Callable[[], Any]) -> Any:
        with self._lock:
            self.calls += 1
            number = self.calls
        if self.dead:
            raise Died
        if number == self._at and self._when == "before":
            self._interrupt()
        if number != self._at or self._when == "before":
            return effect()
        try:
            return effect()
        finally:
            self._interrupt()

    def _interrupt(self) -> None:
        try:
            self._act()
        except BaseException:
            self.dead = True
            raise


def _die() -> None:
    raise Died
