"""The fence of every data commit: it holds only if the table and the stream's progress are still those that were read.

Iceberg refreshes its base inside a commit, so a check before it would not do. Twin jobs, paused jobs and answers that
got lost then change nothing: whoever comes second is refused, and looks again.

Files hold values by field ids, and a snapshot's commit does not mind which ids the table has by then (a REST catalog is
not even told). So whatever alters the meaning of files (`alter`) leaves a mark among the snapshots, where the fence of
whoever planned before finds it (docs/adr/0031-the-fence-knows-the-schema.md).
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from firn.errors import TransientError, UnknownOutcome
from firn.maintenance.expiry import newest_counts
from firn.tables.table_state import EPOCH
from firn_spark.tables.evolve import Table
from firn_spark.tables.metadata_cache import KNOWN

_ERRORS = "org.apache.iceberg.exceptions"
_starting = threading.Lock()
_REFUSED = frozenset(
    {f"{_ERRORS}.ValidationException", f"{_ERRORS}.CommitFailedException"}
    # The table was dropped, or is another one of the same name: its UUID is not the one that was loaded.
    | {f"{_ERRORS}.NoSuchTableException", "java.lang.IllegalStateException"}
)


class LostRace(TransientError):
    """Another writer's commit came between. Nothing was applied: look at the table again, and start over."""


class CommitUnknown(UnknownOutcome):
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
    properties = {**properties, **table.state.basis.summary()}
    _land(spark, table, update, files, properties, _ProgressUnchanged(spark, table, stream))


def alter(spark: SparkSession, table: Table, both: Any, told: Mapping[str, str] = MappingProxyType({})) -> None:
    """Commits `both` (an org.apache.iceberg.Transaction that changes what the columns or files of the table mean),
    begun on the table as it is in `table.state`, together with a snapshot of nothing on main that marks it and says
    what is `told`.

    Raises LostRace (a snapshot came since: what was planned on the table may be wrong by now), CommitUnknown, or what
    the catalog says.
    """
    main = table.state if table.branch is None else KNOWN.state_of(spark, table.java)
    mark = both.newAppend()
    for name, value in {"firn.format": "1", **told, **main.basis.next().summary()}.items():
        mark.set(name, value)
    answers_java(spark.sparkContext._gateway)
    mark.validateWith(_Stands(main.snapshot_id))
    with _refusals(table, ()):
        mark.commit()
        both.commitTransaction()


def instead(
    spark: SparkSession, table: Table, both: Any, update: Any, files: Iterable[Any], told: Mapping[str, str]
) -> None:
    """Commits `both` (an org.apache.iceberg.Transaction that changes what the columns of the table mean), begun on the
    table as it is in `table.state`, together with `update` (an org.apache.iceberg.SnapshotUpdate of it) that gives it
    other rows, whose snapshot says what is `told`. `files`: as for commit.

    Raises LostRace (a snapshot came since), CommitUnknown, or what the catalog says.
    """
    for name, value in {**told, **table.state.basis.next().summary()}.items():
        update.set(name, value)
    answers_java(spark.sparkContext._gateway)
    update.validateWith(_Stands(table.state.snapshot_id))
    with _refusals(table, files):
        update.commit()
        both.commitTransaction()


def beside(spark: SparkSession, table: Table, both: Any, told: Mapping[str, str]) -> None:
    """Commits `both` (an org.apache.iceberg.Transaction on the table as it is in `table.state`) together with a
    snapshot of nothing on main that says what is `told`. A REST catalog checks of a commit only the refs that it moves:
    so it refuses this one where anything has moved main since.

    Raises LostRace, CommitUnknown, or what the catalog says.
    """
    mark = both.newAppend()
    for name, value in {"firn.format": "1", **told}.items():
        mark.set(name, value)
    answers_java(spark.sparkContext._gateway)
    mark.validateWith(_Stands(table.state.snapshot_id))
    with _refusals(table, ()):
        mark.commit()
        both.commitTransaction()


def unmoved(before: Table, now: Table, alterations: int = 0) -> Table:
    """`now`, a later look at a table, if but for so many alterations of the caller's own it still is what was planned
    for. Raises LostRace."""
    expected = before.state.basis
    for _ in range(alterations if now.branch is None else 0):  # marks are on main
        expected = expected.next()
    if now.state.basis != expected:
        raise LostRace(f"{now.name} is {now.state.basis} by now, not {expected}")
    return now


def carry(spark: SparkSession, table: Table, told: Mapping[str, str]) -> None:
    """Adds a snapshot of nothing, which says what the table's snapshots have told up to the one in `table.state`.

    What is committed meanwhile counts as it does (the highest epoch is the progress), but where the newest snapshot
    alone counts (of shards and views): then this is refused. And where the table was rolled back, it would tell of
    epochs that are no longer in it, and is refused.
    Raises LostRace, CommitUnknown, or what the catalog says.
    """
    if table.state.snapshot_id is None:
        raise LostRace(f"{table.name} has no snapshot any more")
    rule = _Stands if any(map(newest_counts, told)) else _Follows
    _land(spark, table, table.java.newAppend(), (), told, rule(table.state.snapshot_id))


def _land(
    spark: SparkSession, table: Table, update: Any, files: Iterable[Any], properties: Mapping[str, str], rule: Any
) -> None:
    for name, value in properties.items():
        update.set(name, value)
    answers_java(spark.sparkContext._gateway)
    update.validateWith(rule)
    if table.branch is not None:
        update.toBranch(table.branch)
    with _refusals(table, files):
        update.commit()


@contextmanager
def _refusals(table: Table, files: Iterable[Any]) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        kind, text = error.java_exception.getClass().getName(), error.java_exception.getMessage()
        if kind in _REFUSED:
            for path in {str(file.location()) for file in files}:  # one Puffin file holds many vectors
                table.java.io().deleteFile(path)
            raise LostRace(f"{table.name}: {text}") from error
        if kind == f"{_ERRORS}.CommitStateUnknownException":
            raise CommitUnknown(f"{table.name}: {str(text).splitlines()[0]}") from error
        raise
    finally:
        kept_once(SparkContext._gateway)


def kept_once(gateway: Any) -> None:
    """Whoever asks Java while Java asks him has his connection kept twice by py4j, which forgets one of them as the
    thread ends: the other, and the thread of the JVM that answers it, would stay as long as the job."""
    client = gateway._gateway_client
    own = client.get_thread_connection()
    while client.deque.count(own) > 1:
        client.deque.remove(own)


def answers_java(gateway: Any) -> None:
    """Java can call this process, once it returns. Several tables commit at once, and PySpark takes a server that is
    still starting for one that Java knows. As it starts, Java's client is replaced: who calls by the old one meanwhile
    gets "Cannot obtain a new communication channel"."""
    with _starting:
        ensure_callback_server_started(gateway)


class _ProgressUnchanged:
    """Iceberg calls this inside the commit, once it has read the table's metadata again."""

    def __init__(self, spark: SparkSession, table: Table, stream: str) -> None:
        self._spark = spark
        self._table = table
        self._stream = stream
        self._why = ""

    def validate(self, _: Any) -> bool:
        """Whether the table is still what was planned for, and the stream's progress in it the expected one. `_`: the
        ancestry that the new snapshot would get (an Iterable<Snapshot>), which the metadata tells with fewer calls."""
        table, before = self._table, self._table.state
        now = KNOWN.state_of(self._spark, table.java, table.branch)
        if table.branch is not None:  # its properties are those that main will have
            now = replace(now, properties=before.properties)
        expected, found = before.progress(self._stream), now.progress(self._stream)
        self._why = ""
        if now.basis != before.basis:
            self._why = f"the table is {now.basis} by now, not {before.basis}"
        elif found != expected:
            self._why = f"{EPOCH}{self._stream} is no longer {expected}, but {found}"
        return not self._why

    def errorMessage(self) -> str:
        """What Iceberg says when the commit is refused."""
        return f"{self._why}: another job was quicker"

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


class _Stands:
    """Called like the other: whether a snapshot is the one that the new one would follow; None: it would be the first.

    A transaction begins on the table as it is then, which may be newer than what its caller has looked at.
    """

    def __init__(self, snapshot: int | None) -> None:
        self._snapshot = snapshot

    def validate(self, snapshots: Any) -> bool:
        """`snapshots`: an Iterable<Snapshot>, newest first."""
        iterator = snapshots.iterator()
        head = iterator.next().snapshotId() if iterator.hasNext() else None
        return bool(head == self._snapshot)

    def errorMessage(self) -> str:
        """What Iceberg says when the commit is refused."""
        return f"snapshot {self._snapshot} is no longer the newest: another job was quicker"

    class Java:
        """py4j's declaration of the interface."""

        implements: ClassVar[list[str]] = ["org.apache.iceberg.SnapshotAncestryValidator"]
