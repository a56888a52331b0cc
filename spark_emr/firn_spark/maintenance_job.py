"""The care job: table after table, what was asked for; how they are afterwards goes into `health/`, and what was done
into `care/{run}.json`, which `firn compact` and its like read."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import SparkSession

from firn.commit.job import Log
from firn.config.maintenance import Care
from firn.config.model import Config
from firn.config.names import TableName
from firn.config.reach import databases_of
from firn.config.unfed_tables import UnfedTables, is_pattern
from firn.errors import FirnError
from firn.log import layout, pause, published_configs, table_health
from firn.log.batches import FORMAT
from firn.log.store import Store, open_store, put
from firn.log.table_health import Health
from firn.maintenance import unfed
from firn.maintenance.health import left, spent
from firn.maintenance.launcher import feeding, health_streams, is_unfed
from firn.maintenance.schedule import Kind, noted
from firn.tables import ownership
from firn.tables.failures import failure
from firn_spark import session as sessions
from firn_spark import vended_keys
from firn_spark.commit import print_line
from firn_spark.failures import failure_of
from firn_spark.maintenance import orphans
from firn_spark.maintenance.cold_files import fence
from firn_spark.maintenance.compaction import Budget, compact
from firn_spark.maintenance.expiry import Expired, expire_all
from firn_spark.maintenance.health import measure
from firn_spark.maintenance.listing import Cold
from firn_spark.maintenance.optimizer_statistics import compute
from firn_spark.merge.facts_table import facts_beside
from firn_spark.not_eligible import Unfit
from firn_spark.tables.evolve import Table, Tables
from firn_spark.tables.fence import LostRace

_ANYTHING: Final = 10**15  # bytes
_MOST_TABLES: Final = 200  # of one pattern, in one job
_NOT_OURS: Final = "no stream feeds it, and care.also in firn.yaml does not name it"


@dataclass(frozen=True)
class Request:
    """What was asked for. `all`: without an hour's budget."""

    run: str
    kinds: tuple[Kind, ...]
    tables: tuple[TableName, ...]
    dry_run: bool = False
    all: bool = False


def run(
    request: Request,
    staging: str,
    warehouse: str,
    catalog_uri: str,
    *,
    spark: SparkSession | None = None,
    log: Log = print_line,
) -> int:
    """Cares for each table; one that fails doesn't keep the others. -> 0, or 1 if one failed."""
    head = {"care": request.run}
    try:
        store = open_store(staging)
        config = published_configs.load(store, published_configs.current_sha(store))
        session = spark or sessions.build(catalog_uri, warehouse)
        job = _Job(request, store, config, session, warehouse)
        lines = []
        for table in request.tables:
            for line in job.tables(table):
                lines.append(line)
                log(head | line)
        failed = [str(line["table"]) for line in lines if line["status"] == "failed"]
        result = {"format": FORMAT, "run": request.run, "dry_run": request.dry_run, "lines": lines}
        put(store, layout.care_path(request.run), json.dumps(result).encode())
    except FirnError as error:
        log(head | {"status": "failed", "error": failure(error).text})
        return 1
    return 1 if failed else 0


class _Job:
    def __init__(self, request: Request, store: Store, config: Config, spark: SparkSession, warehouse: str) -> None:
        self._request, self._store, self._config, self._spark = request, store, config, spark
        self._warehouse = warehouse
        self._tables = Tables(spark)

    def tables(self, name: TableName) -> Iterator[dict[str, Any]]:
        """The same for a table, or for all that a pattern of firn.yaml names (care.also)."""
        now, also = datetime.now(UTC), self._config.care.also
        # A source's table may be called `a*b`.
        fed = str(name) not in also.patterns and feeding(self._config, str(name))
        if fed or not is_pattern(name):
            yield from self.table(name)
        else:
            try:
                yield from self._named(name)
            except Exception as error:  # noqa: BLE001 (the edge)
                yield {"table": str(name), "status": "failed", "error": failure_of(error).text}
                return
        if str(name) in also.patterns and not self._request.dry_run and pause.since(self._store) is None:
            table_health.write(self._store, unfed.HEALTH, [unfed.looked(str(name), now)])

    def _named(self, pattern: TableName) -> Iterator[dict[str, Any]]:
        if (why := ownership.barred(pattern, databases_of(os.environ))) is not None:
            yield {"table": str(pattern), "status": "left", "why": why}
            return
        mine, found = UnfedTables((str(pattern),)), list[TableName]()
        for text in self._tables.names(pattern.namespace):
            try:
                name = TableName(pattern.namespace, text)
            except ValueError as error:  # a name that Firn has no way to write
                yield {"table": str(pattern), "status": "left", "why": str(error)}
                continue
            if mine.names(name) and is_unfed(self._config, str(name)):
                found.append(name)
        for one in found[:_MOST_TABLES]:
            yield from self.table(one)
        if len(found) > _MOST_TABLES:
            why = f"it names {len(found):,} tables, and a job takes {_MOST_TABLES}: name fewer with each pattern"
            yield {"table": str(pattern), "status": "left", "why": why}

    def table(self, name: TableName) -> Iterator[dict[str, Any]]:
        """A line for each thing done to the table and to its facts. Never raises an Exception: a table that can't be
        cared for doesn't keep the others."""
        line = {"table": str(name)}
        try:
            if (why := ownership.barred(name, databases_of(os.environ))) is not None:
                yield line | {"status": "left", "why": why}
                return
            streams = sorted(health_streams(self._config, str(name)))
            others = streams == [unfed.HEALTH]
            found = self._tables.load(name) if streams else None
            if found is None:
                for stream in streams:  # of a table that was dropped nothing is ever due again
                    table_health.write(self._store, stream, [], gone=[str(name)])
                yield line | {"status": "left", "why": "it is not in the catalog" if streams else _NOT_OURS}
            elif (why := self._refusal(found)) is not None:
                yield line | {"status": "left", "why": why}
            elif found.key() is None and not others:
                yield line | {"status": "left", "why": "Firn did not make it"}
            elif others and (why := _not_cared_for(found)) is not None:
                yield line | {"status": "left", "why": why}
            else:
                yield from self._cared(found, streams)
        except Exception as error:  # noqa: BLE001 (the edge)
            yield line | {"status": "failed", "error": failure_of(error).text}

    def _is_ours(self, namespace: str) -> bool:
        also = (pattern.partition(".")[0] for pattern in self._config.care.also.patterns)
        return self._config.feeds_namespace(namespace) or namespace in also

    def _refusal(self, found: Table) -> str | None:
        if pause.since(self._store) is not None:
            return "it was paused meanwhile: firn resume"
        return ownership.refusal(self._store, self._config.streams, found.name, found.state, self._warehouse)

    def _cared(self, found: Table, streams: Sequence[str]) -> Iterator[dict[str, Any]]:
        # One moment for all of it: what is measured after a look for orphans is then no news since.
        now = datetime.now(UTC)
        facts = facts_beside(self._tables, found)
        parts = [found] if facts is None else [found, facts]
        care = self._config.care_of(found.name)
        known = table_health.read(self._store, streams[0])
        cold = fence(self._store, found.name, care)
        dry = self._request.dry_run
        for kind in self._request.kinds:
            line = {"table": str(found.name), "kind": kind, "status": "dry run" if dry else "done"}
            try:
                for of, told in self._do(kind, parts, streams[0], care, known, cold, now):
                    yield line | {"table": of} | told
                    done = int(told.get("snapshots", 0)) if kind == "expire" else _bytes(told)
                    known[of] = noted(known.get(of), of, kind, done, now)
            except (Unfit, orphans.CannotTell) as why:
                known[str(found.name)] = noted(known.get(str(found.name)), str(found.name), kind, None, now)
                yield line | {"status": "left", "why": str(why)}
            except LostRace as why:
                yield line | {"status": "left", "why": str(why)}
            except Exception as error:  # noqa: BLE001 (one kind of care that fails doesn't keep the others)
                yield line | {"status": "failed", "error": failure_of(error).text}
        if dry:
            return
        measured = [
            measure(self._spark, self._tables.look_again(one), care, now, known.get(str(one.name)), cold)[0]
            for one in parts
        ]
        for stream in streams:
            table_health.write(self._store, stream, measured)

    def _do(
        self,
        kind: Kind,
        parts: Sequence[Table],
        stream: str,
        care: Care,
        known: Mapping[str, Health],
        cold: Cold | None,
        now: datetime,
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """-> the table, or that of its facts, and what was done to it."""
        dry = self._request.dry_run
        began = time.monotonic()

        def told(table: str, line: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
            return table, {"seconds": round(time.monotonic() - began, 2)} | dict(line)

        if kind == "expire":
            table, rule = self._tables.look_again(parts[0]), care.expiry
            if stream == unfed.HEALTH:  # counted on main as it is now: compaction has put snapshots on it
                rule = unfed.reach(rule, table.state.ancestry)
            for one in expire_all(self._spark, self._store, table, rule, now, dry_run=dry):
                yield told(one.table, one.line() | (one.reasons() if isinstance(one, Expired) else {}))
            return
        if kind == "statistics":
            table = self._tables.look_again(parts[0])
            if care.statistics.on:
                yield told(str(table.name), compute(self._spark, table, care.statistics, dry_run=dry).line())
            return
        for part in parts:
            table = self._tables.look_again(part)
            if kind == "compact":
                budget = _ANYTHING if self._request.all else left(known.get(str(part.name)), care.compaction, now)
                fresh = self._request.all or not spent(known.get(str(part.name)), now)
                sweeps = stream != unfed.HEALTH  # bounds of others' delete files may say less than they should
                done = compact(
                    self._spark, table, stream, care, Budget(budget, fresh), cold=cold, dry_run=dry, sweeps=sweeps
                )
                yield told(str(part.name), done.line())
            else:
                place = vended_keys.store_at(table.state.location, table.state.location)
                others = orphans.places_of_others(self._spark, table, self._is_ours)
                removed = orphans.remove(
                    self._spark, table, place, care.expiry.orphan_seconds, now, others=others, dry_run=dry
                )
                yield told(str(part.name), removed.line() | {"freed_bytes": removed.bytes})


def _bytes(told: Mapping[str, Any]) -> int:
    """Bytes that compaction has rewritten, by its line."""
    return int(told.get("bytes", 0)) + int(told.get("manifest_bytes", 0))


def _not_cared_for(found: Table) -> str | None:
    """Why a table that no stream feeds is left alone as a whole."""
    if found.state.properties.get("firn.mode") == "deletes":
        return "it remembers the deletes of another table, and goes with that"
    return unfed.unreadable(found.state.fields)
