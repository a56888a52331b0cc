"""docs/types.md says what each engine sees of each type: what those do that are here.

FIRN_READ_MATRIX=write (`make read-matrix`) writes the page instead, with what was seen.
"""

import json
import os
import re
import subprocess
from base64 import b64decode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, time
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from firn_lake.lake import Lake as Reader
from tests.integration.spark import read_matrix
from tests.integration.spark.engine_types import ENGINES, Read, cell
from tests.integration.spark.read_matrix import NAMES, Seen
from tests.integration.spark.spark_lake import ROOT, Lake
from tests.trino import Ask, missing, sql_catalog, trino

pytestmark = pytest.mark.spark

WRITES: Final = os.environ.get("FIRN_READ_MATRIX") == "write"
CONFIG: Final = """
warehouse: file:///set/by/the/deployment
catalog: {type: sql}
streams: {spec: {tables: {app.t: {to: lake.t, key: [id]}}}}
"""
_INNER_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}")
_SCRIPT: Final = Path(read_matrix.__file__).with_name("engine_types.py")


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(spark, tmp_path_factory.mktemp("matrix"), CONFIG)


@pytest.fixture(scope="module", params=read_matrix.FORMATS)
def form(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def tables(lake: Lake, form: int) -> dict[str, str]:
    return read_matrix.make_tables(lake.catalog, form)


@pytest.fixture(scope="module")
def found(form: int) -> Iterator[dict[str, Seen]]:
    """What the tests saw, for the page."""
    seen: dict[str, Seen] = {}
    yield seen
    if WRITES:
        read_matrix.write({form: seen})


def by_spark(lake: Lake) -> tuple[str, Read]:
    def read(name: str) -> tuple[str, list[Any]]:
        rows = lake.spark.table(f"firn.{name}").orderBy("id").select("v")
        return rows.schema["v"].dataType.simpleString(), rows.toArrow()["v"].to_pylist()

    (jar,) = (ROOT / ".cache" / "jars").glob("iceberg-spark-runtime-*.jar")
    return f"{lake.spark.version} with Iceberg {jar.stem.rpartition('-')[2]}", read


def by_firn(lake: Lake) -> tuple[str, Read]:
    def read(name: str) -> tuple[str, list[Any]]:
        found = Reader(lake.catalog).sql(f"SELECT v, typeof(v) AS type FROM {name} ORDER BY id").pylist()
        return found[0]["type"], [row["v"] for row in found]

    return f"DuckDB {version('duckdb')} over `firn_lake`", read


def by_trino(ask: Ask) -> tuple[str, Read]:
    """Values come as JSON: what that has no word for as text, of which Trino's type says what it is."""

    def value(kind: str, one: Any) -> Any:
        if one is not None and kind == "varbinary":
            return b64decode(one)
        if one is not None and kind.startswith("time("):
            return time.fromisoformat(one)
        if one is not None and kind in ("real", "double"):
            return float(one)
        if isinstance(one, list):
            return [value("", part) for part in one]
        return datetime.fromisoformat(one) if isinstance(one, str) and _INNER_TIME.fullmatch(one) else one

    def read(name: str) -> tuple[str, list[Any]]:
        rows = ask(f"SELECT v, typeof(v) AS type FROM {name} ORDER BY id")
        return rows[0]["type"], [value(row["type"], row["v"]) for row in rows]

    return ask("SELECT version() AS v")[0]["v"], read


def metadata_of(lake: Lake, name: str) -> str:
    return lake.catalog.load_table(name).metadata_location.removeprefix("file://")


def held_to_the_page(form: int, found: dict[str, Seen], engine: str, version: str, cells: dict[str, str]) -> None:
    found[engine] = Seen(version, datetime.now(UTC).date().isoformat(), cells)
    if not WRITES:
        said = read_matrix.written()[form].get(engine)
        assert said is not None, f"docs/types.md does not say what {NAMES[engine]} sees: make read-matrix"
        assert cells == said.cells, f"{NAMES[engine]} {version} sees other than docs/types.md says: make read-matrix"


@pytest.mark.parametrize("how", [by_spark, by_firn])
def test_what_is_in_the_project_sees_what_the_page_says(
    lake: Lake, tables: dict[str, str], form: int, found: dict[str, Seen], how: Callable[[Lake], tuple[str, Read]]
) -> None:
    version, read = how(lake)
    cells = read_matrix.cells_of({kind: cell(kind, read, name) for kind, name in tables.items()})
    held_to_the_page(form, found, how.__name__.removeprefix("by_"), version, cells)


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_of_others_see_what_the_page_says(
    lake: Lake, tables: dict[str, str], form: int, found: dict[str, Seen], engine: str
) -> None:
    environment = {"duckdb": ".venv-duckdb", "pyiceberg": ".venv"}.get(engine, ".venv-engines")
    python = ROOT / environment / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{engine} is not installed: run `make setup-engines`")
    places = [f"{kind}={metadata_of(lake, name)}" for kind, name in tables.items()]
    done = subprocess.run([python, _SCRIPT, engine, *places], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    held_to_the_page(form, found, engine, told["version"], read_matrix.cells_of(told["seen"]))


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_trino_sees_what_the_page_says(
    lake: Lake, tables: dict[str, str], form: int, found: dict[str, Seen], tmp_path: Path
) -> None:
    with trino(tmp_path, sql_catalog(lake.catalog_uri, lake.warehouse)) as ask:
        version, read = by_trino(ask)
        cells = read_matrix.cells_of({kind: cell(kind, read, name) for kind, name in tables.items()})
    held_to_the_page(form, found, "trino", version, cells)
