"""docs/types.md says what each engine sees of each type: what those do that are here.

FIRN_READ_MATRIX=write (`make read-matrix`) writes the page instead, with what was seen. CI reads each type in one of
the formats, by turns; FIRN_READ_MATRIX=all (`make test-servers`) and `make soak` in both.
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

from firn.config.names import TableName
from firn_lake.lake import Lake as Reader
from firn_spark.tables.evolve import Tables
from tests.integration.spark import read_matrix
from tests.integration.spark.engine_types import ENGINES, Read, cell
from tests.integration.spark.read_matrix import NAMES, Seen
from tests.integration.spark.read_tables import make_tables
from tests.integration.spark.spark_lake import ROOT, Lake
from tests.soak import LONG, few_cases
from tests.trino import Ask, missing, sql_catalog, trino

pytestmark = pytest.mark.spark

WRITES: Final = os.environ.get("FIRN_READ_MATRIX") == "write"
ALL: Final = WRITES or LONG or os.environ.get("FIRN_READ_MATRIX") == "all"
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
    kinds = list(read_matrix.values_of(form))
    by_turns = [kind for n, kind in enumerate(kinds) if kind in read_matrix.ONLY_3 or n % 2 == form % 2]
    return make_tables(lake, form, kinds if ALL else by_turns)


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
        kind = rows.schema["v"].dataType.simpleString()
        shown = rows.selectExpr("to_json(v) AS v") if kind == "variant" else rows
        return kind, shown.toArrow()["v"].to_pylist()

    (jar,) = (ROOT / ".cache" / "jars").glob("iceberg-spark-runtime-*.jar")
    return f"{lake.spark.version} with Iceberg {jar.stem.rpartition('-')[2]}", read


def by_firn(lake: Lake) -> tuple[str, Read]:
    def read(name: str) -> tuple[str, list[Any]]:
        found = Reader(lake.catalog).sql(f"SELECT v, typeof(v) AS type FROM {name} ORDER BY id").arrow()
        numbers = str(found.schema.field("v").type).startswith("timestamp[ns")
        return found["type"][0].as_py(), (found["v"].cast("int64") if numbers else found["v"]).to_pylist()

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
        kind = ask(f"SELECT typeof(v) AS type FROM {name} LIMIT 1")[0]["type"]
        fine = kind.startswith("timestamp(9)")
        rows = ask(f"SELECT {'CAST(v AS varchar) AS v' if fine else 'v'} FROM {name} ORDER BY id")
        return kind, [nanoseconds(row["v"]) if fine else value(kind, row["v"]) for row in rows]

    return ask("SELECT version() AS v")[0]["v"], read


def nanoseconds(text: str | None) -> int | None:
    """Since 1970, of `2026-11-26 10:00:00.000000001`, with or without ` UTC`."""
    if text is None:
        return None
    since = datetime.fromisoformat(text[:19]) - datetime(1970, 1, 1)
    return (since.days * 86_400 + since.seconds) * 10**9 + int(text[20:29])


def metadata_of(lake: Lake, name: str) -> str:
    found = Tables(lake.spark).load(TableName.parse(name))  # PyIceberg loads no table with a variant
    assert found is not None
    return str(found.java.operations().current().metadataFileLocation()).removeprefix("file:").replace("///", "/")


def held_to_the_page(form: int, found: dict[str, Seen], engine: str, version: str, cells: dict[str, str]) -> None:
    found[engine] = Seen(version, datetime.now(UTC).date().isoformat(), cells)
    if not WRITES:
        said = read_matrix.written()[form].get(engine)
        assert said is not None, f"docs/types.md does not say what {NAMES[engine]} sees: make read-matrix"
        there = {kind: said.cells[kind] for kind in cells}
        assert cells == there, f"{NAMES[engine]} {version} sees other than docs/types.md says: make read-matrix"


@few_cases(1)
@pytest.mark.parametrize("how", [by_spark, by_firn])
def test_what_is_in_the_project_sees_what_the_page_says(
    lake: Lake, tables: dict[str, str], form: int, found: dict[str, Seen], how: Callable[[Lake], tuple[str, Read]]
) -> None:
    version, read = how(lake)
    cells = read_matrix.cells_of({kind: cell(kind, read, name) for kind, name in tables.items()})
    held_to_the_page(form, found, how.__name__.removeprefix("by_"), version, cells)


@few_cases(1)
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


@pytest.fixture(scope="module")
def ask(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    with trino(tmp_path_factory.mktemp("trino"), sql_catalog(lake.catalog_uri, lake.warehouse)) as running:
        yield running


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_trino_sees_what_the_page_says(tables: dict[str, str], form: int, found: dict[str, Seen], ask: Ask) -> None:
    version, read = by_trino(ask)
    cells = read_matrix.cells_of({kind: cell(kind, read, name) for kind, name in tables.items()})
    held_to_the_page(form, found, "trino", version, cells)
