"""An append table's commit out of many changes. A slice is a range of positions: what is there twice is in one."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import ceil
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from firn.changes.decode.row_decoder import Decoding
from firn.changes.decode.types import Column
from firn.changes.metadata_columns import APPEND_METADATA
from firn.changes.positions import WIDTH
from firn.commit.staged_changes import Change
from firn_spark.arrow import kept
from firn_spark.driver.engine import Letters, landed, unmoved
from firn_spark.files import row_lookup
from firn_spark.files.row_lookup import Files, Wanted
from firn_spark.files.write import Layout, data_files, layout_of, rows_of, write_rows
from firn_spark.merge import append_columns, append_commit
from firn_spark.merge.append_columns import AppendColumns
from firn_spark.merge.shared_decoding import ID, Shared
from firn_spark.not_eligible import results_of
from firn_spark.pipelines.feed_columns import FeedColumns
from firn_spark.slices import by_partition
from firn_spark.slices.decoding import Seen, Slicing, labels_of, sampled, seen_in
from firn_spark.slices.key_ranges import bounds_of
from firn_spark.slices.tasks import Rest, results
from firn_spark.table_commit import TableCommit

_AT = "_at"  # the position, or of what has none the identity: what slices are cut by
_AT_ONCE = 4  # slices that are planned


@dataclass(frozen=True)
class _Columns:
    """AppendColumns with _AT. `apart`: rows of one position may come into several slices."""

    own: AppendColumns | FeedColumns
    apart: bool = False

    def schema(self, decoding: Decoding) -> pa.Schema:
        """As column_decoder.Columns says."""
        return self.own.schema(decoding).append(pa.field(_AT, pa.binary()))

    def shared(self, decoding: Decoding) -> Shared | None:
        """As column_decoder.Columns says."""
        return self.own.shared(decoding)

    def split(self, parts: Iterable[pa.Table], decoding: Decoding) -> Iterator[tuple[pa.Table, pa.Table]]:
        """As column_decoder.Columns says."""
        for good, bad in self.own.split(parts, decoding):
            place, own = good["_pos"], good[ID].cast(pa.binary())
            place = pc.binary_join_element_wise(place, own, b"") if self.apart else place
            yield good.append_column(_AT, pc.coalesce(place, own)), bad


@dataclass(frozen=True)
class _Seen:
    """Of decoded changes: how many, the required columns that hold a null, whether all have a position, the least and
    the greatest, and how many rows they are, of how many bytes."""

    changes: int
    nulls: frozenset[int]
    placed: bool
    low: bytes | None
    high: bytes | None
    rows: int
    size: int


def _survey(own: AppendColumns | FeedColumns, rows: pa.Table, decoding: Decoding) -> _Seen:
    nulls, ends = append_columns.nulls(rows, decoding.columns), pc.min_max(rows["_pos"])
    changes = own.changes_in(rows)
    placed, low, high = not rows["_pos"].null_count, ends["min"].as_py(), ends["max"].as_py()
    return _Seen(changes, frozenset(nulls), placed, low, high, len(rows), rows.nbytes)


def _together(some: _Seen, others: _Seen) -> _Seen:
    lows = [one for one in (some.low, others.low) if one is not None]
    highs = [one for one in (some.high, others.high) if one is not None]
    return _Seen(
        some.changes + others.changes,
        some.nulls | others.nulls,
        some.placed and others.placed,
        min(lows, default=None),
        max(highs, default=None),
        some.rows + others.rows,
        some.size + others.size,
    )


@dataclass(frozen=True)
class _Work:
    """What all slices have in common. Goes to the executors. `slices`: by label the number of each, and the files that
    may have its changes; the rest as in work.Work."""

    own: AppendColumns | FeedColumns
    columns: Sequence[Column]
    ids: Mapping[str, int]
    layout: Layout
    slices: Mapping[int, tuple[int, Files]]
    worth: int


@dataclass(frozen=True)
class Read:
    """The changes of an append table by slices, kept until the commit lets go of them; what was told of them; and those
    that are not good, as they were staged, with the reasons."""

    rows: DataFrame
    by: Slicing[_Seen]
    seen: _Seen
    odd: Sequence[Change]
    bad: Letters


def read_of(one: TableCommit, mine: DataFrame, most_events: int, most_bytes: int) -> Read:
    """Reads the changes `mine` (packed.PACKED). A slice has about so many of them, and bytes. Raises as
    Engine.commit."""
    by = _slicing(one, mine, most_events, most_bytes)
    rows, told = _read(one, mine, by)
    if told.seen.rows > told.seen.changes and told.seen.size > 2 * most_bytes * len(by.labels):
        one.held.close()
        by = _slicing(one, mine, 0, most_bytes)
        rows, told = _read(one, mine, by)
    return Read(rows, by, told.seen, told.odd.to_pylist(), one.appending.why(told.odd, one.decoding))


def _read(one: TableCommit, mine: DataFrame, by: Slicing[_Seen]) -> tuple[DataFrame, Seen[_Seen]]:
    rows = one.held.enter_context(kept(by.sliced(mine)))
    with one.outcome.stage("read"), one.context.progress.counting(str(one.target.name)):
        return rows, seen_in(rows, by)


def append(one: TableCommit, read: Read, bury: Callable[[TableCommit, Sequence[Change], Letters], None]) -> None:
    """Commits changes to an append table. Raises as Engine.commit."""
    context, outcome, spark = one.context, one.outcome, one.context.spark
    told = read.seen
    with one.held:
        planned = _planned(one, read.by, told)
        bury(one, read.odd, read.bad)
        if one.is_empty(told.changes):
            return
        snapshot = one.table.state.snapshot_id if one.table else None
        table = one.ready(sorted(told.nulls))
        unmoved(one, table, snapshot)
        layout = layout_of(table)
        worth = by_partition.WORTH if layout.partition and len(planned) > 1 else 0
        work = _Work(one.appending, one.plan.columns, row_lookup.ids_of(table), layout, planned, worth)
        one.at("folding")
        with outcome.stage("merge"), one.context.progress.counting(str(one.target.name)):
            bodies, more = results(read.rows, len(planned), partial(_worked, work), layout if worth else None)
            found = [pickle.loads(body) for body in bodies]  # noqa: S301 (our own executors wrote it)
    outcome.way |= {"lookup": "slices", "slices": len(planned)}
    outcome.merged = sum(count for _, count in found)
    outcome.ignored = outcome.events - told.changes - len(read.bad)
    outcome.superseded = told.changes - outcome.merged
    one.at("committing")
    with outcome.stage("commit"):
        files = data_files(spark, table, [*(file for files, _ in found for file in files), *more])
        append_commit.land(spark, table, files, one.summary(), context.stream)
    landed(one, table)


def _slicing(one: TableCommit, mine: DataFrame, most_events: int, most_bytes: int) -> Slicing[_Seen]:
    """`most_events`: 0 where a slice is so large by what they give."""
    columns, events = _Columns(one.appending, apart=not most_events), one.target.events(one.outcome.progress)
    bounds = columns.schema(one.decoding).empty_table().select([_AT])
    if events > most_events:
        with one.outcome.stage("sample"):
            keys, size = sampled(mine, columns, one.decoding, [_AT], events)
            few = events / most_events if most_events else 1
            bounds = bounds_of(keys, ceil(max(few, events * size / most_bytes)))
    labels, survey = labels_of(mine, len(bounds) + 1), partial(_survey, columns.own)
    return Slicing(columns, one.decoding, survey, _together, bounds, labels)


def _planned(one: TableCommit, by: Slicing[_Seen], seen: _Seen) -> dict[int, tuple[int, Files]]:
    """The number of each slice and where its changes may be, by label. Raises Unfit, LostRace."""
    bounds = [place[:WIDTH] for place in by.bounds[_AT].to_pylist()]
    ends: list[tuple[Any, Any]] = [(None, None)] * len(by.labels)
    if seen.placed and seen.changes:
        ends = list(pairwise([seen.low, *bounds, seen.high]))

    def planned(ends: tuple[Any, Any]) -> Files:
        low, high = ends
        wanted = Wanted(append_commit.KEY, low=low, high=high, between=(None, None))
        if one.table is None:
            return Files(wanted)
        return row_lookup.plan(one.context.spark, one.table, wanted, None)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        each = [pool.submit(planned, one) for one in ends]
    return dict(zip(by.labels, enumerate(results_of(each)), strict=True))


def _worked(work: _Work, label: int, mine: pa.Table) -> tuple[bytes, Rest]:
    number, files = work.slices[label]
    new = append_columns.once(mine.take(pc.sort_indices(mine[_AT])))
    if files.files:
        some = append_commit.wanted(new, None, None)
        new = append_commit.not_in(new, replace(files, wanted=some), work.ids)
    if not len(new):
        return pickle.dumps(([], 0)), []
    rows = rows_of(
        work.layout, [*work.columns, *APPEND_METADATA], append_columns.cells(new, work.columns, work.own.own), {}
    )
    here, rest = by_partition.placed(work.layout, rows, number, work.worth) if work.worth else ([rows], [])
    return pickle.dumps(
        ([file for part in here for file in write_rows(work.layout, part)], work.own.changes_in(new))
    ), rest
