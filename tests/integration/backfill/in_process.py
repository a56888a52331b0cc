"""A backfill of the stream `shop` whose chunks are read and staged in the test's own process."""

from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firn.backfill import chunk_plan as plans
from firn.backfill.backfill_request import Request
from firn.backfill.chunk_plan import Plan
from firn.backfill.mysql_plan import make_mysql_plan
from firn.backfill.postgres_connection import Session, session
from firn.backfill.postgres_plan import Into, make_plan
from firn.backfill.source_address import read_address
from firn.log import layout, published_configs
from firn.log.batches import FORMAT
from firn.log.store import Store, get, open_store, paths
from firn_spark.backfill.chunk_reader import Work
from firn_spark.backfill.chunk_task import ChunkTask
from firn_spark.backfill.mysql_reader import opened_mysql

CONFIG = "streams: {shop: {tables: {'*.*': {to: 'shop.{table}', key: [id]}}}}"


def connected(address: str, program: str) -> AbstractContextManager[Session]:
    given = read_address(address)
    return session(given.address, given.password, program)


class Backfill:
    """A backfill of the stream `shop`, run in this process."""

    def __init__(self, folder: Path, address: str, **asked: Any) -> None:
        self.address = address
        self.store: Store = open_store(f"file://{folder}/staging")
        self.config = published_configs.publish(self.store, CONFIG)
        made = layout.instant(datetime.now(UTC))
        self.request = Request(FORMAT, "b1", "shop", address, made, **asked)
        self.into = Into({}, keyed=True)

    def planned(self, takes: str = "") -> Plan:
        """`takes`: the only table that the stream takes, "" for all."""
        settings, now = self.config.streams["shop"].settings, self.request.made_at

        def target(source: str) -> Into | None:
            return self.into if takes in ("", source) else None

        if self.request.is_mysql:
            with opened_mysql(self.request) as (session, database):
                found = make_mysql_plan(session, database, self.request, settings, target, now)
        else:
            with connected(self.address, "test") as server:
                found = make_plan(server, self.request, settings, target, now)
        return plans.fix(self.store, "shop", found)

    def task(self, plan: Plan, floor: int = 0) -> ChunkTask:
        work = Work(self.request, plan, self.config.streams["shop"], self.config.sha, floor)
        return ChunkTask(self.store, work, sleep=lambda _: None)

    def run(self) -> Plan:
        self.planned()
        return self.run_planned()

    def run_planned(self) -> Plan:
        plan = plans.read(self.store, "shop", "b1")
        assert plan is not None
        self.task(plan).run(range(len(plan.chunks)))
        return plan

    def rows(self) -> list[dict[str, Any]]:
        """The changes of all staged batches."""
        found = [get(self.store, path) for path in paths(self.store, "staged/shop")]
        return [row for data in found if data for row in pq.read_table(pa.BufferReader(data)).to_pylist()]

    def images(self) -> list[str]:
        return sorted(row["after"] for row in self.rows())
