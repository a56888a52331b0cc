"""A backfill from a real PostgreSQL while its stream runs: reads and changes give the source's table, in any order."""

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from firn.backfill import backfill_request as requests
from firn.backfill import chunk_plan as plans
from firn.backfill.backfill_request import Request
from firn.backfill.postgres_connection import Session, session
from firn.backfill.read_position import floor_of, lsn_of
from firn.backfill.source_address import read_address
from firn.config.names import TableName
from firn.log import cuts, layout, published_configs
from firn.log.batches import FORMAT
from firn_spark import backfill_job, rebuild
from firn_spark.backfill.chunk_reader import Work
from firn_spark.backfill.chunk_task import ChunkTask
from tests.faults.calls import Counting, Died, Fault, WatchedStore
from tests.integration.spark.spark_lake import Lake
from tests.postgresql import postgresql
from tests.soak import long_only, seeds

CONFIG = """
streams:
  spec:
    generation: {generation}
    tables:
      public.*: {{to: 'lake.{{table}}', key: [id], columns: {{amount: 'decimal(12,2)', at: timestamp}}}}
"""
Lakes = Callable[[str], Lake]


def connected(address: str, program: str) -> AbstractContextManager[Session]:
    given = read_address(address)
    return session(given.address, given.password, program)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with postgresql() as url:
        yield url


@pytest.fixture
def server(address: str) -> Iterator[Session]:
    with connected(address, "test") as opened:
        opened.rows("CREATE TABLE t (id int PRIMARY KEY, amount numeric(12,2), at timestamp, note text)")
        opened.rows("INSERT INTO t SELECT n, n / 100.0, timestamp '2026-01-01', 'old' FROM generate_series(1, 900) n")
        yield opened
        opened.rows("DROP TABLE t")


class Writer:
    """Writes into the source, and tells of it as Debezium does: [end of the commit before, place of the change]."""

    def __init__(self, server: Session, chance: random.Random) -> None:
        self._server, self._chance, self._commit = server, chance, "null"
        self.events: list[dict[str, Any]] = []

    def _lsn(self) -> str:
        return str(lsn_of(self._server.value("SELECT pg_current_wal_insert_lsn()::text")))

    def transaction(self) -> None:
        """A few statements on random rows."""
        told = []
        self._server.rows("BEGIN")
        for _ in range(self._chance.randint(1, 3)):
            key, place = self._chance.randint(1, 1_000), self._lsn()
            if self._chance.random() < 0.3:
                gone = self._server.rows("DELETE FROM t WHERE id = :id RETURNING id", id=key)
                told += [self._event("d", {"id": key}, None, place)] if gone else []
            else:
                amount, note = self._chance.randint(-99_999, 99_999), f"new {len(self.events)} {self._chance.random()}"
                (row,) = self._server.rows(
                    "INSERT INTO t VALUES (:id, CAST(:amount AS bigint) / 100.0, '2026-02-01 10:00:00.5', :note) "
                    "ON CONFLICT (id) DO UPDATE SET amount = excluded.amount, note = excluded.note, at = excluded.at "
                    "RETURNING id, (amount * 100)::bigint, (extract(epoch FROM at) * 1000000)::bigint, note",
                    id=key, amount=amount, note=note,
                )  # fmt: skip
                told.append(self._event("u", None, dict(zip(("id", "amount", "at", "note"), row, strict=True)), place))
        self._server.rows("COMMIT")
        self.events += told
        if told:
            self._commit = self._lsn()

    def _event(self, op: str, before: Any, after: Any, place: str) -> dict[str, Any]:
        if after is not None:
            after = after | {"amount": _base64(after["amount"])}
        sequence = f'[{self._commit if self._commit == "null" else chr(34) + self._commit + chr(34)},"{place}"]'
        source = {"connector": "postgresql", "schema": "public", "table": "t", "ts_ms": 1_770_000_000_000}
        return {"op": op, "before": before, "after": after, "source": source | {"sequence": sequence}}


def _base64(cents: int) -> str:
    from base64 import b64encode

    return b64encode(cents.to_bytes(5, "big", signed=True)).decode()


def source_rows(server: Session) -> dict[int, tuple[Any, ...]]:
    return {row[0]: tuple(row[1:]) for row in server.rows("SELECT id, amount, at, note FROM t")}


def mirror_rows(lake: Lake) -> dict[int, tuple[Any, ...]]:
    rows = lake.by_key("lake.t", "id").items()
    return {key: (row["amount"], row["at"], row["note"]) for key, row in rows}


def written(lake: Lake, address: str, name: str, **asked: Any) -> Request:
    made = layout.instant(datetime.now(UTC))
    request = Request(FORMAT, name, "spec", address, made, ("public.t",), chunk_rows=50, **asked)
    assert requests.write(lake.store, request)
    return request


def run(lake: Lake, name: str) -> int:
    return backfill_job.run(
        "spec", name, lake.staging, lake.warehouse, lake.catalog_uri, spark=lake.spark, log=lake.lines.append
    )


@pytest.mark.spark
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_chunks_that_are_killed_and_read_again_between_writes_give_the_source(
    lake: Lakes, server: Session, address: str, seed: int
) -> None:
    chance = random.Random(seed)
    one = lake(CONFIG.format(generation=0))
    writer = Writer(server, chance)
    posted = 0

    def post(count: int) -> None:
        """Some of the events that were not posted yet, in any order, and some of the last ones again."""
        nonlocal posted
        some = writer.events[max(0, posted - 2) : posted + count]
        posted = min(len(writer.events), posted + count)
        chance.shuffle(some)
        if some:
            one.post(some, at_once=5)

    for _ in range(10):
        writer.transaction()
    post(8)
    assert one.commit(one.seal()) == 0
    request = written(one, address, "b1", verify=True, by="key")
    cut = cuts.last(one.store, "spec")
    assert cut is not None
    floor = floor_of(cut.high[0] if cut.high else None, 0)
    assert floor > 0
    settings = one.config.streams["spec"]
    job = backfill_job._Backfill(one.store, one.staging, one.config, request, one.spark, one.lines.append)
    plan = plans.fix(one.store, "spec", job._planned())
    assert len(plan.chunks) >= 5
    work = Work(request, plan, settings, one.config.sha, floor)
    left = list(range(len(plan.chunks)))
    chance.shuffle(left)
    for n in left[:4]:  # the first ones by hand, so that writes come between, and deaths
        for _ in range(3):
            writer.transaction()
        for at in (chance.randint(1, 12), 0):
            how: Fault = chance.choice(("dies before", "dies after"))
            with suppress(Died):
                store = WatchedStore(one.store, Counting(at, how))  # type: ignore[arg-type]
                ChunkTask(store, work).run([n])
        for _ in range(2):
            writer.transaction()
        post(chance.randint(0, 8))
        if chance.random() < 0.3:
            assert one.commit(one.seal()) == 0
    assert run(one, "b1") == 0, one.lines
    writer.transaction()
    post(len(writer.events))
    assert one.commit(one.seal()) == 0
    assert mirror_rows(one) == source_rows(server)
    again = rebuild.Request("r1", TableName.parse("lake.t"), check=True)
    assert rebuild.run(again, one.staging, one.warehouse, one.catalog_uri, spark=one.spark, log=one.lines.append) == 0


@long_only
@pytest.mark.spark
def test_under_a_raised_generation_rows_that_the_source_no_longer_has_go(
    lake: Lakes, server: Session, address: str
) -> None:
    one = lake(CONFIG.format(generation=0))
    written(one, address, "b1")
    assert run(one, "b1") == 0, one.lines
    assert one.commit(one.seal()) == 0
    assert len(mirror_rows(one)) == 900
    # A replica takes over that lacks what the stream brought last, and has what it never brought.
    server.rows("DELETE FROM t WHERE id % 3 = 0")
    server.rows("UPDATE t SET note = 'of the replica' WHERE id % 3 = 1")
    one.config = published_configs.publish(one.store, CONFIG.format(generation=1))
    event = {
        "op": "c", "before": None, "after": {"id": 5_000, "amount": None, "at": None, "note": "streamed meanwhile"},
        "source": {"connector": "postgresql", "schema": "public", "table": "t", "sequence": '[null,"77"]'},
    }  # fmt: skip
    server.rows("INSERT INTO t VALUES (5000, NULL, NULL, 'streamed meanwhile')")
    one.post([event])
    written(one, address, "b2", replace=True)
    assert run(one, "b2") == 0, one.lines
    assert one.commit(one.seal()) == 0
    assert mirror_rows(one) == source_rows(server)


@pytest.mark.spark
def test_a_backfill_that_fails_says_why_and_goes_on_once_it_is_mended(
    lake: Lakes, server: Session, address: str, tmp_path: Path
) -> None:
    one = lake(CONFIG.format(generation=0))
    written(one, address, "b1", where="note <> nothing")
    assert run(one, "b1") == 1
    assert 'column "nothing" does not exist' in one.lines[-1]["error"]
    requests.end(one.store, "spec", "b1", requests.End(FORMAT, "cancelled", "2026-03-01T00:00:00.000Z"))
    assert run(one, "b1") == 0
    assert one.lines[-1]["status"] == "cancelled"
    written(one, address, "b2", where="id <= 10")
    assert run(one, "b2") == 0, one.lines
    assert one.commit(one.seal()) == 0
    assert sorted(mirror_rows(one)) == [*range(1, 11)]


@long_only
@pytest.mark.spark
def test_a_row_that_changes_its_key_while_chunks_are_read_keeps_its_value_out_of_line(
    lake: Lakes, server: Session, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its event leaves the value out, and both its keys were in chunks where it was not."""
    server.rows("ALTER TABLE t ALTER note SET STORAGE EXTERNAL")
    server.rows("UPDATE t SET note = repeat(md5(id::text), 100)")
    server.rows("ANALYZE t")
    one = lake(CONFIG.format(generation=0))
    request = written(one, address, "b1", by="key")
    job = backfill_job._Backfill(one.store, one.staging, one.config, request, one.spark, one.lines.append)
    plan = plans.fix(one.store, "spec", job._planned())
    *firsts, last = range(len(plan.chunks))
    assert plan.chunks[last].last
    ChunkTask(one.store, Work(request, plan, one.config.streams["spec"], one.config.sha, 0)).run(firsts[1:])
    writer = Writer(server, random.Random(1))
    writer.events = []
    place = writer._lsn()
    server.rows("UPDATE t SET id = 5000 WHERE id = 1")
    writer._commit = place  # of some transaction before
    unavailable = {"id": 5_000, "amount": 1, "at": 1_767_225_600_000_000, "note": "__debezium_unavailable_value"}
    moved = [
        writer._event("d", {"id": 1, "amount": None, "at": None, "note": None} | {"amount": None}, None, place),
        writer._event("c", None, unavailable, place),
    ]
    one.post(moved)
    monkeypatch.setattr(backfill_job, "_LOOK_EVERY", 0.0)
    monkeypatch.setattr(backfill_job, "CATCH_UP_SECONDS", 0.0)
    assert one.commit(one.seal()) == 0
    assert run(one, "b1") == 0, one.lines
    assert one.commit(one.seal()) == 0
    assert mirror_rows(one) == source_rows(server)
