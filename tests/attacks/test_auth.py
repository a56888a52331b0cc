"""Who may post, by which way: through the handlers, with events as API Gateway, function URLs and SQS make them."""

import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from firn.auth import signatures
from firn.config.callers import is_one_of, read_caller
from firn.config.reader import parse
from firn.config.secret_addresses import is_same_place
from firn.errors import ConfigError
from firn.log import published_configs
from firn.log.published_configs import publish
from firn.log.store import paths, put
from tests.unit.functions.conftest import load, store
from tests.unit.log.storage_faults import FaultyStore

__all__ = ["load", "store"]

Load = Callable[..., ModuleType]
SECRET = "whsec_" + base64.b64encode(bytes(24)).decode()
KEY = "k" * 20
EVENT = json.dumps(
    {
        "op": "c",
        "before": None,
        "after": {"id": 1},
        "source": {"connector": "postgresql", "schema": "public", "table": "orders", "sequence": '["1","1"]'},
    }
)
ACCOUNT = "123456789012"
ORDERS = "arn:aws:iam::123456789012:role/services/orders"
SESSION = "arn:aws:sts::123456789012:assumed-role/orders/i-0abc"
OTHER = "arn:aws:sts::123456789012:assumed-role/reports/i-0abc"


def streams(**settings: str) -> str:
    rules = "envelope: auto, tables: {'*': {to: '%s.{table}'}}"
    return f"streams: {{{', '.join(f'{name}: {{{auth}{rules % name}}}' for name, auth in settings.items())}}}"


@pytest.fixture
def secret(tmp_path: Path) -> str:
    (tmp_path / "whsec").write_text(SECRET)
    return f"auth: {{by: signature, secret: 'file:{tmp_path}/whsec'}}, "


@pytest.fixture
def key(tmp_path: Path) -> str:
    (tmp_path / "key").write_text(KEY)
    return f"auth: {{by: api_key, secret: 'file:{tmp_path}/key'}}, "


def request(stream: str, headers: dict[str, Any] | None = None, caller: str | None = None) -> dict[str, Any]:
    """A POST as a REST API hands it over."""
    return {
        "httpMethod": "POST",
        "path": f"/v1/streams/{stream}",
        "headers": headers,
        "body": EVENT,
        "requestContext": {"identity": {"userArn": caller}},
    }


def url_request(stream: str, caller: str) -> dict[str, Any]:
    """A POST as a function URL hands it over."""
    context = {"http": {"method": "POST"}, "authorizer": {"iam": {"userArn": caller}}}
    return {"rawPath": f"/v1/streams/{stream}", "headers": {}, "body": EVENT, "requestContext": context}


def asked(app: ModuleType, event: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    found = app.handler(event, None)
    return found["statusCode"], json.loads(found["body"])


def get(path: str, **headers: str) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"httpMethod": "GET", "path": path, "headers": named, "body": None}


def signed() -> dict[str, str]:
    now = int(time.time())
    sign = signatures.sign(signatures.secret_of(SECRET), "msg_1", now, EVENT.encode())
    return {"webhook-id": "msg_1", "webhook-timestamp": str(now), "webhook-signature": sign}


def sent(app: ModuleType, *names: str | None) -> list[str]:
    """Deliver a queue message for each stream named (None: without the attribute) -> the places that come again."""
    records = []
    for place, name in enumerate(names):
        attributes = {} if name is None else {"stream": {"dataType": "String", "stringValue": name}}
        records.append({"messageId": str(place), "body": EVENT, "messageAttributes": attributes})
    return [failed["itemIdentifier"] for failed in app.handler({"Records": records}, None)["batchItemFailures"]]


# The queue


def test_a_queue_message_reaches_no_stream_that_knows_its_senders(
    load: Load, store: FaultyStore, secret: str, key: str
) -> None:
    publish(
        store,
        streams(signed=secret, keyed=key, named=f"auth: {{iam: ['{ORDERS}']}}, ", open="", aws="auth: {by: iam}, "),
    )
    assert sent(load("ingest_queue"), "signed", "keyed", "named", "open", "aws") == ["0", "1", "2"]
    assert sorted(path.split("/")[1] for path in paths(store, "staged")) == ["aws", "open"]
    assert not paths(store, "dead"), "what is refused does not reach the stream, not even as a dead letter"


def test_a_refused_message_is_counted_and_logged(
    load: Load, store: FaultyStore, key: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    publish(store, streams(keyed=key))
    app = load("ingest_queue")
    app.logger.setLevel("ERROR")
    assert sent(app, "keyed", "keyed") == ["0", "1"]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["refused_messages"] for line in lines if "refused_messages" in line] == [[2.0]]
    assert [record.reason for record in caplog.records if "accept: [http, sqs]" in record.reason]  # type: ignore[attr-defined]


def test_a_stream_says_by_which_ways_it_takes_events(load: Load, store: FaultyStore, key: str) -> None:
    publish(store, streams(both=f"accept: [http, sqs], {key}", queued="accept: sqs, ", posted="accept: [http], "))
    queue, http = load("ingest_queue"), load("ingest_http")
    assert sent(queue, "both", "queued", "posted") == ["2"]
    answers = {name: asked(http, request(name, {"x-api-key": KEY})) for name in ("both", "queued", "posted")}
    assert {name: status for name, (status, _) in answers.items()} == {"both": 202, "queued": 403, "posted": 202}
    assert answers["queued"][1]["error"] == "not_accepted"
    listed = asked(http, get("/v1/streams", x_api_key=KEY))[1]["streams"]
    assert [one["name"] for one in listed] == ["both", "posted"]


def test_a_stream_that_an_event_source_feeds_takes_nothing_else_unless_it_says_so(
    load: Load, store: FaultyStore, key: str
) -> None:
    arn = "arn:aws:kinesis:eu-central-1:123456789012:stream/{}"
    fed, open_too = f"kinesis: '{arn.format('a')}', ", f"kinesis: '{arn.format('b')}', accept: [http], "
    publish(store, streams(fed=fed, open=open_too))
    assert sent(load("ingest_queue"), "fed", "open") == ["0", "1"]
    http = load("ingest_http")
    answers = {name: asked(http, request(name, {"x-api-key": KEY})) for name in ("fed", "open")}
    assert {name: status for name, (status, _) in answers.items()} == {"fed": 403, "open": 202}
    assert "takes what kinesis brings only" in answers["fed"][1]["message"]


def test_a_queue_of_a_streams_own_reaches_it_and_no_other(load: Load, store: FaultyStore, key: str) -> None:
    publish(store, streams(keyed=key, open="", closed=f"accept: [http], {key}"))
    assert sent(load("ingest_queue", queue_stream="keyed"), None, "keyed", "open") == ["2"]
    assert sent(load("ingest_queue", queue_stream="closed"), None, "closed", "keyed") == ["0", "1", "2"]
    assert sent(load("ingest_queue", queue_stream="open"), None, "open", "keyed") == ["2"]


# A signature, and which stream it is for


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("secretsmanager:firn/shop", "secretsmanager:firn/shop"),
        ("secretsmanager:firn/shop", "secretsmanager:arn:aws:secretsmanager:eu-west-1:1:secret:firn/shop-a1B2c3"),
        ("ssm:/firn/shop", "ssm:arn:aws:ssm:eu-west-1:123456789012:parameter/firn/shop"),
        ("ssm:/firn/shop", "ssm:/firn/shop:3"),
        ("file:/etc/firn/shop", "file:/etc/firn/../firn//shop"),
    ],
)  # fmt: skip
def test_two_streams_may_not_share_a_signing_secret_however_it_is_written(one: str, other: str) -> None:
    for by in ("signature", "api_key"):
        text = streams(a=f"auth: {{by: signature, secret: '{one}'}}, ", b=f"auth: {{by: {by}, secret: '{other}'}}, ")
        with pytest.raises(ConfigError, match=r"streams\.b\.auth\.secret: is the secret of the stream a too"):
            parse(text)
    keys = streams(a=f"auth: {{by: api_key, secret: '{one}'}}, ", b=f"auth: {{by: api_key, secret: '{other}'}}, ")
    assert parse(keys).streams, "a key may open several streams: whoever has it has it"
    with pytest.raises(ConfigError, match="one who reads could post"):
        parse(f"query: {{auth: {{by: api_key, secret: '{other}'}}}}\n{keys}")


SECRET_ARN = "secretsmanager:arn:aws:secretsmanager:eu-west-1:123456789012:secret:"


def test_places_of_other_secrets_are_not_one() -> None:
    assert not is_same_place("ssm:/firn/a", "ssm:/firn/b")
    assert not is_same_place("ssm:/firn/a", "secretsmanager:/firn/a")
    assert not is_same_place("", "")
    of_orders, of_events = f"{SECRET_ARN}firn/shop-orders", f"{SECRET_ARN}firn/shop-events"
    assert not is_same_place(of_orders, of_events), "what looks like an ARN's own six characters may be the name's"
    assert not is_same_place(of_orders + "-AbCdEf", of_events + "-AbCdEf")
    assert not is_same_place(f"{SECRET_ARN}firn/shop-AbCdEf", f"{SECRET_ARN.replace('eu-', 'us-')}firn/shop-AbCdEf")
    assert not is_same_place("secretsmanager:firn/shop-orders", "secretsmanager:firn/shop")
    assert is_same_place(of_orders, "secretsmanager:firn/shop-orders")
    assert is_same_place(of_orders, of_orders + "-AbCdEf")
    assert is_same_place(of_orders, "secretsmanager:firn/shop"), "to Secrets Manager it is a whole ARN"


def test_a_configuration_that_was_published_before_is_read_on(store: FaultyStore) -> None:
    shared = "auth: {by: signature, secret: 'ssm:/firn/shop'}, "
    text = "query: {auth: {by: api_key, secret: 'ssm:/firn/shop:1'}}\n" + streams(a=shared, b=shared)
    put(store, "config/old.yaml", text.encode())
    assert set(published_configs.load(store, "old").streams) == {"a", "b"}
    with pytest.raises(ConfigError):
        publish(store, text)


# Callers of AWS


def test_a_stream_takes_the_callers_that_it_names(load: Load, store: FaultyStore) -> None:
    publish(store, streams(shop=f"auth: {{iam: ['{ORDERS}', 'arn:aws:iam::123456789012:user/batch-*']}}, "))
    app = load("ingest_http")
    batch = "arn:aws:iam::123456789012:user/batch-7"
    for event in (request("shop", caller=SESSION), url_request("shop", SESSION), request("shop", caller=batch)):
        assert asked(app, event)[0] == 202
    for event in (request("shop", caller=OTHER), url_request("shop", OTHER), request("shop")):
        assert asked(app, event)[0] == 401


IAM, STS = f"arn:aws:iam::{ACCOUNT}", f"arn:aws:sts::{ACCOUNT}"


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (ORDERS, [SESSION], [ORDERS.replace(ACCOUNT, "123456789013"), OTHER, SESSION.replace("sts", "iam")]),
        # A session's name is the choice of whoever assumes a role: it may not look like a role's.
        (
            f"{IAM}:role/*orders",
            [f"{STS}:assumed-role/eu-orders/x"],
            [f"{STS}:assumed-role/evil/orders", f"{STS}:assumed-role/evil/x-orders"],
        ),
        (f"{IAM}:user/*", [f"{IAM}:user/ann"], [f"{IAM}:user/a/b"]),
        (f"{IAM}:root", [f"{IAM}:root"], [f"{IAM}:rooty"]),
        (f"{STS}:assumed-role/orders/i-*", [SESSION], [SESSION.replace("/i-", "/j-"), SESSION + "/x"]),
        (f"{IAM}:role/a.c", [f"{STS}:assumed-role/a.c/x"], [f"{STS}:assumed-role/abc/x"]),
    ],
)
def test_a_pattern_names_whom_it_says_and_nobody_else(pattern: str, yes: list[str], no: list[str]) -> None:
    assert read_caller(pattern) == pattern
    assert [caller for caller in [*yes, *no, "", "*"] if is_one_of(caller, (pattern,))] == yes
    assert not is_one_of(yes[0] + "\n", (pattern,))


@pytest.mark.parametrize(
    "text",
    [
        "*", "orders", "arn:aws:s3:::bucket", "arn:aws:iam::*:role/orders", f"{IAM}:*", f"{IAM}:role/", f"{IAM}:role/é",
        f"{IAM}:root/x", f"{STS}:role/orders", f"{STS}:assumed-role/x", f"{STS}:assumed-role/orders/a/b",
        f"{STS}:assumed-role/*/orders", f"{IAM}:role/services/", f"{IAM}:role//orders", f"{IAM}:user/services/",
    ],
)  # fmt: skip
def test_a_pattern_that_names_no_caller_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match=r"streams\.shop\.auth\.iam: .*; write "):
        parse(streams(shop=f"auth: {{iam: ['{text}']}}, "))


def test_a_pattern_of_an_empty_name_that_was_published_before_names_nobody(store: FaultyStore) -> None:
    text = streams(shop=f"auth: {{iam: ['{IAM}:role/services/']}}, ")
    put(store, "config/old.yaml", text.encode())
    auth = published_configs.load(store, "old").streams["shop"].auth
    assert auth is not None
    assert auth.callers, "without any pattern everybody whom AWS lets in would be let in"
    assert not is_one_of(f"{STS}:assumed-role/orders/i-0abc", auth.callers)


def test_callers_belong_to_iam() -> None:
    with pytest.raises(ConfigError, match=r"auth\.iam: names callers of AWS, which api_key does not ask for"):
        parse(streams(shop=f"auth: {{by: api_key, secret: 'ssm:/firn/x', iam: ['{ORDERS}']}}, "))
    assert parse(streams(shop=f"auth: {{by: iam, iam: ['{ORDERS}']}}, ")).streams["shop"].auth is not None


@pytest.mark.parametrize(
    "headers",
    [
        {"x-amzn-iam-user-arn": SESSION, "x-user-arn": SESSION, "authorization": "AWS4-HMAC-SHA256 Credential=x"},
        {"requestContext": json.dumps({"identity": {"userArn": SESSION}}), "userArn": SESSION},
        {"x-api-key": None, "authorization": None},
        None,
    ],
)
def test_no_header_makes_a_caller(load: Load, store: FaultyStore, headers: dict[str, Any] | None) -> None:
    publish(store, streams(shop=f"auth: {{iam: ['{ORDERS}']}}, ", aws="auth: {by: iam}, "))
    app = load("ingest_http")
    for stream in ("shop", "aws"):
        event = {**request(stream, headers), "queryStringParameters": {"userArn": SESSION}}
        assert asked(app, event)[0] == 401
        multiple = {"multiValueHeaders": {name: [value] for name, value in (headers or {}).items()}}
        assert asked(app, {**event, **multiple, "requestContext": {"authorizer": {"principalId": SESSION}}})[0] == 401


# What is told to whom


def test_a_key_that_is_sent_twice_is_one_of_them_for_the_check_and_the_rest(
    load: Load, store: FaultyStore, secret: str
) -> None:
    publish(store, streams(signed=secret))
    app = load("ingest_http")
    # API Gateway keeps the case in which a name was sent: one name in two cases is two entries.
    doubled = {"Webhook-Id": "msg_2", **signed()}
    first, again = asked(app, request("signed", doubled)), asked(app, request("signed", signed()))
    assert (first[0], again[1]["duplicate"], again[1]["batch_id"]) == (202, True, first[1]["batch_id"])
    assert asked(app, request("signed", {**signed(), "Webhook-Id": "msg_2"}))[0] == 401


def test_the_answer_to_a_stranger_says_nothing_of_secrets(load: Load, store: FaultyStore, tmp_path: Path) -> None:
    settings = {}
    for name, text in (("absent", None), ("empty", ""), ("short", "s3cr3t"), ("bare", "whsec_" + "A" * 20)):
        if text is not None:
            (tmp_path / name).write_text(text)
        by = "signature" if name == "bare" else "api_key"
        settings[name] = f"auth: {{by: {by}, secret: 'file:{tmp_path}/{name}'}}, "
    (tmp_path / "unreadable").mkdir()
    settings["unreadable"] = f"auth: {{by: api_key, secret: 'file:{tmp_path}/unreadable'}}, "
    publish(store, streams(**settings))
    app = load("ingest_http")
    headers = {"x-api-key": KEY, **signed()}
    for name in settings:
        for event in (request(name, headers), {**get("/v1/streams"), "headers": headers}):
            status, told = asked(app, event)
            assert status == 503, told
            text = json.dumps(told)
            assert not [word for word in (str(tmp_path), "file:", "characters", "bytes", "whsec", name) if word in text]


def test_readers_are_the_callers_that_are_named(store: FaultyStore, load: Load) -> None:
    publish(store, f"query: {{auth: {{iam: ['{ORDERS}']}}}}\n" + streams(open=""))
    app = load("query")
    for context in ({"identity": {"userArn": OTHER}}, {"authorizer": {"iam": {"userArn": OTHER}}}, {}):
        assert asked(app, {**get("/v1/nothing"), "requestContext": context})[0] == 401
    assert asked(app, {**get("/v1/nothing"), "requestContext": {"identity": {"userArn": SESSION}}})[0] == 404


@pytest.mark.parametrize("table", ["%00", "..", "a.b.c", "%2e%2e%2fx", "é.ü", "x" * 5000, "keyed.%22;--", "%"])
def test_a_name_that_is_no_table_is_told_nothing_about(load: Load, store: FaultyStore, key: str, table: str) -> None:
    publish(store, streams(keyed=key))
    assert asked(load("ingest_http"), get(f"/v1/tables/{table}/health"))[0] == 401


def test_the_answer_to_a_reader_says_nothing_of_secrets(store: FaultyStore, load: Load, tmp_path: Path) -> None:
    publish(store, f"query: {{auth: {{by: api_key, secret: 'file:{tmp_path}/gone'}}}}\n" + streams(open=""))
    status, told = asked(load("query"), get("/v1/tables", x_api_key=KEY))
    assert (status, told["error"]) == (503, "not_configured")
    assert str(tmp_path) not in json.dumps(told)


@pytest.mark.parametrize("trouble", ["gone", "unreadable", "short"])
def test_one_streams_secret_is_no_trouble_of_another(
    load: Load, store: FaultyStore, key: str, tmp_path: Path, trouble: str
) -> None:
    (tmp_path / "unreadable").mkdir()
    (tmp_path / "short").write_text("x")
    broken = f"auth: {{by: api_key, secret: 'file:{tmp_path}/{trouble}'}}, "
    publish(store, streams(a=broken, keyed=key))
    app = load("ingest_http")
    status, told = asked(app, get("/v1/streams", x_api_key=KEY))
    assert (status, [one["name"] for one in told["streams"]]) == (200, ["keyed"])
    assert asked(app, get("/v1/tables/keyed.orders/health", x_api_key=KEY))[0] in (200, 404)
    assert asked(app, request("keyed", {"x-api-key": KEY}))[0] == 202


@pytest.mark.parametrize(
    "stream", ["nosuch", "sho%70x", "..", "%2e%2e", "keyed%2F..%2Fopen", "keyed%00", "KEYED", "keyed ", "é", "x" * 5000]
)
def test_a_name_that_is_no_stream_is_told_as_a_wrong_key_is(
    load: Load, store: FaultyStore, key: str, stream: str
) -> None:
    publish(store, streams(keyed=key))
    app = load("ingest_http")
    right = {"x-api-key": KEY}
    assert asked(app, request(stream, right)) == asked(app, request("keyed", {"x-api-key": KEY[1:] + "x"}))
    status, _ = asked(app, get(f"/v1/batches/{stream}.01a1fb671864cce42c477bc25635", x_api_key=KEY))
    assert status == 401


def test_a_name_in_another_spelling_asks_for_the_same_key(load: Load, store: FaultyStore, key: str) -> None:
    publish(store, streams(keyed=key))
    app = load("ingest_http")
    assert asked(app, request("key%65d"))[0] == 401
    assert asked(app, request("key%65d", {"x-api-key": KEY}))[0] == 202
    assert {path.split("/")[1] for path in paths(store, "staged")} == {"keyed"}


def test_a_batch_is_shown_to_the_senders_of_its_stream_alone(load: Load, store: FaultyStore, key: str) -> None:
    publish(store, streams(keyed=key, open=""))
    app = load("ingest_http")
    batch = asked(app, request("keyed", {"x-api-key": KEY}))[1]["batch_id"]
    assert asked(app, get(f"/v1/batches/{batch}", x_api_key=KEY))[0] == 200
    tail = batch.partition(".")[2]
    for name in (batch, f"open.{tail}/../keyed.{tail}", f"open%2F..%2F{batch}", f"open.{batch}", f"keyed%2E{tail}"):
        status, told = asked(app, get(f"/v1/batches/{name}"))
        assert (status in (401, 404), "accepted" in told) == (True, False), name


def test_the_health_of_a_table_is_told_to_the_senders_that_feed_it(load: Load, store: FaultyStore, key: str) -> None:
    publish(store, streams(keyed=key))
    app = load("ingest_http")
    known, unknown = (asked(app, get(f"/v1/tables/{table}/health")) for table in ("keyed.orders", "nosuch.orders"))
    assert known == unknown
    assert known[0] == 401
