"""Results of queries that are too large for a response: they lie in the staging store, below `results/`, for a day.

The lifecycle rule `results` of the staging bucket removes them (template.yaml). A local store has no such rules: there
whoever leaves a result takes those away that are old.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from firn.staging.store import Store, is_local, link, objects, put_if_absent, remove

LIFETIME: Final = timedelta(hours=1)  # of a link; a Lambda's credentials, which sign it, are good for longer


_KEPT: Final = timedelta(days=1)


@dataclass(frozen=True)
class Kept:
    """Where a result is: a link that is good until `expires_at`. `bytes` as they are stored."""

    url: str
    expires_at: datetime
    bytes: int


def keep(store: Store, content: bytes, suffix: str, now: datetime) -> Kept:
    """Put a result where its link leads to it; its name can't be guessed. Raises StorageUnavailable, UnknownOutcome."""
    if is_local(store):
        remove(store, [one.path for one in objects(store, "results") if one.modified < now - _KEPT])
    path = f"results/{uuid.uuid4()}.{suffix}"
    put_if_absent(store, path, content)
    return Kept(link(store, path, LIFETIME), now + LIFETIME, len(content))
