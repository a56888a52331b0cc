"""What a backfill left in the staging store goes, some time after it has ended.

Its rows lie with all other staged batches, and go as those do (maintenance/log_retention.py). Here goes what says which
chunk was staged as which batch: nobody asks once it has ended, but for a task that was lost and comes back, and then
it has to find that the chunk is staged, or that the backfill has ended.
"""

from datetime import datetime, timedelta
from typing import Final

from firn.backfill import backfill_request as requests
from firn.log import backfill_layout as layout
from firn.log.store import Store, paths, remove

KEEP: Final = timedelta(days=14)


def sweep_ended(store: Store, stream: str, now: datetime, *, keep: timedelta = KEEP) -> int:
    """Deletes the objects of the stream's backfills that ended longer than `keep` ago. -> how many objects.

    The request goes first, and how it ended last: whatever is left of it when this dies is no open backfill, and goes
    the next time. Raises StorageUnavailable.
    """
    prefix, found = layout.backfills_prefix(stream), dict[str, list[str]]()
    for path in paths(store, prefix):
        found.setdefault(path.removeprefix(f"{prefix}/").partition("/")[0], []).append(path)
    gone = 0
    for backfill, mine in found.items():
        end = requests.ended(store, stream, backfill)
        if end is None or datetime.fromisoformat(end.ended_at) > now - keep:
            continue
        first, last = (layout.backfill_path(stream, backfill, name) for name in ("request", "end"))
        remove(store, [first])
        remove(store, [path for path in mine if path not in (first, last)])
        remove(store, [last])
        gone += len(mine)
    return gone
