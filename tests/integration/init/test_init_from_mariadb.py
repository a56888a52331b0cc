"""`firn init --from mysql://` against a real MariaDB on loopback. Skipped where none is installed."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from examples.sources import needs
from examples.sources.mariadb import MariaDb, Programs
from firn.config.model import TableRule
from firn.config.reader import parse
from firn.errors import ConfigError, TransientError
from firn_cli.commands.init import init

TABLES = (
    """CREATE TABLE orders (id bigint unsigned auto_increment PRIMARY KEY, small int unsigned, yes tinyint(1), t text,
      amount decimal(12,2), wide decimal(65,30), f float, f73 float(7,3), d double, b1 bit(1), b17 bit(17), d8 date,
      t0 time, t6 time(6), dt datetime, dt3 datetime(3), ts timestamp(6) NULL, y year, e enum('a','b'), st set('x','y'),
      js json, bin binary(16), bl blob, p point, twice int AS (small * 2) STORED)""",
    "CREATE TABLE items (sku varchar(40), line int, order_id bigint, PRIMARY KEY (order_id, line))",
    "CREATE TABLE audit_log (at datetime(6), what text)",
    "CREATE TABLE uniq (a int NOT NULL, b varchar(20) NOT NULL, c int, UNIQUE (c), UNIQUE KEY named (b, a))",
    "CREATE TABLE `Mixed Case-Table` (`Id` int PRIMARY KEY, `dot.ted` date, `Größe: #1` decimal(5,1))",
    "CREATE VIEW seen AS SELECT id FROM orders",
)


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDb]:
    """A server of its own, with TABLES in the database `Acme Shop`."""
    programs = needs.mariadb()
    if programs is None:
        pytest.skip("no MariaDB here: install mariadb-server to run this")
    folder = Path(tempfile.mkdtemp(prefix="firn-mariadb-"))
    folder.chmod(0o755)
    server = MariaDb(Programs(*programs), folder / "server", "Acme Shop")
    try:
        server.start()
        server.run(*TABLES)
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def written(mariadb: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FIRN_SOURCE_PASSWORD", mariadb.password)
    init(tmp_path, mariadb.url, force=False)
    return tmp_path


def rules(folder: Path) -> dict[str, TableRule]:
    stream = parse((folder / "firn.yaml").read_text(encoding="utf-8")).streams["acme-shop"]
    return {rule.source.partition(".")[2]: rule for rule in stream.tables}


def test_keys_and_modes_are_the_tables(written: Path) -> None:
    found = {name: (rule.key, rule.mode) for name, rule in rules(written).items()}
    assert found == {
        "orders": (("id",), "mirror"), "items": (("order_id", "line"), "mirror"), "audit_log": (None, "append"),
        "uniq": (("b", "a"), "mirror"), "Mixed Case-Table": (("Id",), "mirror"),
    }  # fmt: skip


def test_each_type_that_json_can_not_tell_is_declared(written: Path) -> None:
    declared = {name: (str(one.type), one.source_precision) for name, one in rules(written)["orders"].columns.items()}
    assert declared == {
        "id": ("unsigned long", None), "amount": ("decimal(12,2)", None), "wide": ("decimal(65,30)", None),
        "f": ("float", None), "f73": ("float", None), "d": ("double", None), "b1": ("boolean", None),
        "b17": ("bit", None), "d8": ("date", None), "t0": ("time", 0), "t6": ("time", 6), "dt": ("timestamp", 0),
        "dt3": ("timestamp", 3), "ts": ("timestamptz", 6), "bin": ("binary", None),
        "bl": ("binary", None), "p": ("string", None),
    }  # fmt: skip


def test_properties_and_firn_yaml_say_the_same_and_hold_no_password(written: Path, mariadb: MariaDb) -> None:
    text = (written / "debezium.properties").read_text(encoding="utf-8")
    stream = parse((written / "firn.yaml").read_text(encoding="utf-8")).streams["acme-shop"]
    settings = dict(line.split("=", 1) for line in text.splitlines() if not line.startswith("#"))
    assert settings["debezium.source.connector.class"] == "io.debezium.connector.mariadb.MariaDbConnector"
    assert settings["debezium.source.database.include.list"] == "Acme Shop"
    assert settings["debezium.source.decimal.handling.mode"] == stream.decimal == "string"
    assert settings["debezium.source.time.precision.mode"] == stream.time == "microseconds"
    assert settings["debezium.source.bigint.unsigned.handling.mode"] == stream.unsigned == "precise"
    assert mariadb.password not in text + (written / "firn.yaml").read_text(encoding="utf-8")
    assert "binlog is not as" not in text


def test_a_binlog_that_debezium_can_not_read_is_said(
    mariadb: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRN_SOURCE_PASSWORD", mariadb.password)
    mariadb.run("SET GLOBAL binlog_row_image = 'MINIMAL'")
    try:
        init(tmp_path, mariadb.url, force=False)
    finally:
        mariadb.run("SET GLOBAL binlog_row_image = 'FULL'")
    assert "#   SET GLOBAL binlog_row_image = 'FULL';" in (tmp_path / "debezium.properties").read_text().splitlines()


def test_what_the_server_refuses_is_said_without_the_password(mariadb: MariaDb, tmp_path: Path) -> None:
    wrong = mariadb.url.replace("cdc@", f"cdc:{quote('hunter2')}@")
    with pytest.raises(ConfigError, match="Access denied") as raised:
        init(tmp_path, wrong, force=False)
    assert "hunter2" not in str(raised.value)
    with pytest.raises(ConfigError, match=r"using password: NO.*; no password was given: export FIRN_SOURCE_PASSWORD"):
        init(tmp_path, mariadb.url, force=False)
    with pytest.raises(TransientError, match="can't be read"):
        init(tmp_path, mariadb.url.replace(str(mariadb.port), "1"), force=False)
