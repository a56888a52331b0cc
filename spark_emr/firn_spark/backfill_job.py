"""The backfill job: makes the plan, unless it is made, has executors stage its chunks, and ends the backfill."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from firn.backfill import backfill_request as requests
from firn.backfill import chunk_plan as plans
from firn.backfill import truncates
from firn.backfill.backfill_request import End, Request
from firn.backfill.chunk_plan import Plan
from firn.backfill.exact_snapshot import can_export
from firn.backfill.mysql_plan import make_mysql_plan
from firn.backfill.postgres_chunk import Log
from firn.backfill.postgres_plan import Into, make_plan
from firn.backfill.progress import Watch
from firn.backfill.read_position import NEVER, floor_of
from firn.changes.decode.types import Type
from firn.config.model import Config, StreamConfig
from firn.errors import ConfigError, EventError
from firn.log import cuts, layout, pause, published_configs
from firn.log.batches import FORMAT
from firn.log.store import Store, open_store
from firn.tables.routing import declared_columns
from firn_spark import session as sessions
from firn_spark.backfill import file_source
from firn_spark.backfill.chunk_reader import Work
from firn_spark.backfill.chunk_rounds import stage_all
from firn_spark.backfill.chunk_task import Cancelled
from firn_spark.backfill.mysql_reader import opened_mysql
from firn_spark.backfill.postgres_reader import login_of, opened
from firn_spark.commit import print_line
from firn_spark.failures import failure_of
from firn_spark.tables.evolve import Tables

Tell = Callable[[dict[str, Any]], None]
CATCH_UP_SECONDS = 120.0  # for commits of the stream, before what is read last
_LOOK_EVERY = 1.0


def run(
    stream: str,
    backfill: str,
    staging: str,
    warehouse: str,
    catalog_uri: str,
    *,
    spark: SparkSession | None = None,
    log: Tell = print_line,
) -> int:
    """Goes on with the backfill of that id, from wherever it is. -> 0 if it is done or cancelled, 1 if it failed: what
    is staged stays, and the next run goes on."""
    head = {"stream": stream, "backfill": backfill}
    try:
        store = open_store(staging)
        config = published_configs.load(store, published_configs.current_sha(store))
        request = requests.read(store, stream, backfill)
        if request is None:
            raise ConfigError(f"stream {stream} has no backfill {backfill}")
        if (before := requests.ended(store, stream, backfill)) is not None:
            log(head | {"status": before.status, "rows": before.rows})
            return 0
        if pause.since(store) is not None:
            raise ConfigError("it is paused: firn resume, then the same command again")
        session = spark or sessions.build(catalog_uri, warehouse)
        end = _Backfill(store, staging, config, request, session, log).run()
        log(head | {"status": end.status, "rows": end.rows, "chunks": end.chunks, "bytes": end.bytes})
    except Exception as error:  # noqa: BLE001 (the job's edge: whatever it is, say it in one line and exit 1)
        found = failure_of(error)
        log(head | {"status": "failed", "failure": found.kind, "error": found.text})
        return 1
    return 0


class _Backfill:
    def __init__(
        self, store: Store, staging: str, config: Config, request: Request, spark: SparkSession, log: Tell
    ) -> None:
        self._store, self._staging, self._config, self._request = store, staging, config, request
        self._spark, self._log = spark, log
        settings = config.streams.get(request.stream)
        if settings is None:
            raise ConfigError(f"firn.yaml has no stream {request.stream}: publish it, then the same command again")
        self._settings: StreamConfig = settings

    def run(self) -> End:
        stream, backfill = self._request.stream, self._request.id
        floor = self._floor()
        if self._request.position == "now" and floor > NEVER:
            raise ConfigError("--position now is for streams of PostgreSQL: another source's places are no LSNs")
        plan = plans.read(self._store, stream, backfill) or plans.fix(self._store, stream, self._planned())
        told = {"tables": len(plan.tables), "chunks": len(plan.chunks), "estimated_rows": plan.rows}
        self._log({"stream": stream, "backfill": backfill, "status": "planned"} | told)
        work = Work(self._request, plan, self._settings, self._config.sha, floor)
        try:
            stage_all(self._spark.sparkContext, self._staging, work)
            if any(chunk.last for chunk in plan.chunks):
                # Reads at the log's end are above what is streamed by now, whoever knows of it.
                work = work if self._request.pulled else replace(work, floor=self._caught_up())
                stage_all(self._spark.sparkContext, self._staging, work, last=True)
        except Cancelled:
            return requests.ended(self._store, stream, backfill) or self._end("cancelled", plan)
        if self._request.replace:
            truncates.stage(self._store, self._request, plan, self._settings, self._config.sha)
        return self._end("done", plan)

    def _floor(self) -> int:
        """Asked before any position is: what the tables know by now was committed by now."""
        cut = cuts.last(self._store, self._request.stream)
        return floor_of(cut.high[0] if cut is not None and cut.high else None, self._settings.generation)

    def _caught_up(self) -> int:
        """The floor of chunks that are read last, which are to beat what was streamed while the others were: once the
        stream's tables know all that is in the log by now, or have had time for it (a quiet source tells nothing)."""
        with opened(self._request) as server:
            end = Log(server).log_end()
        began = time.monotonic()
        while (floor := self._floor()) < end and time.monotonic() - began < CATCH_UP_SECONDS:
            if requests.ended(self._store, self._request.stream, self._request.id) is not None:
                raise Cancelled
            time.sleep(_LOOK_EVERY)
        floor = max(floor, self._floor())
        # Above the newest change that the tables know, which may begin right where the commit before it ended. The
        # commit of its own transaction ends later, and nothing that the snapshot does not show stands before that.
        return floor + 1 if floor else 0

    def _end(self, status: Any, plan: Plan) -> End:
        stream, backfill = self._request.stream, self._request.id
        found = Watch(self._store, stream, plan).look()
        how = End(FORMAT, status, layout.instant(datetime.now(UTC)), sum(found.rows.values()), found.chunks, found.raw)
        return requests.end(self._store, stream, backfill, how)

    def _planned(self) -> Plan:
        now = layout.instant(datetime.now(UTC))
        if not self._request.is_database:
            return file_source.make_plan(self._request, self._into, now)
        if self._request.is_mysql:
            with opened_mysql(self._request) as (session, database):
                settings = self._settings.settings
                return make_mysql_plan(session, database, self._request, settings, self._into, now)
        with opened(self._request) as server:
            plan = make_plan(server, self._request, self._settings.settings, self._into, now)
        if self._request.pulled and any(chunk.last for chunk in plan.chunks):
            can_export(*login_of(self._request))  # better said now than after a billion rows
        return plan

    def _into(self, source: str) -> Into | None:
        """Where a source table goes, with the types of its columns, declared ones too, by the source's names."""
        try:
            rule = self._settings.rule_for(source)
            name = rule.target(source) if rule is not None else None
        except EventError as error:
            raise ConfigError(str(error)) from None
        if rule is None or name is None:
            return Into({}, keyed=True) if self._settings.wants(source) else None
        if rule.schema is not None:
            raise ConfigError(f"{source} has a schema in firn.yaml, by which rows are judged as they come: post them")
        if rule.shard is not None:
            raise ConfigError(
                f"{source} goes to a table of several shards, for which chunks are too large yet: post its rows, in a "
                "snapshot by Debezium for example, and name the other tables in the command"
            )
        if rule.snapshot_reads == "ignore":
            raise ConfigError(f"the rule of {source} says `snapshot_reads: ignore`, so all would be left out")
        found = Tables(self._spark).load(name)
        columns: dict[str, Type] = {column.name: column.type for column in found.state.columns[0]} if found else {}
        columns |= {column.name: column.type for column in declared_columns(rule, self._settings)}
        for new, old in rule.renames.items():
            if new in columns:
                columns.setdefault(old, columns[new])
        keyed = rule.key is not None or not rule.keyed or (found is not None and found.key() is not None)
        return Into(columns, keyed)
