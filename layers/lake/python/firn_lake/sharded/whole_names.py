"""Under which names tables of several shards are read as one."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from firn.config.model import Config
from firn.config.whole_tables import Whole, whole_tables
from firn.errors import FirnError, TransientError
from firn.log.published_configs import CurrentConfig

if TYPE_CHECKING:
    from firn.log.store import Store


class WholeNames:
    """Those of the configuration that is published."""

    def __init__(self, store: "Callable[[], Store] | None" = None) -> None:
        """`store`: how to open the staging store, where the configuration lies; None: there are no such names."""
        self._store = store
        self._current: Callable[[], Config] | None = None
        self._of: tuple[str, Mapping[tuple[str, ...], Whole]] = ("", {})

    def among(self, identifiers: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], Whole]:
        """Those whose rest is one of these tables, which are all of the catalog. A table of such a name, which somebody
        else made, stays what it is. Raises StorageUnavailable."""
        named = self._named()
        there = set(identifiers) if named else set()
        return {name: one for name, one in named.items() if one.rest.identifier in there and name not in there}

    def _named(self) -> Mapping[tuple[str, ...], Whole]:
        if self._store is None:
            return {}
        try:
            if self._current is None:
                self._current = CurrentConfig(self._store())
            config = self._current()
        except TransientError:
            raise
        except FirnError:  # none is published, or none that can be read, or nobody knows where
            return {}
        if self._of[0] != config.sha:
            self._of = config.sha, whole_tables(config)
        return self._of[1]


NO_NAMES: Final = WholeNames()
