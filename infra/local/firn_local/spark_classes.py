"""Java's archive of the classes that Spark loads first, made at the end of a small job: jobs of the embedded stack
start in six tenths of the time then. It fits one Java and one class path, that of firn_local.spark_submit; a JVM that
it does not fit leaves it alone. Standard library only: `make setup` uses it too."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from firn_local.java import Java
from firn_local.spark_jars import locked


def stamp(java: Java, pyspark: Path, lock: Path, script: Path) -> str:
    """One hash of what an archive is for; `script` is the small job."""
    digest = hashlib.sha256(f"{java.version} {java.home} {pyspark}".encode())
    for file in (pyspark / "version.py", lock, script):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def is_current(archive: Path, wanted: str) -> bool:
    """Whether one was made for that, or such a Java made none."""
    try:
        return archive.with_suffix(".firn-setup").read_text() == wanted
    except OSError:
        return False


def take(made: Path, archive: Path, wanted: str) -> None:
    """Put what a job has made where the next ones find it. A Java that makes none is as good without."""
    if made.exists():
        made.replace(archive)
    stamp_file = archive.with_suffix(".firn-setup")
    stamp_file.unlink(missing_ok=True)  # a copy of the folder by hard links keeps its own
    stamp_file.write_text(wanted)


def class_path(jars: Path, lock: Path) -> list[str]:
    """The jars that the lock names, as far as they are there. The archive is for a class path of just these, in this
    order: it can't hold classes of jars that Spark gets by --jars. Others may be of another version of Firn."""
    return sorted(str(jars / jar.file) for jar in locked(lock) if (jars / jar.file).exists())


def command(pyspark: Path, script: Path, class_path: list[str], made: Path) -> list[str]:
    """The small job, which leaves the archive at `made`."""
    options = f'-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "-XX:ArchiveClassesAtExit={made}" -Xlog:cds*=off'
    return [
        *(str(pyspark / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "1g"),
        *("--driver-class-path", os.pathsep.join(class_path)),
        *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false"),
        *("--conf", f"spark.driver.extraJavaOptions={options}", str(script)),
    ]


def variables(java: Java, pyspark: Path, python: str) -> Mapping[str, str]:
    """What that command needs in its environment."""
    return {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(pyspark),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
    }
