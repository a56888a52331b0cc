"""The commit job's port: where tables are. Spark and Iceberg (firn_spark.lake), or tables in memory (tests/model)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Protocol

from firn.config.maintenance import Care
from firn.config.model import StreamConfig
from firn.config.names import TableName
from firn.config.pipelines import Pipeline
from firn.config.views import View
from firn.log.epochs import Epoch
from firn.quarantine.rules import High, Span
from firn.sinks.file_rows import FileRows, SinkRange
from firn.tables.batch_facts import TableFacts
from firn.tables.failures import Failure
from firn.tables.outcome import Outcome
from firn.tables.routing import Target
from firn.tables.table_state import TableState
from firn.views.cut import ViewCut


class Range(Protocol):
    """The changes of some epochs, read once, for all tables that they go to."""

    @property
    def facts(self) -> Mapping[str, TableFacts]:
        """What the changes say about their tables, by source table."""

    def span(self, high: High | None) -> Span:
        """What the changes say about their source's time: quarantine.span_of."""

    def commit(self, target: Target, above: int = 0) -> Outcome:
        """Bring one table up to the range's last epoch, with the epochs above `above` that it lacks, in one snapshot.

        Never raises an Exception: a failure is in the outcome.
        """

    def commit_all(self, targets: Sequence[tuple[Target, int]]) -> Iterator[Outcome]:
        """`commit` of each target and its `above`, in any order, several at once where that is faster."""

    def refuse(self, places: Mapping[str, TableName | str], code: str, message: str) -> Mapping[str, Mapping[str, int]]:
        """Dead letters for all changes of source tables that no table takes. `places`: source table -> where its
        letters go, as rejects.write_rejects has it.

        -> those that no earlier run had written, by source table and reason. Raises StorageUnavailable,
        UnknownOutcome."""

    def close(self) -> None:
        """Let go of what was read."""


class Lake(Protocol):
    """The tables, and a way to bring changes into them."""

    @property
    def warehouse(self) -> str:
        """URL below which this deployment's tables lie."""

    @property
    def databases(self) -> Sequence[str]:
        """Patterns of the namespaces that this deployment may use; none: all."""

    @property
    def looks_at_once(self) -> int:
        """How many tables `state` is best asked for at once; 1: one after the other."""

    def expect(self, settings: StreamConfig, epochs: Mapping[int, Epoch]) -> None:
        """These epochs are going to be opened, most likely: what takes long may begin before anything else is asked."""

    def state(self, table: TableName) -> TableState | None:
        """The table as the catalog has it now; None if there is none. Raises what the catalog raises."""

    def open(self, stream: str, settings: StreamConfig, epochs: Mapping[int, Epoch], last: int) -> Range:
        """Read these epochs. A snapshot made of them carries `last` as its progress."""

    def follow(self, stream: str, settings: StreamConfig, pipeline: Pipeline, base: TableName) -> Outcome | None:
        """Bring the mirror that a pipeline makes to where its base is now: in one snapshot it becomes the pipeline's
        SQL over the base's rows, and carries the base's progress.

        -> None if it is there already, or if there is no base. Never raises an Exception: a failure is in the outcome.
        """

    def refresh(self, stream: str, settings: StreamConfig, view: View, at: ViewCut) -> Outcome | None:
        """Bring a view to a cut: in one snapshot it becomes its query over the tables that it reads as they are there,
        and says so (views.cut.Told). Those of them that are views themselves have to be of that cut already: if not,
        the outcome has a transient failure. `settings`: those of the stream whose jobs refresh it.

        -> None if it is there already. Never raises an Exception: a failure is in the outcome.
        """

    def files(self, sink: SinkRange) -> FileRows:
        """The rows of a file sink. Raises TerminalError if its files may not lie where they shall."""

    def care(self, stream: str, table: TableName, care: Care, now: datetime) -> Iterator[dict[str, Any]]:
        """Make few of a table's many small files (and of those of what it remembers), where that can be done at once,
        rewrite a little of what `care` wants, and leave its Health for those who do the rest. Rows and progress stay
        as they are. -> what was done, a log line each. Never raises an Exception: a table that is not cared for is only
        slower."""

    def failure(self, error: Exception) -> Failure:
        """What an exception of this lake means."""


def states_of(lake: Lake, tables: Iterable[TableName]) -> dict[TableName, TableState | None]:
    """What `state` says of each. Raises what the catalog raises."""
    names = list(tables)
    if len(names) < 2 or lake.looks_at_once < 2:
        return {name: lake.state(name) for name in names}
    with ThreadPoolExecutor(lake.looks_at_once) as pool:
        return dict(zip(names, pool.map(lake.state, names), strict=True))


def place_of(epoch: int, number: int) -> int:
    """Orders batch `number` (from 0) of an epoch among the batches of all epochs: arrival order, for what has no
    position."""
    return (epoch << 20) + number
