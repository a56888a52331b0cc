"""How fresh tables are under a steady load: the embedded stack, requests over HTTP at a fixed rate. One JSON line.

    python -m benchmarks.fresh --events FOLDER --rate EVENTS_A_SECOND --work FOLDER

Ten requests a second carry a tenth of the rate each, whatever became of those before: what is late is late. A refused
request is sent again with its Idempotency-Key until it is taken. The first request is committed by `firn flush` before
the clock starts, so that a job runs, as it does where changes come all day. A batch is queryable when a snapshot of the
table in the catalog carries its epoch; that is looked for five times a second. The load and the looking run beside the
stack, on the same cores.
"""

import argparse
import http.client
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.firn_case import CONFIG, STREAM
from benchmarks.spark import TABLE
from firn.client import StreamClient
from firn.deployment.flush_run import flush
from firn.deployment.stack import Stack
from firn.deployment.target import find_stack
from firn.errors import FirnError
from firn.log import epochs
from firn.tables.table_state import EPOCH
from firn_lake.catalogs.stack_catalog import catalog_of

REQUESTS_A_SECOND = 10
SENDERS = 4
PATIENCE = 300.0  # seconds, for what was accepted to become queryable


@dataclass
class Seen:
    """What happened, by batch id: (when it was accepted, its events), when it was queryable; statuses but for 202.
    `answered`: seconds that each request waited for its answer."""

    accepted: dict[str, tuple[float, int]] = field(default_factory=dict)
    queryable: dict[str, float] = field(default_factory=dict)
    refused: Counter[int] = field(default_factory=Counter)
    backlog: list[int] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)

    def waiting(self) -> int:
        """Events accepted and not queryable."""
        return sum(events for batch, (_, events) in list(self.accepted.items()) if batch not in self.queryable)

    def latencies(self) -> list[tuple[float, int]]:
        """(seconds, events), the quickest first."""
        return sorted((self.queryable[b] - at, n) for b, (at, n) in self.accepted.items() if b in self.queryable)


def bodies(folder: Path, events: int) -> Iterator[bytes]:
    """The events as requests of so many."""
    lines = (line for file in sorted(folder.glob("*.ndjson")) for line in file.open("rb"))
    while some := list(islice(lines, events)):
        yield b"".join(some)


def send(url: str, work: "queue.Queue[tuple[int, bytes] | None]", seen: Seen, began: float) -> None:
    """Posts requests at their times until there are none left."""
    parts = urlsplit(url)
    link = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    while (item := work.get()) is not None:
        n, body = item
        time.sleep(max(0.0, began + n / REQUESTS_A_SECOND - time.monotonic()))
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": f"bench-{n}"}
        while True:
            asked = time.monotonic()
            try:
                link.request("POST", f"/v1/streams/{STREAM}", body, headers)
                answer = link.getresponse()
                said = answer.read()
            except OSError:
                link.close()
                seen.refused[0] += 1
                continue
            seen.answered.append(time.monotonic() - asked)
            if answer.status == 202:
                told = json.loads(said)
                seen.accepted[told["batch_id"]] = (time.monotonic(), told["accepted"])
                break
            seen.refused[answer.status] += 1
            time.sleep(float(answer.headers.get("Retry-After") or 1))


def watch(stack: Stack, seen: Seen, stopped: threading.Event) -> None:
    """Looks at the catalog for new epochs in the table, and notes their batches."""
    store, known, told = stack.store(), 0, time.monotonic()
    while not stopped.wait(0.2):
        newest = progress(stack)
        now = time.monotonic()
        for n in range(known + 1, newest + 1):
            epoch = epochs.read(store, STREAM, n)
            seen.queryable |= {batch.id: now for batch in (epoch.batches if epoch else ())}
        known = max(known, newest)
        if now - told >= 1:
            told = now
            seen.backlog.append(seen.waiting())


def progress(stack: Stack) -> int:
    """The newest epoch that the table has; 0 before there is a table."""
    from pyiceberg.exceptions import NoSuchTableError

    try:
        table = catalog_of(stack).load_table(TABLE)
    except NoSuchTableError:
        return 0
    summaries = (snapshot.summary for snapshot in table.metadata.snapshots)
    return max((int(s.additional_properties.get(EPOCH + STREAM, 0)) for s in summaries if s), default=0)


def quantile(latencies: Sequence[tuple[float, int]], share: float) -> float:
    """The latency that so large a share of the events had at most; NaN without any."""
    left = share * sum(events for _, events in latencies)
    for seconds, events in latencies:
        left -= events
        if left <= 0:
            return seconds
    return float("nan")


def slope(backlog: Sequence[int]) -> float:
    """The mean backlog of the last third by that of the second; 1 is flat."""
    third = max(1, len(backlog) // 3)
    middle, last = backlog[third : 2 * third], backlog[-third:]
    return (sum(last) / len(last)) / max(1.0, sum(middle) / max(1, len(middle))) if last else float("nan")


def _start(folder: Path, text: str) -> tuple["subprocess.Popen[bytes]", Stack]:
    """The stack as a process of its own, when it answers. `text`: its firn.yaml."""
    config = folder / "firn.yaml"
    config.write_text(text)
    command = (
        sys.executable,
        "-m",
        "firn_local",
        "--port",
        "0",
        "--dir",
        str(folder / "stack"),
        "--config",
        str(config),
    )
    process = subprocess.Popen(command, stdout=(folder / "stack.log").open("wb"), stderr=subprocess.STDOUT)
    for _ in range(600):
        time.sleep(0.1)
        try:
            return process, find_stack(folder / "stack")
        except FirnError:
            assert process.poll() is None, (folder / "stack.log").read_text()
    raise TimeoutError((folder / "stack.log").read_text())


@contextmanager
def embedded_stack(work: Path, text: str) -> Iterator[Stack]:
    """The embedded stack in `work`, which is emptied before, with such a firn.yaml; stopped afterwards."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    process, stack = _start(work, text)
    try:
        yield stack
    finally:
        process.terminate()
        process.wait(60)


def measure(stack: Stack, events: Path, rate: int) -> dict[str, Any]:
    """The load, then the wait for what is left."""
    seen, stopped = Seen(), threading.Event()
    requests = bodies(events, max(1, rate // REQUESTS_A_SECOND))
    with StreamClient(stack.url) as client:
        client.post(STREAM, next(requests), key="bench-first")
    flush(stack, STREAM, timeout=PATIENCE)
    work: queue.Queue[tuple[int, bytes] | None] = queue.Queue(maxsize=50)
    watcher = threading.Thread(target=watch, args=(stack, seen, stopped), daemon=True)
    watcher.start()
    began = time.monotonic() + 0.5
    senders = [threading.Thread(target=send, args=(stack.url, work, seen, began), daemon=True) for _ in range(SENDERS)]
    for sender in senders:
        sender.start()
    for item in enumerate(requests):
        work.put(item)
    for _ in senders:
        work.put(None)
    for sender in senders:
        sender.join()
    sent = time.monotonic()
    backlog = list(seen.backlog)
    while seen.waiting() and time.monotonic() < sent + PATIENCE:
        time.sleep(0.5)
    stopped.set()
    watcher.join()
    latencies = seen.latencies()
    return {
        "seconds": sent - began, "events": sum(n for _, n in seen.accepted.values()), "p50": quantile(latencies, 0.5),
        "p99": quantile(latencies, 0.99), "lost": seen.waiting(), "slope": slope(backlog), "backlog": backlog,
        "said_429": seen.refused[429], "failed": sum(n for status, n in seen.refused.items() if status != 429),
    }  # fmt: skip


def main() -> None:
    """One rate."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--events", type=Path, required=True)
    arguments.add_argument("--rate", type=int, required=True)
    arguments.add_argument("--work", type=Path, required=True)
    given = arguments.parse_args()
    text = CONFIG.replace("    tables:", "    commit: {every: 1s}\n    tables:")
    with embedded_stack(given.work.absolute(), text) as stack:
        print(json.dumps({"begin": given.rate}), flush=True)
        told = measure(stack, given.events.absolute(), given.rate)
        where = {"kind": "iceberg", "catalog": stack.catalog_uri, "name": TABLE}
        print(json.dumps(told | {"table": where}), flush=True)


if __name__ == "__main__":
    main()
