"""SIGKILL of whole jobs (spark-submit, its JVM and its Python) at each step of a commit to a Hive Metastore, before it
and with its answer lost: the next run gets past what the killed one left, and each epoch is in once."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.log import cuts
from firn_local.image import Prepared
from firn_local.spark_submit import SparkSubmit
from firn_local.tether import kill_session
from tests.hive import Metastore, metastore, missing
from tests.hive_calls import Calls, before
from tests.integration.snapshots import epochs_of
from tests.integration.spark.committing import files_of
from tests.integration.spark.conftest import emptied
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import ROOT, Lake
from tests.integration.spark.test_commit import config, event

pytestmark = [pytest.mark.spark, pytest.mark.skipif(missing() is not None, reason=str(missing()))]
TIMEOUT = 5.0  # of the metastore, where it is 300 s by default
WAITS = "#firn.lock-seconds=2&firn.answer-seconds=20"
STEPS = ("create_table", "lock", "alter_table", "unlock")


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    with metastore(tmp_path_factory.mktemp("hive"), f"{TIMEOUT:.0f}s") as one:
        yield one


def started(lake: Lake, home: str, catalog: str, n: int) -> "subprocess.Popen[bytes]":
    """The job of an epoch as the embedded stack starts it, in a session of its own."""
    scratch = lake.folder / "scratch"
    scratch.mkdir()
    submit = SparkSubmit(environment={"FIRN_DRIVER_EVENTS": "0" if home == "slices" else "20000"})
    told = {"stream": lake.stream, "staging": lake.staging, "warehouse": lake.warehouse, "catalog-uri": catalog}
    told |= {"first": str(n), "last": str(n)}
    driver = {"entryPointArguments": [word for name, value in told.items() for word in (f"--{name}", value)]}
    command = submit.arguments(driver, {}, str(ROOT / "spark_emr" / "commit.py"), scratch, Prepared([]))
    with (lake.folder / "job.log").open("wb") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=log, cwd=lake.folder, start_new_session=True,
            env=submit.process_environment(scratch, Prepared([])),
        )  # fmt: skip


def until_in(lake: Lake, n: int) -> None:
    """Runs the job of an epoch until it is in, as dispatch does."""
    for _ in range(15):
        if lake.commit(n) == 0:
            return
        assert {line.get("failure") for line in lake.lines} <= {None, "transient"}, lake.lines
        time.sleep(2)
    pytest.fail(f"epoch {n} is not in: {lake.lines}")


@HOMES
@pytest.mark.parametrize("done", [False, True], ids=["before it", "its answer lost"])
@pytest.mark.parametrize("step", STEPS)
def test_a_job_that_is_killed_at_a_step_of_its_commit_leaves_each_epoch_in_once(
    spark: SparkSession, tmp_path: Path, brief: Metastore, monkeypatch: pytest.MonkeyPatch, step: str, done: bool,
    home: str,
) -> None:  # fmt: skip
    commit_in(home, monkeypatch)
    emptied(brief.url)
    lake = Lake(spark, tmp_path, config(), catalog_uri=f"{brief.url}{WAITS}")
    lake.land([event("c", 10 + n, {"id": n, "v": f"v{n}"}) for n in range(4)])
    # Of a table that is there rows change and go; another one, and a memory of deletes, are new.
    lake.post([event("u", 20, {"id": 1, "v": "b"}), event("d", 21, None, before={"id": 2})])
    lake.post([event("c", 30 + n, {"id": n, "v": f"o{n}"}, table="other") for n in range(3)])
    n = lake.seal()
    calls = Calls(step, done)
    with before(brief.url, calls) as url:
        job = started(lake, home, f"{url}{WAITS}", n)
        calls.act = lambda: kill_session(job.pid, signal.SIGKILL)
        try:
            code = job.wait(240)
        finally:
            kill_session(job.pid, signal.SIGKILL)
    assert calls.hit.is_set(), f"the job made no call {step}: {sorted(set(calls.heard))}"
    assert code == -signal.SIGKILL, (tmp_path / "job.log").read_text()[-2000:]
    assert cuts.newest(lake.store, "spec") == 1, "the job was faster than the kill"
    until_in(lake, n)
    assert values(lake, "lake.t") == {0: "v0", 1: "b", 3: "v3"}
    assert values(lake, "lake.other") == {0: "o0", 1: "o1", 2: "o2"}
    assert epochs_of(lake.catalog.load_table("lake.t"), "spec") == [1, 2]
    assert epochs_of(lake.catalog.load_table("lake.other"), "spec") == [2]
    assert cuts.newest(lake.store, "spec") == 2
    for table in ("t", "t__deletes", "other"):
        referred, _ = files_of(lake.catalog.load_table(("lake", table)))
        assert [path for path in referred if not os.path.exists(path)] == []


def values(lake: Lake, table: str) -> dict[Any, Any]:
    found = lake.rows(table)
    assert len({row["id"] for row in found}) == len(found), f"{table}: a key is there twice"
    return {row["id"]: row["v"] for row in found}
