"""A staging area that was started over counts its epochs from 1 again, and the tables have higher ones: they would take
the new epochs for old. Next = 1 + max(sealed epochs, every table's progress), and only a job can see the tables."""

from collections.abc import Iterable
from datetime import datetime

from firn.commit.job_context import Work
from firn.log import epochs, holds, layout
from firn.log.batches import FORMAT
from firn.log.epochs import RENUMBERED, Epoch
from firn.log.holds import Quarantine
from firn.log.store import put_if_absent
from firn.tables.table_state import TableState


def renumber(work: Work, now: datetime) -> int:
    """If a table is beyond every epoch of the log, or its epoch is another one than the log's of that number: seals an
    empty epoch above all of them, so that dispatch counts on from there, and frees the batches of the epochs below, so
    that it seals them again.

    -> that number, 0 if there was nothing to do. Every step may be repeated; until all are done every job goes on with
    them, and commits nothing. Raises StorageUnavailable, UnknownOutcome.
    """
    done = work.before.n if work.before else 0
    sealed = epochs.numbers(work.store, work.stream, done)
    shards = (state for some in work.shards.values() for state in some)
    states = [state for state in (*work.states.values(), *shards) if state is not None]
    highest = max((state.progress(work.stream) for state in states), default=0)
    newest = max([done, *sealed])
    top = max((n for n in sealed if _is_empty(work, n)), default=0)
    if work.epochs and (highest > newest or _of_another_log(work, states, max(done, top, work.known.begun))):
        top = _count_from(work, max(highest, newest + 1), now)
        _close(work, done, top, now)
        return top
    return top if top and _close(work, done, top, now) else 0


def _of_another_log(work: Work, states: Iterable[TableState], above: int) -> bool:
    """Whether a table has an epoch above this one that was sealed in an earlier staging area."""
    for state in states:
        n, nonce = state.progress(work.stream), state.sealed(work.stream)
        epoch = epochs.read(work.store, work.stream, n) if nonce is not None and n > above else None
        if epoch is not None and epoch.nonce != nonce:
            return True
    return False


def _count_from(work: Work, n: int, now: datetime) -> int:
    """An empty epoch at `n`, or above it where dispatchers came first. -> its number."""
    while not _put_empty(work, n, now) and not _is_empty(work, n):
        n += 1
    return n


def _close(work: Work, done: int, top: int, now: datetime) -> bool:
    """No batch may stay in an epoch below `top`. -> whether there was anything left to do.

    A dispatcher that had listed before `top` was there may seal one more, and only at the first free number: whoever
    finds that one taken lists again. So it is taken, by it or by an empty epoch, before the others are freed.
    """
    acted = False
    while True:
        below = [n for n in epochs.numbers(work.store, work.stream, done) if n < top]
        end = max(below, default=done)
        if end + 1 == top or (below and _is_empty(work, end)):
            break
        acted = True
        _put_empty(work, end + 1, now)
    for n in below:
        case = work.known.epochs.get(n)
        half_freed = case is not None and case.quarantine.reason == "renumbered" and case.lift is None
        if (case is None or half_freed) and not _is_empty(work, n):
            acted = True
            _free(work, n, top, layout.instant(now))
    return acted


def _put_empty(work: Work, n: int, now: datetime) -> bool:
    config = work.epochs[max(work.epochs)].config
    empty = Epoch(FORMAT, work.stream, n, RENUMBERED, layout.instant(now), config, [], {})
    return put_if_absent(work.store, layout.epoch_path(work.stream, n), epochs.encode(empty))


def _is_empty(work: Work, n: int) -> bool:
    epoch = epochs.read(work.store, work.stream, n)
    return epoch is not None and epoch.nonce == RENUMBERED


def _free(work: Work, n: int, top: int, now: str) -> None:
    found = Quarantine(
        FORMAT, work.stream, n, now, "renumbered",
        f"the tables have epochs of an earlier staging area: the batches of this one are sealed again, above {top}",
        "nothing to do", epoch=n, upto=top, last=n,
    )  # fmt: skip
    holds.hold(work.store, found)
    holds.lift(work.store, found, "retry", now)
