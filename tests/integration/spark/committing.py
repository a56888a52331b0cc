"""Commits that go wrong on purpose: what the job hands to the catalog, met by a barrier, a pause, or a lost answer."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import urlparse

from py4j.protocol import Py4JJavaError
from pyiceberg.table import Table

from firn_spark.merge import append_commit
from firn_spark.tables.writing import write_rows

LOSSES: Final = ("fine", "lost", "late", "never", "died before", "died after")
_ERRORS: Final = "org.apache.iceberg.exceptions"


def append_rows(spark: Any, table: Any, rows: Any, properties: dict[str, str], stream: str) -> None:
    """Rows (a DataFrame) in one fenced snapshot of a table as it was found, as a commit of an append table makes it."""
    append_commit.land(spark, table, write_rows(spark, table, rows), properties, stream)


class Died(BaseException):
    """The job is dead at this place: nothing in it catches this."""


class Unsure:
    """An update whose commit is done, or not, or later, and whose answer does not arrive. All else is the update's."""

    def __init__(self, update: Any, commit: Callable[[], None]) -> None:
        self._update = update
        self.commit = commit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._update, name)


class Loss:
    """Stands in for tables.fence.commit and loses answers as the dice say. `happened` counts what it did, `slow`
    holds the commits that are still to come."""

    def __init__(self, real: Callable[..., None], dice: random.Random, most_seconds: float = 1.5) -> None:
        self._real = real
        self._dice = dice
        self._most = most_seconds
        self.happened: Counter[str] = Counter()
        self.slow: list[threading.Thread] = []

    def __call__(self, spark: Any, table: Any, update: Any, files: Iterable[Any], properties: Any, stream: str) -> None:
        loss = self._dice.choices(LOSSES, (3, 3, 3, 2, 1, 2))[0]
        self.happened[loss] += 1
        if loss == "died before":
            raise Died(loss)
        seconds = self._dice.uniform(0, self._most)

        def commit() -> None:
            match loss:
                case "late":
                    slow = threading.Timer(seconds, self._late, [update])
                    slow.start()
                    self.slow.append(slow)
                case "lost" | "died after" | "fine":
                    update.commit()
            if loss == "died after":
                raise Died(loss)
            if loss != "fine":
                raise unknown(spark)

        self._real(spark, table, Unsure(update, commit), files, properties, stream)

    def _late(self, update: Any) -> None:
        try:
            update.commit()
            self.happened["late, and applied"] += 1
        except Py4JJavaError as error:
            kind = error.java_exception.getClass().getName()
            assert kind in {f"{_ERRORS}.ValidationException", f"{_ERRORS}.CommitFailedException"}, kind
            self.happened["late, and refused"] += 1


def unknown(spark: Any) -> Py4JJavaError:
    """The catalog's answer is not known."""
    jvm = spark._jvm
    cause = jvm.java.lang.RuntimeException("the connection was lost")
    return Py4JJavaError("lost", jvm.org.apache.iceberg.exceptions.CommitStateUnknownException(cause))


def files_of(table: Table) -> tuple[set[str], set[str]]:
    """(files that a snapshot of the table refers to, files on disk below its location). Names of local paths."""
    referred: set[str] = set()
    for snapshot in table.metadata.snapshots:
        referred.add(_path(snapshot.manifest_list))
        for manifest in snapshot.manifests(table.io):
            referred.add(_path(manifest.manifest_path))
            referred.update(_path(entry.data_file.file_path) for entry in manifest.fetch_manifest_entry(table.io))
    data = Path(_path(table.location())) / "data"
    there = {str(file) for file in data.rglob("*.parquet")}
    return referred, there


def _path(location: str) -> str:
    return urlparse(location).path if location.startswith("file:") else location


class LosesSwaps:
    """Stands in for firn_spark.branch.InPlace._swap, which swaps a table's metadata. Each swap meets the next of
    `fates`: fine, lost (it is made, and not answered), never (neither) or late (it is made just before the next one).
    Once they are used up all is fine."""

    def __init__(self, real: Callable[..., None], fates: list[str]) -> None:
        self._real = real
        self.fates = fates
        self.pending: Callable[[], None] | None = None

    def __call__(self, place: Any, table: Any, base: Any, builder: Any) -> None:
        fate = self.fates.pop(0) if self.fates else "fine"
        operations = table.java.operations()

        def commit(base: Any, wanted: Any) -> None:
            late, self.pending = self.pending, None
            if late is not None:
                late()
            if fate == "late":
                self.pending = lambda: operations.commit(base, wanted)
            elif fate != "never":
                operations.commit(base, wanted)
            if fate != "fine":
                raise unknown(place._spark)

        unsure = SimpleNamespace(java=SimpleNamespace(operations=lambda: SimpleNamespace(commit=commit)))
        self._real(place, unsure, base, builder)
