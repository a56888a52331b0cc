"""The registry of catalogs: each kind's address, and what the two engines are told of it."""

from typing import get_args

import pytest

from firn.config.catalogs import (
    KINDS,
    address_of,
    check_uri,
    identity,
    is_read_only,
    jdbc_uri,
    pyiceberg_properties,
    read_address,
    servers,
    shown,
    spark_properties,
)
from firn.config.model import CatalogType
from firn.config.reader import parse
from firn.errors import ConfigError


def config(catalog: str) -> str:
    return f"catalog: {catalog}\nstreams: {{s: {{tables: {{a.b: {{to: c.d}}}}}}}}\n"


def test_the_words_of_the_configuration_are_the_registrys() -> None:
    assert set(get_args(CatalogType)) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_each_kinds_example_is_read_as_that_kind_and_told_to_both_engines(kind) -> None:  # type: ignore[no-untyped-def]
    address = read_address(kind.example)
    assert address.kind == kind.name
    check_uri(kind.name, kind.example)
    environment = {"AWS_REGION": "eu-central-1"}
    assert pyiceberg_properties(address, environment)["type"] in {"sql", "glue", "rest", "hive"}
    assert spark_properties(address, environment)["catalog-impl"].startswith("org.apache.iceberg.")
    written = parse(config(f"{{type: {kind.name}, uri: '{kind.example}', properties: {{a.b: '1 & #2'}}}}")).catalog
    read = read_address(written.address)
    assert (read.kind, read.places) == (address.kind, address.places)
    assert read.properties == ({} if kind.name == "sql" else {"a.b": "1 & #2"})


def test_a_kind_has_the_address_that_its_deployment_gives_it() -> None:
    assert {name: address_of(name, None, {}) for name, kind in KINDS.items() if kind.default is not None} == {
        "sql": "", "glue": "glue://",
    }  # fmt: skip


def test_several_servers_are_one_catalog() -> None:
    catalog = parse(config("{type: rest, uri: [https://a/x, 'https://b/x'], properties: {warehouse: w}}")).catalog
    assert catalog.address == "https://a/x,https://b/x#warehouse=w"
    address = read_address(catalog.address)
    assert servers(address) == ("https://a/x", "https://b/x")
    assert pyiceberg_properties(address, {}) == {"type": "rest", "uri": "https://a/x", "warehouse": "w"}
    assert read_address("thrift://a:9083,thrift://b:9083").places == ("thrift://a:9083", "thrift://b:9083")


def test_nessie_is_asked_as_a_rest_catalog() -> None:
    address = read_address(address_of("nessie", "https://n/iceberg", {}))
    assert (address.kind, servers(address)) == ("nessie", ("https://n/iceberg",))
    told = pyiceberg_properties(address, {})
    assert (told["type"], told["uri"]) == ("rest", "https://n/iceberg")
    assert spark_properties(address, {})["uri"] == "https://n/iceberg"


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_nessie_alone_is_only_read(kind) -> None:  # type: ignore[no-untyped-def]
    address = read_address(kind.example)
    for told in (pyiceberg_properties(address, {"AWS_REGION": "r"}), spark_properties(address, {"AWS_REGION": "r"})):
        assert is_read_only(told) == (kind.name == "nessie")


def test_hives_client_is_told_how_long_to_wait() -> None:
    name = "hadoop.hive.metastore.client.socket.timeout"
    assert spark_properties(read_address("thrift://a:9083"), {})[name] == "60s"
    assert spark_properties(read_address("thrift://a:9083#firn.answer-seconds=0.3"), {})[name] == "1s"


def test_secrets_come_from_the_environment_to_both_engines() -> None:
    environment = {"PYICEBERG_CATALOG__FIRN__TOKEN": "t", "PYICEBERG_CATALOG__FIRN__OAUTH2_SERVER_URI": "https://o/"}
    told = {"token": "t", "oauth2-server-uri": "https://o/"}
    address = read_address("https://a/")
    for properties in (pyiceberg_properties(address, environment), spark_properties(address, environment)):
        assert told.items() <= properties.items()


def test_a_postgresql_catalog_is_spelled_for_each_engine() -> None:
    address = read_address("postgresql://u%40x@h:5433/lake")
    environment = {"PYICEBERG_CATALOG__FIRN__CREDENTIAL": "p/w"}
    assert pyiceberg_properties(address, environment)["uri"] == "postgresql+pg8000://u%40x:p%2Fw@h:5433/lake"
    assert pyiceberg_properties(address, {})["uri"] == "postgresql+pg8000://u%40x@h:5433/lake"
    assert "jdbc.password" not in spark_properties(address, {})
    told = spark_properties(address, environment)
    assert told["uri"] == "jdbc:postgresql://h:5433/lake"
    assert (told["jdbc.user"], told["jdbc.password"]) == ("u@x", "p/w")
    assert jdbc_uri("postgresql+pg8000://h/lake") == "jdbc:postgresql://h:5432/lake"


def test_waits_are_set_for_both_engines_and_are_numbers() -> None:
    told = spark_properties(read_address("https://a/#firn.connect-seconds=0.5&firn.answer-seconds=20"), {})
    assert told["rest.client.connection-timeout-ms"] == "500"
    assert told["rest.client.socket-timeout-ms"] == "20000"
    with pytest.raises(ConfigError, match="answer-seconds is 'soon': write a number of seconds"):
        read_address("https://a/#firn.answer-seconds=soon")


def test_no_password_is_shown() -> None:
    assert shown("postgresql+pg8000://u:p%2Fw@h:5433/lake") == "postgresql+pg8000://u@h:5433/lake"
    assert shown("https://a:8181/x,https://u:p@b/x#token=t") == "https://a:8181/x,https://u@b/x"
    assert shown("sqlite:////data/c.db?timeout=30") == "sqlite:////data/c.db?timeout=30"


def test_a_sqlite_file_is_waited_for_as_long_by_both_engines() -> None:
    address = read_address("sqlite:////data/a,b#c.db")
    assert pyiceberg_properties(address, {})["uri"] == "sqlite:////data/a,b#c.db?timeout=30"
    assert spark_properties(address, {})["uri"] == "jdbc:sqlite:/data/a,b#c.db?busy_timeout=30000&journal_mode=WAL"
    assert pyiceberg_properties(read_address("sqlite:///c.db?timeout=3"), {})["uri"] == "sqlite:///c.db?timeout=3"


@pytest.mark.parametrize("text", ["catalog.db", "ftp://x", "", "s3://bucket/x"])
def test_what_is_no_address_is_told_of_all_kinds(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_address(text)
    assert all(kind.example in str(caught.value) for kind in KINDS.values())


@pytest.mark.parametrize("uri", ["sqlite:///", "postgresql://db", "postgresql:///lake"])
def test_a_sql_catalog_without_a_database_is_refused(uri: str) -> None:
    with pytest.raises(ConfigError, match="names no database: write sqlite:///"):
        jdbc_uri(uri)


@pytest.mark.parametrize(
    ("catalog", "said"),
    [
        ("{type: hive, uri: 'https://a/'}", "is not an address of a hive catalog; write thrift://metastore:9083"),
        ("{type: rest, uri: [https://a/, b]}", "is not an address of a rest catalog; write https://"),
        ("{type: sql, uri: 'https://a/'}", "is not an address of a sql catalog; write sqlite:///"),
        ("{type: glue, uri: 'glue://1,glue://2'}", "names several places, and a glue catalog has one; write glue://"),
        ("{type: rest, uri: ['https://a/', 'https://u:p@b/']}", "holds a password"),
        ("{type: nessie}", "is missing, and a nessie catalog needs it; write uri: nessie+https://"),
    ],
)
def test_an_address_of_another_kind_is_named_with_its_line(catalog: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"firn.yaml:1: catalog.uri: ") as caught:
        parse(config(catalog))
    assert said in str(caught.value)


GLUES = (
    "glue://",
    "glue://111111111111",
    "glue://222222222222",
    "glue://111111111111#client.region=eu-west-1",
    "glue://#client.region=us-east-1",
    "glue://#client.region=us-east-1&glue.endpoint=http://127.0.0.1:5000",
)


def test_two_catalogs_of_glue_are_told_apart_by_account_and_region() -> None:
    here = {"AWS_REGION": "eu-central-1"}
    assert len({identity(one, here) for one in GLUES}) == len(GLUES)
    assert identity("glue://1", here) == identity("glue://#glue.id=1&glue.region=eu-central-1&s3.endpoint=x")
    assert identity("glue://", here) != identity("glue://", {"AWS_REGION": "eu-west-1"})


def test_what_says_how_a_catalog_is_reached_makes_no_other_one_of_it() -> None:
    assert identity("https://u.example.org/api#scope=x&warehouse=lake") == "https://u.example.org/api#warehouse=lake"
    named = {"PYICEBERG_CATALOG__FIRN__WAREHOUSE": "dev", "PYICEBERG_CATALOG__FIRN__TOKEN": "s3cret"}
    assert identity("https://u.example.org/api", named) == "https://u.example.org/api#warehouse=dev"
    assert identity("postgresql://firn@db/lake#firn.answer-seconds=5") == "postgresql://firn@db/lake"


def test_both_engines_ask_glue_in_the_same_region() -> None:
    address = read_address("glue://#glue.region=eu-west-1")
    for told, name in ((pyiceberg_properties, "glue.region"), (spark_properties, "client.region")):
        assert told(address, {"AWS_REGION": "us-east-1"})[name] == "eu-west-1"
    both = read_address("glue://#glue.region=eu-west-1&client.region=us-east-1")
    for told in (pyiceberg_properties, spark_properties):
        with pytest.raises(ConfigError, match=r"glue\.region is eu-west-1 and its client\.region is us-east-1.*two"):
            told(both, {})
