#!/usr/bin/env python3
"""What plain rows cost beside Debezium's events that say the same: through ingest, and through the job's Python.

    python -m benchmarks.rows [--events N] [--runs N] [--instances N] [--check]

The events are those of benchmarks/ingest.py (70 % updates, 20 % creates, 10 % deletes); the rows are their images, a
delete's with a field that says so. One core, CPU time of the process, the least of the runs; the two take turns.
Then how much of 1 MB requests ingest takes in a CPU second, in so many processes at once: what as many instances with a
core each would take. `--check` exits 1 if rows cost more than events, ingest and job together,
or eight instances hold less than 100 MB/s.
"""

import argparse
import gc
import json
import multiprocessing
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa
from obstore.store import MemoryStore

from benchmarks.ingest import events
from firn.config.model import Config
from firn.config.reader import parse
from firn.ingest.accept import accept
from firn.log import layout
from firn.tables.routing import route
from firn.tables.table_plan import planned
from firn_spark.driver.staged_changes import Held
from firn_spark.merge.append_columns import AppendColumns
from firn_spark.merge.column_decoder import Columns, MirrorColumns
from firn_spark.merge.decision import MOST_ODD
from firn_spark.staged.read import SealedBatch

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TARGET = 100  # MB a second of eight instances
COLUMNS = "{id: long, name: string, balance: double, branch: int, updated_at: long, note: string}"
RULES = {"mirror": "key: [id]", "append": "mode: append"}
PER_REQUEST = 1_250


def config(envelope: str, mode: str) -> Config:
    more = ", op_field: gone, delete_when: [true]" if envelope == "rows" else ""
    rule = f"{{to: bank.accounts, {RULES[mode]}, columns: {COLUMNS}}}"
    return parse(f"streams: {{bank: {{envelope: {envelope}{more}, tables: {{public.accounts: {rule}}}}}}}")


def plain(event: bytes) -> bytes:
    """The row of an event."""
    told: dict[str, Any] = json.loads(event)
    row = told["after"] or {"id": told["before"]["id"], "gone": True}
    return json.dumps(row, separators=(",", ":")).encode()


def with_numbers(event: bytes) -> bytes:
    """The event with its balance as a number, as applications send it."""
    told: dict[str, Any] = json.loads(event)
    if told["after"]:
        told["after"]["balance"] = float(told["after"]["balance"])
    return json.dumps(told, separators=(",", ":")).encode()


def requests(lines: list[bytes]) -> list[bytes]:
    return [b"\n".join(lines[first : first + PER_REQUEST]) for first in range(0, len(lines), PER_REQUEST)]


def sent(by: Config, bodies: list[bytes]) -> tuple[MemoryStore, list[str]]:
    """The requests through ingest."""
    store, table = MemoryStore(), "public.accounts" if by.streams["bank"].envelope == "rows" else None
    return store, [accept(store, by, "bank", body, now=NOW, table=table).batch_id for body in bodies]


def taken(by: Config, store: MemoryStore, batches: list[str]) -> int:
    """What the job reads, places and decodes."""
    settings = by.streams["bank"]
    paths = [layout.staged_path(batch) for batch in batches]
    sealed = [
        SealedBatch(1, n, batch, path, store.head(path)["size"])
        for n, (batch, path) in enumerate(zip(batches, paths, strict=True))
    ]
    held = Held(store, "memory://", [(sealed, settings.order)], whole=True)
    (target,) = route(settings, held.facts).targets
    plan = planned(target, settings, None)
    columns: Columns = MirrorColumns() if plan.mode.keyed else AppendColumns("bank", False)
    return len(held.of(target.sources).split(columns, plan.decoding, MOST_ODD).plain)


def spent(case: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    before = time.process_time()
    case()
    gc.enable()
    return time.process_time() - before


def compared(mode: str, lines: list[bytes], runs: int) -> list[tuple[str, float, float]]:
    """Microseconds an event of Debezium's and a row, by where."""
    bodies = {"debezium": requests(lines), "rows": requests([plain(one) for one in lines])}
    by = {name: config(name, mode) for name in bodies}
    staged = {name: sent(by[name], bodies[name]) for name in bodies}
    ways: dict[str, Callable[[str], object]] = {
        "ingest": lambda name: sent(by[name], bodies[name]),
        "job": lambda name: taken(by[name], *staged[name]),
    }
    found = []
    for where, way in ways.items():
        turns = [{name: spent(partial(way, name)) for name in bodies} for _ in range(runs)]
        least = {name: min(turn[name] for turn in turns) for name in bodies}
        each = {name: seconds / len(lines) * 1e6 for name, seconds in least.items()}
        found.append((where, each["debezium"], each["rows"]))
    return found


def instance(runs: int) -> float:
    """MB of 1 MB requests a CPU second, in this process."""
    by, body = (
        config("rows", "append"),
        b"\n".join(plain(with_numbers(one)) for one in events(4_000_000))[:1_000_000].rpartition(b"\n")[0],
    )
    return len(body) / 1e6 / min(spent(lambda: sent(by, [body])) for _ in range(runs))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=25_000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--instances", type=int, default=8)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    pa.set_cpu_count(1)
    lines = [with_numbers(one) for one in events(options.events * 800)[: options.events]]
    good = True
    for mode in RULES:
        found = compared(mode, lines, options.runs)
        for where, event, row in found:
            print(f"{mode}, {where}: {event:.2f} us an event of Debezium's, {row:.2f} us a row", flush=True)
        good = good and sum(row for *_, row in found) <= sum(event for _, event, _ in found)
    with multiprocessing.get_context("spawn").Pool(options.instances) as pool:
        each = pool.map(instance, [5 * options.runs] * options.instances)
    whole = sum(each)
    print(f"{options.instances} processes: {min(each):.0f} to {max(each):.0f} MB a CPU second each, {whole:.0f} in all")
    return int(options.check and not (good and whole >= TARGET))


if __name__ == "__main__":
    sys.exit(main())
