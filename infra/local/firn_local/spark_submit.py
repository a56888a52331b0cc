"""The spark-submit command of a job run: what EMR Serverless's image and role give it, from this machine's parts."""

import filecmp
import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from firn_local import java, spark_classes, spark_jars
from firn_local.environment import ARCHIVE, CLOUD_JARS, CLOUD_LOCKS, JARS, JARS_LOCK, source_path
from firn_local.image import Prepared
from firn_local.other_s3 import key_of_caller

# The JVM does not read TMPDIR, and the SQLite driver unpacks its library there: hence java.io.tmpdir. Jobs here live
# for seconds: the optimising compiler would take half of their CPU and never pay it back (46 against 24 CPU seconds for
# a commit of 30,000 changes), and one heap of 1 GB needs no parallel collector.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def java_options(archive: Path = ARCHIVE) -> str:
    """The JVM's options for jobs that live for seconds. With the archive of classes (spark_classes) Spark and Iceberg
    start in six tenths of the time; a JVM that it does not fit leaves it alone."""
    return f'{SHORT_LIVED} "-XX:SharedArchiveFile={archive}" -Xlog:cds*=off' if archive.exists() else SHORT_LIVED


def jars(folder: Path = JARS, lock: Path = JARS_LOCK) -> list[str]:
    """The jars that the lock names, as far as they are there; other versions of Firn may keep theirs beside them. The
    archive of classes is for a class path of just these, in this order: it can't hold classes of jars that Spark gets
    by --jars."""
    return spark_classes.class_path(folder, lock)


def _class_path(found: Sequence[str], prepared: Prepared) -> list[str]:
    """Those of the jars that a run has on its class path. One that brings its own gets ours only where they are the
    same to the byte, and otherwise the driver of catalogs on a laptop alone: it runs as it would on AWS."""
    if not prepared.own_code:
        return list(found)
    brought = [
        Path(jar)
        for option, value in pairwise(prepared.parameters)
        if option == "--jars"
        for jar in value.split(",")
        if Path(jar).is_file()
    ]
    drivers = [jar for jar in found if Path(jar).name.startswith("sqlite-jdbc-")]
    same = all(jar in drivers or any(filecmp.cmp(jar, one, shallow=False) for one in brought) for jar in found)
    return list(found) if same else drivers


def pyspark_folder() -> Path | None:
    """Where PySpark, and Spark with it, is installed; None if it is not."""
    importlib.invalidate_caches()
    found = importlib.util.find_spec("pyspark")
    return None if found is None or found.origin is None else Path(found.origin).parent


def spark_submit_path() -> str:
    """The spark-submit of the PySpark that is installed here."""
    folder = pyspark_folder()
    return "spark-submit" if folder is None else str(folder / "bin" / "spark-submit")


@dataclass(frozen=True)
class SparkSubmit:
    """How to start Spark here.

    `command` is what to run in place of spark-submit's path (tests run a script that needs no JVM). `environment` is
    added to each job's: AWS endpoint and credentials. `cores` is the N of local[N]; `memory` the driver's heap, and in
    local mode the driver is all there is.
    """

    command: Sequence[str] = field(default_factory=lambda: (spark_submit_path(),))
    environment: Mapping[str, str] = field(default_factory=dict)
    cores: int = min(2, os.cpu_count() or 1)
    memory: str = "1g"
    jars: Path = JARS
    lock: Path = JARS_LOCK
    archive: Path = ARCHIVE

    def arguments(
        self,
        driver: Mapping[str, Any],
        overrides: Mapping[str, Any],
        entry_point: str,
        scratch: Path,
        prepared: Prepared,
    ) -> list[str]:
        """The command line for a `sparkSubmit` job driver and its `configurationOverrides`.

        Later wins in spark-submit, so the order is: this machine's settings, the run's configuration, then the run's
        own sparkSubmitParameters (`prepared`), as on EMR. `entry_point` is a local path; `scratch` takes temporary
        files.
        """
        class_path = _class_path(jars(self.jars, self.lock), prepared) + self._of_cloud()
        settings = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # Loopback is other users' too: they may not speak to the driver. Spark makes a secret of its own here.
            "spark.authenticate": "true",
            "spark.driver.extraJavaOptions": f'"-Djava.io.tmpdir={scratch}" {java_options(self.archive)}',
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            **spark_defaults(overrides),
        }
        return [
            *self.command,
            *("--master", f"local[{self.cores}]", "--driver-memory", self.memory),
            *(("--driver-class-path", os.pathsep.join(class_path)) if class_path else ()),
            *(part for key, value in settings.items() for part in ("--conf", f"{key}={value}")),
            *prepared.parameters,
            entry_point,
            *driver.get("entryPointArguments", ()),
        ]

    def _of_cloud(self) -> list[str]:
        """The jars of the warehouse's cloud, last: the archive of classes is for what comes before them."""
        warehouse = self.environment.get("FIRN_WAREHOUSE", "")
        found = spark_jars.needed(warehouse, CLOUD_JARS, CLOUD_LOCKS)
        return [jar for folder, lock in found for jar in spark_classes.class_path(folder, lock)]

    def process_environment(self, scratch: Path, prepared: Prepared) -> dict[str, str]:
        """The job's environment. `scratch` takes Spark's local and temporary files, and goes with the run."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "FIRN_", "SPARK_"))
        }
        return {
            **inherited,
            **self.environment,
            # As each function, so that the endpoint can tell who calls.
            **key_of_caller("job", self.environment),
            **_spark(),
            **({"PYTHONPATH": ""} if prepared.own_code else _own_code()),
            **prepared.environment,
            "PYTHONUNBUFFERED": "1",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(scratch),
            "TMPDIR": str(scratch),
        }


def _own_code() -> dict[str, str]:
    """For a run without code of its own: that of this Firn, and the libraries of this environment."""
    # Of the lake's folder firn_sql alone is imported.
    return {
        "PYTHONPATH": source_path("layers/core/python", "layers/lake/python", "spark_emr"),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def _spark() -> dict[str, str]:
    """Where Spark and its Java are, also for a Python that has no PySpark: as in EMR's image, Spark brings it."""
    folder, found = pyspark_folder(), java.find()
    return {
        **({"SPARK_HOME": str(folder)} if folder is not None else {}),
        **({"JAVA_HOME": str(found.home)} if found is not None else {}),
    }


def spark_defaults(overrides: Mapping[str, Any]) -> dict[str, str]:
    """Spark properties of `configurationOverrides`: its applicationConfiguration's spark-defaults."""
    properties: dict[str, str] = {}
    for configuration in overrides.get("applicationConfiguration") or ():
        if configuration.get("classification") == "spark-defaults":
            properties.update(configuration.get("properties") or {})
    return properties
