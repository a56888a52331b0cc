"""Jobs wait until Spark can run, and why is said once."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from firn_local import child_process, environment, spark_preparation
from firn_local.environment import cache_folder
from firn_local.java import Java
from firn_local.progress_bar import ProgressBar
from firn_local.spark_preparation import Preparation, SparkLacks


def eventually(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_jobs_wait_for_what_is_missing_which_is_said_once_and_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [SparkLacks("a Java is missing"), SparkLacks("a Java is missing"), None]
    first, go_on = threading.Event(), threading.Event()

    def bring(_stopping: Callable[[], bool], _warehouse: str) -> None:
        if len(answers) == 2:
            first.set()
            assert go_on.wait(10)
        if (answer := answers.pop(0)) is not None:
            raise answer

    monkeypatch.setattr(spark_preparation, "INSTALLED", True)
    monkeypatch.setattr(spark_preparation, "bring_jars", bring)
    monkeypatch.setattr(spark_preparation, "archive_classes", lambda _stopping: None)
    monkeypatch.setattr(spark_preparation, "_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(spark_preparation, "_QUIET_SECONDS", 0.01)
    told: list[str] = []
    preparation = Preparation(told.append)
    assert preparation.waits_for()
    preparation.start()
    assert first.wait(10)
    assert preparation.waits_for() == "a Java is missing"
    go_on.set()
    eventually(lambda: not preparation.waits_for())
    preparation.stop()
    assert [line.splitlines()[0] for line in told] == ["note: a Java is missing", "Spark can run now"]
    assert "Until then rows are taken" in told[0]


def test_the_archive_of_classes_is_made_only_while_no_job_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    busy, made = [True], threading.Event()
    monkeypatch.setattr(spark_preparation, "INSTALLED", True)
    monkeypatch.setattr(spark_preparation, "bring_jars", lambda _stopping, _warehouse: None)
    monkeypatch.setattr(spark_preparation, "archive_classes", lambda _stopping: made.set())
    monkeypatch.setattr(spark_preparation, "_QUIET_SECONDS", 0.01)
    preparation = Preparation(lambda _line: None, lambda: not busy[0])
    preparation.start()
    eventually(lambda: not preparation.waits_for())
    assert not made.wait(0.2)
    busy[0] = False
    assert made.wait(10)
    preparation.stop()


def test_a_registry_that_fails_is_told_with_what_may_help(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "ivy-2.jar").touch()
    found = Java(tmp_path / "java", "17", 17)
    found.command.write_text("#!/bin/sh\necho 'unknown host' >&2\nexit 1\n")
    found.command.chmod(0o755)
    monkeypatch.setattr(spark_preparation, "JARS", tmp_path / "cache")
    monkeypatch.setattr(spark_preparation, "_java_and_spark", lambda: (found, tmp_path))
    with pytest.raises(SparkLacks) as told:
        spark_preparation.bring_jars()
    assert "exit code 1\nunknown host" in str(told.value)
    assert f"into {tmp_path / 'cache'}" in str(told.value)


def test_the_jars_of_a_cloud_are_wanted_only_where_the_warehouse_is_in_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(spark_preparation, "CLOUD_JARS", tmp_path)
    names = {lock.name for _, lock in spark_preparation._lacking("abfss://lake@acme.dfs.core.windows.net/w")}
    assert "azure_jars.lock" in names
    assert "google_jars.lock" not in names
    assert "google_jars.lock" in {lock.name for _, lock in spark_preparation._lacking("gs://acme-lake/w")}
    for warehouse in ("s3://acme-lake/w", "file:///lake", ""):
        assert {lock.name for _, lock in spark_preparation._lacking(warehouse)} <= {"jars.lock"}


@pytest.mark.parametrize("lacks", ["pyspark", "java"])
def test_what_spark_lacks_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lacks: str) -> None:
    monkeypatch.setattr(spark_preparation, "pyspark_folder", lambda: None if lacks == "pyspark" else tmp_path)
    monkeypatch.setattr(spark_preparation.java, "find", lambda: None)
    with pytest.raises(SparkLacks, match=r"firn-cdc\[spark\]" if lacks == "pyspark" else "Java 17 or 21"):
        spark_preparation.bring_jars()


def test_a_step_that_nobody_waits_for_any_more_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    stopping = threading.Event()
    script = f"sleep 60 & echo $! > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; wait"
    ticks: list[float] = []

    def stop_soon() -> None:
        ticks.append(time.monotonic())
        if (tmp_path / "pid").exists():
            stopping.set()

    with pytest.raises(child_process.CommandFailed, match="stopped"):
        child_process.run(["sh", "-c", script], {"PATH": "/usr/bin:/bin"}, tick=stop_soon, stopping=stopping.is_set)
    assert ticks
    stat = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    eventually(lambda: not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z")


def test_an_installed_firn_keeps_what_it_fetches_where_the_user_has_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert cache_folder({}, installed=True) == Path("/home/ada/.cache/firn")
    assert cache_folder({"XDG_CACHE_HOME": "/big"}, installed=True) == Path("/big/firn")
    assert cache_folder({"XDG_CACHE_HOME": "relative"}, installed=True) == Path("/home/ada/.cache/firn")
    assert cache_folder({"XDG_CACHE_HOME": "/big"}, installed=False) == environment.REPOSITORY / ".cache"


class Out:
    """A terminal, or none."""

    def __init__(self, terminal: bool) -> None:
        self.text, self._terminal = "", terminal

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        """Nothing is kept back."""

    def isatty(self) -> bool:
        return self._terminal


def test_a_download_is_a_bar_in_a_terminal_and_a_line_elsewhere() -> None:
    told = []
    for terminal in (True, False):
        out = Out(terminal)
        bar = ProgressBar("fetching", out)  # type: ignore[arg-type]
        for done in (0, 64_000_000, 128_000_000):
            bar.update(done, 128_000_000)
        bar.end()
        told.append(out.text)
    assert told[0].count("\r") == 3
    assert f"{'█' * 15}{'░' * 15} 64 MB of 128 MB" in told[0]
    assert told[0].endswith("128 MB of 128 MB\x1b[K\n")
    assert told[1] == "fetching: 128 MB\n"
