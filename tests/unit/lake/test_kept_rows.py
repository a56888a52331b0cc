"""Which row is which in tables of format 3, through what firn_lake writes."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import ManifestContent

from firn_lake.lake import Lake
from firn_lake.lake_table import LakeTable
from firn_lake.writing.commit import CannotWrite, land_files
from firn_lake.writing.data_files import write_files
from firn_lake.writing.lineage_snapshot import entries_of, first_row_id, manifests_of
from tests.soak import seeds

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def rows(*ids: int, v: str = "v") -> pa.Table:
    return pa.table({"id": list(ids), "v": [f"{v}{n}" for n in ids]}, SCHEMA)


@pytest.fixture
def table(catalog: Catalog) -> LakeTable:
    catalog.create_namespace("own")
    catalog.create_table("own.t", SCHEMA, properties={"format-version": "3"})
    return Lake(catalog).table("own.t")


def lineage(table: LakeTable) -> dict[int, tuple[int, int]]:
    """Row id and sequence number of the row's last change by key, as the specification has it, read straight."""
    iceberg = table.iceberg
    snapshot = iceberg.current_snapshot()
    assert snapshot is not None
    found: dict[int, tuple[int, int]] = {}
    for manifest in manifests_of(iceberg.io, snapshot):
        assert manifest.content == ManifestContent.DATA
        assert manifest[15] is not None
        for entry in entries_of(iceberg.io, manifest):
            first = first_row_id(entry.data_file)
            assert first is not None
            assert entry.sequence_number is not None
            content = pq.read_table(entry.data_file.file_path.removeprefix("file://")).to_pylist()
            for place, row in enumerate(content):
                number = row.get("_row_id")
                last = row.get("_last_updated_sequence_number")
                assert row["id"] not in found
                found[row["id"]] = (
                    first + place if number is None else number,
                    entry.sequence_number if last is None else last,
                )
    ids = [number for number, _ in found.values()]
    assert len(set(ids)) == len(ids)
    assert max(ids, default=-1) < int(getattr(iceberg.metadata, "next_row_id", 0))
    return found


def test_rows_have_ids_from_the_first_one_on(table: LakeTable) -> None:
    table.append(rows(10, 11, 12))
    table.append(rows(13))
    assert lineage(table) == {10: (0, 1), 11: (1, 1), 12: (2, 1), 13: (3, 2)}


def test_rows_beside_those_that_are_replaced_stay_the_rows_they_were(table: LakeTable) -> None:
    table.append(rows(1, 2, 3))
    table.append(rows(4, 5))
    table.overwrite(rows(9), filter="id = 2")
    assert lineage(table) == {1: (0, 1), 3: (2, 1), 4: (3, 2), 5: (4, 2), 9: (5, 3)}
    done = table.upsert(rows(3, 8, v="w"), key=["id"])
    assert (done.updated, done.inserted) == (1, 1)
    now = lineage(table)
    assert {n: now[n] for n in (1, 4, 5, 9)} == {1: (0, 1), 4: (3, 2), 5: (4, 2), 9: (5, 3)}
    assert {now[n][1] for n in (3, 8)} == {4}
    assert dict(table.read().pylist()[0]).keys() == {"id", "v"}


@pytest.mark.parametrize("form", ["2", "3"])
def test_manifests_that_are_not_compressed_are_written_so(catalog: Catalog, table: LakeTable, form: str) -> None:
    plain = {"format-version": form, "write.avro.compression-codec": "uncompressed"}
    catalog.create_table("own.plain", SCHEMA, properties=plain)
    found = Lake(catalog).table("own.plain")
    found.append(rows(1, 2))
    found.overwrite(rows(), filter="id = 1")
    assert [one["id"] for one in found.read().pylist()] == [2]
    snapshot = found.iceberg.current_snapshot()
    assert snapshot is not None
    for one in manifests_of(found.iceberg.io, snapshot):
        assert b"avro.codec\x08null" in Path(one.manifest_path.removeprefix("file://")).read_bytes()


def test_snapshots_and_the_table_count_ids_on(table: LakeTable) -> None:
    table.append(rows(1, 2))
    table.append(rows(3))
    table.overwrite(rows(), filter="id = 1")
    told: list[Any] = [(one.first_row_id, one.added_rows) for one in table.iceberg.metadata.snapshots]
    ends = [first + added for first, added in told]
    assert [first for first, _ in told] == [0, *ends[:-1]]
    assert getattr(table.iceberg.metadata, "next_row_id", None) == ends[-1]


def test_a_partition_that_comes_back_has_the_id_that_it_had(table: LakeTable) -> None:
    table.append(rows(1, 2))
    for by in (["bucket(2, id)"], [], ["bucket(2, id)", "truncate(1, v)"]):
        table.partition(by)
        table.append(rows(*range(10 * (len(by) + 1), 10 * (len(by) + 1) + 4)))
    specs = [[field.field_id for field in spec.fields] for spec in table.iceberg.metadata.partition_specs]
    assert specs == [[], [1000], [1000, 1001]]
    table.upsert(rows(1, 20, 31, v="w"), key=["id"])
    now = lineage(table)
    assert (now[2], len(now)) == ((1, 1), 14)


@pytest.mark.parametrize("by", [[], ["day(at)"], ["hour(at)", "bucket(3, at)"]])
def test_nanoseconds_are_written_and_found(catalog: Catalog, table: LakeTable, by: list[str]) -> None:
    catalog.create_table("own.n", pa.schema([("id", pa.int64())]), properties={"format-version": "3"})
    named = Lake(catalog).table("own.n")
    named.evolve(add={"at": "timestamp_ns"})
    named.partition(by)
    first = 1_700_000_000_123_456_789  # not a whole number of microseconds: Python's own have no nanoseconds

    def given(*ids: int) -> pa.Table:
        return pa.table({"id": list(ids), "at": pa.array([first + n * 10**14 for n in ids], pa.timestamp("ns"))})

    named.append(given(1, 2, 3))
    named.overwrite(given(), filter="id = 2")
    named.upsert(given(3, 9), key=["id"])
    there = [pq.read_table(task.file.file_path.removeprefix("file://")) for task in named.iceberg.scan().plan_files()]
    columns = [(one["id"].to_pylist(), one["at"].cast("int64").to_pylist()) for one in there]
    found = {n: at for one in columns for n, at in zip(*one, strict=True)}
    assert found == {n: first + n * 10**14 for n in (1, 3, 9)}
    bounds = [2 in (task.file.upper_bounds or {}) for task in named.iceberg.scan().plan_files()]
    assert not any(bounds)  # PyIceberg's are microseconds: 789 ns above it would not be looked for
    named.partition(["at"])
    with pytest.raises(CannotWrite, match="is partitioned by at, nanoseconds as they are"):
        named.append(given(4))
    assert named.read().count() == 3


def test_files_of_a_partition_whose_column_another_engine_dropped_stay_as_they_are(
    catalog: Catalog, table: LakeTable
) -> None:
    table.partition(["truncate(2, v)"])
    table.append(rows(1, 2, 3))
    table.partition([])
    place = Path(table.iceberg.metadata_location.removeprefix("file://"))
    document = json.loads(place.read_text())
    schema = document["schemas"][0]
    document["schemas"].append({**schema, "schema-id": 1, "fields": schema["fields"][:1]})
    document["current-schema-id"] = 1
    place.write_text(json.dumps(document))
    table = Lake(catalog).table("own.t")
    table.append(pa.table({"id": [9]}))
    table.overwrite(pa.table({"id": []}, pa.schema([("id", pa.int64())])), filter="id = 2")
    assert lineage(table) == {1: (0, 1), 3: (2, 1), 9: (3, 2)}
    snapshot = table.iceberg.current_snapshot()
    assert snapshot is not None
    live = [one for each in manifests_of(table.iceberg.io, snapshot) for one in entries_of(table.iceberg.io, each)]
    assert sorted(str(one.data_file.partition[0]) for one in live if one.data_file.spec_id) == ["v1", "v3"]


@pytest.mark.parametrize("seed", seeds(1, 12))
def test_any_history_keeps_ids_unique_and_those_of_rows_that_nothing_changed(table: LakeTable, seed: int) -> None:
    dice = random.Random(seed)
    known: dict[int, str] = {}
    which: dict[int, tuple[int, int]] = {}
    moments: list[tuple[int, dict[int, str], dict[int, tuple[int, int]]]] = []
    for step in range(8):
        ids, before, kept = dice.sample(range(30), dice.randrange(1, 8)), known, which
        match dice.randrange(4) if moments else 0:
            case 0:
                new = [one for one in ids if one not in known] or [100 + step]
                table.append(rows(*new, v=f"a{step}-"))
                known = known | {one: f"a{step}-{one}" for one in new}
            case 1:
                table.upsert(rows(*ids, v=f"u{step % 2}-"), key=["id"])
                known = known | {one: f"u{step % 2}-{one}" for one in ids}
            case 2:
                table.overwrite(rows(), filter=f"id in ({', '.join(map(str, ids))})")
                known = {one: value for one, value in known.items() if one not in ids}
            case 3:
                place = dice.randrange(len(moments))
                at, known, kept = moments[place]
                moments, before = moments[: place + 1], known
                table.rollback(at)
        assert {one["id"]: one["v"] for one in table.read().pylist()} == known
        which = lineage(table)
        assert which.keys() == known.keys()
        same = [n for n in known if before.get(n) == known[n]]
        assert {n: which[n] for n in same} == {n: kept[n] for n in same}
        moments.append((table.iceberg.metadata.current_snapshot_id or 0, known, which))


def test_rows_that_a_rollback_of_a_fed_table_brings_back_are_the_rows_they_were_and_changed(table: LakeTable) -> None:
    fed = {"firn.key": '["id"]', "firn.stream": "shop", "firn.source": "public.t", "firn.mode": "mirror"}
    with table.iceberg.transaction() as change:
        change.set_properties(fed)
    for n, some in enumerate([rows(1, 2, 3), rows(4)], 1):
        land_files(table.iceberg, (), write_files(table.iceberg.metadata, table.iceberg.io, some.to_batches()),
                   {"firn.epoch.shop": str(n)})  # fmt: skip
    iceberg = table.iceberg
    first = [task.file for task in iceberg.scan().plan_files() if task.file.record_count == 3]
    new = write_files(iceberg.metadata, iceberg.io, rows(1, 3, v="w").to_batches())
    land_files(iceberg, first, new, {"firn.epoch.shop": "3"})
    assert lineage(table) == {4: (3, 2), 1: (4, 3), 3: (5, 3)}
    table.rollback(table.snapshots()[1].id, then="skip")
    assert lineage(table) == {1: (0, 4), 2: (1, 4), 3: (2, 4), 4: (3, 2)}
    assert sorted(one["v"] for one in table.read().pylist()) == ["v1", "v2", "v3", "v4"]
