"""SIGKILL of real processes at seeded moments: spark-submit, the ingress, the dispatcher, and the whole stack.

After each kill the next attempt of the same caller goes on, and afterwards the tables are the fold of what was
acknowledged. `make soak` kills 30 jobs; a red run is replayed with the FIRN_SEED that it printed.
"""

import json
import random
import threading
import time
import urllib.error
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from firn.changes.merge.fold import fold
from firn.log import cuts, epochs
from firn.log.store import open_store
from tests.e2e.conftest import Stack, start_stack, stop_stack
from tests.e2e.killing import ancestry, audited, dispatch, ended, idle, kill_job, kill_worker, until, workers
from tests.integration.spark.test_specification import change, history
from tests.soak import SEED, long_only, times

pytestmark = pytest.mark.spark

# `arrivals` has no position: what is staged twice would be two rows.
CONFIG = """
streams:
  shop:
    job: shop
    commit: {linger: 0s}
    tables:
      app.t: {to: shop.t, key: [id]}
      app.u: {to: shop.u, key: [id]}
      app.log: {to: shop.log}
  arrivals:
    job: arrivals
    commit: {linger: 0s}
    tables:
      app.one: {to: arrivals.one}
  turns:
    job: turns
    commit: {linger: 0s}
    tables:
      app.t: {to: turns.t, key: [id]}
  outlives:
    job: outlives
    commit: {linger: 0s}
    tables:
      app.t: {to: outlives.t, key: [id]}
"""
TABLES = ("t", "u", "log")


class Running:
    """The module's stack, which a test may kill and start again in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stack = start_stack(folder, CONFIG)

    def kill(self) -> None:
        """SIGKILL of the stack's process: functions, queues and the EMR emulator go with it."""
        self.stack.process.kill()
        self.stack.process.wait()

    def again(self) -> Stack:
        self.stack = start_stack(self.folder, CONFIG)
        return self.stack


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    found = Running(tmp_path_factory.mktemp("kills"))
    yield found
    stop_stack(found.stack)


def of_table(one: dict[str, Any], table: str) -> dict[str, Any]:
    return one | {"source": one["source"] | {"table": table}}


def rows(stack: Stack, namespace: str, table: str) -> dict[int, dict[str, Any]]:
    found = stack.read(namespace, table).to_pylist()
    assert len({row["id"] for row in found}) == len(found), f"{table}: a key is there twice"
    return {row["id"]: {name: row[name] for name in ("id", "v", "w", "n")} for row in found}


def folded(told: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {key[0]: dict(row.values) for key, row in fold({}, map(change, told)).rows.items()}


def send(stack: Stack, stream: str, events: list[dict[str, Any]]) -> None:
    status, answer = stack.post(stream, json.dumps(events).encode())
    assert status == 202, answer
    assert answer["accepted"] == len(events), answer


def logged_row(n: int) -> dict[str, Any]:
    source = {"connector": "postgresql", "schema": "app", "table": "log", "ts_ms": n}
    return {"op": "c", "after": {"n": n}, "source": source | {"sequence": json.dumps([str(n), str(n + 1)])}}


@long_only
def test_jobs_killed_at_seeded_moments_leave_each_epoch_in_one_snapshot(running: Running) -> None:
    stack = running.stack
    kills = times(1, 30)
    dice = random.Random(SEED)
    print(f"FIRN_SEED={SEED}: {kills} kills")
    told = {table: history(SEED + place, 40 * kills, 60) for place, table in enumerate(("t", "u"))}
    logged = 0
    moments: list[str] = []
    ends: list[str] = []
    for kill in range(kills):
        for table, events in told.items():
            some = events[len(events) * kill // kills : len(events) * (kill + 1) // kills]
            late = [*some, *dice.choices(events[: len(events) * (kill + 1) // kills], k=10)]
            dice.shuffle(late)
            send(stack, "shop", [of_table(one, table) for one in late])
        rows_of_log = [logged_row(logged + n) for n in range(1, 11)]
        send(stack, "shop", rows_of_log)
        logged += 10
        said = dispatch(stack, "shop")
        moments.append(kill_job(stack, said["run"], dice, tables=len(TABLES)))
        ends.append(ended(stack.folder / "jobs" / said["run"]))
        # The next kill meets what this one left, or a clean start: never more than two in a row, which is no epoch's
        # fault and would be taken for one (docs/quarantine.md).
        if kill % 2 or kill == kills - 1:
            stack.flush("shop")
            idle(stack)
    print(list(zip(moments, ends, strict=True)))
    assert ends.count("FAILED") > kills // 2, "most jobs were faster than their kill"
    for table in told:
        assert rows(stack, "shop", table) == folded(told[table]), moments
    assert sorted(stack.read("shop", "log")["n"].to_pylist()) == list(range(1, logged + 1)), moments
    store = open_store(stack.about["staging"])
    sealed = epochs.numbers(store, "shop")
    assert cuts.newest(store, "shop") == max(sealed)
    for table in TABLES:
        steps = ancestry(stack, "shop", table, "shop")
        assert steps == sorted(set(steps)), f"{table}: an epoch is in two snapshots: {steps}; {moments}"
        assert steps[-1] == max(sealed), (table, steps)
    audited(stack, "shop")


@long_only
def test_requests_in_flight_when_the_function_is_killed_land_once(running: Running) -> None:
    stack = running.stack
    senders, kills = 4, times(5, 40)
    dice = random.Random(SEED)
    enough = threading.Event()
    sent = [0] * senders
    failures: list[str] = []

    def request(who: int, n: int) -> None:
        """One request, again and again with its key until it is taken."""
        source = {"connector": "own", "schema": "app", "table": "one"}
        rows = [{"op": "c", "after": {"who": who, "n": n, "i": i}, "source": source} for i in range(20)]
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with suppress(OSError, urllib.error.URLError):
                status, answer = stack.post("arrivals", json.dumps(rows).encode(), Idempotency_Key=f"{who}-{n}")
                if status == 202:
                    return
                assert status >= 500, answer
            time.sleep(0.02)
        raise AssertionError(f"request {n} of {who} was never taken")

    def sender(who: int) -> None:
        try:
            while not enough.is_set():
                request(who, sent[who])
                sent[who] += 1
        except AssertionError as error:
            failures.append(str(error))

    threads = [threading.Thread(target=sender, args=(who,)) for who in range(senders)]
    for thread in threads:
        thread.start()
    for _ in range(kills):
        before = sum(sent)
        until("an accepted request", 60, lambda before=before: sum(sent) > before or failures)
        time.sleep(dice.uniform(0, 0.1))
        # The one that was killed before may not have its successor yet.
        until("the end of the function's process", 60, lambda: kill_worker(stack, "ingest_http"))
    enough.set()
    for thread in threads:
        thread.join(180)
    assert failures == []
    stack.flush("arrivals")
    found = sorted((row["who"], row["n"], row["i"]) for row in stack.read("arrivals", "one").to_pylist())
    assert found == [(who, n, i) for who in range(senders) for n in range(sent[who]) for i in range(20)]
    audited(stack, "arrivals")


@long_only
def test_a_dispatcher_killed_between_seal_and_start_is_followed_by_one_that_starts(running: Running) -> None:
    stack = running.stack
    store = open_store(stack.about["staging"])
    jobs = stack.folder / "jobs"
    told = history(SEED, 30, 8)
    between = False
    for attempt in range(10):
        send(stack, "turns", told[attempt * 3 : attempt * 3 + 3])
        if kill_worker(stack, "dispatch"):
            # Its next call says so; the one after it starts cold, which leaves time between seal and start.
            assert stack.request("POST", "/_firn/invoke/dispatch", b"{}")[0] >= 500
        before = {path.name for path in jobs.glob("*")}
        sealed = len(epochs.numbers(store, "turns"))
        call = threading.Thread(
            target=stack.request, args=("POST", "/_firn/invoke/dispatch", b'{"force": true, "stream": "turns"}')
        )
        call.start()
        until("the seal", 60, lambda sealed=sealed: len(epochs.numbers(store, "turns")) > sealed)
        assert kill_worker(stack, "dispatch") >= 1
        call.join(60)
        time.sleep(0.5)
        between = {path.name for path in jobs.glob("*")} == before
        if between:
            break
        stack.flush("turns")
        idle(stack)
    assert between, "the job had always started already"
    sealed_now = epochs.numbers(store, "turns")
    assert cuts.newest(store, "turns") < max(sealed_now), "sealed, and no job"
    said = dispatch(stack, "turns")
    assert said["sealed"] == [], "it sealed again what was sealed"
    assert said["run"], "it did not start the job that the dead one owed"
    stack.flush("turns")
    assert rows(stack, "turns", "t") == folded(told[: (attempt + 1) * 3])
    audited(stack, "turns")


def test_the_whole_stack_killed_during_a_job_goes_on_where_it_was(running: Running) -> None:
    stack = running.stack
    told = history(SEED, 60, 12)
    send(stack, "outlives", told[:40])
    run = dispatch(stack, "outlives")["run"]
    send(stack, "outlives", told[40:])
    pid_file = stack.folder / "jobs" / run / "pid"
    until("the start of the job", 120, pid_file.exists)
    time.sleep(random.Random(SEED).uniform(0, 8))
    functions = workers(stack, "ingest_http")
    assert functions
    running.kill()
    pid = int(pid_file.read_text())
    until("the end of the job and of the functions", 30, lambda: not any(map(alive, [pid, *functions])))
    stack = running.again()
    stack.flush("outlives")
    assert rows(stack, "outlives", "t") == folded(told)
    steps = ancestry(stack, "outlives", "t", "outlives")
    assert steps == sorted(set(steps))
    assert steps[-1] == max(epochs.numbers(open_store(stack.about["staging"]), "outlives"))
    audited(stack, "outlives")


def alive(pid: int) -> bool:
    """Whether the process still runs: a zombie does not."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
