"""How much the tables of a name or pattern take together. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
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
                continue
            namespace = pattern.partition(".")[0]
            among = self._sizes if _WILD in namespace else self._by_namespace.get(namespace, ())
            found.update(name for name in among if starred(pattern).fullmatch(name))
        return found

    @cached_property
    def _by_namespace(self) -> Mapping[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for name in self._sizes:
            found[name.partition(".")[0]].append(name)
        return found
