"""The port of file sinks: rows out of the staged log. Jobs make them with Arrow and DuckDB (firn_spark.sinks)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from firn.config.model import StreamConfig
from firn.config.pipelines import Pipeline
from firn.errors import EventError
from firn.log.epochs import Epoch


@dataclass(frozen=True)
class SinkRange:
    """What a plan's rows are made of. `settings`: the stream under the plan's configuration; `epochs`: with the batches
    that count; `columns`: of the source, as the plan before left them (Plan.columns), "" for the first."""

    settings: StreamConfig
    pipeline: Pipeline
    epochs: Mapping[int, Epoch]
    columns: str

    @property
    def events(self) -> int:
        """Staged changes of its source tables; of epochs of which batches are left out, at most."""
        return sum(events_of(self.settings, self.pipeline, epoch) for epoch in self.epochs.values())


class FileRows(Protocol):
    """The rows of a sink out of some epochs. What it does is the same each time, for the same range."""

    @property
    def events(self) -> int:
        """Staged changes of the source."""

    @property
    def dead(self) -> int:
        """How many of them are dead letters."""

    @property
    def columns(self) -> str:
        """The columns of the source after this range, for the next plan's."""

    @property
    def unseen(self) -> Sequence[str]:
        """Columns that the SQL or the path names, and no event had yet: they are null."""

    @property
    def folders(self) -> Mapping[str, int]:
        """Rows by folder."""

    def bury(self) -> Mapping[str, Mapping[str, int]]:
        """Writes the dead letters, if they are not there. -> the new ones by source table and reason."""

    def body(self, folder: str, first: int, rows: int) -> bytes:
        """A file of some rows of a folder."""

    def rows_in(self, body: bytes) -> int:
        """How many rows a file holds that is there. Raises ValueError if it is not one."""

    def close(self) -> None:
        """Let go of what was read."""


OpenRows = Callable[[SinkRange], FileRows]


def events_of(settings: StreamConfig, pipeline: Pipeline, epoch: Epoch) -> int:
    """Staged changes of the pipeline's source tables in an epoch."""
    return sum(rows for table, rows in epoch.tables.items() if reads(settings, pipeline, table))


def reads(settings: StreamConfig, pipeline: Pipeline, table: str) -> bool:
    """Whether the pipeline reads a source table. A name that fits several is none's: it is refused elsewhere."""
    try:
        return any(one.name == pipeline.name for one in settings.pipelines_of(table))
    except EventError:
        return False
