"""What the staged log still holds of some keys of a mirror table: read in this process, or by Spark's tasks if it is
much."""

import pickle
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from firn.changes.decode.row_decoder import Decoding
from firn.changes.merge import decoded_rows
from firn.changes.merge.fold import Key
from firn.tables.batch_facts import TableFacts
from firn_spark.arrow import map_in_arrow
from firn_spark.driver.staged_changes import Staged
from firn_spark.merge.decision import decoded
from firn_spark.staged.batch_facts import facts_of
from firn_spark.staged.frames import packed_changes
from firn_spark.staged.packed import unpacked

Row = list[Any]  # changes.merge.decoded_rows
_FOUND = pa.schema({"rows": pa.binary()})


class StagedLog(Protocol):
    """The staged changes of a table's sources."""

    @property
    def facts(self) -> Mapping[str, TableFacts]:
        """What they say about their tables."""

    def rows(self, sources: Sequence[str], decoding: Decoding, keys: Collection[Key]) -> list[Row]:
        """Those of these keys, decoded, of some source tables; without those that are dead letters."""


class HeldLog:
    """A StagedLog that this process holds."""

    def __init__(self, staged: Staged) -> None:
        self._staged = staged

    @property
    def facts(self) -> Mapping[str, TableFacts]:
        """As StagedLog says."""
        return self._staged.facts

    def rows(self, sources: Sequence[str], decoding: Decoding, keys: Collection[Key]) -> list[Row]:
        """As StagedLog says."""
        return _of(keys, self._staged.of(sources).rows, decoding)


class SparkLog:
    """A StagedLog of which only what is asked for comes to this process. `raw`: packed.PACKED."""

    def __init__(self, raw: DataFrame) -> None:
        self._raw = raw

    @cached_property
    def facts(self) -> Mapping[str, TableFacts]:
        """As StagedLog says. A Spark job."""
        return facts_of(self._raw)

    def rows(self, sources: Sequence[str], decoding: Decoding, keys: Collection[Key]) -> list[Row]:
        """As StagedLog says. A Spark job."""
        wanted = frozenset(keys)

        def found(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for changes in unpacked(batches):
                if mine := _of(wanted, changes.to_pylist(), decoding):
                    yield pa.RecordBatch.from_pydict({"rows": [pickle.dumps(mine)]}, _FOUND)

        mine = packed_changes(self._raw.where(f.col("table").isin(*sources)))
        told = map_in_arrow(mine, found, _FOUND).collect()
        return [row for one in told for row in pickle.loads(one["rows"])]  # noqa: S301 (our own executors wrote it)


def _of(keys: Collection[Key], changes: Sequence[Mapping[str, Any]], decoding: Decoding) -> list[Row]:
    good, _ = decoded(changes, decoding, mirror=True)
    return [row for row in good if decoded_rows.key_of(row, decoding) in keys]
