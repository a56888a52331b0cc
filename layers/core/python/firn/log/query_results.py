"""Results of queries that are too large for a response: they lie in the staging store, below `results/`, for a day.

The lifecycle rule `results` of the staging bucket removes them (template.yaml). A local store has no such rules: there
whoever leaves a result takes those away that are old. Those of readers of some tables lie below `results/readers/`:
their links end sooner, and publishing a configuration removes them all, for it may have taken back what was granted.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from firn.log.store import ObjectWriter, Store, is_local, link, objects, remove

LIFETIME: Final = timedelta(hours=1)  # of a link at most: it ends with the credentials that sign it
SCOPED_LIFETIME: Final = timedelta(minutes=5)  # of a link to what a reader of some tables asked
_SCOPED: Final = "results/readers"

_KEPT: Final = timedelta(days=1)


@dataclass(frozen=True)
class Kept:
    """Where a result is: a link that is good until `expires_at` at the latest: not longer than the
    credentials that signed it, whose end a function is not told. `bytes` as they are stored."""

    url: str
    expires_at: datetime
    bytes: int


class Result:
    """A result on its way to where its link leads; its name can't be guessed. Bounded memory, however large it is.

    Each method raises StorageUnavailable, UnknownOutcome.
    """

    def __init__(self, store: Store, suffix: str, now: datetime, reader: str = "") -> None:
        """`reader`: who asked, if one that may read some tables only."""
        if is_local(store):
            remove(store, [one.path for one in objects(store, "results") if one.modified < now - _KEPT])
        self._store, self._now, self._bytes = store, now, 0
        self._path = f"{f'{_SCOPED}/{reader}' if reader else 'results'}/{uuid.uuid4()}.{suffix}"
        self._lifetime = SCOPED_LIFETIME if reader else LIFETIME
        self._file = ObjectWriter(store, self._path)

    def write(self, part: bytes) -> None:
        """Add to it."""
        self._bytes += len(part)
        self._file.write(part)

    def keep(self) -> Kept:
        """It is whole. What is not kept is never there."""
        self._file.close()
        return Kept(link(self._store, self._path, self._lifetime), self._now + self._lifetime, self._bytes)


def remove_scoped(store: Store) -> None:
    """Removes what readers of some tables have asked: whoever still may asks again. Raises StorageUnavailable."""
    remove(store, [one.path for one in objects(store, _SCOPED)])
