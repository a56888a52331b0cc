"""Whether a slot that is behind the last plan is of the log that was read: a database may have been set back.

A database that crashes forgets where its slot was, and what plans hold is skipped then. One that was restored from an
image of its disk looks the same: its identifier and timeline are those of before, and once it has written enough its
log ends behind the last plan. But what it wrote since is nothing that was read. So the last transaction that was staged
has to be found again, at its place, and none behind it.
"""

from collections.abc import Iterable

from firn.log.pulls import LastCommit
from firn.sources.postgres import pgoutput
from firn.sources.postgres.pgoutput import Message

CHANGES = (pgoutput.Insert, pgoutput.Update, pgoutput.Delete, pgoutput.Truncate, pgoutput.Skipped)


class CommitWatch:
    """Sees all messages in their order. `last`: the last transaction in [begin, upto) that holds a change."""

    def __init__(self, begin: int, upto: int) -> None:
        self._begin, self._upto = begin, upto
        self._inside: LastCommit | None = None
        self.last: LastCommit | None = None

    def see(self, message: Message) -> None:
        """The next message."""
        if isinstance(message, pgoutput.Begin):
            mine = self._begin <= message.commit_lsn < self._upto
            self._inside = LastCommit(message.commit_lsn, message.ts, message.xid) if mine else None
        elif self._inside is not None and isinstance(message, CHANGES):
            self.last = self._inside


def was_set_back(staged: LastCommit | None, confirmed: int, upto: int, messages: Iterable[Message]) -> bool:
    """Whether the log is another one than that which was read up to `upto`. `staged`: the last transaction that was;
    None if that is not known. `messages`: what a slot that stands at `confirmed` has up to there."""
    if staged is None:
        return False
    watch = CommitWatch(0, upto)
    for message in messages:
        watch.see(message)
    return watch.last != (staged if staged.lsn >= confirmed else None)
