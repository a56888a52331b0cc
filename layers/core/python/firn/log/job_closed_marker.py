"""How a job that lingers for more work ends, so that no epoch falls between it and its successor.

It puts a mark, and only then looks for sealed epochs once more. A dispatcher that finds no mark after it sealed has
sealed before that look; one that finds the mark starts another job.
"""

from firn.log import layout
from firn.log.store import Store, exists, put_if_absent


def close(store: Store, run: str) -> None:
    """The run takes no epochs but those that a look after this finds. Raises StorageUnavailable, UnknownOutcome."""
    put_if_absent(store, layout.closed_path(run), b"{}")


def is_closed(store: Store, run: str) -> bool:
    """Whether the run is at its end, however it stands with EMR Serverless. Raises StorageUnavailable."""
    return exists(store, layout.closed_path(run))
