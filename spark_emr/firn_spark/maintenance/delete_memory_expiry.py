"""Old delete facts go (docs/adr/0011-memory.md), file by file, in two turns.

The first turn raises the floor: from then on a change at or below it whose key is absent can't be told from one whose
delete is forgotten, and becomes a dead letter `too_old`. A job that had looked at the floor before that still relies on
the facts, so they go a turn later, when no such job can be at work any more. A crash between the turns, or before the
second, leaves facts that nobody asks for.

Facts ordered by a number (`order_by`) stay: a floor among the versions of one row would refuse new rows of others.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from firn.changes.metadata_columns import AT, POSITION
from firn.changes.positions import by_field
from firn.changes.record import by_record
from firn.tables.table_state import BY_NUMBER, FLOOR
from firn_spark.files import row_lookup
from firn_spark.merge.facts_table import KEEP
from firn_spark.tables import fence
from firn_spark.tables.deletes import tasks_of
from firn_spark.tables.evolve import Table, Tables
from firn_spark.tables.java import elements, java_class

RAISED: Final = "firn.floor.raised"  # table property: when the floor was raised last (RFC 3339)
GRACE: Final = timedelta(hours=6)  # what a job has read of the facts is no older: commit/warm_job.py
_CONFLICT: Final = "org.apache.iceberg.exceptions.CommitFailedException"


@dataclass(frozen=True)
class Forgotten:
    """What became of a table's old facts. `raised`: whether the floor was; `files`, `facts`: how many were dropped."""

    table: str
    raised: bool = False
    files: int = 0
    facts: int = 0

    def line(self) -> dict[str, Any]:
        """The numbers for a log line."""
        return {name: value for name, value in asdict(self).items() if name != "table"}


@dataclass(frozen=True)
class _Old:
    """A file of facts that are all older than is kept. `newest`: the highest order among them."""

    path: str
    facts: int
    newest: bytes


def forget(
    spark: SparkSession,
    tables: Tables,
    facts: Table,
    now: datetime,
    *,
    keep: timedelta = KEEP,
    grace: timedelta = GRACE,
    dry_run: bool = False,
) -> Forgotten:
    """Drops the files whose facts were all written before `now` - `keep` and lie at or below a floor that was raised
    `grace` ago; if there is none, raises the floor above those that are old enough.

    A file that holds younger facts too stays. Raises fence.LostRace (another writer came between: nothing was done),
    fence.CommitUnknown.
    """
    name = str(facts.name)
    old = [one for one in _old(spark, facts, now - keep) if not by_record(one.newest)]
    if facts.state.properties.get(BY_NUMBER) == "true":
        old = [one for one in old if not by_field(one.newest)]
    if not old:
        return Forgotten(name)
    floor = bytes.fromhex(facts.state.properties.get(FLOOR, ""))
    raised = facts.state.properties.get(RAISED)
    if raised is not None and now - datetime.fromisoformat(raised) < grace:
        return Forgotten(name)
    ready = [one for one in old if one.newest <= floor] if raised is not None else []
    if not ready:
        if not dry_run:
            _raise(spark, facts, max(floor, *(one.newest for one in old)), now)
        return Forgotten(name, raised=True)
    if not dry_run:
        _drop(spark, facts, ready)
    tables.look_again(facts)
    return Forgotten(name, files=len(ready), facts=sum(one.facts for one in ready))


def _old(spark: SparkSession, facts: Table, before: datetime) -> list[_Old]:
    """The data files whose facts were all written before an instant; those that do not tell are left out."""
    if facts.state.snapshot_id is None:
        return []
    if facts.unreadable:
        return list(_by_manifests(spark, facts, int(before.timestamp() * 1_000_000)))
    bounds = f"readable_metrics.{AT}.upper_bound AS at", f"readable_metrics.{POSITION}.upper_bound AS newest"
    limit = before.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    found = (
        spark.table(f"{facts.files_sql}.files")
        .where("content = 0")
        .selectExpr("file_path", "record_count", *bounds)
        .where(f"at < TIMESTAMP '{limit} UTC' AND newest IS NOT NULL")
        .collect()
    )
    return [_Old(row["file_path"], int(row["record_count"]), bytes(row["newest"])) for row in found]


def _by_manifests(spark: SparkSession, facts: Table, before: int) -> Iterator[_Old]:
    """The same of a table that Spark does not open: from its manifests. `before`: in microseconds."""
    ids = row_lookup.ids_of(facts)
    conversions = java_class(spark, "org.apache.iceberg.types.Conversions")
    types = {name: facts.java.schema().findType(ids[name]) for name in (AT, POSITION)}
    tasks = facts.java.newScan().includeColumnStats().planFiles()
    try:
        for task in elements(tasks):
            file, ends = task.file(), task.file().upperBounds()
            found = {name: ends.get(ids[name]) if ends is not None else None for name in types}
            at, position = found[AT], found[POSITION]
            if at is None or position is None:
                continue
            if int(conversions.fromByteBuffer(types[AT], at.duplicate())) < before:
                newest = bytes(java_class(spark, "org.apache.iceberg.util.ByteBuffers").toByteArray(position))
                yield _Old(str(file.location()), int(file.recordCount()), newest)
    finally:
        tasks.close()


def _raise(spark: SparkSession, facts: Table, floor: bytes, now: datetime) -> None:
    """By a compare-and-swap of the metadata: a floor that was raised meanwhile is never lowered."""
    base = facts.java.operations().current()
    builder = java_class(spark, "org.apache.iceberg.TableMetadata").buildFrom(base)
    properties = java_class(spark, "java.util.HashMap")()
    properties.put(FLOOR, floor.hex())
    properties.put(RAISED, now.astimezone(UTC).isoformat())
    try:
        facts.java.operations().commit(base, builder.setProperties(properties).build())
    except Py4JJavaError as error:
        kind = error.java_exception.getClass().getName()
        if kind == _CONFLICT:
            raise fence.LostRace(f"{facts.name}: another commit came before the floor") from error
        if kind.endswith(".CommitStateUnknownException"):
            raise fence.CommitUnknown(f"{facts.name}: the floor may be raised or not") from error
        raise


def _drop(spark: SparkSession, facts: Table, files: list[_Old]) -> None:
    update = facts.java.newDelete()
    update.validateFilesExist()
    # Never by its path: to a text py4j finds another deleteFile, an inner one that deletes the object there and then.
    for task in tasks_of(facts, [one.path for one in files]):
        update.deleteFile(task.file())
    stream = facts.state.properties.get("firn.stream", "")
    fence.commit(spark, facts, update, (), {"firn.format": "1"}, stream)
