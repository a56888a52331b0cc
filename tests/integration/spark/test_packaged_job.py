"""The packaged job commits, from outside of the source tree, with nothing but what an EMR image has of its own."""

import hashlib
import json
import os
import subprocess
import tarfile
import venv
from pathlib import Path

import pyspark
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from firn.ingest import accept
from firn.log import epochs, published_configs
from firn.log.store import open_store
from firn_local.spark_submit import java_options
from infra.package import job, measurement
from tests.e2e.conftest import packaged_job
from tests.integration.spark.spark_lake import START, ndjson
from tests.soak import long_only

pytestmark = pytest.mark.spark

CONFIG = """
streams:
  shop:
    envelope: debezium
    commit: {linger: 0s}
    tables:
      public.orders: {to: shop.orders, key: [id]}
"""


def order(number: int) -> dict[str, object]:
    source = {"connector": "postgresql", "schema": "public", "table": "orders", "ts_ms": 1, "lsn": number}
    source["sequence"] = f'["{number}","{number}"]'
    return {"before": None, "after": {"id": number, "total": "1.50"}, "op": "c", "source": source, "ts_ms": 1}


@long_only
def test_the_packaged_job_commits_outside_of_the_source_tree(tmp_path: Path) -> None:
    code, work = packaged_job(), tmp_path / "work"
    manifest = json.loads((code / job.MANIFEST).read_text())
    assert job.current(code, manifest["python"]) == manifest
    assert job.current(code, "3.1") is None
    assert measurement.measure_job(code, manifest).problems == ()
    work.mkdir()
    staging, warehouse = f"file://{tmp_path}/staging", f"file://{tmp_path}/warehouse"
    catalog = f"sqlite:///{tmp_path}/catalog.db"
    store = open_store(staging)
    config = published_configs.publish(store, CONFIG)
    accept.accept(store, config, "shop", ndjson([order(n) for n in range(1, 101)]), now=START)
    found = epochs.candidates(store, "shop", START, above=0)
    assert epochs.seal(store, "shop", found, now=START, config=config.sha, nonce="n") is not None

    # What EMR does with spark.archives NAME#job: it unpacks it into the working directory.
    with tarfile.open(code / "job.tar.gz") as archive:
        archive.extractall(work / "job", filter="data")
    # The image's own Python has neither Firn nor any of its libraries.
    venv.create(tmp_path / "image", with_pip=False)
    python = str(tmp_path / "image" / "bin" / "python")
    spark = Path(pyspark.__file__).parent
    # The SQLite driver is for catalogs on a laptop: on AWS nobody needs it.
    sqlite = next((job.ROOT / ".cache" / "jars").glob("sqlite-jdbc-*.jar"))
    jars = [code / "iceberg-spark-runtime.jar", code / "iceberg-aws-bundle.jar", sqlite]
    done = subprocess.run(
        [
            *(str(spark / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "1g"),
            *("--jars", ",".join(map(str, jars)), "--conf", "spark.executorEnv.PYTHONPATH=./job"),
            *("--conf", "spark.driver.bindAddress=127.0.0.1", "--conf", "spark.ui.enabled=false"),
            *("--driver-java-options", java_options()),
            *(
                str(code / "start.py"),
                manifest["sha256"],
                "commit.py",
                "--stream",
                "shop",
                "--staging",
                staging,
                "--warehouse",
                warehouse,
            ),
            *("--catalog-uri", catalog, "--first", "1", "--last", "1"),
        ],
        cwd=work,
        env={
            **{name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME", "LANG") if name in os.environ},
            "SPARK_HOME": str(spark),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    rows = SqlCatalog("firn", uri=catalog, warehouse=warehouse).load_table("shop.orders").scan().to_arrow()
    assert sorted(rows["id"].to_pylist()) == list(range(1, 101))

    for name, described in manifest["files"].items():
        content = (code / name).read_bytes()
        assert described == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
