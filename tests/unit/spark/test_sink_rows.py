"""Staged events through SQL into files, by the code that jobs run: what lies there is what DuckDB selects.

Real ingest, sealing and job, decoding, SQL and Parquet; only the tables are in memory.
"""

import hashlib
import io
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

from firn.commit import sink_turn
from firn.dispatch.dispatcher import Terms, dispatch
from firn.ingest import accept
from firn.log.store import get, paths
from firn.sinks import plans
from firn.sinks.rows import FileRows, SinkRange
from firn_spark.sinks.sink_rows import SinkRows
from tests.faults.calls import FAULTS, Counting, Died, WatchedStore, in_order
from tests.model.lake_contract import STREAM, Stream
from tests.model.memory_ground import MemoryGround
from tests.model.memory_lake import MemoryLake
from tests.soak import seeds

TO = "file:///sinks/out"
CONFIG = """
streams:
  shop:
    envelope: rows
    debezium: {{decimal.handling.mode: string}}
    tables:
      clicks:
        to: lake.clicks
        mode: append
        columns: {{id: long, region: string, amount: 'decimal(12,2)', seen: timestamptz}}
    pipelines:
      out:
        sql: "{sql}"
        files: {{to: file:///sinks/out, {files}}}
"""
SCHEMA = pa.schema(
    {"id": pa.int64(), "region": pa.string(), "amount": pa.decimal128(12, 2), "seen": pa.timestamp("us", "UTC")}
)
ALL = "SELECT * FROM clicks"


class Lake(MemoryLake):
    """Tables in memory, files as in production."""

    def files(self, sink: SinkRange) -> FileRows:
        return SinkRows(self.store, "memory://staging", "memory://warehouse", sink)


class Sinks(Stream):
    """The stream, with its sink in memory."""

    def __init__(self, sql: str = ALL, files: str = "format: json, compression: none") -> None:
        ground = MemoryGround()
        ground.lake = Lake(ground.store, ground.catalog)
        roll = "" if "roll" in files else ", roll: {every: 60s, size: 1KB}"
        super().__init__(ground, CONFIG.format(sql=sql, files=files + roll))
        self.sink: Any = MemoryStore()

    def post(self, *events: dict[str, Any]) -> None:
        body = json.dumps(events).encode()
        accept.accept(self.store, self.config, STREAM, body, now=self.tick(), table="clicks")

    def wake(self, **later: int) -> None:
        """What dispatch does when time has passed."""
        self.now += timedelta(**later)
        done = dispatch(self.store, STREAM, None, now=self.now, terms=Terms(self.config.sha), tick=timedelta())
        if done.pending is not None:
            assert self.commit(*done.pending) == 0, self.lines

    def manifests(self) -> list[plans.Manifest]:
        return plans.manifests(self.store, STREAM, "out")

    def bodies(self) -> dict[str, bytes]:
        """What the manifests name, by path, as they say it is; there is nothing else."""
        found = {}
        for one in (file for manifest in self.manifests() for file in manifest.files):
            found[one.path] = get(self.sink, one.path) or b""
            assert hashlib.sha256(found[one.path]).hexdigest() == one.sha256
        assert sorted(found) == paths(self.sink, "")
        return found

    def rows(self) -> list[dict[str, Any]]:
        """All rows, of Parquet files."""
        tables = [pq.read_table(io.BytesIO(body)) for body in self.bodies().values()]
        return [row for table in tables for row in table.to_pylist()]


def selected(sql: str, rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """What DuckDB selects of all rows at once, sorted."""
    columns = {name: [row.get(name) for row in rows] for name in SCHEMA.names}
    columns["amount"] = [None if one is None else Decimal(one) for one in columns["amount"]]
    columns["seen"] = [None if one is None else datetime.fromisoformat(one) for one in columns["seen"]]
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("clicks", pa.table(columns, schema=SCHEMA))
    found = connection.sql(sql).to_arrow_table().to_pylist()
    return ordered(found)


def own_left_out(rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """The rows as the SQL made them, sorted."""
    return ordered({name: value for name, value in row.items() if not name.startswith("_firn")} for row in rows)


def ordered(rows: Iterable[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows by names, sorted."""
    return sorted((tuple(sorted(row.items())) for row in rows), key=repr)


def clicks(seed: int, count: int = 12) -> list[dict[str, Any]]:
    """Random events."""
    draw = random.Random(seed)
    texts = ["eu", "us", None, "", "..", "a/b", "é", "x" * 300, "__null__", "%2E"]
    return [
        {
            "id": draw.choice([None, draw.randrange(-5, 2**40)]),
            "region": draw.choice(texts),
            "amount": draw.choice([None, f"{draw.randrange(-9999, 99999) / 100:.2f}"]),
            "seen": draw.choice([None, f"2026-01-{draw.randrange(1, 28):02d}T{draw.randrange(24):02d}:30:00+00:00"]),
        }
        for _ in range(count)
    ]


QUERIES = [
    ALL,
    "SELECT id, upper(region) AS region, amount * 2 AS amount, seen FROM clicks WHERE id > 100 OR region IS NULL",
    "SELECT id, region, UNNEST([amount, amount + 1]) AS amount, seen FROM clicks",
    "WITH big AS (SELECT * FROM clicks WHERE amount > 0) "
    "SELECT id, seen, CASE WHEN id < 0 THEN 'x' ELSE region END AS region FROM big",
]
FORMS = [
    "format: parquet, compression: zstd, path: 'dt=%Y-%m-%d/region={region}'",
    "format: parquet, compression: snappy, path: 'dt=%Y-%m-%dT%H', time: seen",
    "format: parquet, compression: lz4, path: '{region}/{id}'",
    "format: parquet, compression: none, roll: {every: 60s, size: 1MB}",
    "format: parquet, compression: gzip, path: 'x/%j'",
]


@pytest.fixture(autouse=True)
def calls_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    in_order(monkeypatch)


def opened(monkeypatch: pytest.MonkeyPatch, sinks: Sinks, gate: Counting | None = None) -> Sinks:
    """The job finds the sink's store in memory, behind a gate if there is one."""
    store = sinks.sink if gate is None else WatchedStore(sinks.sink, gate)
    monkeypatch.setattr(sink_turn, "open_files", lambda _: store)
    return sinks


@pytest.mark.parametrize("query", range(len(QUERIES)))
def test_the_files_hold_what_duckdb_selects(query: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in seeds(3, 20):
        sinks = opened(monkeypatch, Sinks(QUERIES[query], FORMS[(query + seed) % len(FORMS)]))
        events = [clicks(10 * seed + n) for n in range(4)]
        for some in events:
            sinks.land(*some)
        sinks.wake(hours=1)
        assert own_left_out(sinks.rows()) == selected(QUERIES[query], [row for some in events for row in some])
        if seed % len(FORMS) != 3:
            assert len({row["_firn_id"] for row in sinks.rows()}) == len(sinks.rows())


@pytest.mark.parametrize("seed", seeds(6, 50))
def test_killed_at_a_seeded_moment_the_files_hold_each_row_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    query = draw.choice(QUERIES)
    sinks = Sinks(query, draw.choice(FORMS))
    gate = Counting(draw.randrange(10, 120), draw.choice(FAULTS), draw.choice([None, None, "name"]))
    opened(monkeypatch, sinks, gate)
    watched, rows = WatchedStore(sinks.store, gate), []
    for n in range(4):
        some = clicks(100 * seed + n)
        rows += some
        sealed = sinks.seal(*some)
        gate.born_again()
        with suppress(Died):
            sinks.commit(sealed, store=watched)
    gate.heal()
    for _ in range(6):
        sinks.wake(minutes=3)
    assert own_left_out(sinks.rows()) == selected(query, rows), (gate.hit, gate.fault)
    ids = [row["_firn_id"] for row in sinks.rows()]
    assert len(set(ids)) == len(ids)
