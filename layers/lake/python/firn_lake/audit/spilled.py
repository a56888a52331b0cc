"""Records of several sides, brought together a part at a time: in memory if they are few, else through files.

A part is what belongs to some names (keys, identities), by a hash; at any time one part is in memory, and as many
records that wait to be written. The records of one name are never divided.
"""

import pickle
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

PART: Final = 50_000  # records of a part, about
_WAITING: Final = 50_000


class Spilled:
    """`folder`: for files of its own, under `name`; `records`: how many come, about; `sides`: how many there are."""

    def __init__(self, folder: Path, name: str, records: int, sides: int = 2) -> None:
        self._folder, self._name, self._sides = folder, name, sides
        self._waiting = self._empty(max(1, -(-records // PART)))
        self._count = 0

    def put(self, name: Hashable, side: int, record: Any) -> None:
        """Takes a record of a side, 0 for the first."""
        self._waiting[hash(name) % len(self._waiting)][side].append(record)
        self._count += 1
        if self._count >= _WAITING and len(self._waiting) > 1:
            self._write()

    def put_all(self, side: int, records: Sequence[tuple[Any, ...]]) -> None:
        """Takes records that begin with their name."""
        for first in range(0, len(records), _WAITING):
            some = records[first : first + _WAITING]
            mine = [sides[side] for sides in self._waiting]
            if len(mine) == 1:
                mine[0].extend(some)
            else:
                number = len(mine)
                for one in some:
                    mine[hash(one[0]) % number].append(one)
            self._count += len(some)
            if self._count >= _WAITING and len(mine) > 1:
                self._write()

    def parts(self) -> Iterator[list[list[Any]]]:
        """All records of each part, by side. Can be called again until `put` is."""
        for number, waiting in enumerate(self._waiting):
            sides: list[list[Any]] = [[] for _ in range(self._sides)]
            path = self._path(number)
            if path.exists():
                with path.open("rb") as file:
                    while file.peek(1):
                        for side, more in zip(sides, pickle.load(file), strict=True):  # noqa: S301 (our own file)
                            side.extend(more)
            for side, more in zip(sides, waiting, strict=True):
                side.extend(more)
            yield sides

    def _write(self) -> None:
        for number, sides in enumerate(self._waiting):
            if any(sides):
                with self._path(number).open("ab") as file:
                    pickle.dump(sides, file, pickle.HIGHEST_PROTOCOL)
        self._waiting = self._empty(len(self._waiting))
        self._count = 0

    def _empty(self, parts: int) -> list[list[list[Any]]]:
        return [[[] for _ in range(self._sides)] for _ in range(parts)]

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._name}-{number}"
