"""Signed requests: only what a sender with a known secret signed, within five minutes, is let through."""

import base64
import gzip
import hmac
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from firn.auth.signatures import ID, SIGNATURE, TIMESTAMP, WINDOW, BadSecret, fault, secret_of, sign
from tests.soak import SEED

CORPUS = Path(__file__).parents[2] / "data" / "corpus" / "http_raw"
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
KEY = secret_of("whsec_" + base64.b64encode(bytes(range(24))).decode())
OTHER = secret_of("whsec_" + base64.b64encode(bytes(range(1, 25))).decode())
BODY = '{"op":"c","after":{"name":"Ünïcödé \U0001f9ca"}}'.encode()


def signed(body: bytes = BODY, at: datetime = NOW, key: bytes = KEY, id: str = "msg_1") -> dict[str, str]:
    return {ID: id, TIMESTAMP: str(int(at.timestamp())), SIGNATURE: sign(key, id, int(at.timestamp()), body)}


# https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md, its own example.
def test_the_example_of_the_specification() -> None:
    key = secret_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    found = sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b'{"test": 2432232314}')
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("name", ["single_noschema_webhooksig", "batch_noschema_webhooksig"])
def test_what_debezium_server_signed(name: str) -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # of its application.properties
    saved = [json.loads(line) for line in gzip.decompress((CORPUS / f"{name}.ndjson.gz").read_bytes()).splitlines()]
    assert saved
    for request in saved:
        headers = {header.lower(): value for header, value in request["headers"]}
        at, body = datetime.fromtimestamp(request["t"], UTC), request["body"].encode()
        assert fault(headers, body, [OTHER, secret_of(secret)], at) is None
        assert fault(headers, body, [OTHER], at) == "no signature by a known secret"
        assert fault(headers, body + b" ", [secret_of(secret)], at) == "no signature by a known secret"


def test_what_was_signed_is_let_through() -> None:
    assert fault(signed(), BODY, [KEY], NOW) is None
    assert fault(signed(b""), b"", [KEY], NOW) is None
    assert fault(signed(b"\0\xff\n"), b"\0\xff\n", [KEY], NOW) is None


@pytest.mark.parametrize("seconds", [-WINDOW, WINDOW])
def test_the_window_has_two_ends(seconds: int) -> None:
    headers = signed(at=NOW + timedelta(seconds=seconds))
    assert fault(headers, BODY, [KEY], NOW) is None
    beyond = signed(at=NOW + timedelta(seconds=seconds + (1 if seconds > 0 else -1)))
    assert fault(beyond, BODY, [KEY], NOW) == f"{TIMESTAMP} is more than {WINDOW} seconds off"


def test_while_a_secret_is_rotated_both_are_good_and_afterwards_one() -> None:
    assert fault(signed(key=OTHER), BODY, [KEY, OTHER], NOW) is None
    assert fault(signed(key=KEY), BODY, [KEY, OTHER], NOW) is None
    assert fault(signed(key=KEY), BODY, [OTHER], NOW) is not None
    # A sender may sign with both too.
    both = f"{signed(key=OTHER)[SIGNATURE]} {signed(key=KEY)[SIGNATURE]}"
    assert fault(signed() | {SIGNATURE: both}, BODY, [KEY], NOW) is None


@pytest.mark.parametrize("missing", [ID, TIMESTAMP, SIGNATURE])
def test_without_one_of_the_headers(missing: str) -> None:
    headers = signed()
    assert fault(headers | {missing: ""}, BODY, [KEY], NOW) is not None
    del headers[missing]
    assert fault(headers, BODY, [KEY], NOW) is not None


@pytest.mark.parametrize(
    "changed",
    [
        {ID: "msg_2"}, {ID: "msg.1"}, {ID: "msg 1"}, {ID: "m" * 256}, {ID: "msg_1\n"},
        {TIMESTAMP: "-1"}, {TIMESTAMP: "1e9"},
        {TIMESTAMP: str(int(NOW.timestamp()) + 1)}, {TIMESTAMP: f"+{int(NOW.timestamp())}"}, {TIMESTAMP: "9" * 13},
        {TIMESTAMP: "١٧٦٣٧٢٦٤٠٠"}, {SIGNATURE: "v1,"}, {SIGNATURE: "v1"}, {SIGNATURE: ","}, {SIGNATURE: "v1,é"},
        {SIGNATURE: sign(KEY, "msg_1", int(NOW.timestamp()), BODY).replace("v1,", "v1a,")},
        {SIGNATURE: " ".join(["v1,x"] * 8) + " " + sign(KEY, "msg_1", int(NOW.timestamp()), BODY)},
    ],
)  # fmt: skip
def test_changed_headers(changed: dict[str, str]) -> None:
    assert fault(signed() | changed, BODY, [KEY], NOW) is not None


def test_no_other_id_time_and_body_give_the_same_bytes() -> None:
    """A dot separates what is signed: one that moved would make another request of the same signature."""
    at = int(NOW.timestamp())
    body = f"{at}.5".encode()
    headers = {ID: "a", TIMESTAMP: str(at), SIGNATURE: sign(KEY, "a", at, body)}
    assert fault(headers, body, [KEY], NOW) is None
    assert fault(headers | {ID: f"a.{at}"}, b"5", [KEY], NOW) is not None


def test_of_ten_thousand_random_changes_none_is_let_through() -> None:
    """A byte of the body, a character of a header, or of the key: one thing is different, and the rest is right."""
    dice = random.Random(SEED)
    for _ in range(10_000):
        headers, body, key = signed(), bytearray(BODY), bytearray(KEY)
        what = dice.choice(("body", "shorter", "longer", "key", ID, TIMESTAMP, SIGNATURE))
        if what == "shorter":
            del body[dice.randrange(len(body)) :]
        elif what == "longer":
            body += dice.randbytes(dice.randint(1, 5))
        elif what in ("body", "key"):
            changed = body if what == "body" else key
            changed[dice.randrange(len(changed))] ^= dice.randint(1, 255)
        else:
            text = headers[what]
            place = dice.randrange(len(text))
            other = dice.choice([chr(c) for c in range(33, 127) if chr(c) != text[place]])
            headers[what] = text[:place] + other + text[place + 1 :]
        assert fault(headers, bytes(body), [bytes(key)], NOW) is not None, (what, headers, bytes(body), bytes(key))


def test_every_signature_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return real(one, other)

    real = hmac.compare_digest
    monkeypatch.setattr("firn.auth.signatures.hmac.compare_digest", compare)
    both = f"{signed(key=KEY)[SIGNATURE]} {signed(key=OTHER)[SIGNATURE]}"
    assert fault(signed() | {SIGNATURE: both}, BODY, [KEY, OTHER], NOW) is None
    assert len(compared) == 4  # the first already was right


@pytest.mark.parametrize(
    "text",
    ["", "secret", "whsec_", "whsec_é", "whsec_" + base64.b64encode(bytes(23)).decode(), "whsec_" + "A" * 33,
     "whsec_" + base64.b64encode(bytes(65)).decode(), " whsec_" + base64.b64encode(bytes(24)).decode()],
)  # fmt: skip
def test_what_is_no_secret_is_not_repeated_in_the_message(text: str) -> None:
    with pytest.raises(BadSecret) as caught:
        secret_of(text)
    assert len(text) < 7 or text[6:] not in str(caught.value)
