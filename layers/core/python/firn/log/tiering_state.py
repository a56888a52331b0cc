"""What tiering knows of a table: `tier/{slug}.json`, written by whoever tiers it.

It spares requests, no more: without it every file is looked at again, and what has its tag keeps it.
"""

import logging
from typing import Final

import msgspec

from firn.log import layout
from firn.log.batches import FORMAT
from firn.log.store import Store, get, put

_log: Final = logging.getLogger(__name__)


MOST_PATHS: Final = 20_000


class TierState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A table as tiering left it (times: RFC 3339, UTC, milliseconds).

    snapshot, policy  the snapshot and the policy that it was looked at with
    looked_at         when
    due               when age alone makes something cold that is not, as it was then; None: never
    tagged            path -> class, of files that have their tag and are not in that class yet
    cold              partition -> (files, bytes) in a cold class or on their way there
    cold_paths        of those files, up to MOST_PATHS: compaction leaves them where they are
    reads             partition -> (weight, when): maintenance/tiering.py, Reads
    reads_after       the last record of reads that is in there
    recorded_since    since when reads are counted; None: none was seen
    """

    table: str
    format: int = FORMAT
    snapshot: int | None = None
    policy: str = ""
    looked_at: str = ""
    due: str | None = None
    tagged: dict[str, str] = {}
    cold: dict[str, tuple[int, int]] = {}
    cold_paths: tuple[str, ...] = ()
    reads: dict[str, tuple[float, str]] = {}
    reads_after: str = ""
    recorded_since: str | None = None


_decode: Final = msgspec.json.Decoder(TierState).decode


def read(store: Store, table: str, slug: str) -> TierState:
    """What is known of the table, nothing if it was never tiered. Raises StorageUnavailable."""
    data = get(store, layout.tier_path(slug))
    try:
        found = None if data is None else _decode(data)
    except (msgspec.DecodeError, ValueError) as error:
        _log.warning("what is known of %s's tiers can't be read: %s", table, error)
        found = None
    return found if found is not None and found.format <= FORMAT else TierState(table)


def write(store: Store, state: TierState, slug: str) -> None:
    """Put this in the place of what was known. Raises StorageUnavailable, UnknownOutcome."""
    put(store, layout.tier_path(slug), msgspec.json.encode(state))
