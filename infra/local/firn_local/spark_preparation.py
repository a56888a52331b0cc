"""Fetches what Spark needs and this machine lacks, while the embedded stack already takes rows: jobs wait for it, and
none fails for want of it. In a checkout `make setup` has done all of it.

`python -m firn_local.spark_preparation` does it in the foreground, for an image or before you go offline.
"""

import os
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from firn_local import child_process, java, spark_classes, spark_jars
from firn_local.environment import ARCHIVE, CLOUD_JARS, CLOUD_LOCKS, INSTALLED, JARS, JARS_LOCK, REPOSITORY
from firn_local.progress_bar import ProgressBar
from firn_local.spark_submit import pyspark_folder

_AGAIN_SECONDS = 10.0  # somebody installs Java, or the network comes back
_QUIET_SECONDS = 5.0
FIRST_CLASSES = REPOSITORY / "infra" / "setup" / "first_classes.py"


class SparkLacks(Exception):
    """Spark can't run here yet. The text says what is missing and what to do."""


class Preparation:
    """Everything that jobs need: `start` it, and they wait while `waits_for` says for what. `say` gets lines for
    people; `idle` tells whether no job runs, for what costs a minute and is not needed. `warehouse`: where tables lie,
    in a cloud that may need jars of its own."""

    def __init__(
        self, say: Callable[[str], None], idle: Callable[[], bool] = lambda: True, warehouse: str = ""
    ) -> None:
        self._say, self._idle, self._warehouse = say, idle, warehouse
        self._stopping = threading.Event()
        self._waits_for = "Spark's files to be looked for"
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Look, and bring what is missing in the background."""
        if not INSTALLED and not _lacking(self._warehouse):
            self._waits_for = ""  # what make setup makes is there, Java with it
            return
        self._thread = threading.Thread(target=self._prepare, name="spark-preparation", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave off. What is half done is thrown away."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(10)

    def waits_for(self) -> str:
        """What jobs wait for, "" if for nothing."""
        return self._waits_for

    def _prepare(self) -> None:
        said = ""
        while not self._stopping.is_set():
            try:
                bring_jars(self._stopping.is_set, self._warehouse)
                break
            except SparkLacks as error:
                self._waits_for = str(error)
            if self._waits_for != said and not self._stopping.is_set():
                said = self._waits_for
                self._say(
                    f"note: {said}\n      Until then rows are taken, and `firn query --fresh` reads them; they are "
                    "committed once Spark can run, which is looked at again and again."
                )
            self._stopping.wait(_AGAIN_SECONDS)
        if said and not self._stopping.is_set():
            self._say("Spark can run now")
        self._waits_for = ""
        quiet = False
        while INSTALLED and not self._stopping.wait(_QUIET_SECONDS):
            if quiet and self._idle():
                with suppress(SparkLacks):  # jobs are as good without, only slower to start
                    archive_classes(self._stopping.is_set)
                return
            quiet = self._idle()


def _lacking(warehouse: str) -> list[tuple[Path, Path]]:
    """(folder, lock) of the jars that are not all there."""
    wanted = [(JARS, JARS_LOCK), *spark_jars.needed(warehouse, CLOUD_JARS, CLOUD_LOCKS)]
    return [(folder, lock) for folder, lock in wanted if spark_jars.missing(folder, lock)]


def bring_jars(stopping: Callable[[], bool] = lambda: False, warehouse: str = "") -> None:
    """Fetch the jars that are missing, with a progress bar. Raises SparkLacks."""
    found, pyspark = _java_and_spark()
    for folder, lock in _lacking(warehouse):
        _bring(folder, lock, found, pyspark, stopping)


def _bring(folder: Path, lock: Path, found: java.Java, pyspark: Path, stopping: Callable[[], bool]) -> None:
    bar = ProgressBar(f"fetching Spark's jars for Iceberg, once, into {folder}")

    def run(_step: str, command: Sequence[str], tick: Callable[[], None]) -> None:
        child_process.run(command, os.environ, tick=tick, stopping=stopping)

    try:
        ivy = next((pyspark / "jars").glob("ivy-*.jar"))
        spark_jars.fetch(folder, lock, str(found.command), ivy, run, bar.update)
    except (spark_jars.WrongJar, child_process.CommandFailed, OSError, StopIteration) as error:
        raise SparkLacks(
            f"Spark's jars for Iceberg can't be fetched from Maven's registry: {error}\n"
            f"      What may help: {spark_jars.by_hand(folder, lock)}."
        ) from error
    finally:
        bar.end()


def archive_classes(stopping: Callable[[], bool] = lambda: False) -> None:
    """Make the archive of classes if there is none for this Java and this environment. Raises SparkLacks."""
    found, pyspark = _java_and_spark()
    wanted = spark_classes.stamp(found, pyspark, JARS_LOCK, FIRST_CLASSES)
    if spark_classes.is_current(ARCHIVE, wanted):
        return
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    _forget_gone_environments()
    made = ARCHIVE.with_name(f"making-{os.getpid()}.jsa")
    line = spark_classes.command(pyspark, FIRST_CLASSES, spark_classes.class_path(JARS, JARS_LOCK), made)
    environment = {**os.environ, **spark_classes.variables(found, pyspark, sys.executable)}
    try:
        child_process.run(["nice", *line], environment, stopping=stopping)
        spark_classes.take(made, ARCHIVE, wanted)
    except (child_process.CommandFailed, OSError) as error:
        raise SparkLacks(f"Spark's classes could not be archived: {error}") from error
    finally:
        made.unlink(missing_ok=True)


def _java_and_spark() -> tuple[java.Java, Path]:
    """Raises SparkLacks."""
    pyspark = pyspark_folder()
    if pyspark is None:
        raise SparkLacks("Spark is not installed here: pip install 'firn-cdc[spark]'")
    found = java.find()
    if found is None:
        raise SparkLacks(java.none_fits())
    return found, pyspark


def _forget_gone_environments() -> None:
    """Archives are large, and environments come and go: each leaves a file that says where it is."""
    if not INSTALLED:
        return
    (ARCHIVE.parent / "environment").write_text(sys.prefix)
    for note in ARCHIVE.parent.parent.glob("*/environment"):
        with suppress(OSError):
            if not Path(note.read_text()).exists():
                shutil.rmtree(note.parent, ignore_errors=True)


def main() -> int:
    """Bring everything now. -> the exit code."""
    try:
        bring_jars()
        archive_classes()
    except SparkLacks as error:
        print(f"firn: {error}", file=sys.stderr)
        return 1
    print(f"Spark can run: its jars are in {JARS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
