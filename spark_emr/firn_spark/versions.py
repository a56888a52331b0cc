"""What a job runs with, and where each class of it came from: said first of all, and refused if it was never tested."""

import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

import firn
from firn.errors import TransientError
from firn.runs.versions import Part, differing

_CLASSES: Final = {
    "spark": "org.apache.spark.SparkContext",
    "iceberg": "org.apache.iceberg.Table",
    "s3_file_io": "org.apache.iceberg.aws.s3.S3FileIO",
    "aws_sdk": "software.amazon.awssdk.core.util.VersionInfo",
}

# A class of each cloud's library, and the jar that brings it.
_CLOUDS: Final = {
    "abfss": ("com.azure.storage.file.datalake.DataLakeFileSystemClient", "iceberg-azure-bundle-1.10.0.jar"),
    "gs": ("com.google.cloud.storage.Storage", "iceberg-gcp-bundle-1.11.0.jar"),
}


def check(spark: SparkSession) -> None:
    """Logs a line that names versions and places. Raises TransientError if the job was not tested with them: no table
    and no change is at fault, so nothing is held for it, and the right job finds all as it was."""
    found = parts(spark)
    said = {part.name: {"version": part.version, "from": part.place} for part in found}
    print(json.dumps({"status": "runs with", **said}), flush=True)
    if why := differing(found, packaged_for()):
        raise TransientError(why)


def check_storage(spark: SparkSession, warehouse: str) -> None:
    """Raises TransientError, as `check` does, if the library of the warehouse's cloud is not on the class path."""
    known = _CLOUDS.get(warehouse.partition("://")[0])
    if known is not None and not _place(spark._jvm, known[0]):
        raise TransientError(
            f"this job's warehouse is {warehouse}, and {known[1]} is not on its class path. Nothing was committed. Add "
            "it to spark.jars of the job's parameters, as docs/clouds.md says"
        )


def parts(spark: SparkSession) -> list[Part]:
    """Python, Spark, Iceberg and the AWS SDK; a class that is not there has no version and no place."""
    jvm: Any = spark._jvm
    versions = {
        "spark": str(spark.version),
        "iceberg": _said(lambda: jvm.org.apache.iceberg.IcebergBuild.version()),
        "aws_sdk": _said(lambda: jvm.software.amazon.awssdk.core.util.VersionInfo.SDK_VERSION),
    }
    versions["s3_file_io"] = versions["iceberg"]
    places = {name: _place(jvm, of) for name, of in _CLASSES.items()}
    python = Part("python", platform.python_version(), sys.executable)
    return [python, *(Part(name, versions[name] if place else "", place) for name, place in places.items())]


def packaged_for() -> str | None:
    """The Python that the archive which this code lies in was made for; None outside of one."""
    contents = Path(firn.__file__).parents[1] / "contents.json"
    return str(json.loads(contents.read_bytes())["python"]) if contents.exists() else None


def _place(jvm: Any, name: str) -> str:
    try:
        found = jvm.py4j.reflection.ReflectionUtil.classForName(name)
    except Py4JError:
        return ""
    source = found.getProtectionDomain().getCodeSource()
    return "" if source is None else str(source.getLocation().toString())


def _said(ask: Callable[[], Any]) -> str:
    try:
        return str(ask())
    except (Py4JError, TypeError):  # a class that is not there is taken for a package, which can't be called
        return ""
