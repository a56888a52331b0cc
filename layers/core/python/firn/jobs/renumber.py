"""A staging area that was begun anew counts its epochs from 1 again, and the tables have higher ones: they would take
the new epochs for old. Next = 1 + max(sealed epochs, every table's progress), and only a job can see the tables."""

from datetime import datetime

from firn.jobs import quarantine as rules
from firn.jobs.work import Work
from firn.staging import cuts, epochs, layout, quarantine
from firn.staging.batch import FORMAT
from firn.staging.epochs import RENUMBERED, Epoch
from firn.staging.quarantine import Quarantine
from firn.staging.store import put_if_absent


def renumber(work: Work, now: datetime) -> bool:
    """If a table is beyond every epoch of the log: frees the batches of the epochs that no cut covers, and seals an
    empty epoch at the tables' number, so that dispatch seals them again above it. -> whether it was so.

    Every step may be repeated; until the last one is done the next job does them again. Raises StorageUnavailable,
    UnknownOutcome.
    """
    highest = max((work.progress(table) for table in work.states), default=0)
    sealed = epochs.numbers(work.store, work.stream)
    if not work.epochs or highest <= max([cuts.newest(work.store, work.stream), *sealed[-1:]]):
        return False
    config = work.epochs[max(work.epochs)].config
    for n in sealed:
        if n > rules.covered(work.before) and n not in work.known.epochs:
            _free(work, n, highest, layout.instant(now))
    empty = Epoch(FORMAT, work.stream, highest, RENUMBERED, layout.instant(now), config, [], {})
    put_if_absent(work.store, layout.epoch_path(work.stream, highest), epochs.encode(empty))
    return True


def _free(work: Work, n: int, highest: int, now: str) -> None:
    found = Quarantine(
        FORMAT, work.stream, n, now, "renumbered",
        f"the tables have epoch {highest} of an earlier staging area: the batches of this one are sealed again",
        "nothing to do", epoch=n, last=n,
    )  # fmt: skip
    quarantine.hold(work.store, found)
    quarantine.lift(work.store, found, "retry", now)
