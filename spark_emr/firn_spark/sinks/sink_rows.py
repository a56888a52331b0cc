"""The rows of a file sink (FileRows of firn.sinks): each staged change of the range through the SQL, by folder."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.metadata_columns import IDENTITY, OP, TIME
from firn.commit.rejects import by_table, write_rejects
from firn.commit.staged_changes import rejected
from firn.config.file_sinks import refused_place
from firn.errors import TerminalError
from firn.log import layout
from firn.log.store import Store
from firn.sinks.file_rows import SinkRange
from firn.sinks.rolling import MOST_FOLDERS
from firn_spark.pipelines.feed_columns import FAILED
from firn_spark.sinks import file_bodies, source_changes
from firn_spark.sinks.folders import Folders
from firn_spark.sinks.source_changes import Events
from firn_spark.sinks.spool import Spool
from firn_sql.bound_sql import Bound, bound, rows_for
from firn_sql.transform import NOW

Why = tuple[str, str]  # code and message of a dead letter
_TOO_MANY = "too_many_folders"
_TOO_MANY_TEXT = f"its path makes more than {MOST_FOLDERS:,} folders of what is written at once"


class SinkRows:
    """A FileRows. All of it is made when it is opened: what fails here fails before a plan is there."""

    def __init__(self, store: Store, staging: str, warehouse: str, sink: SinkRange) -> None:
        """Raises TerminalError for a place that files may not have and for SQL that does not fit the columns, and what
        source_changes.read raises."""
        files = sink.pipeline.files
        if files is None:
            raise TerminalError(f"the target of the pipeline {sink.pipeline.name} is not files")
        wrong = refused_place(files.to, {"staging area": staging, "warehouse": warehouse})
        if wrong is not None:
            raise TerminalError(wrong)
        self._store, self._sink, self._files = store, sink, files
        self._unseen: tuple[str, ...] = ()
        self._found = source_changes.read(store, staging, sink)
        self._folders: dict[str, list[tuple[int, int, int]]] = {}  # part, first row, rows
        self._parts = Spool()
        self._why: dict[tuple[str, int], Why] = {}
        self._bad: list[Mapping[str, Any]] = []  # the staged changes that are dead letters
        try:
            self._fill()
        except BaseException:
            self.close()
            raise

    @property
    def events(self) -> int:
        """Staged changes of the source."""
        return self._found.events

    @property
    def dead(self) -> int:
        """How many of them are dead letters."""
        return len(self._bad)

    @property
    def columns(self) -> str:
        """The columns of the source after this range."""
        return self._found.columns

    @property
    def unseen(self) -> Sequence[str]:
        """Columns that the SQL or the path names, and no event had yet."""
        return tuple(dict.fromkeys(self._unseen))

    @property
    def folders(self) -> Mapping[str, int]:
        """Rows by folder."""
        return {folder: sum(rows for _, _, rows in parts) for folder, parts in self._folders.items()}

    def bury(self) -> Mapping[str, Mapping[str, int]]:
        """Writes the dead letters, if they are not there. Raises StorageUnavailable, UnknownOutcome."""
        rows = rejected(self._bad, self._why, self._found.schemas)
        place = f"files-{self._sink.pipeline.name}"  # a table's has a dot
        return by_table(write_rejects(self._store, self._sink.settings.name, place, self._sink.epochs, rows))

    def body(self, folder: str, first: int, rows: int) -> bytes:
        """A file of some rows of a folder."""
        found: list[pa.Table] = []
        for number, start, count in self._folders[folder]:
            skipped = min(first, count)
            taken = min(rows, count - skipped)
            if taken:
                found.append(self._parts[number].slice(start + skipped, taken))
            first, rows = first - skipped, rows - taken
        return file_bodies.body_of(found, self._files)

    def rows_in(self, body: bytes) -> int:
        """How many rows a file holds that is there. Raises ValueError if it is not one."""
        return file_bodies.rows_in(body, self._files)

    def close(self) -> None:
        """Let go of what was read."""
        self._found.parts.close()
        self._parts.close()

    def _fill(self) -> None:
        found = bound(self._sink.pipeline.name, self._sink.pipeline.sql, self._found.schema)
        place = Folders(self._files.path, self._files.time)
        self._unseen = (*found.unseen, *place.check(found.transform.schema))
        for events in self._found.decoded(self._sink.settings.name):
            self._add(events, found, place)

    def _add(self, events: Events, found: Bound, place: Folders) -> None:
        """Some changes, through the SQL, by folder."""
        name = self._sink.pipeline.name
        accepted = _accepted(events.batch)
        now = accepted.cast(pa.timestamp("ms", "UTC"))
        source = pa.table([*events.rows.columns, now], [*events.rows.column_names, NOW])  # of rows without columns too
        done = found.transform.run(rows_for(found, source))
        for row, message in done.failed.items():
            events.refuse(row, FAILED, f"pipeline {name}: {message}")
        own = {
            # As in a table that the pipeline feeds; the names of pipelines and numbers have no stroke.
            IDENTITY: pc.binary_join_element_wise(
                events.id.take(done.origin), name, done.number.cast(pa.string()), "/"
            ),
            OP: events.op.take(done.origin),
            TIME: pc.multiply(events.ts.take(done.origin), 1000).cast(pa.timestamp("us", "UTC")),
        }
        rows = done.rows
        for column, values in own.items():
            rows = rows.append_column(column, values)
        folders, places = place.of(done.rows, accepted.take(done.origin))
        known = [one for one in folders if one in self._folders]
        new = [one for one in folders if one not in self._folders][: max(MOST_FOLDERS - len(self._folders), 0)]
        if len(known) + len(new) < len(folders):
            taken = frozenset((*known, *new))
            here = pa.array([one in taken for one in folders]).take(places)
            for row in pc.unique(done.origin.filter(pc.invert(here))).to_pylist():
                events.refuse(row, _TOO_MANY, f"pipeline {name}: {_TOO_MANY_TEXT}")
            rows, places = rows.filter(here), places.filter(here)
        self._keep(rows, places, folders)
        self._why |= events.why
        self._bad += events.refused()

    def _keep(self, rows: pa.Table, places: pa.Array, folders: list[str]) -> None:
        """Rows, those of a folder in a row, in their order."""
        if not len(rows):
            return
        number, first = len(self._parts), 0
        self._parts.add(rows.take(pc.sort_indices(places)) if len(folders) > 1 else rows)
        counts = {one["values"]: one["counts"] for one in pc.value_counts(places).to_pylist()}
        for place in sorted(counts):
            self._folders.setdefault(folders[place], []).append((number, first, counts[place]))
            first += counts[place]


def _accepted(batches: pa.Array) -> pa.Array:
    """When the batches were accepted, ms."""
    told = batches.dictionary_encode()
    return pa.array([layout.accepted(one) for one in told.dictionary.to_pylist()], pa.int64()).take(told.indices)
