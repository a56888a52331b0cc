"""Two callers of one store, whose calls happen in an order that the test says."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from firn.log.store import Store

FOREVER = 10**9


class Turns:
    """Caller 0 makes `first` calls, then caller 1 makes `second`, then 0 goes on to its end, then 1.

    -> `run`: the errors of both, None where there is none; `calls`: how many calls each made.
    """

    def __init__(self, store: Store, first: int, second: int) -> None:
        self._store = store
        self._plan = [(0, first), (1, second), (0, FOREVER), (1, FOREVER)]
        self._turn = threading.Condition()
        self._done: set[int] = set()
        self.calls = [0, 0]

    def run(self, callers: Sequence[Callable[[Store], Any]]) -> list[BaseException | None]:
        errors: list[BaseException | None] = [None, None]

        def work(who: int) -> None:
            try:
                callers[who](_Caller(self, who))
            except BaseException as error:  # noqa: BLE001 (a thread's failure has to reach the test)
                errors[who] = error
            with self._turn:
                self._done.add(who)
                self._turn.notify_all()

        threads = [threading.Thread(target=work, args=(who,)) for who in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive(), "the callers wait for each other"
        return errors

    def call(self, who: int, effect: Callable[[], Any]) -> Any:
        with self._turn:
            assert self._turn.wait_for(lambda: self._whose() == who, 20)
            try:
                return effect()
            finally:
                self.calls[who] += 1
                place = next(i for i, (caller, left) in enumerate(self._plan) if caller == who and left > 0)
                self._plan[place] = (who, self._plan[place][1] - 1)
                self._turn.notify_all()

    def _whose(self) -> int:
        return next((caller for caller, left in self._plan if left > 0 and caller not in self._done), 0)

    @property
    def inner(self) -> Store:
        return self._store


class _Caller:
    """The store as one caller sees it."""

    def __init__(self, turns: Turns, who: int) -> None:
        self._turns, self._who = turns, who

    def put(self, path: str, file: bytes, *, mode: str) -> Any:
        return self._call(lambda: self._turns.inner.put(path, file, mode=mode))

    def get(self, path: str) -> Any:
        return self._call(lambda: self._turns.inner.get(path))

    def get_range(self, path: str, *, start: int, end: int) -> Any:
        return self._call(lambda: self._turns.inner.get_range(path, start=start, end=end))

    def head(self, path: str) -> Any:
        return self._call(lambda: self._turns.inner.head(path))

    def list(self, prefix: str | None = None, *, offset: str | None = None) -> Iterable[Sequence[Mapping[str, Any]]]:
        found: Iterable[Sequence[Mapping[str, Any]]] = self._call(
            lambda: list(self._turns.inner.list(prefix, offset=offset))
        )
        return found

    def delete(self, paths: str) -> Any:
        return self._call(lambda: self._turns.inner.delete(paths))

    def _call(self, effect: Callable[[], Any]) -> Any:
        return self._turns.call(self._who, effect)
