"""Records of two sides, brought together a part at a time: in memory if they are few, else through files.

A part is what belongs to some names (keys, identities), by a hash; at any time one part is in memory, and as many
records that wait to be written. The records of one name are never divided.
"""

import pickle
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, Final

PART: Final = 50_000  # records of a part, about
_WAITING: Final = 50_000


class Spilled:
    """`folder`: for files of its own, under `name`; `records`: how many come, about."""

    def __init__(self, folder: Path, name: str, records: int) -> None:
        self._folder, self._name = folder, name
        self._waiting: list[tuple[list[Any], list[Any]]] = [([], []) for _ in range(max(1, -(-records // PART)))]
        self._count = 0

    def put(self, name: Hashable, side: int, record: Any) -> None:
        """Takes a record of side 0 or 1."""
        self._waiting[hash(name) % len(self._waiting)][side].append(record)
        self._count += 1
        if self._count >= _WAITING and len(self._waiting) > 1:
            self._write()

    def parts(self) -> Iterator[tuple[list[Any], list[Any]]]:
        """All records of each part, by side. Can be called again until `put` is."""
        for number, (first, second) in enumerate(self._waiting):
            sides: tuple[list[Any], list[Any]] = ([], [])
            path = self._path(number)
            if path.exists():
                with path.open("rb") as file:
                    while file.peek(1):
                        for side, more in zip(sides, pickle.load(file), strict=True):  # noqa: S301 (our own file)
                            side.extend(more)
            sides[0].extend(first)
            sides[1].extend(second)
            yield sides

    def _write(self) -> None:
        for number, sides in enumerate(self._waiting):
            if any(sides):
                with self._path(number).open("ab") as file:
                    pickle.dump(sides, file, pickle.HIGHEST_PROTOCOL)
        self._waiting = [([], []) for _ in self._waiting]
        self._count = 0

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._name}-{number}"
