"""Two real committers on one table, a job paused past its successor, and answers that get lost at the commit call."""

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.changes.merge.fold import fold
from firn.config.names import TableName
from firn.log import cuts
from firn_spark.tables import fence
from tests.integration.snapshots import epochs_of
from tests.integration.spark.committing import Died, Loss, files_of
from tests.integration.spark.homes import CATALOGS, HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import GONE, event
from tests.integration.spark.test_specification import change, history
from tests.soak import SEED, few_cases, long_only, times

pytestmark = pytest.mark.spark

CONFIG = """
warehouse: file:///set/by/the/deployment
catalog: {type: sql}
streams:
  spec:
    tables:
      app.t: {to: lake.t, key: [id]}
      app.log: {to: lake.log}
"""
TABLES = ("lake.t", "lake.log")
WAIT = 120.0


def logged(first: int, count: int) -> list[dict[str, Any]]:
    return [event("c", lsn, {"n": lsn}, table="log") for lsn in range(first, first + count)]


def two_epochs(lake: Lake) -> None:
    """Inserts, then updates without a long value, a delete and a changed key; both with rows of the keyless table."""
    lake.post([event("c", 10 + n, {"id": n, "v": f"v{n}", "n": 1}) for n in range(8)] + logged(100, 5))
    assert lake.seal() == 1
    lake.post(
        [event("u", 30 + n, {"id": n, "v": GONE, "n": 2}) for n in range(4)]
        + [event("d", 40, None, {"id": 5, "v": None, "n": 0})]
        + [event("d", 41, None, {"id": 6, "v": None, "n": 0}), event("c", 41, {"id": 60, "v": GONE, "n": 3})]
        + logged(200, 5)
    )
    assert lake.seal() == 2


AFTER_ONE = {n: (f"v{n}", 1) for n in range(8)}
AFTER_TWO = {**{n: (f"v{n}", 2) for n in range(4)}, 4: ("v4", 1), 7: ("v7", 1), 60: ("v6", 3)}


def rows(lake: Lake) -> dict[int, tuple[Any, Any]]:
    found = lake.rows("lake.t")
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: (row["v"], row["n"]) for row in found}


def log(lake: Lake) -> list[int]:
    return sorted(row["n"] for row in lake.rows("lake.log"))


def _epochs(lake: Lake, table: str) -> list[int]:
    return epochs_of(lake.catalog.load_table(TableName.parse(table).identifier), lake.stream)


@pytest.fixture
def twins(spark: SparkSession, tmp_path: Path, catalog_uri: str) -> tuple[Lake, Lake]:
    """Two jobs on one catalog, each with a Spark session of its own."""
    return (
        Lake(spark, tmp_path, CONFIG, catalog_uri=catalog_uri),
        Lake(spark, tmp_path, CONFIG, catalog_uri=catalog_uri),
    )


class Meeting:
    """Both jobs wait for each other at each of a table's first two arrivals; later ones pass."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._barriers: dict[str, threading.Barrier] = {}
        self._met: set[tuple[str, int]] = set()
        self.both = 0

    def __call__(self, place: str, who: int) -> None:
        with self._lock:
            first = (place, who) not in self._met
            self._met.add((place, who))
            barrier = self._barriers.setdefault(place, threading.Barrier(2))
        if first:
            barrier.wait(WAIT)
            with self._lock:
                self.both += 1


def both(lakes: tuple[Lake, Lake], first: int, last: int) -> list[int]:
    with ThreadPoolExecutor(2) as pool:
        return [job.result(WAIT * 3) for job in [pool.submit(lake.commit, first, last) for lake in lakes]]


def at_the_call(meeting: Meeting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have all files written, and neither has begun to commit."""
    real = fence.commit

    def commit(spark: Any, table: Any, *rest: Any) -> None:
        meeting(str(table.name), threading.get_ident())
        real(spark, table, *rest)

    monkeypatch.setattr(fence, "commit", commit)


def inside_the_commit(meeting: Meeting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are in Iceberg's commit, and found the progress unchanged: only the catalog's swap decides."""
    commit_of = fence.commit
    init, validate_of = fence._ProgressUnchanged.__init__, fence._ProgressUnchanged.validate
    here = threading.local()

    def commit(spark: Any, table: Any, *rest: Any) -> None:
        here.table = str(table.name)
        commit_of(spark, table, *rest)

    def begin(self: Any, *arguments: Any) -> None:
        init(self, *arguments)
        # Iceberg may call back in another thread than the job's.
        self.at = here.table, threading.get_ident()

    def validate(self: Any, snapshots: Any) -> bool:
        fine = validate_of(self, snapshots)
        meeting(*self.at)
        return fine

    monkeypatch.setattr(fence, "commit", commit)
    monkeypatch.setattr(fence._ProgressUnchanged, "__init__", begin)
    monkeypatch.setattr(fence._ProgressUnchanged, "validate", validate)


@CATALOGS
@HOMES
@pytest.mark.parametrize("where", [at_the_call, pytest.param(inside_the_commit, marks=long_only)])
def test_of_two_committers_at_a_barrier_exactly_one_lands(
    twins: tuple[Lake, Lake], monkeypatch: pytest.MonkeyPatch, where: Callable[..., None], home: str
) -> None:
    commit_in(home, monkeypatch)
    two_epochs(twins[0])
    for n, expected in ((1, AFTER_ONE), (2, AFTER_TWO)):
        meeting = Meeting()
        with monkeypatch.context() as patch:
            where(meeting, patch)
            assert both(twins, n, n) == [0, 0], [line.get("error") for lake in twins for line in lake.lines]
        assert meeting.both >= 2 * len(TABLES), "they did not meet"
        for table in TABLES:
            assert _epochs(twins[0], table) == list(range(1, n + 1)), table
            said = sorted(lake.line(table)["status"] for lake in twins)
            assert said == ["committed", "skipped"], table
        assert rows(twins[0]) == expected
        assert log(twins[0]) == [*range(100, 105), *(range(200, 205) if n == 2 else ())]
        assert cuts.newest(twins[0].store, "spec") == n


@CATALOGS
@HOMES
@pytest.mark.parametrize(
    "table", [TABLES[0], *(pytest.param(one, marks=long_only) for one in (*TABLES[1:], "lake.t__deletes"))]
)
def test_a_job_paused_past_its_successor_changes_nothing_when_it_wakes(
    twins: tuple[Lake, Lake], monkeypatch: pytest.MonkeyPatch, table: str, home: str
) -> None:
    commit_in(home, monkeypatch)
    paused, quick = twins
    two_epochs(paused)
    assert quick.commit(1) == 0
    quick.post([event("u", 50, {"id": 0, "v": "later", "n": 9}), event("d", 51, None, {"id": 1, "v": None, "n": 0})])
    quick.post(logged(300, 2))
    assert quick.seal() == 3
    real = fence.commit
    asleep, wake = threading.Event(), threading.Event()

    def commit(spark: Any, at: Any, *rest: Any) -> None:
        if str(at.name) == table and threading.current_thread() is not threading.main_thread() and not asleep.is_set():
            asleep.set()
            assert wake.wait(WAIT)
        real(spark, at, *rest)

    monkeypatch.setattr(fence, "commit", commit)
    with ThreadPoolExecutor(1) as pool:
        sleeper = pool.submit(paused.commit, 2)
        try:
            assert asleep.wait(WAIT), "it never came to its commit"
            assert quick.commit(2, 3) == 0, quick.lines
        finally:
            wake.set()
        assert sleeper.result(WAIT) == 0, paused.lines
    expected = AFTER_TWO | {0: ("later", 9)}
    del expected[1]
    assert rows(quick) == expected
    assert log(quick) == [*range(100, 105), *range(200, 205), 300, 301]
    for one in TABLES:
        found = _epochs(quick, one)
        assert found == sorted(set(found)), f"{one}: an epoch is in two snapshots"
        assert found[-1] == 3, one
    assert paused.line(table.removesuffix("__deletes"))["status"] == "skipped"
    assert cuts.newest(quick.store, "spec") == 3


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loss]:
    loss = Loss(fence.commit, random.Random(SEED))
    monkeypatch.setattr(fence, "commit", loss)
    yield loss
    for slow in loss.slow:
        slow.join(WAIT)


@few_cases(1)
@CATALOGS
@HOMES
def test_answers_lost_at_the_commit_call_leave_one_snapshot_an_epoch(
    spark: SparkSession, tmp_path: Path, losing: Loss, catalog_uri: str, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    """Applied and not answered, applied late, never applied, dead before or after: the job runs until it says 0."""
    commit_in(home, monkeypatch)
    count = times(4, 100)
    print(f"FIRN_SEED={SEED}: {count} epochs")
    lake = Lake(spark, tmp_path, CONFIG, catalog_uri=catalog_uri)
    told = history(SEED, 12 * count, 30)
    sent = 0
    for n in range(1, count + 1):
        some = told[sent : sent + 12] if n < count else told[sent:]
        sent += len(some)
        lake.post([*some, *logged(100_000 + 10 * n, 3)])
        assert lake.seal() == n
        for _ in range(20):
            try:
                if lake.commit(n) == 0:
                    break
            except Died:
                continue
        else:
            pytest.fail(f"epoch {n} is not in after 20 runs: {lake.lines}")
    for slow in losing.slow:
        slow.join(WAIT)

    expected = {key[0]: dict(row.values) for key, row in fold({}, map(change, told)).rows.items()}
    found = {key: {k: row[k] for k in ("id", "v", "w", "n")} for key, row in lake.by_key("lake.t", "id").items()}
    assert found == expected, losing.happened
    assert len(found) == len(lake.rows("lake.t"))
    assert log(lake) == sorted(100_000 + 10 * n + i for n in range(1, count + 1) for i in range(3))
    orphans = 0
    for table in (*TABLES, "lake.t__deletes"):
        steps = _epochs(lake, table)
        if table in TABLES:
            assert steps == list(range(1, count + 1)), (table, losing.happened)
        assert steps == sorted(set(steps)), (table, losing.happened)
        referred, there = files_of(lake.catalog.load_table(tuple(table.split("."))))
        missing = {path for path in referred if not Path(path).exists()}
        assert missing == set(), f"{table}: {len(missing)} files that snapshots refer to are gone: {losing.happened}"
        orphans += len(there - referred)
    unanswered = losing.happened["never"] + losing.happened["died before"] + losing.happened["late, and refused"]
    assert bool(orphans) == bool(unanswered), losing.happened
    print(f"{dict(losing.happened)}, {orphans} orphans")
