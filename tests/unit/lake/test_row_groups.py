"""Row groups that a filter spares: by statistics and Bloom filters, of files by several writers beside DuckDB."""

import random
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import And, BooleanExpression, EqualTo, Not, Reference
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DateType, DoubleType, IntegerType, LongType, NestedField, StringType, TimestamptzType

from firn_lake.lake import Lake
from firn_lake.lake_table import LakeTable
from firn_lake.reading.bloom import BloomFilter
from firn_lake.reading.files import read_file
from firn_lake.reading.row_groups import Groups, chosen
from firn_lake.reading.versions import version_at
from tests.filtering import filters, row, seen

ROWS, GROUP = 4_000, 500
DICE = random.Random(7)


def lake_table(catalog: Catalog, table: Table) -> LakeTable:
    return LakeTable(Lake(catalog), table)


def rows(seed: int) -> pa.Table:
    """Random keys of each type that a filter is asked of; texts of all lengths around xxHash's parts of 32, 8, 4."""
    dice = random.Random(seed)
    numbers = [dice.randrange(-(10**6), 10**6) for _ in range(ROWS)]
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return pa.table(
        {
            "long": pa.array([number * 10**6 for number in numbers], pa.int64()),
            "int": pa.array(numbers, pa.int32()),
            "text": [f"{number}" * (1 + number % 20) for number in numbers],
            "day": [date(2000, 1, 1) + timedelta(number % 9_000) for number in numbers],
            "at": pa.array([start + timedelta(microseconds=number) for number in numbers], pa.timestamp("us", "UTC")),
            "bytes": [str(number).encode() for number in numbers],
        }
    )


def by_pyarrow(path: Path) -> None:
    blooms = {name: {"ndv": GROUP, "fpp": 0.02} for name in ("long", "int", "text", "day", "at", "bytes")}
    pq.write_table(rows(1), path, row_group_size=GROUP, bloom_filter_options=blooms)


def by_duckdb(path: Path) -> None:
    # DuckDB makes one where it makes a dictionary, and its row groups are of 2,048 rows and more.
    connection = duckdb.connect()
    connection.register("once", rows(2))
    connection.execute("CREATE TABLE t AS SELECT * FROM once UNION ALL SELECT * FROM once")
    connection.execute(f"COPY t TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 4096, DICTIONARY_SIZE_LIMIT 100000)")


@pytest.mark.parametrize("write", [by_pyarrow, by_duckdb])
@pytest.mark.parametrize(
    ("column", "encode", "sql"),
    [
        ("long", lambda value: value.to_bytes(8, "little", signed=True), "BIGINT"),
        ("int", lambda value: value.to_bytes(4, "little", signed=True), "INTEGER"),
        ("text", str.encode, "VARCHAR"),
        ("bytes", bytes, "BLOB"),
    ],
)
def test_bloom_filters_answer_as_duckdb_answers(tmp_path: Path, write: Any, column: str, encode: Any, sql: str) -> None:
    path = tmp_path / "some.parquet"
    write(path)
    footer, content = pq.read_metadata(path), pq.read_table(path, columns=[column]).column(0).to_pylist()
    place = next(n for n in range(footer.num_columns) if footer.schema.column(n).path == column)
    others: dict[str, Any] = {"long": 5, "int": 5, "text": "nobody", "bytes": b"nobody"}
    made = [others[column] * n for n in range(1, 40)]
    asked = 0
    with path.open("rb") as file, duckdb.connect() as connection:
        for value in [*DICE.sample(content, 40), *made]:
            shown = f"'{value.decode()}'" if isinstance(value, bytes) else repr(value)
            said = connection.execute(
                f"SELECT row_group_id, bloom_filter_excludes FROM "
                f"parquet_bloom_probe('{path}', '{column}', {shown}::{sql}) ORDER BY 1"
            ).fetchall()
            for group, excludes in said:
                offset = footer.row_group(group).column(place).bloom_filter_offset
                if offset is None:
                    assert not excludes
                    continue
                found = BloomFilter.at(file, offset)
                assert found is not None
                assert found.may_hold(file, [encode(value)]) is not excludes, (value, group)
                asked += 1
    assert asked > 100  # there were filters


def test_a_bloom_filter_of_another_kind_is_not_asked(tmp_path: Path) -> None:
    path = tmp_path / "some.parquet"
    by_pyarrow(path)
    offset = pq.read_metadata(path).row_group(0).column(0).bloom_filter_offset
    content = bytearray(path.read_bytes())
    content[offset + 6 : offset + 8] = b"\x2c\x00"  # the algorithm
    path.write_bytes(content)
    with path.open("rb") as file:
        assert BloomFilter.at(file, offset) is None


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A table whose first file was written before `n` was widened and `was` became `s`. Its rows are with it."""
    from firn_lake.catalogs.catalog import open_catalog

    folder = tmp_path_factory.mktemp("changed")
    catalog = open_catalog(f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse", {})
    catalog.create_namespace("shop")
    made = catalog.create_table(
        "shop.changed",
        Schema(
            NestedField(1, "n", IntegerType()),
            NestedField(2, "m", LongType()),
            NestedField(3, "x", DoubleType()),
            NestedField(4, "was", StringType()),
            NestedField(5, "d", DateType()),
            NestedField(6, "at", TimestamptzType()),
        ),
    )
    dice = random.Random(3)
    every: list[dict[str, Any]] = []

    def some(kind: pa.DataType, text: str) -> None:
        found = [row(dice, number) for number in range(600)]
        every.extend(found)
        path = folder / f"{text}.parquet"
        data = pa.table(
            [
                pa.array([one["n"] for one in found], kind),
                pa.array([one["m"] for one in found], pa.int64()),
                pa.array([one["x"] for one in found], pa.float64()),
                pa.array([one["s"] for one in found], pa.string()),
                pa.array([one["d"] for one in found], pa.date32()),
                pa.array([one["at"] for one in found], pa.timestamp("us", "UTC")),
            ],
            names=["n", "m", "x", text, "d", "at"],
        )
        options = {name: {"ndv": 60, "fpp": 0.02} for name in ("n", "m", text, "d", "at")}
        pq.write_table(data, path, row_group_size=60, bloom_filter_options=options)
        made.add_files([f"file://{path}"])

    some(pa.int32(), "was")
    with made.update_schema() as update:
        update.update_column("n", field_type=LongType())
        update.rename_column("was", "s")
    made.refresh()
    some(pa.int64(), "s")
    yield lake_table(catalog, made), every
    catalog.close()


@pytest.mark.parametrize("seed", range(60))
def test_no_row_that_fits_a_filter_is_lost(changed: tuple[LakeTable, list[dict[str, Any]]], seed: int) -> None:
    table, every = changed
    text, fits = filters(random.Random(seed))
    found = table.read(filter=text, metadata=True).pylist()
    assert seen(found) == seen(one for one in every if fits(one)), text


def test_negated_filters_give_what_they_give_of_all_row_groups(
    changed: tuple[LakeTable, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, _ = changed
    texts = [f"not ({filters(random.Random(seed))[0]}) and m < 20" for seed in range(500, 530)]
    texts += [
        "n not in (1, 2, 3)",
        "s not in ('k1', 'k2')",
        "not (n = 3 or s is null)",
        "s not like 'k%'",
        "s like 'k1%'",
    ]
    found = [seen(table.read(filter=text).pylist()) for text in texts]

    def every(opened: Any, where: Any, metadata: Any) -> Groups:
        one = chosen(opened, where, metadata)
        return Groups(one.footer, tuple(range(one.footer.num_row_groups)), 0)

    monkeypatch.setattr("firn_lake.reading.files.chosen", every)
    assert [seen(table.read(filter=text).pylist()) for text in texts] == found
    assert len(set(map(len, found))) > 5


def test_deleted_and_picked_rows_keep_their_places_where_row_groups_are_left_out(
    catalog: Catalog, tmp_path: Path
) -> None:
    catalog.create_namespace_if_not_exists("shop")
    rows = pa.table({"id": range(1_000)})
    made = catalog.create_table("shop.places", rows.schema)
    pq.write_table(rows, tmp_path / "places.parquet", row_group_size=100)
    made.add_files([f"file://{tmp_path}/places.parquet"])
    version = version_at(made, None)
    [task] = version.files()
    where = version.bound("id >= 350 and id < 550")
    gone, only = pa.array([349, 350, 420, 549, 600]), pa.array([10, 351, 420, 500])

    def read(**how: Any) -> list[int]:
        batches = read_file(version.source, task.file, version.schema, where=where, **how)
        return [number for batch in batches for number in batch.column("id").to_pylist()]

    left = [number for number in range(300, 600) if number not in (349, 350, 420, 549)]
    assert read(gone=gone) == left
    assert read(only=only) == [351, 420, 500]
    assert read(gone=gone, only=only) == [351, 500]


def test_a_nan_is_found_though_it_is_outside_of_all_bounds(catalog: Catalog, tmp_path: Path) -> None:
    catalog.create_namespace_if_not_exists("shop")
    rows = pa.table({"id": [1, 2], "x": [1.0, float("nan")]})
    made = catalog.create_table("shop.shares", rows.schema)
    pq.write_table(rows, tmp_path / "shares.parquet")
    made.add_files([f"file://{tmp_path}/shares.parquet"])
    table = lake_table(catalog, made)
    assert [row["id"] for row in table.read(filter="x != 1.0").pylist()] == [2]
    assert [row["id"] for row in table.read(filter="x is nan").pylist()] == [2]
    assert len(table.prune("x != 1.0").read) == 1


def test_columns_with_odd_names_are_asked_too(catalog: Catalog, odd: Table, tmp_path: Path) -> None:
    table = lake_table(catalog, odd)
    # PyIceberg and Spark write such names otherwise, Firn's own writer as they are.
    pq.write_table(pa.table({"dot.ted": [3, 4], "$d": ["x", "y"], 'quo"te': [True, False]}), tmp_path / "as-is.parquet")
    odd.add_files([f"file://{tmp_path}/as-is.parquet"])
    for number in (2, 4):
        found = table.read(filter=is_equal("dot.ted", number)).pylist()
        assert found == [{"dot.ted": number, "$d": "y", 'quo"te': False}]
    assert table.read(filter=And(is_equal("$d", "x"), Not(is_equal('quo"te', False)))).count() == 2
    assert not table.prune(is_equal("dot.ted", 5)).read


def is_equal(name: str, value: Any) -> BooleanExpression:
    return EqualTo(Reference(name), value)  # type: ignore[call-arg] # pydantic's __init__, not its own


def test_a_look_up_of_a_random_key_decodes_the_row_groups_that_may_have_it(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.create_namespace_if_not_exists("shop")
    data = rows(5)
    made = catalog.create_table("shop.keyed", data.schema)
    pq.write_table(data, tmp_path / "keyed.parquet", row_group_size=GROUP,
                   bloom_filter_options={"text": {"ndv": GROUP, "fpp": 0.001}})  # fmt: skip
    made.add_files([f"file://{tmp_path}/keyed.parquet"])
    read: list[int] = []
    iterate = pq.ParquetFile.iter_batches

    def noted(file: pq.ParquetFile, count: int, row_groups: list[int], **how: Any) -> Any:
        read.extend(row_groups)
        return iterate(file, count, row_groups, **how)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", noted)
    wanted = data.column("text")[1_234].as_py()
    assert {row["text"] for row in lake_table(catalog, made).read(filter=f"text = '{wanted}'").pylist()} == {wanted}
    assert 2 in read
    assert len(read) < 4  # of 8
    read.clear()
    assert lake_table(catalog, made).read(filter="text = 'nobody'").count() == 0
    assert lake_table(catalog, made).read(filter="text = 'nobody' and long > 5 or text in ('no', 'one')").count() == 0
    assert not read
