"""A real PostgreSQL under pgbench and DDL, pulled by a function that is killed before and after each of its steps,
while the database crashes: what is staged leads to the database's own tables, row for row, and holds no change twice.
"""

import random
import resource
import shutil
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from examples.sources.postgres import USER, Postgres
from firn.changes.decode.codec import DecodeSettings, RowCodec
from firn.changes.decode.connect_schema import columns_of
from firn.config.pull_source import PostgresAddress, PullSource
from firn.config.reader import parse
from firn.errors import FirnError
from firn.log import epochs, pulls
from firn.log.store import Store, open_store, paths
from firn.sources.postgres.connection import Connection
from firn.sources.postgres.row_form import RowForm, SourceColumn
from firn.sources.postgres.slot import PostgresSlot
from firn.sources.postgres.type_catalog import LOOK_UP, PgType, TypeCatalog
from firn.sources.pull import PullTask, pull
from firn_cli.main import app
from tests.postgresql import binaries
from tests.soak import LONG
from tests.unit.sources.replay import Replay
from tests.unit.sources.test_pull import Killed, KillingStore

BANK = Path(__file__).parents[3] / "examples" / "postgres-debezium"
TABLES = ("orders", "pgbench_accounts", "pgbench_tellers", "pgbench_branches", "pgbench_history")
CONFIG = parse("""
streams:
  shop: {tables: {'*': {to: 'shop.{table}'}}}
sources:
  shop: {postgres: 'postgresql://bank@127.0.0.1/shop', slot: firn_shop, publication: firn, stream: shop}
""")
USUAL = DecodeSettings()
SOAK = LONG
DDL = (
    "ALTER TABLE orders ADD COLUMN score numeric(8,3); UPDATE orders SET score = units / 7.0 WHERE order_id % 5 = 0;",
    "ALTER TABLE orders ALTER COLUMN units TYPE bigint, ALTER COLUMN amount TYPE numeric(14,2);",
    "ALTER TABLE orders DROP COLUMN details; ALTER TABLE orders ADD COLUMN tags text[];",
    "BEGIN; INSERT INTO orders (aid, units, amount, tags) SELECT 1, 1, 1, '{a,\"b c\"}' FROM generate_series(1, 300); "
    "ALTER TABLE orders RENAME COLUMN note TO remark; UPDATE orders SET remark = remark; COMMIT;",
    "TRUNCATE pgbench_history;",
)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    home = Path(tempfile.mkdtemp(prefix="firn-pg-"))  # pytest's own folders are for their owner only
    home.chmod(0o755)
    found = Postgres(binaries(), home / "data", "shop")
    try:
        found.start()
        made = found.pgbench("-i", "-I", "dtp", log=home / "pgbench.log")
        assert made.wait() == 0
        found.run("CREATE PUBLICATION firn FOR ALL TABLES WITH (publish_via_partition_root = true)")
        found.run("SELECT pg_create_logical_replication_slot('firn_shop', 'pgoutput')")
        found.run_file(BANK / "bank.sql", {"accounts": 200})
        yield found
    finally:
        found.stop()
        shutil.rmtree(home, ignore_errors=True)


def source_of(server: Postgres) -> PullSource:
    address = PostgresAddress("127.0.0.1", server.port, USER, server.database, "disable")
    return PullSource("shop", address, "firn_shop", "firn", "shop")


class KillingSlot(PostgresSlot):
    """Says each move of the slot to `step`."""

    def __init__(self, connection, source, step) -> None:
        super().__init__(connection, source)
        self.step = step

    def advance(self, upto: int) -> None:
        self.step("before advance")
        super().advance(upto)
        self.step("after advance")

    def peek(self, upto: int, publication: str) -> Generator[tuple[int, bytes], None, None]:
        for number, row in enumerate(super().peek(upto, publication)):
            if number % 400 == 399:
                self.step("row")
            yield row


class Puller:
    """Pulls in a thread; dies at random, `kills` times in all, at what each step is called, and comes again."""

    def __init__(self, server: Postgres, store: Store, kills: int, seed: int) -> None:
        self.server, self.left, self._draw = server, kills, random.Random(seed)
        self.died: dict[str, int] = {}
        self.errors: list[Exception] = []
        self.task = PullTask(
            KillingStore(store, self._step), source_of(server), lambda: datetime.now(UTC), 1 << 24, part_bytes=50_000
        )
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _step(self, name: str) -> None:
        if self.left and self._draw.random() < (0.004 if name == "row" else 0.08):
            self.left -= 1
            self.died[name] = self.died.get(name, 0) + 1
            raise Killed

    def _run(self) -> None:
        last = False
        while True:
            connection = None
            try:
                connection = Connection(source_of(self.server).address, self.server.password, "pull")
                slot = KillingSlot(connection, self.task.source, self._step)
                while True:
                    finishing = self.done.is_set()
                    found = pull(self.task, CONFIG, slot)
                    last = finishing and not found.plan and not found.behind
                    if last:
                        return
                    time.sleep(0.02)
            except Killed:
                pass
            except FirnError as error:  # the database is away, or the lease of the one that died is not free yet
                self.errors.append(error)
                time.sleep(0.1)
            finally:
                if connection is not None:
                    connection.close()


def load(server: Postgres, transactions: int, clients: int = 2) -> None:
    arguments = ("-n", "-c", clients, "-t", transactions // clients, "-D", "accounts=200", "-f", BANK / "load.sql")
    assert server.pgbench(*map(str, arguments), log=server.folder / "load.log").wait() == 0


def staged(store: Store) -> list[dict]:
    """All staged changes in the source's order."""
    found = []
    for path in paths(store, "staged"):
        schemas: dict[str, bytes] = {}
        table = pyarrow.parquet.read_table(pyarrow.BufferReader(bytes(store.get(path).bytes())))
        for row in table.to_pylist():
            if row.get("schema") is not None:
                schemas[row["schema_id"]] = row["schema"].encode()
            told = {name: row.get(name) for name in ("op", "table", "key", "order", "tx_order")}
            images = {name: None if row.get(name) is None else row[name].encode() for name in ("before", "after")}
            found.append(told | images | {"schema": schemas.get(row.get("schema_id"))})
    return sorted(found, key=lambda one: (tuple(map(int, one["order"][1:-1].split(","))), one["tx_order"]))


def rows_of(connection: Connection, name: str) -> list[dict]:
    """A table of the database, as a row of it would come by the stream."""
    told = connection.run(
        "SELECT attname::text, atttypid::bigint, atttypmod FROM pg_attribute WHERE attrelid = CAST(:name AS regclass) "
        "AND attnum > 0 AND NOT attisdropped ORDER BY attnum", name=name,
    )  # fmt: skip
    columns = [SourceColumn(*one) for one in told]
    types = TypeCatalog({oid: PgType(*one) for oid, *one in connection.run(LOOK_UP, oids=[c.oid for c in columns])})
    form = RowForm(columns, types, USUAL)
    known = columns_of(form.schema)
    codec = RowCodec(known, known, USUAL)
    names = [f'"{name}"' for name in (column.name.replace('"', '""') for column in columns)]
    texts = ", ".join(f"CASE WHEN {name} IS NOT NULL THEN format('%s', {name}) END" for name in names)
    found = []
    for row in connection.run(f"SELECT {texts} FROM {name}"):
        image = form.image([None if value is None else value.encode() for value in row])
        found.append(dict(zip((c.name for c in columns), codec.decode(image).values, strict=True)))
    return found


def test_what_is_staged_is_the_databases_own_tables_though_both_die_again_and_again(server: Postgres, tmp_path) -> None:
    store = open_store(f"file://{tmp_path}")
    kills, rounds, transactions = (100, 20, 1000) if SOAK else (8, 5, 80)
    puller = Puller(server, store, kills, seed=5)
    puller.thread.start()
    for number in range(rounds):
        load(server, transactions)
        if number < len(DDL):
            server.run(DDL[number])
        if number % 4 == 2:
            server.crash()
            server.again()
    puller.done.set()
    puller.thread.join(120)
    assert not puller.thread.is_alive(), puller.errors[-3:]
    assert sum(puller.died.values()) >= (kills if SOAK else kills * 0.7), puller.died
    changes = staged(store)
    assert len({(one["order"], one["tx_order"]) for one in changes}) == len(changes)
    tables = Replay(USUAL).apply(changes).tables
    connection = Connection(source_of(server).address, server.password, "compare")
    for name in TABLES:
        wanted = rows_of(connection, name)
        found = [
            {column: row.get(column) for column in (wanted or [{}])[0]} for row in tables[f"public.{name}"].values()
        ]
        assert wanted or name == "pgbench_history"
        assert sorted(map(repr, found)) == sorted(map(repr, wanted)), name
    connection.close()
    print(f"{len(changes)} changes, died {puller.died}, {len(puller.errors)} errors")
    free = epochs.candidates(store, "shop", datetime.now(UTC))
    assert sum(one.events for one in (*free.batches, *free.left)) == len(changes)
    newest = pulls.newest(store, "shop", "shop")
    assert newest is not None
    assert newest.done is not None


def test_sources_add_checks_a_real_database_makes_what_is_missing_and_writes_it(server: Postgres, tmp_path) -> None:
    server.run("CREATE TABLE nokey (a int)")
    server.run("CREATE TABLE made (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED)")
    server.run("CREATE TABLE parts (id int, at date, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)")
    server.run("CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')")
    file = tmp_path / "firn.yaml"
    url = f"postgres://{USER}:{server.password}@127.0.0.1:{server.port}/{server.database}"
    given = ["sources", "add", url, "--name", "two", "--publication", "two", "--config", str(file)]
    some = ["--table", "public.made", "--table", "public.parts"]
    runner = CliRunner()
    refused = runner.invoke(app, [*given, "--create", "--table", "public.nokey"])
    assert refused.exit_code == 1
    assert 'ALTER TABLE "public"."nokey" REPLICA IDENTITY FULL;' in refused.output
    assert not file.exists()
    asked = runner.invoke(app, [*given, *some])
    assert asked.exit_code == 1
    assert "SELECT pg_create_logical_replication_slot('firn_two', 'pgoutput');" in asked.output
    assert "the generated columns twice are not in the stream" in asked.output
    assert not file.exists()
    done = runner.invoke(app, [*given, *some, "--create"])
    assert done.exit_code == 0, done.output
    text = file.read_text()
    assert server.password not in text + done.output
    config = parse(text)
    assert [rule.key for rule in config.streams["two"].tables] == [("id",), ("id", "at")]
    assert config.sources["two"].slot == "firn_two"
    again = runner.invoke(app, [*given, *some])
    assert (again.exit_code, file.read_text()) == (0, text)
    server.run("SELECT pg_drop_replication_slot('firn_two'); DROP PUBLICATION two; DROP TABLE nokey, made, parts;")


def test_a_large_transaction_is_read_in_bounded_memory(server: Postgres, tmp_path) -> None:
    """100 MB in the soak, 12 MB in the gate: the memory that its rows take is a few parts', whatever their number."""
    store = open_store(f"file://{tmp_path}")
    connection = Connection(source_of(server).address, server.password, "large")
    server.run(
        "CREATE TABLE IF NOT EXISTS large (id int PRIMARY KEY, v text); SELECT pg_drop_replication_slot('firn_shop');"
    )
    server.run("SELECT pg_create_logical_replication_slot('firn_shop', 'pgoutput')")
    rows = 100_000 if SOAK else 12_000
    server.run(f"INSERT INTO large SELECT g, repeat(md5(g::text), 32) FROM generate_series(1, {rows}) g;")
    task = PullTask(store, source_of(server), lambda: datetime.now(UTC), 1 << 24, part_bytes=2 << 20)
    slot = PostgresSlot(connection, task.source)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    found = pull(task, CONFIG, slot)
    while found.behind:  # a window ends before the transaction's commit
        found = pull(task, CONFIG, slot)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(
        f"{found.changes} changes in {found.batches} batches, peak {peak / 1e6:.1f} MB, the process {more:.0f} MB more"
    )
    assert found.changes == rows
    assert found.batches > 5
    assert peak < 60_000_000
    connection.close()
