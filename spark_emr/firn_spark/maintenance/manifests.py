"""Many small manifests into few, clustered by partition: what planning a query reads before it reads any data."""

from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from firn.maintenance import compaction_planner
from firn_spark.tables.evolve import Table
from firn_spark.tables.fence import CommitUnknown
from firn_spark.tables.java import elements, java_class

_SMALL: Final = 0.25  # of the target size, on average
_TARGET: Final = "commit.manifest.target-size-bytes"
_USUAL: Final = 8 * 1024 * 1024
_ERRORS: Final = "org.apache.iceberg.exceptions"
_REFUSED: Final = frozenset({f"{_ERRORS}.ValidationException", f"{_ERRORS}.CommitFailedException"})


def merge(spark: SparkSession, table: Table) -> int:
    """Writes the manifests again if they are many and small, in a commit of its own that moves no file. -> how many
    fewer there are.

    It needs no fence: it lists the files that are there, and is refused when one of its manifests is gone.
    Raises CommitUnknown, and what Spark and the catalog raise.
    """
    snapshot = table.head()
    if snapshot is None or table.branch is not None or not worth(table, snapshot):
        return 0
    session = spark._jsparkSession
    action = (
        java_class(spark, "org.apache.iceberg.spark.actions.SparkActions").get(session).rewriteManifests(table.java)
    )
    try:
        done = action.snapshotProperty("firn.format", "1").execute()
    except Py4JJavaError as error:
        kind, text = error.java_exception.getClass().getName(), error.java_exception.getMessage()
        if kind in _REFUSED:
            return 0
        if kind == f"{_ERRORS}.CommitStateUnknownException":
            raise CommitUnknown(f"{table.name}: {str(text).splitlines()[0]}") from error
        raise
    return _count(done.rewrittenManifests()) - _count(done.addedManifests())


def worth(table: Table, snapshot: Any) -> bool:
    """Whether there are many manifests of data files, and small ones."""
    found = list(elements(snapshot.dataManifests(table.java.io())))
    if len(found) <= compaction_planner.MANY_MANIFESTS:
        return False
    target = int(table.state.properties.get(_TARGET, _USUAL))
    return sum(int(one.length()) for one in found) < _SMALL * target * len(found)


def _count(manifests: Any) -> int:
    return sum(1 for _ in elements(manifests))
