"""What is quarantined goes on: a table, an epoch or a stream, by a person's word."""

from datetime import datetime

from firn.errors import FirnError
from firn.log import holds, layout
from firn.log.holds import How
from firn.log.store import Store
from firn.views import view_state as views


class NotResumed(FirnError):
    """Nothing was changed."""


def resume(store: Store, stream: str, table: str | None, epoch: int | None, how: How, now: datetime) -> str:
    """Lift a quarantine. `how` matters for tables. -> what happens next, for people.

    Raises NotResumed if there is nothing to lift or a rolled-back table is not told how, StorageUnavailable,
    UnknownOutcome.
    """
    known = holds.read_all(store, stream)
    # Whatever generation the stream has by now: its quarantine can be lifted as long as nobody has.
    held = known.all_held(0)
    name = table or (f"epoch {epoch}" if epoch is not None else "stream")
    found = held.get(name)
    if found is None and table is not None and how == "retry" and views.try_now(store, stream, table, now):
        return f"resumed {table}: the view is refreshed by the next job, which starts at once"
    if found is None:
        what = f"stream {stream} itself" if name == "stream" else f"{name} of stream {stream}"
        there = ", ".join(held) or "nothing"
        how_to = f": name it, firn resume {stream} {next(iter(known.held()))}" if known.held() and table is None else ""
        raise NotResumed(f"{what} is not quarantined; {there} is (firn status says why){how_to}")
    if found.reason == "rolled_back" and how == "retry":
        raise NotResumed(f"{found.message}: say --replay or --skip; {found.advice}")
    holds.lift(store, found, how, layout.instant(now))
    if found.table is None:
        return f"resumed {name}: " + ("its batches are sealed again" if epoch else "its epochs are committed")
    if how == "skip":
        return f"resumed {name}: epochs {found.epoch} to {found.upto} stay out of it, on purpose"
    return f"resumed {name}: it gets what it lacks from epoch {found.epoch} on"
