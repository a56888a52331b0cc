"""The spark-submit command of a job run: what EMR Serverless's image and role give it, from this machine's parts."""

import os
import shlex
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firn_local.environment import REPOSITORY

# The JVM does not read TMPDIR, and the SQLite driver unpacks its library there: hence java.io.tmpdir. Jobs here live
# for seconds: the optimising compiler would take half of their CPU and never pay it back (46 against 24 CPU seconds for
# a commit of 30,000 changes), and one heap of 1 GB needs no parallel collector.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def spark_submit_path() -> str:
    """The spark-submit of the environment that runs this: pyspark puts it beside the interpreter."""
    return str(Path(sysconfig.get_path("scripts")) / "spark-submit")


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
    repository: Path = REPOSITORY

    def arguments(
        self, driver: Mapping[str, Any], overrides: Mapping[str, Any], entry_point: str, scratch: Path
    ) -> list[str]:
        """The command line for a `sparkSubmit` job driver and its `configurationOverrides`.

        Later wins in spark-submit, so the order is: this machine's settings, the run's configuration, then the run's
        own sparkSubmitParameters, as on EMR. `entry_point` is a local path; `scratch` takes temporary files.
        """
        jars = ",".join(str(jar) for jar in sorted((self.repository / ".cache" / "jars").glob("*.jar")))
        settings = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # Loopback is other users' too: they may not speak to the driver. Spark makes a secret of its own here.
            "spark.authenticate": "true",
            "spark.driver.extraJavaOptions": f'"-Djava.io.tmpdir={scratch}" {SHORT_LIVED}',
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            **spark_defaults(overrides),
        }
        return [
            *self.command,
            *("--master", f"local[{self.cores}]", "--driver-memory", self.memory),
            *(("--jars", jars) if jars else ()),
            *(part for key, value in settings.items() for part in ("--conf", f"{key}={value}")),
            *shlex.split(driver.get("sparkSubmitParameters") or ""),
            entry_point,
            *driver.get("entryPointArguments", ()),
        ]

    def process_environment(self, scratch: Path) -> dict[str, str]:
        """The job's environment. `scratch` takes Spark's local and temporary files, and goes with the run."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "FIRN_", "SPARK_"))
        }
        code = [self.repository / "layers" / "core" / "python", self.repository / "spark_emr"]
        return {
            **inherited,
            **self.environment,
            # As each function, so that the endpoint can tell who calls.
            **({"AWS_ACCESS_KEY_ID": "job"} if "AWS_ACCESS_KEY_ID" in self.environment else {}),
            # On EMR the same folders come as --py-files.
            "PYTHONPATH": os.pathsep.join(map(str, code)),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONUNBUFFERED": "1",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(scratch),
            "TMPDIR": str(scratch),
        }


def spark_defaults(overrides: Mapping[str, Any]) -> dict[str, str]:
    """Spark properties of `configurationOverrides`: its applicationConfiguration's spark-defaults."""
    properties: dict[str, str] = {}
    for configuration in overrides.get("applicationConfiguration") or ():
        if configuration.get("classification") == "spark-defaults":
            properties.update(configuration.get("properties") or {})
    return properties
