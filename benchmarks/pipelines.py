#!/usr/bin/env python3
"""What pipelines cost the commit job's Python: staged rows to the rows of their tables, on one core, without Spark.

    python -m benchmarks.pipelines [--events N] [--requests N] [--runs N] [--check]

Rows of six fields, staged by the real ingest code, are held as a job's own process holds them; then each table takes
its changes, up to the rows that would be written. CPU time of the process, the least of the runs. `--check` exits 1 if
a pipeline of projection, filter and cast adds more than 0.7 us an event to the source's own append table.
"""

import argparse
import gc
import json
import sys
import time
from datetime import UTC, datetime

import pyarrow as pa
from obstore.store import MemoryStore

from benchmarks.schemas import SIX, rows
from firn.config.model import StreamConfig
from firn.config.reader import parse
from firn.ingest.accept import accept
from firn.log import layout
from firn.tables.routing import appends_of, route
from firn.tables.table_plan import planned
from firn_spark.driver.staged_changes import Held
from firn_spark.merge.append_columns import AppendColumns
from firn_spark.merge.column_decoder import Columns
from firn_spark.merge.decision import MOST_ODD
from firn_spark.pipelines.feed_columns import FeedColumns
from firn_spark.staged.read import SealedBatch
from firn_sql.feed_plan import plan_feeds

TARGET = 0.7
NOW = datetime(2026, 11, 25, tzinfo=UTC)
SQL = "SELECT id, upper(name) AS name, CAST(branch AS VARCHAR) AS branch, balance FROM clicks WHERE id % 10 <> {n}"
COLUMNS = "{id: long, name: string, balance: double, branch: int, updated_at: long, note: string}"


def settings(pipelines: int, *, own: bool) -> StreamConfig:
    """A stream with so many pipelines of one source table, and a table of its own."""
    made = {f"p{n}": {"sql": f"INSERT INTO web.p{n} {SQL.format(n=n)}"} for n in range(pipelines)}
    rule = f"tables: {{clicks: {{to: web.clicks, mode: append, ignore: {str(not own).lower()}, columns: {COLUMNS}}}}}"
    text = f"streams: {{web: {{envelope: rows, {rule}, pipelines: {json.dumps(made)}}}}}"
    return parse(text).streams["web"]


def held(stream: StreamConfig, count: int, per_request: int) -> Held:
    """The staged rows, as the job's process holds them."""
    text = json.dumps(
        {"streams": {"web": {"envelope": "rows", "tables": {"clicks": {"to": "web.clicks", "mode": "append"}}}}}
    )
    config, store = parse(text), MemoryStore()
    lines = rows(SIX, 200 * count)[:count]
    batches = []
    for n, first in enumerate(range(0, len(lines), per_request)):
        body = "\n".join(lines[first : first + per_request]).encode()
        done = accept(store, config, "web", body, now=NOW, table="clicks")
        path = layout.staged_path(done.batch_id)
        batches.append(SealedBatch(1, n, done.batch_id, path, store.head(path)["size"]))
    return Held(store, "memory://", [(batches, stream.order)], whole=True)


def taken(stream: StreamConfig, staged: Held) -> int:
    """All tables take their changes: how many rows they get in all."""
    found = 0
    for target in route(stream, staged.facts).targets:
        own = AppendColumns("web", False, (), appends_of(stream, target.sources))
        if target.feeds:
            plan = plan_feeds(target, stream, None)
            columns: Columns = FeedColumns(own, plan.feeds)
            decoding = plan.planned.decoding
        else:
            columns, decoding = own, planned(target, stream, None).decoding
        found += len(staged.of(target.sources).split(columns, decoding, MOST_ODD).plain)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=5_000, help="events a request (about 1 MB)")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    spent: dict[tuple[int, bool], float] = {}
    for pipelines, own in ((0, True), (1, False), (1, True), (5, False), (5, True)):
        stream = settings(pipelines, own=own)
        spent[pipelines, own] = least(stream, options.events, options.requests, options.runs) / options.events * 1e6
        beside = "and the source's own table" if own else "alone"
        print(f"{pipelines} pipelines {beside}: {spent[pipelines, own]:.2f} us an event", flush=True)
    each = (spent[5, True] - spent[0, True]) / 5
    print(f"a pipeline adds {each:.2f} us an event to the source's own table (at most {TARGET})")
    return int(options.check and each > TARGET)


def least(stream: StreamConfig, events: int, requests: int, runs: int) -> float:
    """CPU seconds that all tables of the stream take for their changes."""
    each = []
    for _ in range(runs):
        staged = held(stream, events, requests)
        gc.collect()
        gc.disable()
        before = time.process_time()
        taken(stream, staged)
        each.append(time.process_time() - before)
        gc.enable()
    return min(each)


if __name__ == "__main__":
    sys.exit(main())
