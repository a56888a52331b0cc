"""Sealed staged batches as one DataFrame of raw changes, with what they say about their tables.

Executors fetch the objects themselves with obstore, so that file://, s3:// and gs:// need no Hadoop file system.
"""

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from firn.changes.infer import columns_from
from firn.changes.positions import field_position, order_key, position
from firn.errors import EventError
from firn.staging.store import get, open_store
from firn_spark.arrow import map_in_arrow
from firn_spark.facts import columns_to_json

# Staged columns as they are, in the batch's order (docs/architecture.md, "The staged batch").
_STAGED = {
    "index": pa.int32(), "table": pa.string(), "op": pa.string(), "ts": pa.int64(), "connector": pa.string(),
    "order": pa.string(), "tx_order": pa.int64(), "flat": pa.bool_(), "key": pa.string(), "before": pa.string(),
    "after": pa.string(), "schema_id": pa.string(), "schema": pa.string(),
}  # fmt: skip
# pos, ord: see changes/positions.py. occurrence: how many equal changes came before it in the same request.
# fault, fault_text: why the change can't be placed. fact, value: a row that is no change but says something about the
# table: fact "columns" (value: inferred columns), "schema" (the inline schema), "key" (names of the record's key).
RAW = pa.schema(
    {"epoch": pa.int64(), "batch": pa.string()}
    | {name: kind for name, kind in _STAGED.items() if name != "schema"}
    | {"pos": pa.binary(), "ord": pa.binary(), "occurrence": pa.int32()}
    | dict.fromkeys(("fault", "fault_text", "fact", "value"), pa.string())
)
_ROWS_PER_BATCH = 20_000
_FETCHES_AT_ONCE = 8
_BYTES_PER_TASK = 32 * 1024 * 1024


@dataclass(frozen=True)
class SealedBatch:
    """One staged batch of an epoch. `place` numbers the batches of the range in the order they were sealed."""

    epoch: int
    place: int
    batch: str
    path: str
    bytes: int


@dataclass(frozen=True)
class Order:
    """What a stream's configuration says about order: its generation, and the field that orders a source without
    positions (None: arrival order)."""

    generation: int = 0
    field: str | None = None


def raw_changes(spark: SparkSession, staging: str, batches: Sequence[SealedBatch], order: Order) -> DataFrame:
    """All rows of the batches, columns RAW. Fails if an object is missing or broken: acknowledged data is never
    skipped."""
    cores = spark.sparkContext.defaultParallelism
    size = sum(batch.bytes for batch in batches)
    tasks = max(1, min(len(batches), max(cores, size // _BYTES_PER_TASK)))
    sealed = tuple(batches)

    def read(places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = open_store(staging)
        mine = [sealed[place] for batch in places for place in batch.column(0).to_pylist()]

        def fetch(batch: SealedBatch) -> bytes:
            body = get(store, batch.path)
            if body is None:
                raise FileNotFoundError(
                    f"{batch.path} of epoch {batch.epoch} is missing from {staging}: restore it (bucket versioning), "
                    "never skip it: its sender was told 202"
                )
            return body

        with ThreadPoolExecutor(_FETCHES_AT_ONCE) as pool:
            for first in range(0, len(mine), _FETCHES_AT_ONCE):
                some = mine[first : first + _FETCHES_AT_ONCE]
                for batch, body in zip(some, pool.map(fetch, some), strict=True):
                    yield from rows_of(batch, body, order)

    return map_in_arrow(spark.range(0, len(sealed), 1, int(tasks)), read, RAW)


def rows_of(batch: SealedBatch, body: bytes, order: Order) -> Iterator[pa.RecordBatch]:
    """The rows of one staged object, then its facts, as record batches of RAW."""
    table = _staged(body)
    rows = table.num_rows
    columns = {name: table.column(name) for name in _STAGED}
    placed = _place(batch, {name: columns[name].to_pylist() for name in (*_PLACED_BY, "op", "index")}, order)
    columns |= {name: pa.array(values, RAW.field(name).type) for name, values in placed.items()}
    columns["epoch"] = pa.array([batch.epoch] * rows, pa.int64())
    columns["batch"] = pa.array([batch.batch] * rows, pa.string())
    for name in ("fact", "value"):
        columns[name] = pa.nulls(rows, pa.string())
    changes = pa.table([columns[name] for name in RAW.names], schema=RAW)
    yield from changes.to_batches(max_chunksize=_ROWS_PER_BATCH)
    facts = list(_facts(table))
    if facts:
        empty = dict.fromkeys(RAW.names) | {"epoch": batch.epoch, "batch": batch.batch}
        yield pa.RecordBatch.from_pylist([empty | fact for fact in facts], RAW)


def _staged(body: bytes) -> pa.Table:
    """All columns of one staged object; what says nothing is not in the file (docs/architecture.md)."""
    table = pq.read_table(io.BytesIO(body))
    rows = table.num_rows
    columns = []
    for name, kind in _STAGED.items():
        if name in table.column_names:
            column = table.column(name).cast(kind)
        elif name == "index":
            column = pa.array(range(rows), kind)
        elif name == "flat":
            column = pa.repeat(pa.scalar(False, kind), rows)
        else:
            column = pa.nulls(rows, kind)
        columns.append(column)
    return pa.table(columns, names=list(_STAGED))


_PLACED_BY = ("table", "connector", "order", "before", "after", "key")


def _place(batch: SealedBatch, columns: dict[str, list[Any]], by: Order) -> dict[str, list[Any]]:
    """Position, total order and occurrence of each change."""
    placed: dict[str, list[Any]] = {"pos": [], "ord": [], "occurrence": [], "fault": [], "fault_text": []}
    seen: dict[tuple[str, bytes], int] = {}
    names = ("op", "index", *_PLACED_BY)
    for op, index, table, connector, order, before, after, key in zip(*(columns[name] for name in names), strict=True):
        content = f"{before}\0{after}\0{key if before is None and after is None else ''}".encode()
        where: bytes | None = None
        fault = text = None
        try:
            where = position(connector or "", op, order, by.generation)
            image = after if after is not None else before
            if where is None and by.field is not None and image is not None:
                where = field_position(image.encode(), by.field, op, by.generation)
        except EventError as error:
            fault, text = error.code, str(error)
        if where is None:
            # No position: arrival order, as the epochs list the batches; older than anything that has a position.
            total = b"\0" + batch.place.to_bytes(8, "big") + index.to_bytes(4, "big") + b"\1"
        else:
            total = b"\1" + order_key(where, op, content)
        # Truncates of two tables are alike in all but the table.
        occurrence = seen.get((table, total), 0)
        seen[table, total] = occurrence + 1
        for name, value in zip(placed, (where, total, occurrence, fault, text), strict=True):
            placed[name].append(value)
    return placed


def _facts(table: pa.Table) -> Iterator[dict[str, Any]]:
    """What this object says about its tables: inline schemas, columns where there is none, the names of the keys."""
    names = ("table", "flat", "schema_id", "schema", "key", "before", "after", "op")
    rows = list(zip(*(table.column(name).to_pylist() for name in names), strict=True))
    # The text stands on the first row that uses the schema, and two tables may share one.
    schemas = {row[2]: row[3] for row in rows if row[3] is not None}
    by_table = sorted((row for row in rows if row[7] != "t"), key=lambda row: row[0])
    for name, of_table in groupby(by_table, key=lambda row: row[0]):
        changes = list(of_table)
        used = dict.fromkeys((bool(row[1]), row[2]) for row in changes)
        for flat, schema_id in used:
            fact = {"table": name, "flat": flat, "schema_id": schema_id}
            if schema_id is not None:
                yield fact | {"fact": "schema", "value": schemas[schema_id]}
                continue
            bare = [row for row in changes if row[2] is None and bool(row[1]) is flat]
            images = [image.encode() for row in bare for image in row[5:7] if image is not None]
            yield fact | {"fact": "columns", "value": columns_to_json(columns_from(images, flat=flat))}
        for key in {_key_names(row[4]) for row in changes}:
            yield {"table": name, "fact": "key", "value": json.dumps(key) if key else None}


def _key_names(key: str | None) -> tuple[str, ...] | None:
    if key is None:
        return None
    try:
        names = json.loads(key)
    except ValueError:
        return None
    return tuple(names) if isinstance(names, dict) else None
