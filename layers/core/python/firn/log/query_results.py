"""Results of queries that are too large for a response: they lie in the staging store, below `results/`, for a day.

The lifecycle rule `results` of the staging bucket removes them (template.yaml). A local store has no such rules: there
whoever leaves a result takes those away that are old. Those of readers of some tables lie below `results/readers/`:
their links end sooner, and publishing a configuration removes them all, for it may have taken back what was granted.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from firn.errors import RequestError
from firn.log.published_configs import is_current
from firn.log.scoped_results import SCOPED
from firn.log.store import ObjectWriter, Store, is_local, link, objects, remove

LIFETIME: Final = timedelta(hours=1)  # of a link at most: it ends with the credentials that sign it
SCOPED_LIFETIME: Final = timedelta(minutes=5)  # of a link to what a reader of some tables asked
_KEPT: Final = timedelta(days=1)


@dataclass(frozen=True)
class Kept:
    """Where a result is: a link that is good until `expires_at` at the latest: not longer than the
    credentials that signed it, whose end a function is not told. `bytes` as they are stored."""

    url: str
    expires_at: datetime
    bytes: int


class GrantsChanged(RequestError):
    """A configuration was published while the reader's result was written."""

    def __init__(self) -> None:
        super().__init__(503, "configuration_changed", "what may be read was published anew meanwhile; ask again", 1)


class Result:
    """A result on its way to where its link leads; its name can't be guessed. Bounded memory, however large it is.

    Each method raises StorageUnavailable, UnknownOutcome.
    """

    def __init__(self, store: Store, suffix: str, now: datetime, reader: str = "", sha: str = "") -> None:
        """`reader`: who asked, if one that may read some tables only, and `sha`: by which configuration."""
        if is_local(store):
            remove(store, [one.path for one in objects(store, "results") if one.modified < now - _KEPT])
        self._store, self._now, self._sha, self._bytes = store, now, sha if reader else "", 0
        self._path = f"{f'{SCOPED}/{reader}' if reader else 'results'}/{uuid.uuid4()}.{suffix}"
        self._lifetime = SCOPED_LIFETIME if reader else LIFETIME
        self._file = ObjectWriter(store, self._path)

    def write(self, part: bytes) -> None:
        """Add to it."""
        self._bytes += len(part)
        self._file.write(part)

    def keep(self) -> Kept:
        """It is whole. What is not kept is never there. Raises GrantsChanged: whoever published may have looked for
        results before this one was there, so nobody is told its name, and it goes within a day."""
        self._file.close()
        if self._sha and not is_current(self._store, self._sha):
            raise GrantsChanged
        return Kept(link(self._store, self._path, self._lifetime), self._now + self._lifetime, self._bytes)
