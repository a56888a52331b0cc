"""Changes of a range decoded by Spark's tasks, once, for all append tables that take them."""

from collections.abc import Hashable, Iterable, Iterator
from contextlib import ExitStack
from threading import Lock

import pyarrow as pa
from pyspark.sql import DataFrame

from firn_spark.arrow import Batches, kept, map_in_arrow
from firn_spark.merge.shared_decoding import Shared, beside
from firn_spark.slices.decoding import body_of
from firn_spark.staged.frames import packed_changes
from firn_spark.staged.packed import PACKED, unpacked

_BODIES = pa.schema([PACKED.field("changes")])


class SharedChanges:
    """Changes with what they are decoded to, kept until `held` lets go of them. Safe to use from several threads."""

    def __init__(self, held: ExitStack) -> None:
        self._held = held
        self._found: list[tuple[Hashable, Shared, DataFrame]] = []
        self._lock = Lock()

    def of(self, which: Hashable, mine: DataFrame, by: Shared) -> DataFrame:
        """The changes `mine` (packed.PACKED), which `which` names, with what they are decoded to beside them. A Spark
        job, the first time."""
        with self._lock:
            for name, how, there in self._found:
                if (name, how) == (which, by):
                    return there
            rows = self._held.enter_context(kept(map_in_arrow(packed_changes(mine), _decoding(by), _BODIES)))
            rows.count()  # now: tables that ask at once would each begin to make them
            self._found.append((which, by, rows))
            return rows


def _decoding(by: Shared) -> Batches:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for each in unpacked(batches):
            yield pa.RecordBatch.from_pydict({"changes": [body_of(beside(pa.Table.from_batches([each]), by))]}, _BODIES)

    return run
