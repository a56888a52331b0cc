"""What a plan leaves out is nothing that PyIceberg's own plan of the same manifests has: whatever they hold."""

import math
import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV1,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, ManifestGroupPlanner
from pyiceberg.table.delete_file_index import PATH_FIELD_ID
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestampType

from firn_lake.reading import manifests
from firn_lake.reading.manifests import Known, Planner
from tests.soak import long_only
from tests.unit.lake.row_delta import data_files, row_delta

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "name", StringType()), NestedField(3, "share", DoubleType()),
    NestedField(4, "day", TimestampType()), NestedField(5, "kind", StringType()),
)  # fmt: skip
DAY = 86_400_000_000
TEXTS = ["", "a", "abcdefghijklmnop", "abcdefghijklmnopq", "b", "z", "é", "\U0001f600", "￿"]
FILTERS = [
    "id = {n}", "id >= {n} and id < {m}", "id in ({n}, {m}, 7)", "id != {n}", "not (id = {n} or kind = '{t}')",
    "name = '{t}'", "name > '{t}'", "name like '{t}%'", "name is null", "name is not null and id > {n}",
    "share = {n}.5", "share is nan", "share is not nan", "share is null or share < {n}", "kind = '{t}'",
    "kind in ('{t}', 'z')", "kind is null and id = {n}", "day >= '2026-01-0{d}T00:00:00'",
    "day < '2026-01-0{d}T12:00:00' and kind = '{t}'", "id = {n} and name = '{t}' and share > 0",
]  # fmt: skip


class _Deletes(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _Whole(ManifestGroupPlanner):
    """PyIceberg's own, but for what fails in it (Planner says why)."""

    _build_residual_evaluator = Planner._build_residual_evaluator


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Known:
    fresh = Known()
    monkeypatch.setattr(manifests, "KNOWN", fresh)
    return fresh


class Ground:
    """A table whose spec was changed some times, and manifests of files that are not there."""

    def __init__(self, catalog: Catalog, folder: Path, dice: random.Random) -> None:
        catalog.create_namespace_if_not_exists("lake")
        table = catalog.create_table(f"lake.t{uuid.uuid4().hex}", SCHEMA)
        changes = [
            ("kind", IdentityTransform()), ("id", BucketTransform(4)), ("name", TruncateTransform(2)),
            ("day", DayTransform()), ("share", IdentityTransform()),
        ]  # fmt: skip
        for name, transform in dice.sample(changes, dice.randrange(4)):
            there = table.refresh().spec().fields
            with table.update_spec() as update:
                update.add_field(name, transform, f"{name}_part")
                if there and dice.random() < 0.5:  # partitions of two specs may look alike
                    update.remove_field(there[0].name)
        self.metadata: TableMetadata = table.refresh().metadata
        self.io = PyArrowFileIO()
        self._folder, self._dice = folder, dice
        self.files: list[DataFile] = []
        numbers = sorted(dice.choices(range(1, 7), k=dice.randrange(1, 9)))  # a commit may have some
        self.manifests = [self._manifest(number) for number in numbers]

    def _manifest(self, number: int) -> ManifestFile:
        dice = self._dice
        spec = dice.choice(list(self.metadata.specs().values()))
        deletes = bool(self.files) and dice.random() < 0.4
        kind = _Deletes if deletes else dice.choice((ManifestWriterV1, ManifestWriterV2, ManifestWriterV2))
        output = self.io.new_output(f"file://{self._folder}/{uuid.uuid4().hex}.avro")
        with kind(spec, self.metadata.schema(), output, number, dice.choice(("gzip", "null"))) as writer:
            for _ in range(dice.randrange(1, 12)):
                file = self._delete(spec) if deletes else self._data(spec)
                old = dice.random() < 0.3
                status = ManifestEntryStatus.EXISTING if old else ManifestEntryStatus.ADDED
                status = ManifestEntryStatus.DELETED if dice.random() < 0.1 else status
                of = dict.fromkeys(("sequence_number", "file_sequence_number"), dice.randrange(1, number + 1))
                given = {} if status == ManifestEntryStatus.ADDED else of
                entry = ManifestEntry.from_args(status=status, snapshot_id=number, data_file=file, **given)
                writer.add_entry(entry)
        found = writer.to_manifest_file()
        found.sequence_number = 0 if kind is ManifestWriterV1 else number
        found.min_sequence_number = min(1, found.sequence_number)
        return found

    def _data(self, spec: PartitionSpec) -> DataFile:
        dice = self._dice
        bounds = [self._bounds(field) for field in SCHEMA.fields]
        lower = {field.field_id: low for field, (low, _) in zip(SCHEMA.fields, bounds, strict=True) if low is not None}
        upper = {
            field.field_id: high for field, (_, high) in zip(SCHEMA.fields, bounds, strict=True) if high is not None
        }
        counts = {field.field_id: 10 for field in SCHEMA.fields}
        nulls = {field.field_id: dice.choice((0, 0, 3, 10)) for field in SCHEMA.fields if dice.random() < 0.9}
        made = DataFile.from_args(
            content=DataFileContent.DATA, file_path=f"file:///data/{uuid.uuid4().hex}.parquet",
            file_format=FileFormat.PARQUET, partition=self._partition(spec), record_count=dice.choice((0, 10, 10, 10)),
            file_size_in_bytes=1, column_sizes=dice.choice((None, counts)), value_counts=dice.choice((None, counts)),
            null_value_counts=dice.choice((None, nulls, nulls)), nan_value_counts=dice.choice((None, {3: 10}, {3: 0})),
            lower_bounds=dice.choice((None, lower, lower)), upper_bounds=dice.choice((None, upper, upper)),
            split_offsets=dice.choice((None, [4])), sort_order_id=dice.choice((None, 0)), key_metadata=None,
            equality_ids=None,
        )  # fmt: skip
        made.spec_id = spec.spec_id
        self.files.append(made)
        return made

    def _delete(self, spec: PartitionSpec) -> DataFile:
        dice = self._dice
        same = [one for one in self.files if one.spec_id == spec.spec_id]
        of = dice.choice(same) if same and dice.random() < 0.8 else None
        bounds = {PATH_FIELD_ID: of.file_path.encode()} if of is not None and dice.random() < 0.6 else {}
        wide = {PATH_FIELD_ID: b"file:///data/~"} if bounds and dice.random() < 0.3 else bounds
        vector = bool(bounds) and wide is bounds and dice.random() < 0.5
        partition = of.partition if of is not None else self._partition(spec)
        return DataFile.from_args(
            content=DataFileContent.POSITION_DELETES, file_path=f"file:///data/{uuid.uuid4().hex}.deletes",
            file_format=FileFormat.PUFFIN if vector else FileFormat.PARQUET, partition=partition, record_count=3,
            file_size_in_bytes=1, lower_bounds=bounds or None, upper_bounds=wide or None,
        )  # fmt: skip

    def _partition(self, spec: PartitionSpec) -> Record:
        dice, found = self._dice, []
        for field in spec.fields:
            kind = str(field.transform)
            some: list[Any] = [dice.choice(TEXTS)]
            if kind == "void":
                some = [None]
            elif kind.startswith(("bucket", "day")):
                some = [dice.randrange(4) if kind.startswith("bucket") else 20_454 + dice.randrange(4)]
            elif field.source_id == 3:
                some = [0.5, -0.0, math.inf, math.nan]
            elif kind.startswith("truncate"):
                some = [dice.choice(TEXTS)[:2]]
            found.append(dice.choice([*some, *some, None]))
        return Record(*found)

    def _bounds(self, field: NestedField) -> tuple[bytes | None, bytes | None]:
        dice, kind = self._dice, field.field_type
        if dice.random() < 0.15:
            return None, None
        if field.field_id in (2, 5):
            low, high = sorted((dice.choice(TEXTS), dice.choice(TEXTS)))
            # As Iceberg cuts texts: the upper one ends with a character more, or is not told where there is none.
            return low[:16].encode(), None if high[:1] == "￿" else (high[:15] + "~").encode()
        if field.field_id == 3:
            low_number, high_number = sorted((dice.uniform(-20, 20), dice.choice((3.5, 19.0, math.inf))))
            cut = math.nan if dice.random() < 0.2 else high_number
            return to_bytes(kind, low_number), to_bytes(kind, cut)
        first = dice.randrange(40)
        if field.field_id == 4:
            return to_bytes(kind, 20_454 * DAY + first * DAY // 10), to_bytes(
                kind, 20_454 * DAY + (first + 3) * DAY // 10
            )
        return to_bytes(kind, first), to_bytes(kind, first + dice.randrange(8))


def of(tasks: Sequence[FileScanTask]) -> list[tuple[str, list[str], Any]]:
    """Each data file with the deletes that it has, and all that was read of it."""
    return sorted(
        (task.file.file_path, sorted(one.file_path for one in task.delete_files), said(task.file)) for task in tasks
    )


def said(file: DataFile) -> str:
    return repr([dict(one) if isinstance(one, Mapping) else one for one in file._data] + [file.spec_id])


def plans(planner: ManifestGroupPlanner, some: Sequence[ManifestFile]) -> list[tuple[str, list[str], Any]]:
    return of(list(planner.plan_files(some)))


def filters(dice: random.Random) -> Iterator[str]:
    for text in dice.sample(FILTERS, 6):
        yield text.format(n=dice.randrange(40), m=dice.randrange(40), d=dice.randrange(1, 6), t=dice.choice(TEXTS))


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(n, marks=long_only) for n in range(12, 100))])
def test_a_plan_is_the_one_that_pyiceberg_makes_of_all_manifests(catalog: Catalog, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    ground = Ground(catalog, tmp_path, dice)
    whole = {one[0]: one for one in plans(_Whole(ground.metadata, ground.io), ground.manifests)}
    assert plans(Planner(ground.metadata, ground.io), ground.manifests) == sorted(whole.values())
    for text in filters(dice):
        expected = plans(_Whole(ground.metadata, ground.io, text), ground.manifests)
        for _ in range(3):  # as it is met first, as it is kept, and out of what was kept
            assert plans(Planner(ground.metadata, ground.io, text), ground.manifests) == expected, text
        assert [(one, whole[one[0]]) for one in expected if one != whole[one[0]]] == [], text  # no delete is missed


def test_deletes_are_read_where_files_are_found_that_are_older(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.create_namespace_if_not_exists("lake")
    table = catalog.create_table("lake.rows", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": range(10)}))
    row_delta(table, tmp_path, {data_files(table)[0]: [3]}, None, {})
    table.append(pa.table({"id": range(100, 110)}))
    read: list[ManifestContent] = []
    fitting = Known.fitting

    def counted(self: Known, io: Any, manifest: ManifestFile, *tests: Any, keep: bool) -> list[ManifestEntry]:
        read.append(manifest.content)
        return fitting(self, io, manifest, *tests, keep=keep)

    monkeypatch.setattr(Known, "fitting", counted)
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    for text, files, deletes in (("id = 5", 1, 1), ("id = 105", 1, 0), ("id = 50", 0, 0), ("id > 0", 2, 1)):
        read.clear()
        found = list(Planner(table.metadata, table.io, text).plan_files(snapshot.manifests(table.io)))
        assert (len(found), read.count(ManifestContent.DELETES)) == (files, deletes), text


def test_what_does_not_fit_as_a_whole_is_not_kept(
    known: Known, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground = Ground(catalog, tmp_path, random.Random(3))
    some = [one for one in ground.manifests if one.content == ManifestContent.DATA]
    entries = sum((one.added_files_count or 0) + (one.existing_files_count or 0) for one in some)
    least = max(sum(one.manifest_length for one in some), 250 * entries)
    assert known.fit(some)
    assert not Known(most=250 * entries - 1).fit(some), "they may compress well"
    small = Known(most=least // 2)
    for kept in (small, known):
        monkeypatch.setattr(manifests, "KNOWN", kept)
        for _ in range(3):
            list(Planner(ground.metadata, ground.io).plan_files(some))
    assert small.bytes == 0
    assert known.bytes >= sum(one.manifest_length for one in some)


def test_deletes_that_came_with_their_file_are_looked_for() -> None:
    found = manifests._Touched()
    told: dict[str, Any] = {"status": ManifestEntryStatus.ADDED, "snapshot_id": 1, "sequence_number": 4}
    file = DataFile.from_args(content=DataFileContent.DATA, file_path="a", partition=Record())
    file.spec_id = 0
    of = [ManifestFile.from_args(content=ManifestContent.DELETES, sequence_number=number) for number in (3, 4, 5)]
    assert [found.may_have(one) for one in of] == [False, False, False]
    found.add([ManifestEntry.from_args(**told, data_file=file)])
    assert [found.may_have(one) for one in of] == [False, True, True]


def test_partitions_of_two_specs_are_two(catalog: Catalog) -> None:
    catalog.create_namespace_if_not_exists("lake")
    table = catalog.create_table("lake.two", SCHEMA)
    for name, before in (("kind", None), ("name", "kind")):
        with table.update_spec() as update:
            update.add_identity(name)
            if before:
                update.remove_field(before)
    asked = manifests.Asked(Planner(table.refresh().metadata, table.io, "kind = 'a'"))
    assert [asked.of_partition(spec, Record("b")) for spec in (1, 2, 1, 2)] == [False, True, False, True]
