"""Every call that Firn makes on something that can fail: named, counted, and stopped in front of a test's own rule.

A `Gate` stands between the code under test and its store, its catalog and EMR Serverless. It gets each call's name and
its effect, and decides: run it, refuse it, run it and lose the answer, or let the process die before or after it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, NoReturn, TypeVar

import pytest
from obstore.exceptions import GenericError
from obstore.store import MemoryStore

from firn.config.reader import parse
from firn.errors import StorageUnavailable, UnknownOutcome
from firn.log.store import put_if_absent

T = TypeVar("T")
Where = Literal["store", "catalog", "jobs"]
# refused: no effect, and the caller is told so. lost before, lost after: without and with the effect, and the caller
# can't tell which. dies: without and with the effect, and the caller is no more.
Fault = Literal["refused", "lost before", "lost after", "dies before", "dies after"]
FAULTS: Final[tuple[Fault, ...]] = ("refused", "lost before", "lost after", "dies before", "dies after")
READS: Final = frozenset({"get", "get_range", "head", "list", "load", "runs"})  # what has no effect
PAGE: Final = 3  # objects of a listing that come in one answer, as S3's come by the thousand


class Died(BaseException):
    """The process ended here. No `except Exception` may swallow it."""


class Gate:
    """Lets every call through. `call(where, name, effect)` is what a test overrides."""

    def call(self, where: Where, name: str, effect: Callable[[], T]) -> T:
        """The effect, and its answer."""
        return effect()


class Counting(Gate):
    """The call number `at` (from 1), or the first one of that name, fails as `fault` says.

    lasting  what fails from then on. None: nothing. "name": every later call of that name. "all": every later call.
    log      the names of all calls so far; `hit` is the name of the one that failed
    """

    def __init__(
        self, at: int | str = 0, fault: Fault = "refused", lasting: Literal["name", "all"] | None = None
    ) -> None:
        self.at, self.fault, self.lasting = at, fault, lasting
        self.log: list[str] = []
        self.hit: str | None = None
        self._process_is_dead = False

    def call(self, where: Where, name: str, effect: Callable[[], T]) -> T:
        """Counts it, and runs it or fails it."""
        if self._process_is_dead:
            raise Died  # a `finally` of the dead process, or another thread of it
        self.log.append(name)
        first = self.hit is None and self.at in (len(self.log), name)
        again = self.hit is not None and (self.lasting == "all" or (self.lasting == "name" and name == self.hit))
        if not first and not again:
            return effect()
        self.hit = self.hit or name
        self.log[-1] += f"  <- {self.fault}"
        self._process_is_dead = self.fault.startswith("dies")
        return failed(where, name, self.fault, effect)

    def born_again(self) -> None:
        """The next process begins."""
        self._process_is_dead = False

    def heal(self) -> None:
        """From here on nothing fails."""
        self.at, self.lasting = 0, None
        self.born_again()


def failed(where: Where, name: str, fault: Fault, effect: Callable[[], T]) -> NoReturn:
    """Fails the call as whatever stands behind it would: obstore's errors, the catalog's, EMR Serverless's."""
    if fault.endswith("after"):
        effect()  # if this raises, that is the answer
    if fault.startswith("dies"):
        raise Died(name)
    if where == "store":
        kind = "Connect" if fault == "refused" else "Timeout"
        raise GenericError(f"Generic S3 error: {name} failed\n\nDebug source: kind: {kind}")
    if fault == "refused":
        raise StorageUnavailable(f"{name} was refused")
    raise UnknownOutcome(f"no answer to {name}")


class WatchedStore:
    """The six methods of firn.log.store.Store over `inner`; each call goes through the gate, a listing's pages one
    by one. A method that the protocol gets later is missing here, and fails whoever calls it."""

    def __init__(self, inner: MemoryStore, gate: Gate) -> None:
        self.inner = inner
        self.gate = gate

    def put(self, path: str, file: bytes, *, mode: str) -> Any:
        return self._call("put", path, lambda: self.inner.put(path, file, mode=mode))  # type: ignore[call-overload]

    def get(self, path: str) -> Any:
        return self._call("get", path, lambda: _Body(self.inner.get(path)))

    def get_range(self, path: str, *, start: int, end: int) -> Any:
        return self._call("get_range", path, lambda: self.inner.get_range(path, start=start, end=end))

    def head(self, path: str) -> Any:
        return self._call("head", path, lambda: self.inner.head(path))

    def list(self, prefix: str | None = None, *, offset: str | None = None) -> Iterable[Sequence[Mapping[str, Any]]]:
        return self._pages(prefix, offset)

    def delete(self, paths: str) -> Any:
        return self._call("delete", paths, lambda: self.inner.delete(paths))

    def _pages(self, prefix: str | None, offset: str | None) -> Iterator[Sequence[Mapping[str, Any]]]:
        """What is put behind the cursor while a page is read is not in the listing, as with S3."""
        after = offset

        def page() -> list[Mapping[str, Any]]:
            there = [meta for chunk in self.inner.list(prefix, offset=after) for meta in chunk]
            return sorted(there, key=lambda meta: str(meta["path"]))[: PAGE + 1]

        while True:
            found = self._call("list", prefix or "", page)
            yield found[:PAGE]
            if len(found) <= PAGE:
                return
            after = str(found[PAGE - 1]["path"])

    def _call(self, method: str, path: str, effect: Callable[[], T]) -> T:
        return self.gate.call("store", f"{method} {_place(path)}", effect)


class _Body:
    def __init__(self, result: Any) -> None:
        self._data = bytes(result.bytes())
        self.meta = dict(result.meta)

    def bytes(self) -> bytes:
        return self._data


def _place(path: str) -> str:
    """What an object is, without the parts that differ from run to run."""
    folder, *rest = path.split("/")
    if folder in ("attempts", "quarantine", "replays"):
        return f"{folder}/{'.'.join(rest[-1].split('.')[1:]) or 'held'}" if len(rest) > 1 else folder
    return folder


class OneByOne:
    """Stands in for ThreadPoolExecutor: in the same order in every run."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __enter__(self) -> "OneByOne":
        return self

    def __exit__(self, *_: object) -> None: ...

    def map(self, call: Callable[..., T], *columns: Iterable[Any]) -> Iterator[T]:
        return iter([call(*row) for row in zip(*columns, strict=False)])


def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same calls in the same order in every run, no pause between the tries of a put, no metrics on standard
    output, and each configuration parsed once: it is a pure function, and half of the time."""
    for module in ("ingest.queue", "log.epochs", "log.dead_letters.replay_marks", "sinks.turn"):
        monkeypatch.setattr(f"firn.{module}.ThreadPoolExecutor", OneByOne)
    monkeypatch.setitem(put_if_absent.__kwdefaults__, "pause", lambda _: None)
    monkeypatch.setattr("firn.ingest.dead_letter_metrics.print", lambda *_, **__: None, raising=False)
    monkeypatch.setattr("firn.config.reader.parse", lru_cache(parse))
