"""The real job with its log and its tables on each storage, and on two different ones: the rows are the same."""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from firn.log import published_configs
from firn.log.store import objects, open_store
from firn_lake.catalogs.catalog import open_catalog
from firn_spark.session import catalog_settings
from tests.integration.spark.homes import commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event
from tests.s3_servers import s3_environment
from tests.soak import long_only

pytestmark = pytest.mark.spark

_PART: Final = 5 * 2**20  # the least that S3 takes as a part of an upload
_MULTIPART: Final = {"part-size-bytes": _PART, "threshold": 1}


class StoredLake(Lake):
    """The same with its log and its tables at two URLs."""

    def __init__(self, spark: SparkSession, folder: Path, text: str, staging: str, warehouse: str) -> None:
        super().__init__(spark, folder, text)
        self.staging, self.warehouse = staging, warehouse
        self.store = open_store(staging)
        self.config = published_configs.publish(self.store, text)
        self.spark = spark.newSession()
        settings = catalog_settings(self.catalog_uri, warehouse, os.environ)
        settings |= {f"spark.sql.catalog.firn.s3.multipart.{name}": str(value) for name, value in _MULTIPART.items()}
        for name, value in settings.items():
            if name.startswith("spark.sql.catalog."):
                self.spark.conf.set(name, value)
        self.catalog: Any = open_catalog(self.catalog_uri, warehouse)


@dataclass(frozen=True)
class Storage:
    """An S3, and a folder beside it."""

    spark: SparkSession
    folder: Path

    def lake(self, name: str, staging: str, warehouse: str) -> StoredLake:
        """`staging` and `warehouse`: file or s3."""
        folder = self.folder / name
        folder.mkdir()
        at = {"file": f"file://{folder}", "s3": f"s3://lake/{name}"}
        return StoredLake(self.spark, folder, config(), f"{at[staging]}/staging", f"{at[warehouse]}/warehouse")


@pytest.fixture(scope="module")
def storage(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Storage]:
    folder = tmp_path_factory.mktemp("storage")
    with s3_environment(request.param, folder, "lake") as env, pytest.MonkeyPatch.context() as patch:
        # The JVM has the environment that it was started in: its credentials are properties of the system.
        system = spark._jvm.java.lang.System
        system.setProperty("aws.accessKeyId", env["AWS_ACCESS_KEY_ID"])
        system.setProperty("aws.secretAccessKey", env["AWS_SECRET_ACCESS_KEY"])
        # And so have its Python workers.
        patch.setattr(spark.sparkContext, "environment", {**spark.sparkContext.environment, **env})
        yield Storage(spark, folder)


def history(lake: Lake) -> dict[int, str]:
    """Creates, updates and deletes in two epochs, some of them twice. -> what the table must be."""
    dice, rows = random.Random(26), dict[int, str]()
    for epoch in range(2):
        events = []
        for n in range(40):
            key, lsn = dice.randrange(30), 100 + 100 * epoch + n
            if key in rows and dice.random() < 0.3:
                del rows[key]
                events.append(event("d", lsn, None, before={"id": key}))
            else:
                events.append(event("u" if key in rows else "c", lsn, {"id": key, "v": f"{epoch}.{n}"}))
                rows[key] = f"{epoch}.{n}"
        dice.shuffle(events)
        lake.land(events + events[:5])
    return rows


@pytest.mark.parametrize(
    ("storage", "staging", "warehouse"),
    [
        pytest.param("moto", "s3", "s3", marks=long_only),  # as tests/integration/spark/test_job_rights.py has it
        ("moto", "file", "s3"),
        ("moto", "s3", "file"),
        ("versitygw", "s3", "s3"),
        ("versitygw", "file", "s3"),
        ("versitygw", "s3", "file"),
    ],
    indirect=["storage"],
)
def test_the_rows_are_the_same_wherever_the_log_and_the_tables_are(
    storage: Storage, staging: str, warehouse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_in("driver", monkeypatch)
    lake = storage.lake(f"{staging}-{warehouse}", staging, warehouse)
    expected = history(lake)
    assert {row["id"]: row["v"] for row in lake.rows("lake.t")} == expected
    by_spark = lake.spark.table("firn.lake.t").select("id", "v").collect()
    assert {row["id"]: row["v"] for row in by_spark} == expected
    held = {url: [one.path for one in objects(open_store(url), "")] for url in (lake.staging, lake.warehouse)}
    assert any(path.startswith("staged/") for path in held[lake.staging])
    assert any(path.endswith(".parquet") for path in held[lake.warehouse])


@pytest.mark.parametrize("storage", [pytest.param("moto", marks=long_only), "versitygw"], indirect=True)
def test_tasks_read_the_log_there_and_write_files_in_parts(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_in("slices", monkeypatch)
    lake = storage.lake("parts", "s3", "s3")
    dice = random.Random(1)
    values = {n: dice.randbytes(600_000).hex() for n in range(10)}
    lake.land([event("c", 10 + n, {"id": n, "v": v}) for n, v in values.items()], at_once=2)
    assert {row["id"]: row["v"] for row in lake.rows("lake.t")} == values
    assert max(one.size for one in objects(open_store(lake.warehouse), "")) > _PART
