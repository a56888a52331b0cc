"""The fence of every data commit: it holds only if the stream's progress is still the one that was read.

Iceberg refreshes its base inside a commit, so a check before it would not do. Twin jobs, paused jobs and answers that
got lost then change nothing: whoever comes second is refused, and looks again.
"""

import threading
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from py4j.protocol import Py4JJavaError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from firn.jobs.progress import EPOCH, REBUILD, progress_in, rebuilt_in
from firn_spark.tables.evolve import Table

_ERRORS = "org.apache.iceberg.exceptions"
_starting = threading.Lock()
_REFUSED = frozenset({f"{_ERRORS}.ValidationException", f"{_ERRORS}.CommitFailedException"})


class LostRace(Exception):
    """Another writer's commit came between. Nothing was applied: look at the table again, and start over."""


class CommitUnknown(Exception):
    """The catalog's answer is not known: the commit may be in the table, or come yet. Its files are left alone."""


def commit(
    spark: SparkSession,
    table: Table,
    update: Any,
    files: Iterable[Any],
    properties: Mapping[str, str],
    stream: str,
) -> None:
    """Commits `update` (an org.apache.iceberg.SnapshotUpdate) with `properties` in the snapshot's summary.

    files  what was written for it: removed if the commit is refused, kept if that is not sure
    Raises LostRace, CommitUnknown, or what the catalog says.
    """
    rule = _ProgressUnchanged(stream, table.state.progress(stream), table.state.rebuilt)
    _land(spark, table, update, files, properties, rule)


def carry(spark: SparkSession, table: Table, told: Mapping[str, str]) -> None:
    """Adds a snapshot of nothing, which says what the table's snapshots have told up to the one in `table.state`.

    What is committed meanwhile counts as it does (the highest epoch is the progress). But where the table was rolled
    back, this would tell of epochs that are no longer in it, and is refused.
    Raises LostRace, CommitUnknown, or what the catalog says.
    """
    if table.state.snapshot_id is None:
        raise LostRace(f"{table.name} has no snapshot any more")
    _land(spark, table, table.java.newAppend(), (), told, _Follows(table.state.snapshot_id))


def _land(
    spark: SparkSession, table: Table, update: Any, files: Iterable[Any], properties: Mapping[str, str], rule: Any
) -> None:
    for name, value in properties.items():
        update.set(name, value)
    answers_java(spark.sparkContext._gateway)
    update.validateWith(rule)
    if table.branch is not None:
        update.toBranch(table.branch)
    try:
        update.commit()
    except Py4JJavaError as error:
        kind, text = error.java_exception.getClass().getName(), error.java_exception.getMessage()
        if kind in _REFUSED:
            for file in files:
                table.java.io().deleteFile(file.location())
            raise LostRace(f"{table.name}: {text}") from error
        if kind == f"{_ERRORS}.CommitStateUnknownException":
            raise CommitUnknown(f"{table.name}: {str(text).splitlines()[0]}") from error
        raise


def answers_java(gateway: Any) -> None:
    """Java can call this process, once it returns. Several tables commit at once, and PySpark takes a server that is
    still starting for one that Java knows. As it starts, Java's client is replaced: who calls by the old one meanwhile
    gets "Cannot obtain a new communication channel"."""
    with _starting:
        ensure_callback_server_started(gateway)


class _ProgressUnchanged:
    """Iceberg calls this inside the commit with the ancestry that the new snapshot would get."""

    def __init__(self, stream: str, expected: int, rebuilt: int) -> None:
        self._stream = stream
        self._expected = expected
        self._rebuilt = rebuilt

    def validate(self, snapshots: Any) -> bool:
        """Whether the highest `firn.epoch.{stream}` of the snapshots (an Iterable<Snapshot>) is the expected one, and
        the table was not rebuilt meanwhile, which leaves the progress as it is."""
        found = []
        iterator = snapshots.iterator()
        while iterator.hasNext():
            summary = iterator.next().summary()
            said = {name: summary.get(name) for name in (EPOCH + self._stream, REBUILD)}
            found.append({name: value for name, value in said.items() if value is not None})
        return progress_in(self._stream, found) == self._expected and rebuilt_in(found) == self._rebuilt

    def errorMessage(self) -> str:
        """What Iceberg says when the commit is refused."""
        return f"{EPOCH}{self._stream} is no longer {self._expected}, or the table was rebuilt: another job was quicker"

    class Java:
        """py4j's declaration of the interface."""

        implements: ClassVar[list[str]] = ["org.apache.iceberg.SnapshotAncestryValidator"]


class _Follows:
    """Called like the other: whether a snapshot is among those that the new one would follow."""

    def __init__(self, snapshot: int) -> None:
        self._snapshot = snapshot

    def validate(self, snapshots: Any) -> bool:
        """`snapshots`: an Iterable<Snapshot>, newest first: as a rule the first is the one."""
        iterator = snapshots.iterator()
        while iterator.hasNext():
            if iterator.next().snapshotId() == self._snapshot:
                return True
        return False

    def errorMessage(self) -> str:
        """What Iceberg says when the commit is refused."""
        return f"snapshot {self._snapshot} is no longer among the table's: it was rolled back, or rebuilt"

    class Java:
        """py4j's declaration of the interface."""

        implements: ClassVar[list[str]] = ["org.apache.iceberg.SnapshotAncestryValidator"]
