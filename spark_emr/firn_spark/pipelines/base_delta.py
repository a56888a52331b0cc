"""Which keys of a mirror's base may have other rows than in an earlier snapshot of it: told by the files between them.

Of each snapshot the rows of new data files, of those that went, and those that new position deletes name. What only
rewrites files (compaction) changes no row. So the cost follows what was written, not the size of the base.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from firn.changes.decode.types import Column
from firn.changes.metadata_columns import METADATA
from firn_spark.files import readable_files, row_lookup, values
from firn_spark.files.row_group import RowGroup
from firn_spark.tables import deletes
from firn_spark.tables.evolve import Table
from firn_spark.tables.fence import LostRace
from firn_spark.tables.java import elements, java_class
from firn_spark.tables.objects import Objects

MOST_ROWS: Final = 2_000_000  # of more all rows are made again
_MOST_SNAPSHOTS: Final = 2_000
_ONLY_FILES: Final = "replace"  # the operation of a snapshot that changes no row


class NoDelta(Exception):
    """The base can't tell what changed, or so much that all of it is made again at no more cost."""


def touched(spark: SparkSession, base: Table, since: int, key: Sequence[Column]) -> pa.Table:
    """The keys whose rows may differ between the snapshot `since` and the newest: k0, k1, … (values.key_type), each key
    once. Raises NoDelta."""
    between = snapshots_between(base, since, base.java.currentSnapshot())
    check_columns(spark, base, since)
    try:
        found = [part for snapshot in between for part in _touched(spark, base, snapshot, key)]
    except (LostRace, pa.ArrowException) as error:  # a file is gone, or none that is read here
        raise NoDelta(str(error)) from error
    names = [f"k{i}" for i in range(len(key))]
    schema = pa.schema([(name, values.key_type(one.type)) for name, one in zip(names, key, strict=True)])
    rows = pa.concat_tables([schema.empty_table(), *found])
    if any(rows[name].null_count for name in names):
        raise NoDelta("a null in the key")
    return rows.group_by(names, use_threads=False).aggregate([])


def snapshots_between(base: Table, since: int, until: Any) -> list[Any]:
    """The snapshots (org.apache.iceberg.Snapshot) after `since` up to `until`, newest first, without those that only
    rewrite files. Raises NoDelta."""
    found, at = [], until
    while at is not None and int(at.snapshotId()) != since:
        found.append(at)
        parent = at.parentId()
        at = None if parent is None or len(found) > _MOST_SNAPSHOTS else base.java.snapshot(parent)
    if at is None:
        raise NoDelta("the base was rolled back or made again, or its snapshots have expired")
    new = [one for one in found if str(one.operation()) != _ONLY_FILES]
    if sum(_rows(one.summary()) for one in new) > MOST_ROWS:
        raise NoDelta(f"more than {MOST_ROWS} rows changed")
    return new


def _rows(summary: Any) -> int:
    """How many rows a snapshot with this summary (a java.util.Map) added or took out. Those of vectors that it removed
    are held by its new ones again, or left with their data files."""
    added, gone, lifted = (
        int(summary.get(name) or 0) for name in ("added-records", "added-position-deletes", "removed-position-deletes")
    )
    return added + max(0, gone - lifted)


def check_columns(spark: SparkSession, base: Table, since: int) -> None:
    """What the SQL made of a row still holds where columns only came. Raises NoDelta where one has another name or type
    since, or went, or came with a default for the rows that were there."""
    parser = java_class(spark, "org.apache.iceberg.SchemaParser")
    number = base.java.snapshot(since).schemaId()
    schema = None if number is None else base.java.schemas().get(number)
    if schema is None:
        raise NoDelta("the columns of then are not known")
    then = json.loads(parser.toJson(schema))["fields"]
    now = {int(one["id"]): (one["name"], one["type"]) for one in base.state.fields}
    for one in then:
        if one["name"] not in METADATA and now.get(int(one["id"])) != (one["name"], one["type"]):
            raise NoDelta(f"the column {one['name']} of the base has another type or name")
    known = {int(one["id"]) for one in then}
    for one in base.state.fields:
        if int(one["id"]) not in known and one.get("initial-default") is not None:
            raise NoDelta(f"the column {one['name']} of the base came with a default")


def _touched(spark: SparkSession, base: Table, snapshot: Any, key: Sequence[Column]) -> Iterator[pa.Table]:
    io, descriptions = base.java.io(), deletes.Descriptions(spark, base)
    files = [*elements(snapshot.addedDataFiles(io)), *elements(snapshot.removedDataFiles(io))]
    added, replaced = (
        [descriptions.of(one) for one in elements(some)]
        for some in (snapshot.addedDeleteFiles(io), snapshot.removedDeleteFiles(io))
    )
    if not all(map(readable_files.is_parquet, files)) or None in (*added, *replaced):
        raise NoDelta("files that are not Parquet, or deletes that are not by position")
    ids, usual = row_lookup.ids_of(base), row_lookup.defaults_in(base)
    objects = Objects(base.state.location)
    for file in files:
        yield _keys(objects, str(file.location()), key, (ids, usual), None)
    known, gone = (
        deletes.together(deletes.read(objects, one) for one in some if one is not None) for some in (replaced, added)
    )
    for path, places in gone.items():
        # A vector holds what the one before it held: those rows went earlier.
        new = places.filter(pc.invert(pc.is_in(places, value_set=known[path]))) if path in known else places
        if len(new):
            yield _keys(objects, path, key, (ids, usual), new)


def _keys(objects: Objects, path: str, key: Sequence[Column], of: Any, places: pa.Array | None) -> pa.Table:
    """The keys of some rows of a file, or of all. `of`: row_lookup.ids_of and defaults_in."""
    parts, (ids, usual) = [], of
    with objects.open(path) as file:
        there = row_lookup.by_id(file)
        names = {one.name: there.get(ids.get(one.name, -1)) for one in key}
        first = 0
        for number in range(file.num_row_groups):
            group = RowGroup(file, number, names, usual)
            chosen = None
            if places is not None:
                inside = pc.and_(pc.greater_equal(places, first), pc.less(places, first + group.rows))
                chosen = pc.subtract(places.filter(inside), first)
            first += group.rows
            if chosen is None or len(chosen):
                parts.append(key_columns_of(group, key, chosen))
    none = pa.schema([(f"k{i}", values.key_type(one.type)) for i, one in enumerate(key)]).empty_table()
    return pa.concat_tables([none, *parts])


def key_columns_of(group: RowGroup, key: Sequence[Column], places: pa.Array | None) -> pa.Table:
    """The key's columns of some rows of a row group, or of all, as k0, k1, … (values.key_type)."""
    found = []
    for one in key:
        data = group.column(one.name)
        rows = group.rows if places is None else len(places)
        if data is None:
            found.append(pa.chunked_array([pa.nulls(rows, values.key_type(one.type))]))
        else:
            found.append(values.found(data if places is None else data.take(places), one.type))
    return pa.table(found, names=[f"k{i}" for i in range(len(key))])
