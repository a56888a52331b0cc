"""What `firn init --from mysql://` declares of each type and what its properties say: no database is needed."""

import pytest

from firn.config.reader import parse
from firn_cli.init_templates import debezium_properties, firn_yaml
from firn_cli.mysql_source import advice_on
from firn_cli.mysql_types import declaration
from firn_cli.postgres_source import Address, Source, SourceColumn, SourceTable


@pytest.mark.parametrize(
    ("column_type", "declared"),
    [
        ("bigint unsigned", "unsigned long"), ("bigint(20) unsigned zerofill", "unsigned long"), ("bigint", None),
        ("int unsigned", None), ("tinyint(1)", None), ("decimal(10,0)", "decimal(10,0)"), ("decimal", "decimal(10,0)"),
        ("decimal(5,2) unsigned", "decimal(5,2)"), ("decimal(65,30)", "decimal(65,30)"), ("float(7,3)", "float"),
        ("double(10,5)", "double"), ("bit(1)", "boolean"), ("bit(64)", "bit(64)"), ("date", "date"),
        ("time", "time(0)"),
        ("datetime(3)", "timestamp(3)"), ("datetime", "timestamp(0)"), ("timestamp(6)", "timestamptz(6)"),
        ("year", None), ("year(4)", None), ("enum('timestamp(3)','bit')", None), ("set('a','b')", None),
        ("varchar(20)", None), ("longtext", None), ("json", "string"), ("varbinary(16)", "binary"),
        ("longblob", "binary"), ("point", "string"), ("geomcollection", "string"), ("vector(3)", "list<float>"),
    ],
)  # fmt: skip
def test_what_json_can_not_tell_is_declared(column_type: str, declared: str | None) -> None:
    assert declaration(column_type)[0] == declared


@pytest.mark.parametrize(
    ("sslmode", "mode"),
    [("disable", "disabled"), ("prefer", "preferred"), ("require", "required"), ("verify-full", "verify_identity")],
)
def test_the_properties_of_mysql_are_its_connectors(sslmode: str, mode: str) -> None:
    columns = (SourceColumn("id", "unsigned long"), SourceColumn("odd: name", "decimal(12,2)"))
    table = SourceTable("shop.eu", "orders$1", ("id",), "primary key", "f", columns)
    advice = ("SET GLOBAL binlog_format = 'ROW';",)
    source = Source("8.4.3", "logical", (table,), 0, "MySQL", advice)
    address = Address("db.example", 3306, "cdc", "shop.eu", sslmode, "hunter2")
    stream = parse(firn_yaml(source, address, "shop-eu")).streams["shop-eu"]
    text = debezium_properties(source, address, "shop-eu", 8181)
    settings = dict(line.split("=", 1) for line in text.splitlines() if not line.startswith("#"))
    assert settings["debezium.source.connector.class"] == "io.debezium.connector.mysql.MySqlConnector"
    assert settings["debezium.source.database.ssl.mode"] == mode
    assert settings["debezium.source.table.include.list"] == r"shop\\.eu\\.orders[$$]1"
    assert 10**9 <= int(settings["debezium.source.database.server.id"]) < 2**32
    assert settings["debezium.source.bigint.unsigned.handling.mode"] == stream.unsigned
    assert "debezium.source.slot.name" not in settings
    assert "#   SET GLOBAL binlog_format = 'ROW';" in text.splitlines()
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("reason", "password", "said"),
    [
        ("Access denied for user 'cdc'@'localhost' (using password: YES)", "wrong", "DROP USER ''@localhost"),
        ("Access denied for user ''@'localhost' to database 'shop'", "right", "DROP USER ''@localhost"),
        ("Access denied for user 'cdc'@'localhost' (using password: NO)", None, "export FIRN_SOURCE_PASSWORD"),
        ("Access denied for user 'cdc'@'10.0.0.9' (using password: YES)", "wrong", ""),
    ],
)
def test_a_refusal_comes_with_what_to_look_at(reason: str, password: str | None, said: str) -> None:
    found = advice_on(reason, Address("127.0.0.1", 3306, "cdc", "shop", password=password))
    assert said in found
    assert bool(found) == bool(said)
