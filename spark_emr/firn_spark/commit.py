"""The commit job: a range of sealed epochs into the tables of one stream, one snapshot a table, then the cut."""

import json
import sys
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.storagelevel import StorageLevel

from firn.changes.placing import Order
from firn.errors import EventError, FirnError
from firn.jobs.outcome import Outcome
from firn.jobs.targets import Routes, route
from firn.staging import configs, cuts, epochs, layout
from firn.staging.store import Store, open_store
from firn.streams.config import StreamConfig
from firn.streams.names import TableName
from firn_spark import session as sessions
from firn_spark.evolve import Tables
from firn_spark.facts import facts_of
from firn_spark.read import SealedBatch, raw_changes
from firn_spark.rejects import refused, write_rejects
from firn_spark.table_job import TableJob, first_line

Log = Callable[[dict[str, Any]], None]


def print_line(line: dict[str, Any]) -> None:
    """One JSON object as one line on standard output."""
    print(json.dumps(line, ensure_ascii=False), flush=True)
    sys.stdout.flush()


def run(
    stream: str,
    staging: str,
    warehouse: str,
    catalog_uri: str,
    first: int,
    last: int,
    *,
    spark: SparkSession | None = None,
    log: Log = print_line,
) -> int:
    """Commits epochs `first` to `last` (both included) of `stream`.

    What is in a table already is not applied again, so any range may be run any number of times, by any number of jobs
    at once. A table that fails does not stop the others. -> 0 if all is in and the cut is written, 1 if not.
    """
    started = time.monotonic()
    try:
        store = open_store(staging)
        sealed = _sealed(store, stream, first, last)
        config = configs.load(store, sealed[max(sealed)].config)
        settings = config.streams.get(stream)
        if settings is None:
            raise FirnError(
                f"the configuration {config.sha[:12]} has no stream {stream}; epoch {last} was sealed under it"
            )
        own = spark or sessions.build(catalog_uri, warehouse)
        needed = _needed(stream, sealed, settings, Tables(own))
        outcomes: list[Outcome] = []
        filtered = 0
        if needed:
            order = Order(settings.generation, settings.order_by)
            raw = raw_changes(own, staging, _batches(needed), order).persist(StorageLevel.MEMORY_AND_DISK)
            routes = route(settings, facts_of(raw))
            filtered = routes.ignored
            _reject_refused(store, stream, needed, raw, routes)
            job = TableJob(own, store, stream, settings, warehouse, needed, last)
            for target in routes.targets:
                outcomes.append(job.commit(target, raw))
                log(outcomes[-1].line())
            raw.unpersist()
        failed = [outcome.table for outcome in outcomes if outcome.status == "failed"]
        if not failed:
            _write_cut(store, stream, last, Tables(own), _targets(settings, sealed))
    except Exception as error:  # noqa: BLE001 (the job's edge: whatever it is, say it in one line and exit 1)
        log({"stream": stream, "first": first, "last": last, "status": "failed", "error": first_line(error)})
        return 1
    log(
        {"stream": stream, "first": first, "last": last, "status": "failed" if failed else "committed"}
        | {"tables": len(outcomes), "failed": failed, "filtered": filtered}
        | {name: sum(getattr(outcome, name) for outcome in outcomes) for name in ("events", "merged", "superseded")}
        | {"dead": sum(outcome.dead for outcome in outcomes), "seconds": round(time.monotonic() - started, 2)}
    )
    return 1 if failed else 0


def _sealed(store: Store, stream: str, first: int, last: int) -> dict[int, epochs.Epoch]:
    found = {epoch.n: epoch for epoch in epochs.read_range(store, stream, first, last)}
    missing = [n for n in range(first, last + 1) if n not in found]
    if missing:
        raise FirnError(f"epoch {missing[0]} of {stream} is not sealed; dispatch starts jobs only for sealed epochs")
    return found


def _targets(config: StreamConfig, sealed: dict[int, epochs.Epoch]) -> dict[TableName, int]:
    """The tables that the epochs touch, each with the last epoch that does."""
    found: dict[TableName, int] = {}
    for n in sorted(sealed):
        for source in sealed[n].tables:
            try:
                rule = config.rule_for(source)
                if rule is not None:
                    found[rule.target(source)] = n
            except EventError:
                continue
    return found


def _needed(
    stream: str, sealed: dict[int, epochs.Epoch], config: StreamConfig, tables: Tables
) -> dict[int, epochs.Epoch]:
    """The epochs that some table still lacks: nothing below the least progress of a touched table is read again."""
    progress: list[int] = []
    for name, touched in _targets(config, sealed).items():
        table = tables.load(name)
        at = table.state.progress(stream) if table else 0
        if at < touched:
            progress.append(at)
    return {n: epoch for n, epoch in sealed.items() if progress and n > min(progress)}


def _batches(sealed: dict[int, epochs.Epoch]) -> list[SealedBatch]:
    in_order = [(n, batch) for n in sorted(sealed) for batch in sealed[n].batches]
    return [SealedBatch(n, place, batch.id, batch.path, batch.bytes) for place, (n, batch) in enumerate(in_order)]


def _reject_refused(store: Store, stream: str, sealed: dict[int, epochs.Epoch], raw: DataFrame, routes: Routes) -> None:
    """Dead letters for changes whose table can't be placed at all."""
    for number, (table, (code, message)) in enumerate(sorted(routes.refused.items())):
        write_rejects(store, stream, f"refused-{number}", sealed, refused(raw, table, code, message))


def _write_cut(store: Store, stream: str, last: int, tables: Tables, touched: Iterable[TableName]) -> None:
    """The cut: all tables of the stream, those that this range did not touch included."""
    newest = cuts.read(store, stream, cuts.newest(store, stream))
    names = {*(newest.tables if newest else ()), *map(str, touched)}
    snapshots: dict[str, int] = {}
    for name in sorted(names):
        table = tables.load(TableName.parse(name))
        if table is not None and table.state.snapshot_id is not None:
            snapshots[name] = table.state.snapshot_id
    cuts.write(store, cuts.make(stream, last, layout.instant(datetime.now(UTC)), snapshots))
