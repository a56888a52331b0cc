"""How far a commit is, as each home of the engine tells it; and a job that dies while it tells."""

import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.commit import progress_tracker
from firn.commit.progress_tracker import RangeProgress
from firn.log import job_progress
from firn.log.job_progress import STAGES, JobProgress
from firn_spark import commit
from firn_spark.merge import append_commit, mirror_commit
from tests.integration.spark.committing import Died
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event

pytestmark = pytest.mark.spark

CONFIG = """
streams:
  spec:
    tables:
      app.t: {to: lake.t, key: [id]}
      app.log: {to: lake.log, mode: append}
"""


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setattr(commit, "ProgressTracker", partial(progress_tracker.ProgressTracker, every=0.01))
    return Lake(spark, tmp_path, CONFIG)


def changes(count: int) -> list[dict[str, Any]]:
    rows = [event("c", n, {"id": n, "v": f"v{n}"}) for n in range(1, count + 1)]
    return rows + [event("c", count + n, {"id": n, "v": "log"}, table="log") for n in range(1, 4)]


@HOMES
def test_a_commit_tells_its_stages_in_order_and_every_row_in_the_end(
    home: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_in(home, monkeypatch, events=20, one_task=10)
    entered: dict[str, list[str]] = {}
    ended: list[tuple[Any, ...]] = []
    enter, done = RangeProgress.enter, RangeProgress.done

    def entering(self: RangeProgress, table: str, stage: Any) -> None:
        entered.setdefault(table, []).append(stage)
        enter(self, table, stage)

    told: list[JobProgress] = []
    write = job_progress.write

    def writing(store: Any, progress: JobProgress) -> None:
        told.append(progress)
        write(store, progress)

    monkeypatch.setattr(RangeProgress, "enter", entering)
    monkeypatch.setattr(job_progress, "write", writing)

    def leaving(self: RangeProgress, table: str) -> None:
        done(self, table)
        ended.append(self.seen())

    monkeypatch.setattr(RangeProgress, "done", leaving)
    lake.land(changes(60))
    assert entered["lake.t"] == ["folding", "writing", "committing"]
    assert entered["lake.log"] in (["folding", "writing"], ["folding", "committing"])
    assert ended[-1] == ("committing", 63, 63, pytest.approx(1), 2, 2)
    assert told, "nothing was told of a commit that took longer than a report"
    places = [(STAGES.index(one.stage), one.rows) for one in told]
    assert places == sorted(places)
    assert {(one.run, one.first, one.last) for one in told} == {("firn-spec-1-1-1", 1, 1)}
    assert job_progress.running(lake.store, "spec", datetime.now(UTC)) is None  # it is in a cut


@HOMES
def test_what_a_killed_job_left_is_nobodys_and_the_next_try_gives_the_rows(
    home: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_in(home, monkeypatch)
    lake.post(changes(5))
    first = lake.seal()
    run = f"firn-spec-{first}-{first}-1"

    def dies(*_: Any, **__: Any) -> None:
        until = time.monotonic() + 10
        while job_progress.running(lake.store, "spec", datetime.now(UTC), run) is None:
            assert time.monotonic() < until, "nothing was told"
            time.sleep(0.01)
        raise Died("before the commit")

    with monkeypatch.context() as killing:
        killing.setattr(mirror_commit, "land", dies)
        killing.setattr(append_commit, "land", dies)
        with pytest.raises(Died):
            lake.commit(first)
    now = datetime.now(UTC)
    left = job_progress.running(lake.store, "spec", now, run)
    assert left is not None, "so long it may be a living one's"
    assert (left.first, left.last) == (first, first)
    assert job_progress.running(lake.store, "spec", now, f"firn-spec-{first}-{first}-2") is None
    assert job_progress.running(lake.store, "spec", now + timedelta(seconds=31), run) is None
    assert lake.commit(first) == 0, lake.lines
    assert job_progress.running(lake.store, "spec", now, run) is None
