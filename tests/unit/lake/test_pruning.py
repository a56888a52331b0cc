"""What a filter leaves of a table's files, and why: beside PyIceberg's own planning, and beside the rows."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import DateType, DoubleType, LongType, NestedField, StringType, TimestamptzType

from firn_lake.catalogs.catalog import open_catalog
from firn_lake.lake import Lake
from firn_lake.lake_table import LakeTable
from firn_lake.reading.manifests import KNOWN, Known
from firn_lake.reading.pruning import VERDICTS
from firn_lake.reading.unreadable import UnreadableFile
from firn_lake.reading.versions import BadFilter
from tests.filtering import NAMES, filters, row
from tests.soak import few_cases

SCHEMA = Schema(
    NestedField(1, "n", LongType()),
    NestedField(2, "m", LongType()),
    NestedField(3, "x", DoubleType()),
    NestedField(4, "s", StringType()),
    NestedField(5, "d", DateType()),
    NestedField(6, "at", TimestamptzType()),
)
ARROW = pa.schema(
    [("n", pa.int64()), ("m", pa.int64()), ("x", pa.float64()), ("s", pa.string()), ("d", pa.date32()),
     ("at", pa.timestamp("us", "UTC"))]
)  # fmt: skip


def lake_table(catalog: Catalog, table: Table) -> LakeTable:
    return LakeTable(Lake(catalog), table)


def add(table: Table, path: Path, rows: list[dict[str, Any]], **how: Any) -> None:
    """One file with these rows."""
    pq.write_table(pa.Table.from_pylist(rows, ARROW), path, **how)
    table.add_files([f"file://{path}"])


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A file a day, partitioned by it and later by the day of `at` too; the rows of each file are with it."""
    folder = tmp_path_factory.mktemp("days")
    catalog = open_catalog(f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse", {})
    catalog.create_namespace("shop")
    spec = PartitionSpec(PartitionField(5, 1000, IdentityTransform(), "d"))
    made = catalog.create_table("shop.days", SCHEMA, partition_spec=spec)
    dice, files = random.Random(11), dict[str, list[dict[str, Any]]]()
    for number in range(20):
        if number == 12:
            with made.update_spec() as update:
                update.add_field("at", DayTransform(), "at_day")
            made.refresh()
        some = [row(dice, number * 30 + one) for one in range(30)]
        for one in some:
            one["at"] = datetime(2026, 1, 1, number, tzinfo=UTC) + timedelta(days=number % 3)
        path = folder / f"{number}.parquet"
        blooms = {name: {"ndv": 30, "fpp": 0.02} for name in ("n", "m", "s")}
        add(made, path, some, row_group_size=10, bloom_filter_options=blooms)
        files[f"file://{path}"] = some
    yield lake_table(catalog, made), files
    catalog.close()


@few_cases(4)
@pytest.mark.parametrize("seed", range(25))
def test_what_is_read_is_what_pyiceberg_plans_without_what_the_files_themselves_deny(
    days: tuple[LakeTable, dict[str, list[dict[str, Any]]]], seed: int
) -> None:
    table, files = days
    text, fits = filters(random.Random(seed + 1_000))
    pruned = table.prune(text)
    assert {one.path for one in pruned.files} == files.keys()
    planned = {task.file.file_path for task in table.iceberg.scan(row_filter=text).plan_files()}
    assert {one.path for one in pruned.files if one.verdict not in ("partition", "bounds")} == planned, text
    assert {path for path, rows in files.items() if any(map(fits, rows))} <= {one.path for one in pruned.read}, text
    assert all(one.reason for one in pruned.skipped)
    assert {one.path for one in table.prune(text, footers=False).read} == planned
    assert sum(one.files for one in pruned.counts.values()) == pruned.total.files == len(files)
    assert json.loads(pruned.json())["counts"]["read"]["files"] == len(pruned.read)


@pytest.fixture
def orders(catalog: Catalog, tmp_path: Path) -> LakeTable:
    """Three files: of 1 January (status a to c), of 2 January (m to p), and one of 2 January with random texts."""
    catalog.create_namespace_if_not_exists("shop")
    spec = PartitionSpec(PartitionField(6, 1000, DayTransform(), "at_day"))
    made = catalog.create_table("shop.pruned", SCHEMA, partition_spec=spec)

    def rows(day: int, texts: list[str]) -> list[dict[str, Any]]:
        at = datetime(2026, 1, day, 12, tzinfo=UTC)
        return [{**dict.fromkeys(NAMES), "n": number, "s": text, "at": at} for number, text in enumerate(texts)]

    add(made, tmp_path / "first.parquet", rows(1, ["a", "b", "c"]))
    add(made, tmp_path / "second.parquet", rows(2, ["m", "n", "p"]))
    dice = random.Random(2)
    texts = [f"{dice.randrange(10**9):09}" for _ in range(400)]
    add(made, tmp_path / "third.parquet", rows(2, texts), row_group_size=100,
        bloom_filter_options={"s": {"ndv": 100, "fpp": 0.001}})  # fmt: skip
    return lake_table(catalog, made)


def verdicts(table: LakeTable, text: str, **how: Any) -> dict[str, tuple[str, str]]:
    return {one.path.rpartition("/")[2]: (one.verdict, one.reason) for one in table.prune(text, **how).files}


def test_each_file_that_is_left_out_says_why(orders: LakeTable) -> None:
    found = verdicts(orders, "s = 'n' and at >= '2026-01-02T00:00:00+00:00'")
    assert found["first.parquet"] == ("partition", "at_day is 2026-01-01, not >= 2026-01-02")
    assert found["second.parquet"] == ("read", "")
    assert found["third.parquet"][0] == "bounds"
    assert verdicts(orders, "s = '500000000'") == {
        "first.parquet": ("bounds", "s: 'a'..'c' does not hold '500000000'"),
        "second.parquet": ("bounds", "s: 'm'..'p' does not hold '500000000'"),
        "third.parquet": ("bloom", "Bloom filter: no s = '500000000'"),
    }
    found = verdicts(orders, "n > 350 and n < 50 or d = '2026-01-01' or s is null")
    assert found["first.parquet"] == ("bounds", "n: 0..2, not > 350; d has only nulls, not = 2026-01-01; s has no null")
    assert found["third.parquet"] == ("row groups", "the statistics of its row groups")
    assert verdicts(orders, "s in ('x', 'y') and n = 1")["second.parquet"] == (
        "bounds",
        "s: 'm'..'p' holds none of 'x', 'y'",
    )


def test_a_look_up_by_a_random_key_reads_one_row_group_of_one_file(orders: LakeTable) -> None:
    wanted = orders.read(filter="n = 250").pylist()[0]["s"]
    pruned = orders.prune(f"s = '{wanted}'")
    [found] = pruned.read
    assert found.path.endswith("third.parquet")
    assert (found.partition, found.row_groups, found.row_groups_read) == ("at_day=2026-01-02", 4, 1)
    assert pruned.row_groups_skipped == 3
    assert str(pruned).startswith("1 of 3 files (")
    assert str(pruned).endswith("are read, without 3 of their row groups; left out: 2 by bounds")
    assert "shop.pruned at snapshot" in repr(pruned)
    assert pruned.arrow().column("verdict").to_pylist().count("read") == 1
    assert tuple(pruned.counts) == VERDICTS


def test_an_earlier_moment_has_its_own_files_and_names(catalog: Catalog, orders: LakeTable) -> None:
    first, *_, last = orders.snapshots()
    with orders.iceberg.update_schema() as update:
        update.rename_column("s", "status")
    assert len(orders.prune("s = 'b'", as_of=first.id).files) == 1
    assert len(orders.prune("status = 'b'").read) == 1
    with pytest.raises(BadFilter, match="s \\(string\\)"):
        orders.prune("status = 'b'", as_of=last.id)
    with pytest.raises(BadFilter, match="can't be read at character"):
        orders.prune("status = ")
    empty = lake_table(catalog, catalog.create_table("shop.nothing", SCHEMA))
    assert str(empty.prune("n = 1")) == "0 of 0 files (0 of 0 bytes) are read"


def test_metadata_alone_tells_without_the_files(orders: LakeTable, tmp_path: Path) -> None:
    (tmp_path / "second.parquet").unlink()
    with pytest.raises(UnreadableFile, match=r"second\.parquet"):
        orders.prune("s = 'n'")
    assert verdicts(orders, "s = 'n'", footers=False)["second.parquet"] == ("read", "")


def test_manifests_are_read_once_and_no_more_are_kept_than_fit(
    orders: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    iceberg = orders.iceberg
    snapshot = iceberg.current_snapshot()
    assert snapshot is not None
    manifests = snapshot.manifests(iceberg.io)
    assert len(manifests) == 3
    some = Known(most=manifests[0].manifest_length * 2 + 100)
    found = [some.entries(iceberg.io, one) for one in (*manifests, manifests[2])]
    assert found[2] is found[3]
    assert some.bytes <= manifests[0].manifest_length * 2 + 100
    assert some.entries(iceberg.io, manifests[0]) is not found[0]  # it had to go
    tiny = Known(most=1)
    assert tiny.entries(iceberg.io, manifests[0]) is not tiny.entries(iceberg.io, manifests[0])

    orders.prune("n = 1")
    monkeypatch.setattr(type(manifests[0]), "fetch_manifest_entry", lambda *_: pytest.fail("it was read again"))
    assert len(orders.prune("n = 1").read) == 3
    assert orders.read(filter="n = 1").count() == 3
    assert KNOWN.bytes <= 4 * 1024 * 1024
