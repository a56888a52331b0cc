"""`firn init --from` against a real PostgreSQL on loopback. Skipped where no PostgreSQL is installed."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pg8000.dbapi
import pg8000.native
import pytest

import firn_lake
from firn.config.model import Config
from firn.config.reader import parse
from firn.errors import ConfigError, TransientError
from firn_cli.commands.init import init
from tests.postgresql import binaries

PASSWORD = "p@ss/w:rd $1 hunter2"
IN_URL = "p%40ss%2Fw%3Ard%20%241%20hunter2"

TABLES = """
CREATE TYPE mood AS ENUM ('new', 'paid');
CREATE DOMAIN price AS numeric(10,4) CHECK (VALUE >= 0);
CREATE TABLE orders (
  id bigserial PRIMARY KEY, b boolean, i2 smallint, t text, status mood, amount numeric(12,2) NOT NULL, anyn numeric,
  wide numeric(60,2), small numeric(3,5), hundreds numeric(5,-2), pr price, m money, d date, tm time, tm0 time(0),
  ts timestamp, ts3 timestamp(3), tz timestamptz, tz3 timestamptz(3), by bytea, u uuid, js json, jb jsonb, f4 real,
  f8 double precision, bt bit(1), bt8 bit(8), vb varbit(20), iv interval, ai int[], an numeric(10,2)[],
  ats timestamp(3)[], at text[], am mood[], gone int, twice int GENERATED ALWAYS AS (i2 * 2) STORED);
ALTER TABLE orders DROP COLUMN gone;
CREATE TABLE order_items (sku text, line int, order_id bigint, note text, PRIMARY KEY (order_id, line) INCLUDE (note));
CREATE TABLE audit_log (at timestamptz, what jsonb);
CREATE TABLE uidx (a int NOT NULL, b text NOT NULL, id int PRIMARY KEY, UNIQUE (b, a));
ALTER TABLE uidx REPLICA IDENTITY USING INDEX uidx_b_a_key;
CREATE TABLE silent (id int PRIMARY KEY); ALTER TABLE silent REPLICA IDENTITY NOTHING;
CREATE TABLE part (id int, region text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE part_eu PARTITION OF part FOR VALUES IN ('eu');
CREATE UNLOGGED TABLE scratch (id int PRIMARY KEY);
CREATE VIEW seen AS SELECT id FROM orders;
CREATE SCHEMA "Odd Schema";
CREATE TABLE "Odd Schema"."Mixed Case-Table" ("Id" int PRIMARY KEY, "dot.ted" date, "Größe: #1" numeric(5,1), "$d" int);
CREATE TABLE "Odd Schema"."dot.ted, $t" ("no" int PRIMARY KEY);
CREATE TABLE hidden (id int PRIMARY KEY);
CREATE ROLE reader LOGIN PASSWORD '{password}';
GRANT USAGE ON SCHEMA public, "Odd Schema" TO reader;
GRANT SELECT ON ALL TABLES IN SCHEMA public, "Odd Schema" TO reader;
REVOKE ALL ON hidden FROM reader;
CREATE DATABASE "Empty One";
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """`host:port` of a PostgreSQL of its own, with TABLES in database "Acme Shop"."""
    programs = binaries()
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        # PostgreSQL refuses to run as root.
        user = {"user": "postgres" if shutil.which("id") and _exists("postgres") else "nobody"}
    folder = Path(tempfile.mkdtemp(prefix="firn-pg-"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    password_file = folder / "password"
    password_file.write_text("superuser", encoding="utf-8")
    if user:
        shutil.chown(folder, user["user"])
        shutil.chown(password_file, user["user"])
    server: subprocess.Popen[bytes] | None = None
    try:
        subprocess.run(
            [programs / "initdb", "-D", folder / "data", "-U", "admin", "-A", "scram-sha-256", "-E", "UTF8",
             "--locale=C", "--no-sync", f"--pwfile={password_file}"],
            check=True, capture_output=True, cwd=folder, **user,
        )  # fmt: skip
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [programs / "postgres", "-D", folder / "data", "-p", str(port), "-k", folder, "-F",
                 "-c", "listen_addresses=127.0.0.1"],
                stdout=log, stderr=subprocess.STDOUT, cwd=folder, **user,
            )  # fmt: skip
        _run(port, "postgres", 'CREATE DATABASE "Acme Shop"')
        for statement in TABLES.format(password=PASSWORD).split(";\n"):
            _run(port, "Acme Shop", *[part for part in statement.split(";") if part.strip()])
        yield f"127.0.0.1:{port}"
    finally:
        if server:
            server.terminate()
            server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _exists(name: str) -> bool:
    return subprocess.run(["id", name], capture_output=True, check=False).returncode == 0


def _run(port: int, database: str, *statements: str) -> list[Any]:
    for attempt in range(100):
        try:
            connection = pg8000.native.Connection(
                "admin", host="127.0.0.1", port=port, database=database, password="superuser"
            )
            break
        except Exception:
            # Starting up: refused, then "the database system is starting up".
            if attempt == 99:
                raise
            time.sleep(0.1)
    try:
        rows: list[Any] = []
        for statement in statements:
            rows = connection.run(statement)
        return rows or []
    finally:
        connection.close()


@pytest.fixture(scope="module")
def made(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    files = init(folder, f"postgres://reader:{IN_URL}@{postgres}/Acme%20Shop", force=False, port=9999)
    assert files == [folder / "firn.yaml", folder / "debezium.properties"]
    return folder


@pytest.fixture(scope="module")
def config(made: Path) -> Config:
    return parse((made / "firn.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def properties(made: Path) -> dict[str, str]:
    lines = (made / "debezium.properties").read_text(encoding="ascii").splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def test_tables_keys_and_modes_are_found(config: Config) -> None:
    rules = {rule.source: (rule.mode, rule.key) for rule in config.streams["acme-shop"].tables}
    assert rules == {
        "Odd Schema.Mixed Case-Table": ("mirror", ("Id",)),
        "Odd Schema.dot.ted, $t": ("mirror", ("no",)),
        "public.audit_log": ("append", None),
        "public.order_items": ("mirror", ("order_id", "line")),
        "public.orders": ("mirror", ("id",)),
        "public.part": ("mirror", ("id", "region")),
        "public.silent": ("mirror", ("id",)),
        "public.uidx": ("mirror", ("b", "a")),
    }


def test_targets_keep_the_names_of_the_source(config: Config) -> None:
    shop = config.streams["acme-shop"]
    assert str(shop.target("public.orders")) == "acme_shop.orders"
    assert str(shop.target("Odd Schema.Mixed Case-Table")) == "Odd Schema.Mixed Case-Table"
    assert str(shop.target("Odd Schema.dot.ted, $t")) == "Odd Schema.dot.ted, $t"


def test_columns_that_plain_json_cannot_tell_are_declared(config: Config) -> None:
    (orders,) = [rule for rule in config.streams["acme-shop"].tables if rule.source == "public.orders"]
    declared = {
        name: (str(column.type), column.source_precision) if column.source_precision is not None else str(column.type)
        for name, column in orders.columns.items()
    }
    assert declared == {
        "amount": "decimal(12,2)", "anyn": "string", "wide": "string", "small": "decimal(5,5)",
        "hundreds": "decimal(7,0)", "pr": "decimal(10,4)", "m": "decimal(19,2)", "d": "date",
        "tm": ("time", 6), "tm0": ("time", 0), "ts": ("timestamp", 6), "ts3": ("timestamp", 3),
        "tz": ("timestamptz", 6), "tz3": ("timestamptz", 3), "by": "binary", "u": "uuid", "js": "string",
        "jb": "string", "f4": "float", "f8": "double", "bt8": "binary", "vb": "binary", "ai": "list<int>",
        "an": "list<decimal(10,2)>", "ats": "list<timestamp>", "at": "list<string>", "am": "list<string>",
    }  # fmt: skip


def test_odd_column_names_survive(config: Config) -> None:
    (odd,) = [rule for rule in config.streams["acme-shop"].tables if rule.source.endswith("Mixed Case-Table")]
    assert {name: str(column.type) for name, column in odd.columns.items()} == {
        "dot.ted": "date",
        "Größe: #1": "decimal(5,1)",
    }


def test_the_connector_writes_what_the_stream_expects(config: Config, properties: dict[str, str]) -> None:
    shop = config.streams["acme-shop"]
    assert properties["debezium.source.decimal.handling.mode"] == shop.decimal == "string"
    assert properties["debezium.source.time.precision.mode"] == shop.time == "isostring"
    assert properties["debezium.source.interval.handling.mode"] == shop.interval == "string"


def test_the_properties_lead_from_this_database_to_the_stream(postgres: str, properties: dict[str, str]) -> None:
    assert properties["debezium.sink.http.url"] == "http://127.0.0.1:9999/v1/streams/acme-shop"
    assert properties["debezium.source.database.port"] == postgres.split(":")[1]
    assert properties["debezium.source.database.dbname"] == "Acme Shop"
    assert properties["debezium.source.slot.name"] == "firn_acme_shop"
    assert properties["debezium.source.skipped.operations"] == "none"
    # A partitioned table, and a table without key: a restarted Debezium numbers a transaction's changes again.
    assert properties["debezium.source.publish.via.partition.root"] == "true"
    assert properties["debezium.source.provide.transaction.metadata"] == "false"


def test_the_include_list_holds_regular_expressions_of_the_names(properties: dict[str, str]) -> None:
    names = properties["debezium.source.table.include.list"].replace("\\\\", "\\")
    assert r"Odd Schema\.dot\.ted\, [$$]t" in names
    assert r"public\.order_items,public\.orders,public\.part,public\.silent" in names


def test_the_password_is_in_no_file(made: Path, properties: dict[str, str]) -> None:
    assert properties["debezium.source.database.password"] == "${FIRN_SOURCE_PASSWORD}"
    for file in made.iterdir():
        assert "hunter2" not in file.read_text(encoding="utf-8")


def test_the_folder_of_the_offsets_is_spoken_of(made: Path, properties: dict[str, str]) -> None:
    # Debezium Server 3.6 does not make it: it warns at each flush, and after a restart starts over.
    folder = Path(properties["debezium.source.offset.storage.file.filename"]).parent
    assert f"make the folder `{folder}`" in (made / "debezium.properties").read_text(encoding="ascii")


def test_what_the_source_cannot_do_is_said_in_comments(made: Path) -> None:
    yaml = (made / "firn.yaml").read_text(encoding="utf-8")
    assert "because user reader may not SELECT from them: 1." in yaml
    assert "REPLICA IDENTITY NOTHING" in yaml
    assert "# twice  # generated: comes with the snapshot, not with later changes" in yaml
    assert "key: [b, a]  # replica identity index" in yaml
    assert "ALTER SYSTEM SET wal_level = logical" in (made / "debezium.properties").read_text(encoding="utf-8")


def test_the_password_may_come_from_the_environment(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert init(tmp_path, f"postgresql://reader@{postgres}/Acme%20Shop?sslmode=disable", force=False)


def test_the_source_is_only_read(postgres: str, tmp_path: Path) -> None:
    port, count = int(postgres.split(":")[1]), "SELECT count(*)::int FROM pg_class"
    before = _run(port, "Acme Shop", count)
    init(tmp_path, f"postgres://admin:superuser@{postgres}/Acme%20Shop", force=False)
    assert _run(port, "Acme Shop", count) == before


@pytest.mark.parametrize(
    ("url", "error", "told"),
    [
        ("postgres://reader:hunter3@{at}/Acme%20Shop", ConfigError, "password authentication failed"),
        (
            "postgres://reader@{at}/Acme%20Shop?sslmode=disable",
            ConfigError,
            "no password was given: export FIRN_SOURCE_",
        ),
        ("postgres://reader:{pw}@{at}/nowhere", ConfigError, 'database "nowhere" does not exist'),
        ("postgres://reader:{pw}@{at}/Acme%20Shop?sslmode=require", TransientError, "can't be reached"),
        ("postgres://admin:superuser@{at}/Empty%20One", ConfigError, "holds no tables"),
    ],
)
def test_what_postgres_refuses_is_told_without_the_password(
    postgres: str, tmp_path: Path, url: str, error: type[Exception], told: str
) -> None:
    with pytest.raises(error) as raised:
        init(tmp_path, url.format(at=postgres, pw=IN_URL), force=False)
    assert told in str(raised.value)
    assert not any(secret in str(raised.value) for secret in ("hunter2", "hunter3", "superuser"))
    assert list(tmp_path.iterdir()) == []


KINDS = """
CREATE TEMP TABLE kinds (id bigint PRIMARY KEY, ok boolean, small smallint, total numeric(12,2), note text, day date,
  at timestamptz, local timestamp, raw bytea, key uuid, doc jsonb, tags text[], score double precision)
"""


def test_a_query_of_postgresql_is_loaded_with_its_types(postgres: str, tmp_path: Path) -> None:
    lake = firn_lake.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse", env={})
    port = int(postgres.partition(":")[2])
    source = pg8000.dbapi.connect("admin", host="127.0.0.1", port=port, database="Acme Shop", password="superuser")
    cursor = source.cursor()
    cursor.execute(KINDS)
    cursor.execute(
        "INSERT INTO kinds VALUES (1, true, 7, 12.50, 'a', '2026-01-31', '2026-01-31T12:00:00+02', '2026-01-31 12:00', "
        "'\\x00ff', '00000000-0000-0000-0000-000000000007', '{\"a\": [1]}', '{x,y}', 0.5)"
    )
    kinds = lake.sync("SELECT * FROM kinds WHERE id = %s", source, into="own.kinds", key=["id"], parameters=(1,))
    cursor.execute("UPDATE kinds SET total = 13")
    cursor.execute("INSERT INTO kinds (id) VALUES (2)")
    again = lake.sync("SELECT * FROM kinds", source, into="own.kinds", batch_size=1)
    assert (kinds.inserted, again.inserted, again.updated) == (1, 1, 1)
    first, second = lake.table("own.kinds").read().pylist()
    assert first == {
        "id": 1, "ok": True, "small": 7, "total": Decimal(13), "note": "a", "day": date(2026, 1, 31),
        "at": datetime(2026, 1, 31, 10, tzinfo=UTC), "local": datetime(2026, 1, 31, 12), "raw": b"\x00\xff",
        "key": UUID(int=7), "doc": '{"a": [1]}', "tags": ["x", "y"], "score": 0.5,
    }  # fmt: skip
    assert set(second.values()) == {2, None}
    source.close()
    lake.close()
