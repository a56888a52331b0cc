"""Who may post: by stream, with keys from where firn.yaml says they are."""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from firn.auth import signatures
from firn.auth.secrets import KEPT, Secrets
from firn.auth.senders import Request, Senders, Unauthorized
from firn.config.model import Config
from firn.config.reader import parse
from firn.errors import ConfigError, TransientError

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
FIRST, SECOND = ("whsec_" + base64.b64encode(bytes([n]) * 24).decode() for n in (1, 2))
API_KEY = "k" * 20


def config(auth: str) -> Config:
    tables = "tables: {'*': {to: 'shop.{table}'}}"
    return parse(f"streams: {{shop: {{auth: {auth}, {tables}}}, open: {{{tables.replace('shop', 'open')}}}}}")


def signed(secret: str, body: bytes = b"{}") -> Request:
    at = int(NOW.timestamp())
    sign = signatures.sign(signatures.secret_of(secret), "msg_1", at, body)
    return Request({"webhook-id": "msg_1", "webhook-timestamp": str(at), "webhook-signature": sign}, body)


def refused(auth: str, request: Request, stream: str = "shop", senders: Senders | None = None) -> str:
    with pytest.raises(Unauthorized) as caught:
        (senders or Senders()).check(config(auth), stream, request, NOW)
    assert caught.value.status == 401
    return caught.value.reason


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text(f"{FIRST}\n")
    return file


def test_a_signed_request_of_a_known_sender(secret: Path) -> None:
    auth = f"{{by: signature, secret: 'file:{secret}'}}"
    Senders().check(config(auth), "shop", signed(FIRST), NOW)
    Senders().check(config(auth), "open", Request({}, b""), NOW)
    assert refused(auth, signed(SECOND)) == "no signature by a known secret"
    assert refused(auth, Request({"x-api-key": FIRST}, b"{}")).startswith("no webhook-id")
    assert refused(auth, Request({}, b"{}", caller="arn:aws:iam::123456789012:user/x")).startswith("no webhook-id")


def test_all_who_may_not_are_told_the_same(secret: Path) -> None:
    auth = f"{{by: signature, secret: 'file:{secret}'}}"
    texts = set()
    for stream, request in (("shop", signed(SECOND)), ("nosuch", signed(FIRST)), ("shop", Request({}, b""))):
        with pytest.raises(Unauthorized) as caught:
            Senders().check(config(auth), stream, request, NOW)
        texts.add((caught.value.status, caught.value.code, str(caught.value)))
    assert len(texts) == 1
    assert not any(word in str(texts) for word in ("nosuch", FIRST, "file:"))


def test_where_no_stream_asks_an_unknown_one_is_left_to_the_404() -> None:
    tables = "tables: {'*': {to: 'shop.{table}'}}"
    Senders().check(parse(f"streams: {{shop: {{{tables}}}}}"), "nosuch", Request({}, b""), NOW)


@pytest.mark.parametrize("headers", [{"x-api-key": API_KEY}, {"authorization": f"Bearer {API_KEY}"}])
def test_an_api_key(secret: Path, headers: dict[str, str]) -> None:
    secret.write_text(f"{'o' * 30} {API_KEY}")
    auth = f"{{by: api_key, secret: 'file:{secret}'}}"
    Senders().check(config(auth), "shop", Request(headers, b"{}"), NOW)
    wrong = {name: value[:-1] + "x" for name, value in headers.items()}
    assert refused(auth, Request(wrong, b"{}")) == "no known API key"
    assert refused(auth, Request({"x-api-key": "é" * 20}, b"{}")) == "no known API key"
    assert refused(auth, Request({"authorization": f"Basic {API_KEY}"}, b"{}")).startswith("no x-api-key")


def test_by_iam() -> None:
    Senders().check(config("{by: iam}"), "shop", Request({}, b"", caller="arn:aws:iam::123456789012:user/x"), NOW)
    assert refused("{by: iam}", Request({"x-api-key": API_KEY}, b"")) == "no request that AWS signed"


@pytest.mark.parametrize(
    ("text", "why"),
    [("short", "fewer than 20"), ("", "no sender's secret")],
)
def test_a_useless_api_key_lets_nobody_in(secret: Path, text: str, why: str) -> None:
    secret.write_text(text)
    with pytest.raises(ConfigError, match=why) as caught:
        refused(f"{{by: api_key, secret: 'file:{secret}'}}", Request({"x-api-key": text}, b""))
    assert "short" not in str(caught.value)


def test_a_useless_signing_secret_lets_nobody_in(secret: Path) -> None:
    secret.write_text(f"{FIRST} {API_KEY}")
    with pytest.raises(ConfigError, match="whsec_") as caught:
        refused(f"{{by: signature, secret: 'file:{secret}'}}", signed(FIRST))
    assert API_KEY not in str(caught.value)


def test_secrets_are_kept_for_a_while_and_rotation_is_seen(secret: Path) -> None:
    now = [0.0]
    senders = Senders(Secrets(clock=lambda: now[0]))
    auth = f"{{by: signature, secret: 'file:{secret}'}}"
    senders.check(config(auth), "shop", signed(FIRST), NOW)
    secret.write_text(f"{FIRST} {SECOND}")
    assert refused(auth, signed(SECOND), senders=senders)
    now[0] = KEPT
    senders.check(config(auth), "shop", signed(SECOND), NOW)
    senders.check(config(auth), "shop", signed(FIRST), NOW)
    secret.write_text(SECOND)
    now[0] = 2 * KEPT
    assert refused(auth, signed(FIRST), senders=senders)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(name, value)
    with mock_aws():
        yield


@pytest.mark.usefixtures("aws")
def test_secrets_manager_with_its_previous_version() -> None:
    client = boto3.client("secretsmanager")
    client.create_secret(Name="firn/shop", SecretString=FIRST)
    auth = "{by: signature, secret: 'secretsmanager:firn/shop'}"
    Senders().check(config(auth), "shop", signed(FIRST), NOW)
    assert refused(auth, signed(SECOND))
    client.put_secret_value(SecretId="firn/shop", SecretString=SECOND)
    for one in (FIRST, SECOND):
        Senders().check(config(auth), "shop", signed(one), NOW)
    client.put_secret_value(SecretId="firn/shop", SecretString=SECOND.replace("A", "B"))
    assert refused(auth, signed(FIRST))


@pytest.mark.usefixtures("aws")
def test_parameter_store() -> None:
    auth = "{by: signature, secret: 'ssm:/firn/shop'}"
    with pytest.raises(ConfigError, match="create it"):
        refused(auth, signed(FIRST))
    boto3.client("ssm").put_parameter(Name="/firn/shop", Value=f"{FIRST} {SECOND}", Type="SecureString")
    Senders().check(config(auth), "shop", signed(SECOND), NOW)


def test_a_store_that_can_not_be_asked_is_no_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    with pytest.raises(TransientError, match="can't be asked"):
        refused("{by: signature, secret: 'ssm:/firn/shop'}", signed(FIRST))


@pytest.mark.parametrize(
    ("auth", "said"),
    [
        ("{by: password, secret: 'ssm:/x'}", "is not a way to tell senders"),
        ("{secret: 'ssm:/x'}", "auth.by: is missing"),
        ("{by: signature}", "auth.secret: is missing"),
        ("{by: iam, secret: 'ssm:/x'}", "is not used by iam"),
        (f"{{by: signature, secret: {FIRST}}}", "no secret belongs here"),
        ("{by: api_key, secret: 'file:x'}", "absolute path"),
        ("{by: api_key, secret: 'ssm:a b'}", "no name that ssm knows"),
        ("signature", "write a mapping"),
    ],
)
def test_what_is_wrong_in_the_file_is_said_without_a_secret(auth: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(auth)
    assert said in str(caught.value)
    assert FIRST not in str(caught.value)
