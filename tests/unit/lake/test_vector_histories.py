"""Random histories of tables of format 3 with deletion vectors, as Spark or a job leaves them between the writes of
firn_lake: rows, which row is which, and vectors that go with their data file."""

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.typedef import Record

from firn_lake.lake import Lake
from firn_lake.lake_table import LakeTable
from firn_lake.writing import lineage_snapshot
from firn_lake.writing.commit import land
from firn_lake.writing.lineage_snapshot import LineageSnapshot, entries_of, first_row_id, manifests_of
from firn_spark.tables.deletion_vectors import decoded, puffin
from tests.soak import few_cases, seeds, times

SCHEMA: Final = pa.schema([("id", pa.int64()), ("v", pa.string()), ("p", pa.int32())])
_FILE: Final = lineage_snapshot._FILE
Live = dict[str, tuple[ManifestEntry, DataFile | None]]
Which = dict[int, tuple[int, int]]


class VectorSnapshot(LineageSnapshot):
    """Puts deletion vectors beside data files, in place of those that they have."""

    vectors: list[DataFile]

    def _new(self) -> Iterator[ManifestFile]:
        with self._writer(self._transaction.table_metadata.spec(), ManifestContent.DELETES) as writer:
            for file in self.vectors:
                entry = {"status": ManifestEntryStatus.ADDED, "snapshot_id": self._snapshot_id, "data_file": file}
                writer.add_entry(ManifestEntry.from_args(lineage_snapshot.FORMAT, **entry))
        yield writer.to_manifest_file()

    def _goes(self, file: DataFile) -> bool:
        return file.file_path in self._removed

    def _summary(self, snapshot_properties: Any = None) -> Any:
        self._added_data_files = self.vectors
        return super()._summary(snapshot_properties or {})


def live(table: LakeTable) -> Live:
    """The data files by path, each with its vector."""
    iceberg = table.iceberg
    snapshot = iceberg.current_snapshot()
    assert snapshot is not None
    found: dict[str, ManifestEntry] = {}
    vectors: dict[str, DataFile] = {}
    for manifest in manifests_of(iceberg.io, snapshot):
        for entry in entries_of(iceberg.io, manifest):
            file = entry.data_file
            if file.content == DataFileContent.DATA:
                assert file.file_path not in found
                found[file.file_path] = entry
            else:
                assert file[_FILE["referenced_data_file"]] not in vectors, "a data file has one vector"
                vectors[file[_FILE["referenced_data_file"]]] = file
    assert vectors.keys() <= found.keys(), "a vector goes with its data file"
    return {path: (entry, vectors.get(path)) for path, entry in found.items()}


def gone_of(vector: DataFile | None) -> set[int]:
    if vector is None:
        return set()
    first, size = vector[_FILE["content_offset"]], vector[_FILE["content_size_in_bytes"]]
    data = Path(vector.file_path.removeprefix("file://")).read_bytes()[first : first + size]
    return set(decoded(data, vector.record_count).to_pylist())


def stored(table: LakeTable) -> tuple[dict[int, dict[str, Any]], Which]:
    """The rows, and which row each is, as the specification has it, read straight."""
    rows: dict[int, dict[str, Any]] = {}
    which: Which = {}
    for path, (entry, vector) in live(table).items():
        first, gone = first_row_id(entry.data_file), gone_of(vector)
        assert first is not None
        assert entry.sequence_number is not None
        for place, row in enumerate(pq.read_table(path.removeprefix("file://")).to_pylist()):
            if place in gone:
                continue
            number, last = row.pop("_row_id", None), row.pop("_last_updated_sequence_number", None)
            assert row["id"] not in rows
            rows[row["id"]] = row
            which[row["id"]] = (
                first + place if number is None else number, entry.sequence_number if last is None else last,
            )  # fmt: skip
    assert len({number for number, _ in which.values()}) == len(which)
    assert max((number for number, _ in which.values()), default=-1) < int(table.iceberg.metadata.next_row_id or 0)
    return rows, which


def delete(table: LakeTable, folder: Path, ids: set[int], name: str) -> None:
    """As Spark deletes: by vectors, joined with those that are there."""
    new: list[DataFile] = []
    old: list[DataFile] = []
    spec = table.iceberg.spec()
    for n, (path, (entry, vector)) in enumerate(live(table).items()):
        if entry.data_file.spec_id != spec.spec_id:
            continue  # one manifest, of one spec, will do
        gone = gone_of(vector)
        there = pq.read_table(path.removeprefix("file://"), columns=["id"])["id"].to_pylist()
        more = {place for place, one in enumerate(there) if one in ids and place not in gone}
        if not more:
            continue
        body, blobs = puffin({path: pa.array(sorted(gone | more), pa.int64())})
        place = folder / f"{name}-{n}.puffin"
        place.write_bytes(body)
        told: dict[str, Any] = {
            "content": DataFileContent.POSITION_DELETES, "file_path": f"file://{place}",
            "file_format": FileFormat.PUFFIN, "partition": entry.data_file.partition or Record(),
            "record_count": blobs[path].rows, "file_size_in_bytes": len(body), "referenced_data_file": path,
            "content_offset": blobs[path].offset, "content_size_in_bytes": blobs[path].length,
        }  # fmt: skip
        file = DataFile.from_args(lineage_snapshot.FORMAT, **told)
        file.spec_id = spec.spec_id
        new.append(file)
        old += [vector] if vector is not None else []

    def stage(transaction: Any) -> None:
        one = VectorSnapshot(transaction, old, [], {})
        one.vectors = new
        one.commit()

    if new:
        land(table.iceberg, stage)


def given(step: int, columns: list[str], ids: list[int], word: str) -> tuple[pa.Table, dict[int, dict[str, Any]]]:
    told = {one: {"id": one, "v": f"{word}{one}", "p": one % 3} for one in ids}
    rows = [{name: row.get(name) for name in columns} for row in told.values()]
    schema = pa.schema([SCHEMA.field(n) if n in SCHEMA.names else pa.field(n, pa.int64()) for n in columns])
    return pa.Table.from_pylist(rows, schema), told


@few_cases(1)
@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("seed", seeds(2, 60))
def test_any_history_with_vectors_keeps_rows_and_which_they_are(
    catalog: Catalog, tmp_path: Path, seed: int, partitioned: bool
) -> None:
    dice = random.Random(f"{seed} {partitioned}")
    catalog.create_namespace("own")
    catalog.create_table("own.t", SCHEMA, properties={"format-version": "3"})
    table = Lake(catalog).table("own.t")
    if partitioned:
        table.partition(["p"])
    known: dict[int, dict[str, Any]] = {}
    which: Which = {}
    moments: list[tuple[int, dict[int, dict[str, Any]], Which]] = []
    for step in range(times(12, 20)):
        table = Lake(catalog).table("own.t")
        columns = list(table.columns())
        ids, before, kept = dice.sample(range(40), dice.randrange(1, 12)), known, which
        act = dice.choice(["append", "upsert", "overwrite", "vectors", "vectors", "back", "place", "alter"])
        if not moments:
            act = "append"
        if act == "append":
            rows, told = given(step, columns, [one for one in ids if one not in known] or [100 + step], f"a{step}-")
            table.append(rows)
            known = known | told
        elif act == "upsert":
            rows, told = given(step, columns, ids, f"u{step % 2}-")
            table.upsert(rows, key=["id"])
            known = known | told
        elif act == "overwrite":
            new = [200 + step] if dice.random() < 0.5 else []
            rows, told = given(step, columns, new, "o")
            table.overwrite(rows, filter=f"id in ({', '.join(map(str, ids))})")
            known = {one: row for one, row in known.items() if one not in ids} | told
        elif act == "vectors":
            delete(table, tmp_path, set(ids), f"s{step}")
            known = stored(Lake(catalog).table("own.t"))[0]
            assert known.items() <= before.items() or partitioned or columns != list(SCHEMA.names)
            known = {one: before[one] for one in known}
        elif act == "back" and columns == list(SCHEMA.names):
            place = dice.randrange(len(moments))
            at, known, kept = moments[place]
            moments, before = moments[: place + 1], known
            table.rollback(at)
        elif act == "place" and partitioned:
            here = dice.randrange(3)
            rows, told = given(step, columns, [300 + 3 * step + here], "p")
            spec = table.iceberg.spec()
            table.overwrite_partitions(rows.set_column(2, "p", pa.array([here], pa.int32())))
            assert not spec.is_unpartitioned()
            told = {one: row | {"p": here} for one, row in told.items()}
            known = {one: row for one, row in known.items() if row["p"] != here} | told
        elif act == "alter" and "x" not in columns and step > 6:
            table.evolve(add={"x": "long"})
            moments = []
        table = Lake(catalog).table("own.t")
        found = {one["id"]: {name: one[name] for name in SCHEMA.names} for one in table.read().pylist()}
        assert found == known, (step, act)
        plain = {
            one["id"]: {name: one[name] for name in SCHEMA.names} for one in table.iceberg.scan().to_arrow().to_pylist()
        }
        assert plain == known, (step, act)
        some = sorted(known)[: len(known) // 2]
        if some:
            few = table.read(filter=f"id <= {some[-1]}").pylist()
            assert sorted(one["id"] for one in few) == some, (step, act)
        which = stored(table)[1]
        same = [n for n in known if before.get(n) == known[n]]
        assert {n: which[n] for n in same} == {n: kept[n] for n in same}, (step, act)
        counted(table, known)
        moments.append((table.iceberg.metadata.current_snapshot_id or 0, known, which))
    for at, then, _ in moments:
        assert {one["id"]: one["v"] for one in table.read(as_of=at).pylist()} == {
            n: row["v"] for n, row in then.items()
        }


def counted(table: LakeTable, known: Mapping[int, Any]) -> None:
    """What the newest snapshot's summary says of the whole table."""
    snapshot = table.iceberg.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    files = live(table)
    vectors = [vector for _, vector in files.values() if vector is not None]
    told = [int(snapshot.summary[f"total-{what}"] or 0) for what in ("data-files", "delete-files", "position-deletes")]
    assert told == [len(files), len(vectors), sum(one.record_count for one in vectors)]
    assert int(snapshot.summary["total-records"] or 0) - told[2] == len(known)
