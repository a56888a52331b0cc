"""Staged changes to slices, on the executors: plain ones decoded to columns and cut by key, the others as they are.

They travel packed, some thousand in a row: Spark moves and keeps rows one by one.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import ceil
from typing import Generic, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from firn.changes.decode.row_decoder import Decoding
from firn_spark.arrow import Batches, map_in_arrow
from firn_spark.merge.column_decoder import Columns
from firn_spark.slices.key_ranges import cut
from firn_spark.staged.frames import packed_changes
from firn_spark.staged.packed import CHANGES, bytes_of, rows_in, unpacked

PLAIN, ODD, SEEN = "plain", "odd", "seen"
# kind     PLAIN: decoded changes of a slice; ODD: others as they were staged; SEEN: a _Told
# slice    of PLAIN: its label
SLICED = pa.schema({"kind": pa.string(), "slice": pa.int32(), "body": pa.binary()})
_KEYS = pa.schema({"keys": pa.binary(), "bytes": pa.int64(), "changes": pa.int64()})
_AT_ONCE = 100_000  # changes that are cut together
_BYTES_AT_ONCE = 32 * 1024 * 1024
_SAMPLED = 30_000  # keys
_BYTES_OF_A_ROW = 4_000  # that is decided one by one, and of the one that the table has
_LOOKED_AT = 2_000_000  # changes, about, that are sampled from
S = TypeVar("S")


@dataclass(frozen=True)
class Seen(Generic[S]):
    """What is seen of decoded changes, of which there are none in `plain`, and the others as they were staged
    (packed.CHANGES)."""

    seen: S
    plain: pa.Table
    odd: pa.Table


@dataclass(frozen=True)
class _Told(Generic[S]):
    """What is told of decoded changes, and how many others there are."""

    plain: S
    others: int


def sampled(
    mine: DataFrame, columns: Columns, decoding: Decoding, names: Sequence[str], changes: int
) -> tuple[pa.Table, float]:
    """Keys of some of about so many changes, by which slices are cut, and how many bytes a change has, decoded.
    `names`: of the key's columns. Of what gives many rows for each change a part of them is told. A Spark job."""
    rows = packed_changes(mine)
    looked = min(changes, _LOOKED_AT)
    some = rows.sample(looked / changes, seed=1) if looked < changes else rows
    step = max(1, looked // _SAMPLED)
    names = list(names)

    def keys(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for each in unpacked(batches):
            few = pa.Table.from_batches([each.take(pa.arange(0, each.num_rows, step))])
            changes = len(few)
            for found, _ in columns.split([few], decoding):
                some = found.select(names).take(pa.arange(0, len(found), max(1, ceil(len(found) / len(few)))))
                told = {"keys": [body_of(some)], "bytes": [_held(found)], "changes": [changes]}
                yield pa.RecordBatch.from_pydict(told, _KEYS)
                changes = 0

    told = map_in_arrow(some, keys, _KEYS).collect()
    none = columns.schema(decoding).empty_table().select(names)
    every = pa.concat_tables([none, *(table_of(row["keys"]) for row in told)])
    return every, sum(row["bytes"] for row in told) / max(1, sum(row["changes"] for row in told))


def _held(found: pa.Table) -> int:
    """Bytes that decoded changes take in a task, about."""
    rows = len(found) - found["_unavail"].null_count if "_unavail" in found.column_names else 0
    return int(found.nbytes) + _BYTES_OF_A_ROW * rows


@dataclass(frozen=True)
class Slicing(Generic[S]):
    """How changes become slices. Goes to the executors.

    columns  how they are decoded, by `decoding`
    survey   what is told of decoded ones; `join`: of several parts
    bounds   where the slices begin (key_ranges.bounds_of); `labels`: of the slices
    """

    columns: Columns
    decoding: Decoding
    survey: Callable[[pa.Table, Decoding], S]
    join: Callable[[S, S], S]
    bounds: pa.Table
    labels: Sequence[int]

    def sliced(self, mine: DataFrame) -> DataFrame:
        """The changes (packed.PACKED) by slices: SLICED."""
        return map_in_arrow(packed_changes(mine), _slicing(self), SLICED)


def seen_in(rows: DataFrame, by: Slicing[S]) -> Seen[S]:
    """What was seen (SLICED, kept by the caller)."""
    nothing = by.columns.schema(by.decoding).empty_table()
    told: list[_Told[S]] = [pickle.loads(body) for body in _bodies(rows, SEEN)]  # noqa: S301 (our own executors wrote it)
    surveys = [by.survey(nothing, by.decoding), *(one.plain for one in told)]
    odd = [table_of(body) for body in _bodies(rows, ODD)] if any(one.others for one in told) else []
    return Seen(reduce(by.join, surveys), nothing, pa.concat_tables([CHANGES.empty_table(), *odd]))


def plain_in(rows: DataFrame, seen: Seen[S]) -> pa.Table:
    """The decoded changes themselves (SLICED, of which `seen` was seen), in this process."""
    return pa.concat_tables([seen.plain, *map(table_of, _bodies(rows, PLAIN))])


def _bodies(rows: DataFrame, kind: str) -> list[bytes]:
    return [row["body"] for row in rows.where(f.col("kind") == kind).select("body").collect()]


def body_of(rows: pa.Table) -> bytes:
    """Rows packed."""
    whole = rows.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]
    return bytes_of(whole[0])


def table_of(body: bytes | pa.Buffer) -> pa.Table:
    """Rows unpacked."""
    return pa.Table.from_batches([rows_in(body)])


def _slicing(by: Slicing[S]) -> Batches:
    schema = by.columns.schema(by.decoding)

    def packed(plain: Sequence[pa.Table], others: int) -> pa.RecordBatch:
        rows = pa.concat_tables([schema.empty_table(), *plain])
        kinds, slices, bodies = [SEEN], [0], [pickle.dumps(_Told(by.survey(rows, by.decoding), others))]
        for number, part in cut(rows, by.bounds):
            kinds, slices, bodies = [*kinds, PLAIN], [*slices, by.labels[number]], [*bodies, body_of(part)]
        return pa.RecordBatch.from_pydict({"kind": kinds, "slice": slices, "body": bodies}, SLICED)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.Table] = []
        others = 0
        parts = (pa.Table.from_batches([each]) for each in unpacked(batches))
        for plain, odd in by.columns.split(parts, by.decoding):
            if len(odd):
                yield pa.RecordBatch.from_pydict({"kind": [ODD], "slice": [0], "body": [body_of(odd)]}, SLICED)
            held.append(plain)
            others += len(odd)
            if sum(map(len, held)) >= _AT_ONCE or sum(one.nbytes for one in held) >= _BYTES_AT_ONCE:
                yield packed(held, others)
                held, others = [], 0
        if held:
            yield packed(held, others)

    return run


def labels_of(rows: DataFrame, slices: int) -> list[int]:
    """A number for each slice, such that Spark's hash sends each of them to a partition of its own."""
    if slices == 1:
        return [0]
    numbers = rows.sparkSession.range(0, 20 * slices + 64, 1, 1)
    placed = numbers.select("id", f.expr(f"pmod(hash(cast(id as int)), {slices})").alias("place"))
    found = {row["place"]: row["id"] for row in placed.collect()}
    return [int(found[place]) for place in range(slices)]
