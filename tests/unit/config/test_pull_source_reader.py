"""`sources:` of firn.yaml."""

import pytest

from firn.config.pull_source import PostgresAddress, PullSource
from firn.config.reader import parse
from firn.errors import ConfigError

STREAMS = "streams:\n  shop: {tables: {'*': {to: 'shop.{table}'}}}\n  web: {tables: {'*': {to: 'web.{table}'}}}\n"


def sources(text: str):
    return parse(f"{STREAMS}sources:\n{text}").sources


def test_a_source_with_everything_and_one_with_nothing_but_its_address() -> None:
    found = sources(
        "  shop: {postgres: 'postgresql://fi%40rn@db.internal:6432/my%20shop?sslmode=require&sslrootcert=/ca.pem', "
        "slot: s1, publication: P, stream: shop, secret: 'ssm:/x', linger: 2m}\n"
        "  web: {postgres: 'postgres://u@127.0.0.1/d'}\n"
    )
    address = PostgresAddress("db.internal", 6432, "fi@rn", "my shop", "require", "/ca.pem")
    assert found["shop"] == PullSource("shop", address, "s1", "P", "shop", "ssm:/x", False, 120)
    assert found["web"] == PullSource(
        "web", PostgresAddress("127.0.0.1", 5432, "u", "d", "disable"), "firn_web", "firn", "web"
    )


@pytest.mark.parametrize(
    ("host", "tls"),
    [("db", "verify-full"), ("localhost", "disable"), ("[::1]", "disable"), ("10.0.0.1", "verify-full")],
)
def test_who_is_not_on_this_machine_has_to_show_who_he_is(host: str, tls: str) -> None:
    assert sources(f"  shop: {{postgres: 'postgres://u@{host}/d'}}\n")["shop"].address.tls == tls


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("postgres: 'postgres://u:s3cret@db/d'", "holds a password"),
        ("postgres: 'mysql://u@db/d'", "is not an address of PostgreSQL"),
        ("postgres: 'postgres://db/d'", "lacks a user, a host or a database"),
        ("postgres: 'postgres://u@db:x/d'", "is not an address"),
        ("postgres: 'postgres://u@db/d?sslmode=prefer'", "has an sslmode that is not read"),
        ("postgres: 'postgres://u@db/d?passfile=x'", "has passfile, which is not read"),
        ("slot: a", "postgres: is missing"),
        ("postgres: 'postgres://u@db/d', slot: 'A-b'", "is not a name of a slot"),
        ("postgres: 'postgres://u@db/d', stream: other", "there is no stream other"),
        ("postgres: 'postgres://u@db/d', secret: s3cret", "is not a place of a secret"),
        ("postgres: 'postgres://u@db/d', iam: true, secret: 'file:/x'", "is not used with iam"),
        ("postgres: 'postgres://u@db/d?sslmode=disable', iam: true", "sends its token in the clear"),
        ("postgres: 'postgres://u@db/d', pubication: x", "write publication"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_by_line_and_without_the_secret(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as wrong:
        sources(f"  shop: {{{text}}}\n")
    assert str(wrong.value).startswith("firn.yaml:")
    assert "s3cret" not in str(wrong.value)


def test_a_stream_has_one_source_no_order_by_and_no_schema() -> None:
    with pytest.raises(ConfigError, match="is fed by a too"):
        sources(
            "  a: {postgres: 'postgres://u@db/d', stream: shop}\n  b: {postgres: 'postgres://u@db/e', stream: shop}\n"
        )
    ordered = STREAMS.replace("{tables: {'*': {to: 'web", "{order_by: v, tables: {'*': {to: 'web")
    with pytest.raises(ConfigError, match="web has order_by"):
        parse(f"{ordered}sources: {{web: {{postgres: 'postgres://u@db/d'}}}}")


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("u@db/d", "u@db/d", True),
        ("u@db/d", "v@DB:5432/other?sslmode=require", True),  # a slot's name is the server's
        ("u@localhost/d", "u@127.0.0.1/d", True),
        ("u@db/d", "u@db:5433/d", False),
        ("u@db/d", "u@db2/d", False),
    ],
)
def test_a_slot_is_read_by_one_source(one: str, two: str, same: bool) -> None:
    text = f"  shop: {{postgres: 'postgres://{one}', slot: s}}\n  web: {{postgres: 'postgres://{two}', slot: s}}\n"
    if not same:
        assert len(sources(text)) == 2
        return
    with pytest.raises(ConfigError, match=r"sources\.web\.slot: s at \S+ is read by shop too"):
        sources(text)
