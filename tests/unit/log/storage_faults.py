"""An in-memory store whose calls fail on demand: refused before they reach it, or answered into the void."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from obstore.exceptions import AlreadyExistsError, GenericError
from obstore.store import MemoryStore

REFUSED = GenericError("Generic S3 error: error sending request\n\nDebug source: kind: Connect")
LOST = GenericError("Generic S3 error: operation timed out\n\nDebug source: kind: Timeout")
IN_CONFLICT = AlreadyExistsError("Object at location a already exists: 409 Conflict: ConditionalRequestConflict")

Fault = Literal["refused", "lost before", "lost after", "in conflict"] | None


class FaultyStore:
    """Puts fail as `faults` say, one entry a put (None: works), then work. `away` True refuses every call."""

    def __init__(self, *faults: Fault) -> None:
        self.inner = MemoryStore()
        self.faults = list(faults)
        self.away = False
        self.puts: list[str] = []
        self.reads = 0

    def put(self, path: str, file: bytes, *, mode: str) -> Any:
        self._reach()
        self.puts.append(path)
        fault = self.faults.pop(0) if self.faults else None
        if fault == "refused":
            raise REFUSED
        if fault == "lost before":
            raise LOST
        if fault == "in conflict":
            raise IN_CONFLICT
        result = self.inner.put(path, file, mode=mode)
        if fault == "lost after":
            raise LOST
        return result

    def get(self, path: str) -> Any:
        self._reach()
        self.reads += 1
        return self.inner.get(path)

    def get_range(self, path: str, *, start: int, end: int) -> Any:
        self._reach()
        return self.inner.get_range(path, start=start, end=end)

    def head(self, path: str) -> Any:
        self._reach()
        return self.inner.head(path)

    def list(self, prefix: str | None = None, *, offset: str | None = None) -> Iterable[Sequence[Mapping[str, Any]]]:
        self._reach()
        chunks: Iterable[Sequence[Mapping[str, Any]]] = self.inner.list(prefix, offset=offset)
        return chunks

    def delete(self, paths: str) -> Any:
        self._reach()
        return self.inner.delete(paths)

    def _reach(self) -> None:
        if self.away:
            raise REFUSED
