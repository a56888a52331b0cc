"""One mirror table in the job's process: what is told of its changes one by one, and its commit."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from firn.changes.decode.row_decoder import Decoding
from firn.changes.merge import decoded_rows
from firn.changes.merge.decide import Decided, is_fact
from firn.changes.merge.fold import Key, Row
from firn.changes.merge.key_rows import since
from firn.changes.merge.ordering import plain, stored_held
from firn.changes.metadata_columns import (
    HELD,
    HELD_METADATA,
    MIRROR_METADATA,
    OP,
    POSITION,
    SOURCE,
    SOURCE_METADATA,
    TIME,
)
from firn.tables.table_state import of_unnamed
from firn_spark.files.write import NewFile, data_files
from firn_spark.merge.key_lookup import Found
from firn_spark.merge.shape import Shape
from firn_spark.merge.survey import Survey
from firn_spark.tables import deletes, fence, row_delta
from firn_spark.tables.evolve import Table
from firn_spark.tables.removals import NOTHING, Removal, removal_of

METADATA = (*MIRROR_METADATA, HELD_METADATA, SOURCE_METADATA)


def survey(
    good: Sequence[Sequence[Any]], bad: Sequence[Sequence[Any]], decoding: Decoding, *, mirror: bool = True
) -> Survey:
    """What columnar_merge.survey tells of columns, of decoded rows."""
    gaps = [row for row in good if row[decoded_rows.UNAVAILABLE]] if mirror else []
    required = [i for i, column in enumerate(decoding.columns) if column.required]
    written = [row for row in good if row[decoded_rows.OP] != "d"] if required else []
    return Survey(
        changes=len(good) + len(bad),
        rejected=len(bad),
        truncates=sum(row[decoded_rows.OP] == "t" for row in bad),
        unavailable=tuple(
            sorted({i for row in gaps if row[decoded_rows.OP] == "u" for i in row[decoded_rows.UNAVAILABLE]})
        ),
        creates_unavailable=any(row[decoded_rows.OP] == "c" for row in gaps),
        nulls=tuple(i for i in required if any(row[decoded_rows.WIDTH + i] is None for row in written)),
        newest_fact=max((row[decoded_rows.ORD] for row in good if mirror and _is_fact(row, decoding)), default=b""),
        low=min((row[decoded_rows.ORD] for row in good), default=b""),
    )


def together(some: Survey, others: Survey) -> Survey:
    """What is told of both."""
    return Survey(
        changes=some.changes + others.changes,
        rejected=some.rejected + others.rejected,
        truncates=some.truncates + others.truncates,
        unavailable=tuple(sorted({*some.unavailable, *others.unavailable})),
        creates_unavailable=some.creates_unavailable or others.creates_unavailable,
        nulls=tuple(sorted({*some.nulls, *others.nulls})),
        newest_fact=max(some.newest_fact, others.newest_fact),
        low=min((low for low in (some.low, others.low) if low), default=b""),
        least=min((one for one in (some.least, others.least) if one is not None), default=None),
        greatest=max((one for one in (some.greatest, others.greatest) if one is not None), default=None),
    )


def facts(good: Sequence[Sequence[Any]], decoding: Decoding) -> list[dict[str, Any]]:
    """What the table remembers of decoded rows, by name."""
    found: list[dict[str, Any]] = []
    for row in good:
        if not _is_fact(row, decoding):
            continue
        key = {decoding.columns[i].name: row[decoded_rows.WIDTH + i] for i in decoding.key}
        time = None if row[decoded_rows.TS] is None else row[decoded_rows.TS] * 1000
        order = plain(row[decoded_rows.ORD])
        fact = {OP: row[decoded_rows.OP], POSITION: order, TIME: time, SOURCE: row[decoded_rows.TABLE]}
        found.append(key | fact)
    return found


def cells(
    sources: Sequence[str | None], decided: Decided, shape: Shape, found: Found, times: Mapping[bytes, int | None]
) -> dict[str, list[Any]]:
    """The rows to write by name, in the order of their keys. `sources`: the table's (table_state); `times`: of the
    range's orders, in ms."""
    written = in_order(decided)
    data: dict[str, list[Any]] = {
        column.name: [row.values.get(column.name) for _, row in written] for column in shape.columns
    }
    data[POSITION] = [plain(row.order) for _, row in written]
    data[TIME] = [_time(key, row, found, times) for key, row in written]
    data[HELD] = [_held(shape, row) for _, row in written]
    unnamed = of_unnamed(sources)
    data[SOURCE] = [None if row.source == unnamed else row.source for _, row in written]
    return data


def in_order(decided: Decided) -> list[tuple[Key, Row]]:
    """The rows to write, by key."""
    return sorted(decided.writes.items(), key=lambda row: _rank(row[0]))


def gone(decided: Decided, found: Found) -> deletes.Places:
    """The places of the rows that go, by data file: of a key that is decided all."""
    keys, truncates = set(decided.removes), found.before.truncates
    places = [found.places[key] for key in decided.removes]
    places += [
        one.place
        for one in found.spare
        if one.key in keys or (truncates.new and since(one.row, truncates.gone(one.row, ())) is None)
    ]
    paths, rows = zip(*places, strict=True) if places else ((), ())
    return deletes.by_file(
        pa.chunked_array([pa.array(paths, pa.string())]), pa.chunked_array([pa.array(rows, pa.int64())])
    )


@dataclass(frozen=True)
class Written:
    """Files that are in no snapshot yet: of new rows, and of the places of those that go (`gone`, by data file); or, of
    a table that is written copy-on-write, of new rows and of all that stays of the files `old`."""

    files: Sequence[Any]
    removed: Removal
    gone: deletes.Places
    old: Sequence[Any] = ()

    @property
    def way(self) -> dict[str, Any]:
        """How rows go, for the log, if not by position deletes."""
        return {"deletes": "rewrite", "rewritten": len(self.old)} if self.old else {}


def joined(spark: SparkSession, table: Table, files: Callable[[], Sequence[NewFile]], gone: deletes.Places) -> Written:
    """New files, which `files` writes, with files of deletes for these rows, which are written meanwhile. Raises
    fence.LostRace, StorageUnavailable, UnknownOutcome."""
    with ThreadPoolExecutor(1) as pool:
        removed = pool.submit(removal_of, spark, table, gone) if gone else None
        added = data_files(spark, table, files())
        return Written(added, removed.result() if removed else NOTHING, gone)


def land(
    spark: SparkSession,
    table: Table,
    written: Written,
    snapshot: int | None,
    properties: Mapping[str, str],
    stream: str,
) -> None:
    """Commits what was written in one snapshot, even if no row changes. `snapshot`: the one that was looked at. Raises
    fence.LostRace, fence.CommitUnknown."""
    if written.old and snapshot is not None:
        row_delta.replace(spark, table, snapshot, written.old, written.removed, written.files, properties, stream)
    elif not written.files and not written.removed.added:
        # Only stale changes: an append of nothing carries the progress.
        fence.commit(spark, table, table.java.newAppend(), (), properties, stream)
    else:
        row_delta.land(spark, table, snapshot, written.files, written.removed, written.gone, properties, stream)


def _is_fact(row: Sequence[Any], decoding: Decoding) -> bool:
    return is_fact(decoded_rows.row_change(row, decoding))


def _rank(value: Any) -> Any:
    """By which keys, and lists in them, are sorted: nothing is compared with None."""
    return (value is None, tuple(map(_rank, value)) if isinstance(value, tuple) else value)


def _time(key: Key, row: Row, found: Found, times: Mapping[bytes, int | None]) -> int | None:
    there = found.before.rows.get(key)
    if there is not None and there.order == row.order and key not in found.before.linked:
        return found.times.get(key)
    known = times.get(row.order, found.late_times.get(row.order))
    return None if known is None else known * 1000


def _held(shape: Shape, row: Row) -> list[tuple[int, bytes]] | None:
    order = plain(row.order)
    if order is None:
        return None
    ids = {shape.columns[i].name: number for i, number in shape.held_ids.items()}
    return stored_held(order, row.held, ids)
