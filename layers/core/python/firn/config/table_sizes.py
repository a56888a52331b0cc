"""How much the tables of a name or pattern take together. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

from firn.config.names import starred

_WILD: Final = "*"


class TableSizes:
    """Tables (`namespace.table`) with their bytes; patterns are looked up without comparing each with each."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes

    def of(self, patterns: Iterable[str]) -> int:
        """Bytes of all tables that fit any of the patterns, each counted once."""
        return sum(self._sizes[name] for name in self.named(patterns))

    def named(self, patterns: Iterable[str]) -> set[str]:
        """Those tables."""
        found = set[str]()
        for pattern in patterns:
            if _WILD not in pattern:
                found |= {pattern} & self._sizes.keys()
            elif among := self._among(pattern):
                fits = starred(pattern).fullmatch
                found.update(filter(fits, among))
        return found

    def _among(self, pattern: str) -> Sequence[str]:
        """Few tables that all those are among which fit a pattern: they begin as it does, or end so."""
        begin, end = pattern.partition(_WILD)[0], pattern.rpartition(_WILD)[2]
        some, others = _beginning(self._forwards, begin), _beginning(self._backwards, end[::-1])
        if some.stop - some.start <= others.stop - others.start:
            return self._forwards[some]
        return [name[::-1] for name in self._backwards[others]]

    @cached_property
    def _forwards(self) -> list[str]:
        return sorted(self._sizes)

    @cached_property
    def _backwards(self) -> list[str]:
        return sorted(name[::-1] for name in self._sizes)


def _beginning(names: Sequence[str], begin: str) -> slice:
    """Where those of sorted names are that begin so."""
    first = bisect_left(names, begin)
    return slice(first, bisect_right(names, begin, first, key=lambda name: name[: len(begin)]))
