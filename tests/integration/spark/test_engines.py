"""The same table by engines that others wrote: rows deleted on read, a renamed column, partitions, decimals, times."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn_lake.lake import Lake as Reader
from tests.integration.spark.engine_reads import ENGINES, plain_rows
from tests.integration.spark.spark_lake import ROOT, Lake
from tests.integration.spark.test_commit import event

# One history for all readers.
pytestmark = pytest.mark.spark

COLUMNS = ["id", "region", "label", "amount", "at", "seen", "day"]
CONFIG = """
warehouse: file:///set/by/the/deployment
catalog: {type: sql}
streams:
  spec:
    debezium: {decimal.handling.mode: string, time.precision.mode: isostring}
    tables:
      app.t:
        to: lake.t
        key: [id]
        partition_by: [region, month(day)]
        columns: {amount: 'decimal(12,2)', at: timestamptz(6), seen: timestamp(6), day: date}
"""


def row(number: int, label: str, **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "region": "eu" if number % 2 else "us",
        "label": label,
        "amount": f"{number * 1000}.25" if number != 3 else None,
        "at": f"2026-01-0{number % 9 + 1}T10:00:00.123456Z",
        "seen": f"1969-12-31T23:59:0{number % 9}.000001Z",
        "day": f"2026-0{number % 9 + 1}-28",
    } | more


def old_name(value: dict[str, Any]) -> dict[str, Any]:
    return {"v" if name == "label" else name: value for name, value in value.items()}


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(spark, tmp_path_factory.mktemp("engines"), CONFIG)
    lake.land([event("c", 10 + n, old_name(row(n, f"v{n}"))) for n in range(12)])
    with lake.catalog.load_table("lake.t").update_schema() as update:
        update.rename_column("v", "label")
    lake.land([event("u", 31, row(4, "b")), event("d", 32, None, before={"id": 5}), event("c", 33, row(40, "ünï"))])
    lake.land([event("u", 41, row(4, "c", amount="-0.01")), event("d", 42, None, before={"id": 6})])
    return lake


@pytest.fixture(scope="module")
def expected(made: Lake) -> list[list[Any]]:
    """By hand: what was sent, less what was deleted."""
    rows = [row(n, f"v{n}") for n in range(12) if n not in (4, 5, 6)]
    rows += [row(4, "c", amount="-0.01"), row(40, "ünï")]
    found = made.spark.table("firn.lake.t").select(COLUMNS).toArrow().to_pylist()
    assert sorted((one["id"], one["label"]) for one in found) == sorted((one["id"], one["label"]) for one in rows)
    return plain_rows(found)


def test_the_table_has_all_that_is_hard_to_read(made: Lake) -> None:
    table = made.catalog.load_table("lake.t")
    assert any(task.delete_files for task in table.scan().plan_files())
    assert len(table.spec().fields) == 2
    kinds = {field.name: str(field.field_type) for field in table.schema().fields}
    assert [kinds[name] for name in COLUMNS[3:]] == ["decimal(12, 2)", "timestamptz", "timestamp", "date"]
    assert len(table.schemas()) > 1


@pytest.mark.parametrize("how", ["pyiceberg", "firn_lake"])
def test_our_own_readers_read_what_spark_reads(made: Lake, expected: list[list[Any]], how: str) -> None:
    read: dict[str, Callable[[], Any]] = {
        "pyiceberg": lambda: made.catalog.load_table("lake.t").scan(selected_fields=tuple(COLUMNS)).to_arrow(),
        "firn_lake": lambda: Reader(made.catalog).table("lake.t").read(columns=COLUMNS).arrow(),
    }
    assert plain_rows(read[how]().select(COLUMNS).to_pylist()) == expected


@pytest.mark.parametrize("engine", ENGINES)
def test_other_engines_read_the_same_rows(made: Lake, expected: list[list[Any]], engine: str) -> None:
    python = ROOT / (".venv-duckdb" if engine == "duckdb" else ".venv-engines") / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{engine} is not installed: run `make setup-engines`")
    metadata = made.catalog.load_table("lake.t").metadata_location.removeprefix("file://")
    script = ROOT / "tests" / "integration" / "spark" / "engine_reads.py"
    done = subprocess.run(
        [python, script, engine, metadata, *COLUMNS], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(engine, found["version"])
    assert found["rows"] == expected
