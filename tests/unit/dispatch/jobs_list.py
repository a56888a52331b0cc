"""What tests of dispatch share: a stream, a list for EMR Serverless, and how to stage and dispatch."""

import json
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from firn.config.reader import parse
from firn.dispatch.dispatcher import Dispatched, Terms, dispatch
from firn.ingest.accept import accept
from firn.log import attempts, epochs
from firn.log.store import Store
from firn.runs.job_runs import Jobs, Run

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
CONFIG = parse("streams: {shop: {tables: {public.orders: {to: shop.orders, key: [id]}}}}")


class ListOfJobs:
    """EMR Serverless as a list: one run for each different call of start, as its clientToken makes it."""

    def __init__(self, *lost: Exception) -> None:
        self.started: dict[tuple[str, int, int, int], Run] = {}
        self.calls = 0
        self.lost = list(lost)
        self._lock = threading.Lock()

    def runs(self, since: datetime) -> Sequence[Run]:
        with self._lock:
            return list(self.started.values())

    def start(self, stream: str, first: int, last: int, attempt: int) -> str:
        with self._lock:
            self.calls += 1
            name = f"r{len(self.started) + 1}"
            run = self.started.setdefault(
                (stream, first, last, attempt), Run(name, stream, first, last, attempt, "SUBMITTED")
            )
            if self.lost:
                raise self.lost.pop(0)
            return run.id

    def end_all(self, state: str) -> None:
        self.started = {
            key: Run(r.id, r.stream, r.first, r.last, r.attempt, state if r.active else r.state)
            for key, r in self.started.items()
        }


def stage(store: Store, when: datetime = NOW, table: str = "orders") -> str:
    """One change of `public.{table}`. -> the batch's id"""
    event: dict[str, Any] = {"op": "c", "before": None, "after": {"id": 1}}
    event["source"] = {"connector": "postgresql", "schema": "public", "table": table, "sequence": '["1","2"]'}
    return accept(store, CONFIG, "shop", json.dumps(event).encode(), now=when).batch_id


def run(
    store: Store, jobs: Jobs | None, when: datetime = NOW, *, force: bool = False, reconcile: bool = False, **more: Any
) -> Dispatched:
    """Dispatches the stream shop."""
    return dispatch(store, "shop", jobs, now=when, terms=Terms(CONFIG.sha, **more), force=force, reconcile=reconcile)


def held_batches(store: Store) -> list[str]:
    """The batches of all epochs, each as often as it is in one."""
    found = epochs.read_range(store, "shop", 1, max(epochs.numbers(store, "shop"), default=0))
    return [batch.id for epoch in found for batch in epoch.batches]


def fail(store: Store, jobs: ListOfJobs) -> None:
    """All runs that are active began, and say that they can't do it."""
    for one in jobs.started.values():
        if one.active:
            attempts.begin(store, one.stream, one.first, one.last, one.attempt)
            attempts.fail(store, one.stream, one.first, one.last, one.attempt, "terminal", "it can't be done")
    jobs.end_all("FAILED")
