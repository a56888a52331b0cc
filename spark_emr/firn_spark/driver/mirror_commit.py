"""One mirror table in the job's process: what is told of its changes one by one, and its commit."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from firn.changes.decode.row_decoder import Decoding
from firn.changes.decode.types import Column
from firn.changes.merge import decoded_rows
from firn.changes.merge.decide import Decided
from firn.changes.merge.fold import Key, Row
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
from firn_spark.driver.key_lookup import Found
from firn_spark.driver.write import write_cells
from firn_spark.merge import delta
from firn_spark.merge.deciding import Shape
from firn_spark.merge.mirror import Survey
from firn_spark.tables import deletes, fence
from firn_spark.tables.evolve import Table

_META = (*MIRROR_METADATA, HELD_METADATA, SOURCE_METADATA)


def survey(
    good: Sequence[Sequence[Any]], bad: Sequence[Sequence[Any]], decoding: Decoding, *, mirror: bool = True
) -> Survey:
    """What firn_spark.merge.mirror.survey tells of a DataFrame, of decoded rows."""
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
        newest_fact=max((row[decoded_rows.ORD] for row in good if is_fact(row)), default=b""),
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
    )


def is_fact(row: Sequence[Any]) -> bool:
    """Whether the table remembers this decoded row beside its own rows."""
    late = row[decoded_rows.OP] == "d" or (row[decoded_rows.OP] == "c" and bool(row[decoded_rows.UNAVAILABLE]))
    return late and row[decoded_rows.POS] is not None


def facts(good: Sequence[Sequence[Any]], decoding: Decoding) -> list[dict[str, Any]]:
    """What the table remembers of decoded rows, by name."""
    found: list[dict[str, Any]] = []
    for row in filter(is_fact, good):
        key = {decoding.columns[i].name: row[decoded_rows.WIDTH + i] for i in decoding.key}
        time = None if row[decoded_rows.TS] is None else row[decoded_rows.TS] * 1000
        order = plain(row[decoded_rows.ORD])
        fact = {OP: row[decoded_rows.OP], POSITION: order, TIME: time, SOURCE: row[decoded_rows.TABLE]}
        found.append(key | fact)
    return found


def cells(
    table: Table, decided: Decided, shape: Shape, found: Found, times: Mapping[bytes, int | None]
) -> dict[str, list[Any]]:
    """The rows to write by name, in the order of their keys. `times`: of the range's orders, in ms."""
    # Lists are not compared with None, nor is it with anything.
    written = sorted(decided.writes.items(), key=lambda row: [(value is None, value) for value in row[0]])
    data: dict[str, list[Any]] = {
        column.name: [row.values.get(column.name) for _, row in written] for column in shape.columns
    }
    data[POSITION] = [plain(row.order) for _, row in written]
    data[TIME] = [_time(key, row, found, times) for key, row in written]
    data[HELD] = [_held(shape, row) for _, row in written]
    unnamed = of_unnamed(table.state.sources)
    data[SOURCE] = [None if row.source == unnamed else row.source for _, row in written]
    return data


def gone(decided: Decided, found: Found) -> dict[str, list[int]]:
    """The places of the rows that go, by data file."""
    places: dict[str, list[int]] = {}
    for key in decided.removes:
        path, place = found.places[key]
        places.setdefault(path, []).append(place)
    return places


def land(
    spark: SparkSession,
    table: Table,
    columns: Sequence[Column],
    rows: tuple[Mapping[str, Any], Mapping[str, Sequence[Any]]],
    gone: Mapping[str, Sequence[int]],
    snapshot: int | None,
    properties: Mapping[str, str],
    stream: str,
    ready: Callable[[], object],
) -> None:
    """Writes rows (arrays, and lists, by name) and the deletes of those that go, and commits both in one snapshot, even
    if no row changes. `snapshot`: the one that was looked at; `ready`: called before the commit.

    Raises fence.LostRace, fence.CommitUnknown, StorageUnavailable, UnknownOutcome, and what `ready` raises."""
    files = write_cells(spark, table, [*columns, *_META], *rows)
    removed = deletes.write_from_driver(spark, table, gone) if gone else []
    ready()
    if not files and not removed:
        # Only stale changes: an append of nothing carries the progress.
        fence.commit(spark, table, table.java.newAppend(), (), properties, stream)
    else:
        delta.land(spark, table, snapshot, files, removed, gone, properties, stream)


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
    return stored_held(order, {ids[name]: held for name, held in row.held.items() if name in ids})
