"""The same history read by wal2json and by pgoutput gives the same rows, and so the same tables."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import obstore.store
import pytest
from typer.testing import CliRunner

from examples.sources.postgres import USER, Postgres
from firn.config.pull_source import PostgresAddress, PullSource
from firn.config.reader import parse
from firn.log.batches import read_meta
from firn.log.store import Store, paths
from firn.sources.database_port import SourceStopped
from firn.sources.postgres.connection import Connection
from firn.sources.postgres.slot import PostgresSlot
from firn.sources.pull import PullTask, pull
from firn_cli.main import app
from tests.integration.sources.test_postgres_pull import staged
from tests.postgresql import binaries

CONFIG = parse("""
streams:
  shop: {tables: {'*': {to: 'shop.{table}'}, public.nobody: {ignore: true}}}
sources:
  shop: {postgres: 'postgresql://bank@127.0.0.1/shop', slot: by_wal2json, plugin: wal2json, stream: shop}
""")
TYPES = """
CREATE DOMAIN price AS numeric(10,2); CREATE DOMAIN secret AS bytea; CREATE DOMAIN yes AS bool;
CREATE TYPE mood AS ENUM ('ok', 'so so'); CREATE TYPE pair AS (a int, b text);
CREATE TABLE types (id int PRIMARY KEY, n numeric(10,2), neg numeric(3,-2), free numeric, f4 float4, f8 float8,
  b bool, d yes, by bytea, x price, y secret, big text, m mood, ns numeric(6,1)[], bs bytea[], bi bit(4), bit bit,
  vb bit varying(6), t timestamp(3), tz timestamptz, da date, ti time, tt timetz, vc varchar(9), c char(5), mo money,
  j json, jb jsonb, iv interval, u uuid, ip inet, p point, r int4range, xm xml, pa pair, "Odd ""name" text, o oid,
  twice int GENERATED ALWAYS AS (id * 2) STORED);
ALTER TABLE types ALTER big SET STORAGE external;
"""
ROW = """
INSERT INTO types (id, n, neg, free, f4, f8, b, d, by, x, y, big, m, ns, bs, bi, bit, vb, t, tz, da, ti, tt, vc,
  c, mo, j, jb, iv, u, ip, p, r, xm, pa, "Odd ""name", o) VALUES (1, 1.5, 12345,
  123456789012345678901234567890.1234567890,
  1.1, 1e300, true, false, '\\x00ff', 3, '\\x03', repeat('x', 5000), 'so so', '{1,2.5,NULL}', '{"\\\\x01",NULL}',
  B'1010', B'1', B'11', '2024-02-29 12:13:14.567', '2024-02-29 12:13:14.5678+02', 'infinity', '24:00', '10:00+02',
  E'q"\\n\\u00e9', 'ab', -1234.5, '{"a" :  1}', '{"b": [1, null]}', '1 year -2 days 03:04:05.6',
  'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '10.0.0.0/8', '(1,2.5)', '[1,5)', '<a>&amp;</a>', '(1,"b c")',
  E'\\t\\\\', 7)"""
HISTORY = (
    ROW,
    "INSERT INTO types (id) VALUES (2)",
    "UPDATE types SET n = 2",
    "UPDATE types SET id = 5 WHERE id = 1",
    "UPDATE types SET big = NULL, b = NULL WHERE id = 5",
    "DELETE FROM types WHERE id = 2",
    "INSERT INTO whole VALUES (1, repeat('y', 4000), 7); UPDATE whole SET a = 2; UPDATE whole SET a = NULL, id = 8; "
    "DELETE FROM whole",
    "INSERT INTO by_index VALUES (1, 'k', 'v'), (2, 'l', NULL); UPDATE by_index SET v = 'w'; "
    "UPDATE by_index SET k = 'm' WHERE k = 'l'; DELETE FROM by_index WHERE k = 'k'",
    'INSERT INTO "Sch-1"."T 1" VALUES (1, 2), (2, 3); DELETE FROM "Sch-1"."T 1" WHERE a = 1',
    "INSERT INTO parts VALUES (1, '2024-05-05', 'x'), (2, '2025-05-05', 'y'); UPDATE parts SET v = 'z' WHERE id = 1; "
    "UPDATE parts SET at = '2025-06-06' WHERE id = 1",
    "BEGIN; INSERT INTO types (id) SELECT generate_series(10, 40); ALTER TABLE types ADD late text; "
    "UPDATE types SET late = 'l' WHERE id > 20; ALTER TABLE types ALTER vc TYPE varchar(20), "
    "ALTER n TYPE numeric(12,3); "
    "DELETE FROM types WHERE id < 15; COMMIT",
    "TRUNCATE by_index, parts",
    "TRUNCATE types",
    "SELECT pg_logical_emit_message(true, 'a', 'b')",
)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    library = subprocess.run([binaries() / "pg_config", "--pkglibdir"], capture_output=True, text=True, check=True)
    if not (Path(library.stdout.strip()) / "wal2json.so").exists():
        pytest.skip("no wal2json here: install postgresql-15-wal2json to run this")
    home = Path(tempfile.mkdtemp(prefix="firn-pg-"))
    home.chmod(0o755)
    found = Postgres(binaries(), home / "data", "shop")
    try:
        found.start()
        found.run(TYPES)
        found.run(
            "CREATE TABLE whole (a int, b text, id int PRIMARY KEY); ALTER TABLE whole REPLICA IDENTITY FULL; "
            "ALTER TABLE whole ALTER b SET STORAGE external; "
            "CREATE TABLE by_index (id int, k text NOT NULL, v text); CREATE UNIQUE INDEX k ON by_index (k); "
            "ALTER TABLE by_index REPLICA IDENTITY USING INDEX k; "
            'CREATE SCHEMA "Sch-1"; CREATE TABLE "Sch-1"."T 1" (a int PRIMARY KEY, b int); '
            "CREATE TABLE parts (id int, at date, v text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at); "
            "CREATE TABLE parts_24 PARTITION OF parts FOR VALUES FROM ('2024-01-01') TO ('2025-01-01'); "
            "CREATE TABLE parts_25 PARTITION OF parts FOR VALUES FROM ('2025-01-01') TO ('2026-01-01')"
        )
        found.run("CREATE PUBLICATION firn FOR ALL TABLES WITH (publish_via_partition_root = true)")
        found.run("SELECT pg_create_logical_replication_slot('by_pgoutput', 'pgoutput')")
        found.run("SELECT pg_create_logical_replication_slot('by_wal2json', 'wal2json')")
        yield found
    finally:
        found.stop()
        shutil.rmtree(home, ignore_errors=True)


def source_of(server: Postgres, plugin: str) -> PullSource:
    address = PostgresAddress("127.0.0.1", server.port, USER, server.database, "disable")
    publication = "" if plugin == "wal2json" else "firn"
    return PullSource("shop", address, f"by_{plugin}", publication, "shop", plugin=plugin)


def pulled(server: Postgres, plugin: str, store: Store, **more) -> None:
    """Read all that is there."""
    connection = Connection(source_of(server, plugin).address, server.password, plugin)
    try:
        slot = PostgresSlot(connection, source_of(server, plugin))
        task = replace(PullTask(store, slot._source, lambda: datetime.now(UTC), 1 << 24), **more)
        while pull(task, CONFIG, slot).plan:
            pass
    finally:
        connection.close()


def test_the_same_rows_by_either_plugin(server: Postgres) -> None:
    stores = {"pgoutput": obstore.store.MemoryStore(), "wal2json": obstore.store.MemoryStore()}
    for number, statements in enumerate(HISTORY):
        server.run(statements)
        if number % 3 == 2 or "ALTER" in statements:
            for plugin, store in stores.items():
                pulled(server, plugin, store)
    for plugin, store in stores.items():
        pulled(server, plugin, store, part_bytes=2000)
    found = {plugin: staged(store) for plugin, store in stores.items()}
    assert len(found["pgoutput"]) > 80
    for one, two in zip(found["pgoutput"], found["wal2json"], strict=True):
        if one["op"] == "d":  # a line of a delete has the key alone: of the other columns' types it says nothing
            one, two = one | {"schema": None}, two | {"schema": None}
        assert two == one
    assert [path for store in stores.values() for path in paths(store, "dead")] == []


def test_numbers_that_are_none_come_as_they_are_or_as_null_by_the_version(server: Postgres) -> None:
    store = obstore.store.MemoryStore()
    server.run("INSERT INTO types (id, free, f8) VALUES (90, 'NaN', '-Infinity')")
    pulled(server, "wal2json", store)
    [row] = staged(store)
    assert any(word in row["after"] for word in (b'"free":null,"f4":null,"f8":null', b'"free":"NaN"'))
    pulled(server, "pgoutput", obstore.store.MemoryStore())


def test_a_table_whose_updates_wal2json_leaves_out_stops_the_source(server: Postgres) -> None:
    store = obstore.store.MemoryStore()
    server.run("CREATE TABLE nobody (a int); INSERT INTO nobody SELECT generate_series(1, 300)")
    pulled(server, "wal2json", store)  # no rule takes it
    assert staged(store) == []
    [batch] = paths(store, "staged")
    assert read_meta(store, batch).ignored == {"filtered_table": 300}
    server.run("CREATE TABLE nokey (a int); INSERT INTO nokey VALUES (1)")
    with pytest.raises(SourceStopped, match=r"public\.nokey: no primary key"):
        pulled(server, "wal2json", store)
    server.run("ALTER TABLE nokey REPLICA IDENTITY FULL; UPDATE nokey SET a = 2")
    pulled(server, "wal2json", store)
    assert [(row["op"], row["after"]) for row in staged(store)] == [("c", b'{"a":1}'), ("u", b'{"a":2}')]
    server.run("DROP TABLE nobody, nokey")


def test_sources_add_makes_a_slot_of_wal2json(server: Postgres, tmp_path: Path) -> None:
    file, runner = tmp_path / "firn.yaml", CliRunner()
    url = f"postgres://{USER}:{server.password}@127.0.0.1:{server.port}/{server.database}"
    given = ["sources", "add", url, "--name", "two", "--plugin", "wal2json", "--config", str(file)]
    assert runner.invoke(app, [*given, "--publication", "p"]).exit_code != 0
    server.run("CREATE TABLE nokey (a int)")
    refused = runner.invoke(app, [*given, "--table", "public.nokey"])
    assert "wal2json leaves each UPDATE and DELETE of it out" in " ".join(refused.output.split())
    server.run("DROP TABLE nokey")
    done = runner.invoke(app, [*given, "--create"])
    assert done.exit_code == 0, done.output
    source = parse(file.read_text()).sources["two"]
    assert (source.plugin, source.slot, source.publication) == ("wal2json", "firn_two", "")
    assert runner.invoke(app, given).output.endswith("has the source two already\n")
    server.run("SELECT pg_drop_replication_slot('firn_two')")
