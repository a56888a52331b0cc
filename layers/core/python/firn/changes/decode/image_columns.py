"""Many row images at once to the values of their columns, by plain lists: what the codec gives for each alone, in a
third of the time. Pure.

Only what is plain: an image that is a JSON object without a trace of a placeholder, whose values are of their columns'
kinds. The others are named, and left to the codec one by one.
"""

from collections.abc import Collection, Sequence
from typing import Any

from msgspec import UNSET

from firn.changes.decode.codec import NOT_PLAIN, RowCodec
from firn.changes.decode.json_lines import one_a_line

Values = dict[int, list[Any]]
"""The values of some columns, by their index in the codec's target."""


class ImageColumns:
    """Decodes images by one codec."""

    def __init__(self, codec: RowCodec) -> None:
        self._codec = codec
        self._every = range(len(codec.target))
        # A key that may have another name in an image: which of the names counts, the decoder of rows knows.
        self._renamed = any(column.earlier or column.silent for column in codec.target)

    def decode(
        self, images: Sequence[str], wanted: Collection[int] | None = None, *, whole: bool = False
    ) -> tuple[Values, set[int]]:
        """(values, the places of images that are not plain: what the values hold there means nothing).

        wanted  the columns whose values are given, None: all. The others are read all the same, since what is wrong
                with them is wrong with the image
        whole   an image that does not name each column under its own name is not plain
        """
        wanted = self._every if wanted is None else wanted
        if not images or self._codec.traces is None or (whole and self._renamed):
            return {i: [None] * len(images) for i in wanted}, set(range(len(images)))
        odd: set[int] = set()
        cells = self._cells(images, 0, odd)
        found: Values = {}
        for i, (of_one, convert) in enumerate(zip(cells, self._codec.converters, strict=True)):
            if whole:
                odd.update(place for place, cell in enumerate(of_one) if cell is UNSET)
            try:
                values = [None if cell is None or cell is UNSET else convert(cell) for cell in of_one]
            except NOT_PLAIN:
                values = self._each(i, of_one, odd)
            if (default := self._codec.absent.get(i)) is not None:
                values = [default if cell is UNSET else one for cell, one in zip(of_one, values, strict=True)]
            if i in wanted:
                found[i] = values
        return found, odd

    def _cells(self, images: Sequence[str], first: int, odd: set[int]) -> list[list[Any]]:
        """The cells of each column. `first`: the place of the first image."""
        cells = self._at_once(images, first, odd)
        if cells is not None:
            return cells
        if len(images) == 1:
            odd.add(first)
            return [[None] for _ in self._every]
        half = len(images) // 2  # one that is not plain costs the others little
        one, other = self._cells(images[:half], first, odd), self._cells(images[half:], first + half, odd)
        return [some + more for some, more in zip(one, other, strict=True)]

    def _at_once(self, images: Sequence[str], first: int, odd: set[int]) -> list[list[Any]] | None:
        lines = "\n".join(images).encode()
        objects = lines.startswith(b"{") and lines.endswith(b"}") and lines.count(b"}\n{") == len(images) - 1
        if not one_a_line(lines, len(images), objects=objects):
            return None
        for trace in self._codec.traces or ():
            if trace in lines:
                text = trace.decode()
                odd.update(place for place, image in enumerate(images, first) if text in image)
        try:
            cells = self._codec.cells(lines)
        except NOT_PLAIN:
            return None
        return cells if all(len(of_one) == len(images) for of_one in cells) else None

    def _each(self, i: int, cells: Sequence[Any], odd: set[int]) -> list[Any]:
        convert = self._codec.converters[i]
        values: list[Any] = [None] * len(cells)
        for place, cell in enumerate(cells):
            try:
                values[place] = None if cell is None or cell is UNSET else convert(cell)
            except NOT_PLAIN:
                odd.add(place)
        return values
