"""One JVM for all Spark tests of a run, and a lake for each test."""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn_lake.catalogs.catalog import open_catalog
from firn_local.spark_submit import jars
from firn_spark import lake as spark_lake
from firn_spark import session
from firn_spark.tables import evolve
from firn_spark.views.row_changes import SharedChanges
from firn_sql.views.refresh_way import is_repeatable
from tests.hive import Metastore, metastore
from tests.integration.spark.spark_lake import LAKES, ROOT, Lake, jvm_settings
from tests.rest_catalog import rest_server
from tests.soak import LONG

WORKERS = Path(__file__).with_name("workers")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One JVM for all Spark tests of a run."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    code = [ROOT / "layers" / "core" / "python", ROOT / "spark_emr", WORKERS]
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, code), os.environ.get("PYTHONPATH", "")])
    if not jars():
        pytest.fail("no jars in .cache/jars: run `make setup`")
    conf = {"spark.master": "local[2]", "spark.driver.memory": "2g"} | jvm_settings("driver")
    if not LONG:
        # Queries of ten rows: making a class for each stage takes longer than running it, and so do empty partitions
        # and a plan that is made again after each stage. `make soak` runs them as jobs do, and so do those of e2e.
        conf |= {
            "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2",
            # Each query's plan is written out for a page that nobody sees: in one line is enough.
            "spark.sql.ui.explainMode": "simple", "spark.python.daemon.module": "warm_daemon",
        }  # fmt: skip
        # This JVM lives as long as the run, not for seconds: 48 MB of code are full before half of it, and then what is
        # thrown out is compiled again. The garbage of a query is small, and most of it fits beside what lives.
        conf["spark.driver.extraJavaOptions"] += " -XX:ReservedCodeCacheSize=240m -Xms1g -Xmn512m"
    running = session.build("sqlite:////nowhere/catalog.db", "file:///nowhere", conf)
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def made_in_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tables are made in Iceberg's format FIRN_FORMAT, if that is set: what holds in format 2 holds in 3, but for
    tests that write by PyIceberg, or count files of deletes."""
    if version := os.environ.get("FIRN_FORMAT"):
        monkeypatch.setitem(evolve._PROPERTIES, evolve.FORMAT_VERSION, version)


@pytest.fixture(autouse=True)
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In tests of views, refreshes go by what changed and by the whole query in turn: tables as small as theirs would
    all go by the whole query."""
    if not request.path.name.startswith("test_view") or os.environ.get("FIRN_TPCH"):
        return
    from firn_spark.views import refreshed  # loads DuckDB

    turns, chosen = cycle((False, True)), refreshed.way_of

    def forced(plan: Any, facts: Any, changed: Any, view: int, kinds: Any) -> Any:
        found = chosen(plan, facts, changed, view, kinds)
        return replace(found, whole=bool(changed) and is_repeatable(plan, kinds) and next(turns))

    monkeypatch.setattr(refreshed, "way_of", forced)
    # All jobs of a test hold what one has read, as the refreshes of one that stays warm do.
    one = SharedChanges()
    monkeypatch.setattr(spark_lake, "SharedChanges", lambda: one)


@pytest.fixture(autouse=True)
def let_go() -> Iterator[None]:
    """What a test opened does not stay open till the run ends: Java starts a `chmod` for each file that it writes, and
    closes all that it has open in each of them."""
    before = len(LAKES)
    yield
    for one in LAKES[before:]:
        one.close()
    del LAKES[before:]


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Callable[[str], Lake]:
    """Makes a lake for a configuration, in a folder of the test's own."""
    return lambda config: Lake(spark, tmp_path, config)


@pytest.fixture(scope="session")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    """A real Hive Metastore for all Spark tests of a run; whoever asks for it is skipped where there is none."""
    with metastore(tmp_path_factory.mktemp("hive")) as running:
        yield running


@pytest.fixture
def catalog_uri(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """The address of a catalog without tables: of the kind that homes.CATALOGS names, else a SQLite file."""
    kind = getattr(request, "param", "sql")
    if kind == "rest":
        with rest_server(tmp_path, spark._jvm) as server:
            yield server.url
    elif kind == "hive":
        address = request.getfixturevalue("hive").url
        emptied(address)
        yield address
    else:
        yield f"sqlite:///{tmp_path}/catalog.db"


def emptied(address: str) -> None:
    """No tables of an earlier test are there, and no namespace that had its files elsewhere."""
    catalog = open_catalog(address, "file:///nowhere", {})
    for namespace in catalog.list_namespaces():
        for name in catalog.list_tables(namespace):
            catalog.drop_table(name)
        if namespace != ("default",):  # which is Hive's own, and stays
            catalog.drop_namespace(namespace)
