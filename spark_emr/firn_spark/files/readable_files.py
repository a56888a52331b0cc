"""Which files of a table are read in this process, without Spark: Parquet as the table's own, with position deletes
or deletion vectors."""

from collections.abc import Collection, Iterable
from typing import Any

import pyarrow as pa

from firn_spark.not_eligible import ForeignFiles
from firn_spark.tables.deletes import is_by_position


def is_parquet(file: Any) -> bool:
    """Whether an org.apache.iceberg.ContentFile is."""
    return str(file.format().name()) == "PARQUET"


def why_not(file: Any, gone: Iterable[Any]) -> str:
    """Why a data file (org.apache.iceberg.DataFile) with these files of deletes is not read; "" if it is."""
    if not is_parquet(file):
        return "files that are not Parquet"
    return "" if all(map(is_by_position, gone)) else "deletes that are not by position in Parquet or Puffin"


def others_of(scan: Any) -> ForeignFiles:
    """The files of an org.apache.iceberg.TableScan that are not read. Asked file by file: this is rare."""
    tasks = scan.planFiles()
    found: dict[str, str] = {}
    try:
        iterator = tasks.iterator()
        while iterator.hasNext():
            task = iterator.next()
            if why := why_not(task.file(), task.deletes()):
                found[str(task.file().location())] = why
    finally:
        tasks.close()
    return ForeignFiles(next(iter(found.values())), found)


def other(error: pa.ArrowException, paths: Collection[str]) -> ForeignFiles:
    """What to raise where these data files turn out to be other than the table's own."""
    return ForeignFiles(f"files that can't be read as their table: {str(error).splitlines()[0]}", paths)
