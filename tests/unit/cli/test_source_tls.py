"""TLS towards a source, by its `sslmode`: which modes go without, and whom they believe."""

import ssl

import pytest

from firn_cli import source_tls


class NoTls(Exception):
    """What a server without TLS answers."""


def tried(sslmode: str, *, tls: bool) -> list[ssl.VerifyMode | None]:
    """How a server was asked, in turn; None: without TLS."""
    asked: list[ssl.VerifyMode | None] = []

    def connect(context: ssl.SSLContext | None) -> str:
        asked.append(None if context is None else context.verify_mode)
        if context is not None and not tls:
            raise NoTls
        return "connected"

    assert source_tls.connected(sslmode, connect, lambda error: isinstance(error, NoTls)) == "connected"
    return asked


@pytest.mark.parametrize(
    ("sslmode", "asked"),
    [
        ("disable", [None]),
        ("prefer", [ssl.CERT_NONE]),
        ("require", [ssl.CERT_NONE]),
        ("verify-full", [ssl.CERT_REQUIRED]),
    ],
)
def test_whose_certificate_is_believed(sslmode: str, asked: list[ssl.VerifyMode | None]) -> None:
    assert tried(sslmode, tls=True) == asked


def test_only_prefer_goes_without_where_a_server_has_none() -> None:
    assert tried("prefer", tls=False) == [ssl.CERT_NONE, None]
    for sslmode in ("require", "verify-full"):
        with pytest.raises(NoTls):
            tried(sslmode, tls=False)


def test_another_error_is_no_reason_to_go_without() -> None:
    def connect(_: ssl.SSLContext | None) -> str:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        source_tls.connected("prefer", connect, lambda error: isinstance(error, NoTls))
