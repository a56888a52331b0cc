"""What look-ups have read of data files, held in memory for the next ones. No file changes under its name, so what is
held stays right; a file that compaction took out is asked for no more, and makes room."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final

_MOST_BYTES: Final = 192 * 1024 * 1024
_CHANCES: Final = 2  # times that what was asked for again is passed over where room is wanted; of the rest, once
_Key = tuple[str, int, str]
_PAGE_BYTES: Final = 300  # that a page takes in memory beside its values


class HeldColumns:
    """Columns of row groups, and what page indexes tell, up to so many bytes. Threads share it.

    Of more than that, asked for again and again in the same order, the oldest would go each time before it is asked for
    again. So what was asked for again stays, and what finds no room is not held. Pages have what room is left; of them
    the least recently used go first.
    """

    def __init__(self, most: int = _MOST_BYTES) -> None:
        self._most = most
        self._bytes = 0
        self._held: OrderedDict[_Key, list[Any]] = OrderedDict()  # value, its bytes, its chances; the next to go first
        self._pages: OrderedDict[tuple[_Key, int], tuple[Any, int]] = OrderedDict()  # values, and their bytes
        self._page_bytes = 0
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """That it holds."""
        return self._bytes + self._page_bytes

    def get(self, path: str, group: int, name: str) -> Any:
        """What is held of a row group of a file under this name; None: nothing."""
        with self._lock:
            if (found := self._held.get((path, group, name))) is None:
                return None
            found[2] = _CHANCES
            return found[0]

    def put(self, path: str, group: int, name: str, value: Any, size: int) -> None:
        """Holds it, if there is room, or what is there is asked for no more. What is held already may have grown."""
        key = path, group, name
        with self._lock:
            _, before, chances = self._held.get(key, (None, 0, 1))
            if before == size:
                return
            if before:
                self._bytes -= self._held.pop(key)[1]
            if size > self._most:
                return
            self._make_room(size)
            while self._bytes + size > self._most:
                first = next(iter(self._held))
                if self._held[first][2]:
                    self._held[first][2] -= 1
                    self._held.move_to_end(first)
                    return
                self._bytes -= self._held.pop(first)[1]
            self._held[key] = [value, size, chances]
            self._bytes += size

    def pages(self, path: str, group: int, name: str, some: Iterable[int]) -> dict[int, Any]:
        """Those of some pages of a column of a row group that are held."""
        key, found = (path, group, name), dict[int, Any]()
        with self._lock:
            for page in some:
                if (one := self._pages.get((key, page))) is not None:
                    self._pages.move_to_end((key, page))
                    found[page] = one[0]
        return found

    def put_pages(self, path: str, group: int, name: str, some: Mapping[int, Any]) -> None:
        """Holds pages (Arrow arrays, each in memory of its own), if columns leave room."""
        key = path, group, name
        with self._lock:
            for page, values in some.items():
                size = int(values.nbytes) + _PAGE_BYTES
                if (key, page) in self._pages or self._bytes + size > self._most:
                    continue
                self._make_room(size)
                self._pages[key, page] = values, size
                self._page_bytes += size

    def _make_room(self, size: int) -> None:
        """Pages go, as far as they have to."""
        while self._pages and self._bytes + self._page_bytes + size > self._most:
            self._page_bytes -= self._pages.popitem(last=False)[1][1]

    def clear(self) -> None:
        """Holds nothing any more."""
        with self._lock:
            self._held.clear()
            self._pages.clear()
            self._bytes = self._page_bytes = 0
