"""What tables' metadata says, by the version of it: a commit asks several times, and to bring the JSON of a thousand
snapshots out of the JVM and to parse it takes longer than most of what is done with it.

A version never changes, so nothing that is kept can be wrong. What is kept is bounded by the snapshots that it tells
of, and by its columns, which may be thousands; the least recently used go first.
"""

import json
import re
from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Any, Final

from pyspark.sql import SparkSession

from firn.tables.table_state import TableState, parse
from firn_spark.tables.java import java_class, text_of

MOST_SNAPSHOTS: Final = 5_000  # some 3 KB each in memory
_COLUMNS: Final = 500  # characters of columns and properties that take as much, with what is made of them

_ICEBERG: Final = "org.apache.iceberg"
_UNIQUE: Final = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(\.gz)?\.metadata\.json$")


class MetadataCache:
    """States by version and branch, of up to `most` snapshots in all. Safe in threads."""

    def __init__(self, most: int = MOST_SNAPSHOTS) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, TableState] = OrderedDict()
        self._lock = Lock()
        self.snapshots = 0

    def state_of(self, spark: SparkSession, java: Any, branch: str | None = None) -> TableState:
        """The metadata of an org.apache.iceberg.Table as it was last read or committed. `branch`: table_state.parse."""
        metadata = java.operations().current()
        version = _version(metadata)
        if version is None:
            return parse(json_of(spark, metadata), branch)
        with self._lock:
            known = self._kept.get((version, branch))
            if known is not None:
                self._kept.move_to_end((version, branch))
                return known
        state = parse(json_of(spark, metadata), branch)
        with self._lock:
            if (version, branch) not in self._kept:
                self._kept[version, branch] = state
                self.snapshots += _size(state)
            while self.snapshots > self._most:
                self.snapshots -= _size(self._kept.popitem(last=False)[1])
        return state


KNOWN: Final = MetadataCache()


def json_of(spark: SparkSession, metadata: Any) -> str:
    """An org.apache.iceberg.TableMetadata as JSON."""
    writer = java_class(spark, "java.io.StringWriter")()
    generator = java_class(spark, f"{_ICEBERG}.util.JsonUtil").factory().createGenerator(writer)
    java_class(spark, f"{_ICEBERG}.TableMetadataParser").toJson(metadata, generator)
    generator.flush()
    return text_of(writer.getBuffer())


def _version(metadata: Any) -> Hashable:
    """What no other version has; None of one that is stored nowhere yet. A file's name with a UUID, which most catalogs
    give it, is never written twice; of another one more is asked, though it should not be either."""
    place = metadata.metadataFileLocation()
    if place is None:
        return None
    if _UNIQUE.search(place):
        return str(place)
    return str(place), str(metadata.uuid()), int(metadata.lastUpdatedMillis()), int(metadata.lastSequenceNumber())


def _size(state: TableState) -> int:
    beside = len(json.dumps([state.fields, dict(state.properties)]))
    return 1 + len(state.ancestry) + beside // _COLUMNS
