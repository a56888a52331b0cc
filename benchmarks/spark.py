"""One warm Spark session for a case, and tables of it that are as they were before each run.

A base table is loaded once and kept below `.cache/bench/tables`. A run gets a copy of its catalog, so what the run
writes is in no other run's table; `tidy` removes the files that runs left in the base table's folders.
"""

import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from pyspark.sql import SparkSession

from firn_spark import session

ROOT = Path(__file__).resolve().parents[1]
CACHE = (ROOT / ".cache" / "bench").resolve()  # tables name their files by where they are
TABLE = "bank.accounts"
COLUMNS = "id bigint NOT NULL, name string, balance decimal(18,2), branch int, updated_at timestamp, note string"


def start(memory: str = "4g", conf: Mapping[str, str] | None = None) -> SparkSession:
    """A session on two cores with the jars of `make setup`, for all catalogs."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    code = [ROOT / "layers" / "core" / "python", ROOT / "spark_emr"]
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, code))
    jars = ",".join(map(str, sorted((ROOT / ".cache" / "jars").glob("*.jar"))))
    scratch = CACHE / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    settings = {
        "spark.jars": jars,
        "spark.master": "local[2]",
        "spark.driver.memory": memory,
        "spark.local.dir": str(scratch),
    }
    return session.build("sqlite:////nowhere/catalog.db", "file:///nowhere", settings | dict(conf or {}))


def event_log(folder: Path) -> dict[str, str]:
    """Settings that make Spark write its event log into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{folder.absolute()}",
        "spark.eventLog.compress": "false",
    }  # fmt: skip


class Lake:
    """A catalog and a warehouse in `folder` (`tables`: the warehouse in another), and a session of their own."""

    def __init__(self, spark: SparkSession, folder: Path, tables: Path | None = None) -> None:
        self.folder = folder
        self.warehouse = f"file://{tables or folder}/warehouse"
        self.catalog_uri = f"sqlite:///{folder}/catalog.db"
        folder.mkdir(parents=True, exist_ok=True)
        # A session of its own: the catalog `firn` is bound to a folder when it is first used.
        self.spark = spark.newSession()
        for name, value in session.catalog_settings(self.catalog_uri, self.warehouse, os.environ).items():
            if name.startswith("spark.sql.catalog."):
                self.spark.conf.set(name, value)

    @property
    def table(self) -> dict[str, str]:
        """Where reference.digest_of finds the table."""
        return {"kind": "iceberg", "catalog": self.catalog_uri, "name": TABLE}


def base_lake(spark: SparkSession, name: str, load: Callable[[Lake], None], cache: Path = CACHE) -> Path:
    """The folder of the base lake `name`, made by `load` if it is not there, was made in another place, or lacks some
    of its files."""
    folder = cache / "tables" / name
    kept = folder / "files.txt"
    if not kept.exists() or not set(kept.read_text().splitlines()) <= set(map(str, _files(folder))):
        shutil.rmtree(folder, ignore_errors=True)
        load(Lake(spark, folder))
        kept.write_text("\n".join(sorted(str(path) for path in _files(folder))))
    tidy(folder)
    return folder


def tidy(folder: Path) -> None:
    """Removes what runs have written beside the base table's own files."""
    own = set((folder / "files.txt").read_text().splitlines())
    for path in _files(folder):
        if str(path) not in own:
            path.unlink()


def emptied(spark: SparkSession, folder: Path) -> Lake:
    """A lake without tables in `folder`, whatever was there."""
    shutil.rmtree(folder, ignore_errors=True)
    return Lake(spark, folder)


def restored(spark: SparkSession, base: Path, folder: Path) -> Lake:
    """A lake in `folder` (emptied) whose tables are those of the base lake."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # Not a copy of the file: what was written last may still stand in the journal beside it.
    with closing(sqlite3.connect(base / "catalog.db")) as now, closing(sqlite3.connect(folder / "catalog.db")) as copy:
        now.backup(copy)
    return Lake(spark, folder, base)  # where its tables lie: those outside of the warehouse are another deployment's


def _files(folder: Path) -> list[Path]:
    return [path for path in (folder / "warehouse").rglob("*") if path.is_file()]
