"""A mirror that a pipeline makes, brought to where its base is: new rows, and the places of those that go."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from firn.changes.decode.types import Column
from firn.changes.metadata_columns import MIRROR_METADATA, POSITION, TIME
from firn.config.model import Write
from firn_spark.files.write import NewFile, layout_of, ordered, rows_of, write_rows
from firn_spark.merge.landing import land_instead, land_rows
from firn_spark.pipelines import base_delta, base_rows
from firn_spark.pipelines.base_delta import NoDelta
from firn_spark.tables.evolve import Table
from firn_sql.bound_sql import Bound, rows_for
from firn_sql.output_columns import dropped, fitted

_AT_ONCE: Final = 100_000  # rows that the SQL runs on, and that are written as files of their own
_AT_ONCE_BYTES: Final = 64 * 1024 * 1024


@dataclass
class Mirror:
    """What is brought where.

    base, columns, key  the base, its columns, those of its key
    sql                 the pipeline's, bound to them; `renamed`: the key's columns -> what the target calls them
    table, to           the target with all columns that it needs, and these
    write               as its rule says
    told                for the log: how many rows the SQL failed on, say
    """

    spark: SparkSession
    base: Table
    columns: Sequence[Column]
    key: Sequence[Column]
    sql: Bound
    renamed: Mapping[str, str]
    table: Table
    to: Sequence[Column]
    write: Write
    told: dict[str, str | int] = field(default_factory=dict)

    def land(self, since: int | None, properties: Mapping[str, str], stream: str) -> None:
        """One snapshot. `since`: the base's snapshot that the target is of; None: all of it is made again. Raises
        fence.LostRace, fence.CommitUnknown, ForeignFiles, StorageUnavailable, UnknownOutcome."""
        if since is not None and self.table.state.snapshot_id is not None:
            try:
                keys = base_delta.touched(self.spark, self.base, since, self.key)
            except NoDelta as why:
                self.told["whole"] = str(why)
            else:
                self._land_delta(keys, properties, stream)
                return
        self._land_whole(properties, stream)

    def _land_delta(self, keys: pa.Table, properties: Mapping[str, str], stream: str) -> None:
        spark, table = self.spark, self.table
        mine = base_rows.rows_of_keys(spark, self.base, self.columns, self.key, keys) if len(keys) else []
        rows = self._ready(self._through(_chunks(mine)))
        to = {one.name: one for one in self.to}
        own = [to[self.renamed[one.name]] for one in self.key]
        gone = base_rows.places_of(spark, table, own, keys)
        self.told |= {"keys": len(keys), "rows": len(rows)}
        land_rows(spark, table, rows, gone, self.write, properties, stream)

    def _land_whole(self, properties: Mapping[str, str], stream: str) -> None:
        layout = layout_of(self.table)
        new: list[NewFile] = []
        count = 0
        for rows in self._through(_chunks(base_rows.all_rows(self.spark, self.base, self.columns))):
            some = self._ready([rows])
            count += len(some)
            new += write_rows(layout, ordered(layout, some))
        self.told.setdefault("whole", "new")
        self.told["rows"] = count
        land_instead(self.spark, self.table, new, properties, stream)

    def _through(self, chunks: Iterable[pa.Table]) -> Iterator[dict[str, Any]]:
        """Rows of the base through the SQL: the target's columns by name, with the order and time of the base's row."""
        for rows in chunks:
            source = rows.select([one.name for one in self.columns])
            made = self.sql.transform.run(rows_for(self.sql, source))
            cells, unfit = fitted(made.rows, self.to)
            failed = {*made.failed, *(made.origin[place].as_py() for place in unfit)}
            if failed:
                self.told["failed_rows"] = int(self.told.get("failed_rows", 0)) + len(failed)
            beside = {name: rows[name].take(made.origin) for name in (POSITION, TIME)}
            arrays = {one.name: cell for one, cell in zip(self.to, cells, strict=True)} | beside
            kept = dropped(pa.table(list(arrays.values()), names=list(arrays)), list(unfit))
            yield {name: kept[name] for name in arrays}

    def _ready(self, some: Iterable[dict[str, Any]]) -> pa.Table:
        """The rows as files have them."""
        layout = layout_of(self.table)
        parts = [rows_of(layout, [*self.to, *MIRROR_METADATA], one, {}) for one in some]
        return pa.concat_tables([pa.schema(layout.fields).empty_table(), *parts])


def _chunks(rows: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Rows in parts that are worth a run of the SQL, and not too large."""
    held: list[pa.Table] = []
    for part in rows:
        for first in range(0, len(part), _AT_ONCE):
            held.append(part.slice(first, _AT_ONCE))
            if sum(map(len, held)) >= _AT_ONCE or sum(one.nbytes for one in held) >= _AT_ONCE_BYTES:
                yield pa.concat_tables(held)
                held = []
    if sum(map(len, held)):
        yield pa.concat_tables(held)
