"""Addresses of databases: what they mean, and that no text shows a password."""

import pytest

from firn.backfill.source_address import read_address
from firn.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "host", "port", "database", "tls"),
    [
        ("mysql://cdc:g%40h@db.example.org/shop", "db.example.org", 3306, "shop", "verify-full"),
        ("mariadb://cdc:g%40h@127.0.0.1:3307/my%20shop", "127.0.0.1", 3307, "my shop", "disable"),
        ("mysql://cdc:g%40h@db.example.org:3307/shop?sslmode=require", "db.example.org", 3307, "shop", "require"),
        ("mysql://cdc:g%40h@[::1]/shop", "::1", 3306, "shop", "disable"),
        ("postgres://cdc:g%40h@db.example.org/shop", "db.example.org", 5432, "shop", "verify-full"),
    ],
)
def test_an_address_is_read_and_its_password_taken_out(
    text: str, host: str, port: int, database: str, tls: str
) -> None:
    given = read_address(text)
    one = given.address
    assert (one.host, one.port, one.user, one.database, one.tls) == (host, port, "cdc", database, tls)
    assert given.password == "g@h"
    assert "g%40h" not in given.public + repr(given)


@pytest.mark.parametrize(
    "text",
    ["mysql://cdc:geheim@/shop", "mysql://cdc:geheim@h", "mysql://cdc:geheim@h/shop?charset=x",
     "mysql://cdc:geheim@h/shop?sslmode=maybe", "mysql://cdc:geheim@h:x/shop", "mysql://:geheim@h/shop"],
)  # fmt: skip
def test_what_is_wrong_in_it_is_said_without_it(text: str) -> None:
    with pytest.raises(ConfigError, match="--from: the address") as said:
        read_address(text)
    assert "geheim" not in str(said.value)
