"""Manifests that are many and small, or each hold files of all partitions, in fewer that are sorted by partition: what
planning a query reads before it reads any data. firn.maintenance.manifest_planner says which.

A rewrite is Iceberg's `replace`, of manifests alone: no file, no row and no progress changes. It needs no look at the
progress: it is refused when one of its manifests is gone, or when the new ones do not list as many files as the old
ones. In format 3 the manifests of data files are only made fewer, not sorted: Iceberg's action for Spark, which sorts,
gives rows new ids.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from firn.config.file_writing import MANIFEST
from firn.maintenance import manifest_planner
from firn.maintenance.manifest_planner import Manifest, Rewrite
from firn_spark.tables.evolve import FORMAT_VERSION, Table, Tables, set_all
from firn_spark.tables.fence import CommitUnknown, answers_java
from firn_spark.tables.java import elements, java_class

_ICEBERG: Final = "org.apache.iceberg"
_USUAL: Final = 8 * 1024 * 1024  # Iceberg's, where the table says nothing
_REFUSED: Final = frozenset(
    {f"{_ICEBERG}.exceptions.ValidationException", f"{_ICEBERG}.exceptions.CommitFailedException"}
)
_UPGRADED: Final = "Cannot downgrade"  # what Iceberg says to whoever asks for a format that is older than the table's
_LINEAGE: Final = 3  # the format from which on rows have ids
_PLAIN: Final = (bool, int, float, str)  # values of partitions that Python orders as Iceberg does


@dataclass(frozen=True)
class Rewritten:
    """How many manifests became how many, and the bytes of those that were."""

    manifests: int = 0
    into: int = 0
    bytes: int = 0


def planned(spark: SparkSession, table: Table, most: int = manifest_planner.MOST_BYTES) -> list[Rewrite]:
    """What of the newest snapshot's manifests is worth rewriting, by their list. `most`: bytes of one commit."""
    snapshot = table.head()
    if snapshot is None or table.branch is not None:
        return []
    target = _target(table)
    return manifest_planner.plan(_listed(spark, table, snapshot, target), target, most=most)


def rewrite(spark: SparkSession, tables: Tables, table: Table, most: int = manifest_planner.MOST_BYTES) -> Rewritten:
    """Rewrites what is worth it, in one commit for each partition spec. A commit of another writer that replaced one of
    the manifests meanwhile is no failure: nothing was done then.

    Raises CommitUnknown (what was written stays: it may be in the table), and what Spark and the catalog raise.
    """
    done = Rewritten()
    for one in planned(spark, table, most):
        into = _commit(spark, tables.look_again(table), one)
        if into is not None:
            done = Rewritten(done.manifests + len(one.manifests), done.into + into, done.bytes + one.bytes)
    return done


def _target(table: Table) -> int:
    try:
        return max(1, int(table.state.properties.get(MANIFEST, _USUAL)))
    except ValueError:  # Iceberg refuses every commit to such a table, and says why
        return _USUAL


def _listed(spark: SparkSession, table: Table, snapshot: Any, target: int) -> Iterator[Manifest]:
    ranges, by_spark = _Ranges(spark, table), table.unreadable is None
    for one in elements(snapshot.allManifests(table.java.io())):
        size, spec = int(one.length()), int(one.partitionSpecId())
        deletes = str(one.content().name()) != "DATA"
        if deletes and not by_spark:  # which alone rewrites these
            continue
        wide = size >= manifest_planner.SMALL * target and table.state.version < _LINEAGE
        low, high = ranges.of(one, spec) if wide else (None, None)
        yield Manifest(str(one.path()), size, spec, deletes, low, high)


class _Ranges:
    """The values of partitions that manifests hold, of the field by which Iceberg's rewrite sorts first."""

    def __init__(self, spark: SparkSession, table: Table) -> None:
        self._conversions = java_class(spark, f"{_ICEBERG}.types.Conversions")
        self._specs = table.java.specs()
        self._fields: dict[int, tuple[int, Any] | None] = {}

    def of(self, manifest: Any, spec: int) -> tuple[Any, Any]:
        """The least and the greatest; None, None if they are not known."""
        field, summaries = self._field(spec), manifest.partitions()
        if field is None or summaries is None or summaries.size() <= field[0]:
            return None, None
        summary = summaries.get(field[0])
        low, high = (self._value(field[1], bound) for bound in (summary.lowerBound(), summary.upperBound()))
        return (None, None) if low is None or high is None else (low, high)

    def _field(self, spec: int) -> tuple[int, Any] | None:
        """Its place among the fields of the spec, and the type of its values."""
        if spec not in self._fields:
            of = self._specs.get(spec)
            fields = [(int(one.fieldId()), n) for n, one in enumerate(elements(of.fields()))
                      if str(one.transform().toString()) != "void"]  # fmt: skip
            place = min(fields)[1] if fields else None
            kinds = of.partitionType().fields()
            self._fields[spec] = None if place is None else (place, kinds.get(place).type())
        return self._fields[spec]

    def _value(self, kind: Any, bound: Any) -> Any:
        if bound is None:
            return None
        value = self._conversions.fromByteBuffer(kind, bound.duplicate())
        if str(kind.typeId().name()) == "STRING":
            return str(value.toString()) if not isinstance(value, str) else value
        return value if isinstance(value, _PLAIN) else None


def _commit(spark: SparkSession, table: Table, one: Rewrite) -> int | None:
    """-> how many manifests there are for the old ones; None if another writer was quicker."""
    wanted, head = {manifest.path for manifest in one.manifests}, table.head()
    there = list(elements(head.allManifests(table.java.io()))) if head is not None else []
    chosen = [manifest for manifest in there if str(manifest.path()) in wanted]
    if len(chosen) < len(wanted):
        return None
    try:
        if table.state.version < _LINEAGE and table.unreadable is None:
            return run(lambda: _by_spark(spark, table, one.spec, chosen))
        data = [manifest for manifest in chosen if str(manifest.content().name()) == "DATA"]
        deletes = [manifest for manifest in chosen if str(manifest.content().name()) != "DATA"]
        into = run(lambda: _in_process(spark, table, data)) if data else 0
        return into + (run(lambda: _by_spark(spark, table, one.spec, deletes)) if deletes else 0)
    except IllegalArgumentException as error:  # which PySpark makes of Java's
        if _UPGRADED in str(error):
            return None
        raise
    except Py4JJavaError as error:
        kind, text = error.java_exception.getClass().getName(), error.java_exception.getMessage()
        if kind in _REFUSED:
            return None
        if kind == f"{_ICEBERG}.exceptions.CommitStateUnknownException":
            raise CommitUnknown(f"{table.name}: {str(text).splitlines()[0]}") from error
        raise


def run(commit: Callable[[], int]) -> int:
    """Makes one commit. -> how many manifests there are for the old ones."""
    return commit()


def _by_spark(spark: SparkSession, table: Table, spec: int, chosen: Sequence[Any]) -> int:
    """By Iceberg's action for Spark, which sorts what manifests list by partition. What it writes is right for the
    format that it found alone: so its commit says which, and is refused for a table that was upgraded meanwhile."""
    actions = java_class(spark, f"{_ICEBERG}.spark.actions.SparkActions").get(spark._jsparkSession)
    both = table.java.newTransaction()
    action = actions.rewriteManifests(both.table()).specId(spec).rewriteIf(_among(spark, chosen))
    added = sum(1 for _ in elements(action.snapshotProperty("firn.format", "1").execute().addedManifests()))
    set_all(both.updateProperties(), {FORMAT_VERSION: str(table.state.version)})
    both.commitTransaction()
    return added


def _in_process(spark: SparkSession, table: Table, chosen: Sequence[Any]) -> int:
    """By Iceberg's own code in this process: manifests of data files alone, in no order. It keeps the ids of rows,
    which the action for Spark (Iceberg 1.11.0) gives anew."""
    update = table.java.rewriteManifests().clusterBy(_as_one(spark)).rewriteIf(_among(spark, chosen))
    answers_java(spark.sparkContext._gateway)
    # It would go on with those of the manifests that are left, or make a snapshot of nothing.
    update.set("firn.format", "1").validateWith(_There(table, {str(one.path()) for one in chosen}))
    update.commit()
    return int(update.updateEvent().summary().get("manifests-created"))


def _among(spark: SparkSession, chosen: Iterable[Any]) -> Any:
    """A java.util.function.Predicate that is true of these manifests. The JVM asks it without calling this process."""
    these = java_class(spark, "java.util.HashSet")()
    for one in chosen:
        these.add(one)
    return getattr(java_class(spark, f"{_ICEBERG}.relocated.com.google.common.base.Predicates"), "in")(these)


def _as_one(spark: SparkSession) -> Any:
    """A java.util.function.Function that tells no files apart, likewise."""
    kinds = spark.sparkContext._gateway.new_array(java_class(spark, "java.lang.Class"), 1)
    loader = java_class(spark, "java.lang.Class")
    kinds[0] = loader.forName("java.lang.Object")
    handles = java_class(spark, "java.lang.invoke.MethodHandles")
    same = handles.dropArguments(handles.constant(loader.forName("java.lang.Object"), "all"), 0, kinds)
    proxies = java_class(spark, "java.lang.invoke.MethodHandleProxies")
    return proxies.asInterfaceInstance(loader.forName("java.util.function.Function"), same)


class _There:
    """Iceberg calls this inside the commit: whether the newest snapshot still has all of the manifests."""

    def __init__(self, table: Table, paths: Collection[str]) -> None:
        self._table = table
        self._paths = paths

    def validate(self, snapshots: Any) -> bool:
        """`snapshots`: an Iterable<Snapshot>, newest first."""
        iterator = snapshots.iterator()
        if not iterator.hasNext():
            return False
        found = {str(one.path()) for one in elements(iterator.next().allManifests(self._table.java.io()))}
        return found.issuperset(self._paths)

    def errorMessage(self) -> str:
        """What Iceberg says when the commit is refused."""
        return "another writer has replaced manifests that were to be rewritten"

    class Java:
        """py4j's declaration of the interface."""

        implements: ClassVar[list[str]] = ["org.apache.iceberg.SnapshotAncestryValidator"]
