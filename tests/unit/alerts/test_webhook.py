"""One try to tell a webhook: signed, once, and what is known of it said without URL or key."""

import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from firn.alerts import webhook
from firn.alerts.alert_message import message_of_test
from firn.auth.secrets import Secrets
from firn.config.alerts import Webhook
from firn.log.alert_log import TryResult
from tests.unit.alerts.receiver import KEY, How, Receiver, receiving

MESSAGE = message_of_test("oncall", "test", "a1")
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def send(place: Path, *, local: bool = True) -> TryResult:
    target = Webhook("oncall", f"file:{place}/url", f"file:{place}/key")
    return webhook.send(target, MESSAGE, Secrets(), datetime.now(UTC), local=local)


def test_a_message_arrives_signed_and_says_what_it_is(place: Path, receiver: Receiver) -> None:
    told = send(place)
    assert (told.outcome, told.status, told.why) == ("sent", 204, "")
    [message] = receiver.messages
    assert (message["what"], message["id"], message["environment"]) == ("test", "firn-a1-test", "test")
    [(headers, _)] = receiver.got
    assert (headers["webhook-id"], headers["content-type"]) == ("firn-a1-test", "application/json")


def test_it_is_signed_with_every_key_while_one_takes_the_place_of_another(place: Path, receiver: Receiver) -> None:
    (place / "key").write_text(f"whsec_{'A' * 32}\n{KEY}\n")
    assert send(place).outcome == "sent"
    assert len(receiver.got[0][0]["webhook-signature"].split()) == 2
    assert receiver.messages


@pytest.mark.parametrize(
    ("how", "outcome", "said"),
    [
        (500, "failed", "HTTP 500"),
        (404, "failed", "HTTP 404"),
        (302, "failed", "no redirect is followed"),
        ("drop", "unknown", "may have arrived"),
        ("silence", "unknown", "may have arrived"),
        ("drip", "unknown", "may have arrived"),
    ],
)
def test_what_is_known_of_it_is_said(place: Path, receiver: Receiver, how: How, outcome: str, said: str) -> None:
    receiver.planned = [how]
    told = send(place)
    assert (told.outcome, said in told.why) == (outcome, True), told.why
    assert len(receiver.got) == 1
    assert "127.0.0.1" not in told.why


def test_nobody_there_is_a_sure_no(place: Path, receiver: Receiver) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        (place / "url").write_text(f"http://127.0.0.1:{free.getsockname()[1]}/")
        told = send(place)
    assert (told.outcome, "ConnectionRefusedError" in told.why) == ("failed", True)
    assert receiver.got == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://example.org/x", "is not https"),
        ("https://", "is not https://HOST/PATH"),
        ("https://me:secret-word@example.org/", "without a name and a password"),
        ("https://[::1/", "can't be read"),
        ("https://example.org:99999/", "can't be read"),
        (f"https://{'a' * 70}.example.org/", "can't be read"),
        ("http://no.such.host.invalid/secret-word", "has no address"),
    ],
)
def test_an_address_that_is_none_is_a_sure_no_and_is_not_repeated(place: Path, url: str, said: str) -> None:
    (place / "url").write_text(url)
    told = send(place)
    assert (told.outcome, said in told.why) == ("failed", True), told.why
    assert "secret-word" not in told.why


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("short", "begins with whsec_"),
        ("whsec_!", "is not base64"),
        ("", "create the secret, or correct alerts.targets.oncall.secret"),
    ],
)
def test_a_key_that_is_none_sends_nothing(place: Path, receiver: Receiver, key: str, said: str) -> None:
    (place / "key").write_text(key)
    told = send(place)
    assert (told.outcome, said in told.why) == ("failed", True), told.why
    assert receiver.got == []


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "0x7f000001", "2130706433", "127.1", "169.254.169.254"]
)
def test_a_deployed_stack_asks_nothing_of_its_own_machine(place: Path, receiver: Receiver, host: str) -> None:
    port = receiver.url.split(":")[2].split("/")[0]
    for scheme in ("http", "https"):
        (place / "url").write_text(f"{scheme}://{host}:{port}/")
        told = send(place, local=False)
        assert told.outcome == "failed"
        assert "not https" in told.why or "public addresses alone" in told.why or "no address" in told.why
    assert receiver.got == []


def test_one_address_of_this_machine_among_public_ones_is_too_many(
    place: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is looked up once, and what was looked at is what is connected to."""
    asked: list[str] = []
    port = int(receiver.url.split(":")[2].split("/")[0])

    def resolve(host: str, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in ("8.8.8.8", "127.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    (place / "url").write_text(f"https://hooks.example.org:{port}/")
    assert "public addresses alone" in send(place, local=False).why
    assert (asked, receiver.got) == (["hooks.example.org"], [])


@pytest.mark.parametrize("trusted", [True, False])
def test_only_a_certificate_that_somebody_vouches_for_gets_a_message(
    place: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    certificate = _self_signed(place)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with receiving(context) as encrypted:
        (place / "url").write_text(encrypted.url.replace("127.0.0.1", "localhost"))
        told = send(place)
        assert len(encrypted.messages) == trusted
    assert told.outcome == ("sent" if trusted else "failed"), told.why
    assert trusted or "SSLCertVerificationError" in told.why


def _self_signed(folder: Path) -> Path:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "own.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return file
