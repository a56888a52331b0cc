"""A Range (firn.commit.lake) of few changes, read into this process; Spark's own takes only what does not fit."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from firn.commit.rejects import by_table, write_refused
from firn.commit.staged_changes import rejected
from firn.config.names import TableName
from firn.log.epochs import Epoch
from firn.quarantine.rules import High, Span
from firn.tables.batch_facts import TableFacts
from firn.tables.outcome import Outcome
from firn.tables.routing import Target
from firn_spark.committer import Committer
from firn_spark.driver.staged_changes import Staged
from firn_spark.parallel import at_once
from firn_spark.table_commit import RangeContext

MOST_EVENTS = 1_500_000
MOST_BYTES = 128 * 1024 * 1024  # staged
ALONE = 50_000  # events that this process reads itself; more are spread over readers


def small(epochs: Mapping[int, Epoch], most_events: int = MOST_EVENTS, events: int | None = None) -> bool:
    """Whether the driver alone takes these epochs in less time than Spark needs to begin. `events`: so many of theirs
    alone, and their share of the bytes; None: all."""
    every = sum(epoch.events for epoch in epochs.values())
    size = sum(batch.bytes for epoch in epochs.values() for batch in epoch.batches)
    if events is not None:
        every, size = events, size * events // max(1, every)
    return every <= most_events and size <= MOST_BYTES


def changes_by_table(targets: Sequence[tuple[Target, int]]) -> dict[str, int]:
    """How many changes each target takes in epochs above its `above`."""
    return {str(target.name): target.events(above) for target, above in targets}


class DriverRange:
    """The changes of some epochs in this process."""

    def __init__(self, context: RangeContext, staged: Staged, committer: Committer, close: Callable[[], None]) -> None:
        """`close`: lets go of what Spark holds, if it was needed."""
        self._context = context
        self._staged = staged
        self._committer = committer
        self._close = close

    @property
    def facts(self) -> Mapping[str, TableFacts]:
        """What the changes say about their tables, by source table."""
        return self._staged.facts

    def span(self, high: High | None) -> Span:
        """What the changes say about their source's time."""
        return self._staged.span(high)

    def commit(self, target: Target, above: int = 0) -> Outcome:
        """Bring one table up to the range's last epoch, with the epochs above `above` that it lacks."""
        return self._committer.commit(target, above)

    def commit_all(self, targets: Sequence[tuple[Target, int]]) -> Iterator[Outcome]:
        """`commit` of each target, several at once."""
        self._context.progress.plan(changes_by_table(targets))
        yield from at_once(self.commit, targets, self._context.spark)

    def refuse(self, places: Mapping[str, TableName | str], code: str, message: str) -> Mapping[str, Mapping[str, int]]:
        """Dead letters for all changes of source tables that no table takes."""
        mine = self._staged.of(list(places)).rows
        why = {(one["batch"], one["index"]): (code, message) for one in mine}
        rows = rejected(mine, why, self._staged.schemas)
        return by_table(write_refused(self._context.store, self._context.stream, places, self._context.epochs, rows))

    def close(self) -> None:
        """Let go of what was read."""
        self._context.progress.end()
        self._close()
