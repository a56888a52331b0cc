import base64
import gzip
import json
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from firn.auth import signatures
from firn.changes.envelopes.limits import EventLimits
from firn.config.model import BacklogLimit
from firn.ingest.bodies import Limits
from firn.log import backlog_gate, cuts, epochs, layout
from firn.log.batches import read_meta
from firn.log.published_configs import publish
from firn.log.store import paths, put
from tests.unit.functions.conftest import FUNCTIONS
from tests.unit.log.storage_faults import FaultyStore

Load = Callable[..., ModuleType]
CORPUS = Path(__file__).parents[2] / "data" / "corpus"
EVENT = (
    b'{"op":"c","before":null,"after":{"id":1},"source":{"connector":"postgresql","schema":"public","table":"orders",'
    b'"sequence":"[\\"1\\",\\"2\\"]"}}'
)


class Context:
    aws_request_id = "11111111-2222"


def post(
    app: ModuleType, body: bytes, *, path: str = "/v1/streams/shop", text: bool = False, **headers: Any
) -> tuple[int, Any]:
    """POST as API Gateway delivers it; header names with _ for -."""
    event = {
        "httpMethod": "POST",
        "path": path,
        "headers": {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}},
        "body": body.decode() if text else base64.b64encode(body).decode(),
        "isBase64Encoded": not text,
        "requestContext": {},
    }
    return answer(app.handler(event, Context()))


def get(app: ModuleType, path: str, method: str = "GET") -> tuple[int, Any]:
    return answer(app.handler({"httpMethod": method, "path": path, "headers": None, "body": None}, Context()))


def answer(result: dict[str, Any]) -> tuple[int, Any]:
    assert result["headers"]["Content-Type"] == "application/json"
    return result["statusCode"], json.loads(result["body"])


@pytest.fixture
def app(load: Load) -> ModuleType:
    return load("ingest_http", limits=Limits(sent=500_000, inflated=2_000_000))


def test_an_accepted_request_is_answered_with_its_batch_and_counts(app: ModuleType, store: FaultyStore) -> None:
    status, body = post(app, EVENT)
    assert status == 202
    batch = body.pop("batch_id")
    assert body == {"accepted": 1, "rejected": 0, "ignored": {}, "duplicate": False, "errors": []}
    assert store.puts == [layout.staged_path(batch)]


@pytest.mark.parametrize("name", sorted(path.name for path in (CORPUS / "http_raw").glob("*.ndjson.gz")))
def test_debezium_servers_own_requests_are_accepted_as_sent(load: Load, store: FaultyStore, name: str) -> None:
    app = load("ingest_http")
    for line in gzip.decompress((CORPUS / "http_raw" / name).read_bytes()).splitlines():
        request = json.loads(line)
        event = {
            "httpMethod": "POST",
            "path": "/v1/streams/shop",
            "headers": dict(request["headers"]),
            "body": request["body"],
            "isBase64Encoded": False,
        }
        status, body = answer(app.handler(event, Context()))
        assert (status, body["rejected"]) == (202, 0)


def test_compressed_bodies_ndjson_and_plain_text_events_are_read(app: ModuleType) -> None:
    ndjson = EVENT + b"\n" + EVENT + b"\n"
    assert post(app, gzip.compress(ndjson), Content_Encoding="gzip")[1]["accepted"] == 2
    assert post(app, ndjson, Content_Type="application/x-ndjson")[1]["accepted"] == 2
    assert post(app, b"[" + EVENT + b"]", text=True)[1]["accepted"] == 1


def test_rows_are_posted_to_their_table(app: ModuleType, store: FaultyStore) -> None:
    rows = "{envelope: rows, tables: {users: {to: web.users, key: [id]}, 'a *': {to: 'web.{table}', mode: append}}}"
    publish(store, f"streams: {{web: {rows}, shop: {{tables: {{a.b: {{to: x.y}}}}}}}}")
    for table in ("users", "a%20b%2Fc%3F"):
        status, body = post(app, b'[{"id": 1}, {"id": 2}, 3]', path=f"/v1/streams/web/tables/{table}")
        assert (status, body["accepted"], body["rejected"]) == (202, 2, 1)
        meta = read_meta(store, layout.staged_path(body["batch_id"]))
        assert meta is not None
        assert list(meta.tables) == [table.replace("%20", " ").replace("%2F", "/").replace("%3F", "?")]
    refused = {
        "web/tables/nobody": (404, "unknown_table"), "web": (400, "no_table"), "shop/tables/users": (400, "not_rows"),
        "nobody/tables/users": (404, "unknown_stream"), "web/tables": (404, "no_such_path"),
        "web/tables/": (404, "no_such_path"), "web/tables/users/x": (404, "no_such_path"),
    }  # fmt: skip
    for path, expected in refused.items():
        status, body = post(app, b'{"id": 1}', path=f"/v1/streams/{path}")
        assert (status, body["error"]) == expected
    assert get(app, "/v1/streams/web/tables/users")[0] == 405


def test_a_stream_has_a_body_size_of_its_own(app: ModuleType, store: FaultyStore) -> None:
    rule = "tables: {'*': {to: 'x.{table}', mode: append}}"
    publish(store, f"streams: {{shop: {{max_body: 4.7MB, {rule}}}, small: {{max_body: 1KB, {rule}}}, web: {{{rule}}}}}")
    events = b"[" + b",".join([EVENT] * 4_000) + b"]"
    assert len(events) > 500_000, "what the deployment takes of other streams"
    expected = {"shop": (202, None), "small": (413, "the limit is 1,000"), "web": (413, "the limit is 500,000")}
    for stream, (status, told) in expected.items():
        found, body = post(app, events, path=f"/v1/streams/{stream}")
        assert (found, told is None or told in body["message"]) == (status, True)
    assert post(app, EVENT, path="/v1/streams/small")[0] == 202


def test_a_stream_takes_the_bytes_of_its_rate_and_says_when_to_come_again(app: ModuleType, store: FaultyStore) -> None:
    publish(store, "streams: {shop: {rate: 1KB/s, tables: {'*': {to: 'x.{table}', mode: append}}}}")
    events = b"[" + b",".join([EVENT] * 100) + b"]"
    assert post(app, events, Idempotency_Key="one")[0] == 202
    status, body = post(app, events)
    assert (status, body["error"]) == (429, "rate_exceeded")
    assert body["retry_after"] >= len(events) // 1_000 - 2
    assert post(app, events, Idempotency_Key="one")[1]["duplicate"], "what was taken is said to be"


def test_a_function_urls_event_works_too(app: ModuleType) -> None:
    event = {
        "version": "2.0",
        "rawPath": "/v1/streams/shop",
        "requestContext": {"http": {"method": "POST"}},
        "headers": {"content-type": "application/json"},
        "body": EVENT.decode(),
        "isBase64Encoded": False,
    }
    assert app.handler(event, Context())["statusCode"] == 202


def bomb() -> bytes:
    """200 MB, after nothing."""
    return zlib.compress(b"", wbits=31) + gzip.compress(bytes(200_000_000), 6)


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b'{"op":"c",', {}, 400),
        (b"", {}, 400),
        (b"\xff\xfe\xfd", {}, 400),
        (gzip.compress(EVENT * 50)[:-9], {"Content_Encoding": "gzip"}, 400),
        (EVENT, {"Content_Encoding": "gzip"}, 400),
        (EVENT, {"Content_Encoding": "br"}, 415),
        (EVENT, {"Content_Type": "text/csv"}, 415),
        (b" " * 500_001, {}, 413),
        (bomb, {"Content_Encoding": "gzip"}, 413),
        (EVENT, {"Idempotency_Key": ""}, 400),
    ],
)
def test_what_can_not_be_taken_has_its_status_and_leaves_nothing(
    app: ModuleType, store: FaultyStore, body: bytes | Callable[[], bytes], headers: dict[str, Any], status: int
) -> None:
    answered, error = post(app, body if isinstance(body, bytes) else body(), **headers)
    assert answered == status
    assert set(error) == {"error", "message"}
    assert store.puts == []


def test_a_body_falsely_marked_as_base64_is_a_400(app: ModuleType) -> None:
    event = {"httpMethod": "POST", "path": "/v1/streams/shop", "headers": {}, "body": "{no}", "isBase64Encoded": True}
    assert app.handler(event, Context())["statusCode"] == 400


@pytest.mark.parametrize("stream", ["unknown", "a%2Fb", "..", "x" * 100, "%00"])
def test_an_unknown_stream_is_a_404_whatever_the_body(app: ModuleType, stream: str) -> None:
    assert post(app, b"nonsense", path=f"/v1/streams/{stream}")[0] == 404


def test_bad_events_are_named_by_place_and_reason(app: ModuleType) -> None:
    status, body = post(app, b"[" + EVENT + b',{"op":"c"},{"after":{"id":1}}]')
    assert (status, body["accepted"], body["rejected"]) == (202, 1, 2)
    assert [error["index"] for error in body["errors"]] == [1, 2]
    assert all(error["reason"] for error in body["errors"])


def test_the_same_idempotency_key_is_a_duplicate_and_another_body_a_409(app: ModuleType) -> None:
    first = post(app, EVENT, Idempotency_Key="k")[1]
    again = post(app, EVENT, idempotency_key="k")
    assert again == (202, {**first, "duplicate": True})
    assert post(app, EVENT + EVENT, Idempotency_Key="k")[0] == 409


def test_storage_away_is_a_503_and_the_retry_lands_once(app: ModuleType, store: FaultyStore) -> None:
    store.away = True
    status, body = post(app, EVENT)
    assert (status, body["error"]) == (503, "storage_unavailable")
    store.away = False
    assert post(app, EVENT)[0] == 202
    assert len(paths(store, "staged")) == 1


def test_an_unclear_put_is_a_503_with_retry_after(app: ModuleType, store: FaultyStore) -> None:
    store.faults = ["lost before", "lost before", "lost before"]
    event = {"httpMethod": "POST", "path": "/v1/streams/shop", "headers": {}, "body": EVENT.decode()}
    result = app.handler(event, Context())
    assert result["statusCode"] == 503
    assert result["headers"]["Retry-After"] == "1"


def test_without_a_configuration_the_answer_says_so(app: ModuleType, store: FaultyStore) -> None:
    store.delete(layout.CONFIG_POINTER)
    status, body = post(app, EVENT)
    assert (status, body["error"]) == (503, "not_configured")


def test_a_batch_can_be_asked_for(app: ModuleType, store: FaultyStore) -> None:
    batch = post(app, EVENT)[1]["batch_id"]
    status, body = get(app, f"/v1/batches/{batch}")
    assert (status, body["state"], body["accepted"]) == (200, "staged", 1)
    now = layout.time_of(batch)
    epochs.seal(store, "shop", epochs.candidates(store, "shop", now), now=now, config="c", nonce="n")
    assert get(app, f"/v1/batches/{batch}")[1]["epoch"] == 1
    cuts.write(store, cuts.make("shop", 1, "t", {"shop.orders": 2**62}))
    body = get(app, f"/v1/batches/{batch}")[1]
    assert (body["state"], body["snapshots"]) == ("committed", {"shop.orders": 2**62})


@pytest.mark.parametrize("path", ["/v1/batches/nonsense", "/v1/batches/", "/v1/nothing", "/", "/v1/streams/shop/x"])
def test_what_is_not_there_is_a_404(app: ModuleType, path: str) -> None:
    assert get(app, path)[0] == 404


def test_a_wrong_method_is_a_405(app: ModuleType) -> None:
    assert get(app, "/v1/streams/shop", "DELETE")[0] == 405


def test_the_streams_and_their_tables_are_listed(app: ModuleType) -> None:
    status, body = get(app, "/v1/streams")
    assert status == 200
    assert [stream["name"] for stream in body["streams"]] == ["shop", "other"]
    assert body["streams"][0]["tables"] == [
        {"source": "public.orders", "to": "shop.orders", "mode": "mirror", "key": ["id"]}
    ]


def test_health_follows_the_storage(app: ModuleType, store: FaultyStore) -> None:
    assert get(app, "/v1/health")[0] == 200
    store.away = True
    assert get(app, "/v1/health")[0] == 503


def test_counts_go_out_as_metrics_by_stream(app: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    post(app, b"[" + EVENT + b',{"op":"x"}]')
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    metrics, dead = lines
    assert {name: dead[name] for name in ("stream", "table", "reason", "dlq_total")} == {
        "stream": "shop", "table": "unknown", "reason": "unknown_op", "dlq_total": 1
    }  # fmt: skip
    assert (metrics["stream"], metrics["accepted"], metrics["rejected"], metrics["ignored"]) == ("shop", [1], [1], [0])
    assert metrics["bytes"][0] > 100


def test_no_log_line_holds_a_payload(
    load: Load, store: FaultyStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POWERTOOLS_LOG_LEVEL", "DEBUG")
    app = load("ingest_http")
    secret = EVENT.replace(b'"id":1', b'"id":"4111-SECRET"')
    post(app, b"[" + secret + b',{"op":"SECRET"},SECRET', text=True)
    post(app, b"[" + secret + b',{"op":"SECRET"}]')
    post(app, b"[" + secret + b',{"op":"c","after":{"x":"SECRET"}}]')
    store.away = True
    post(app, secret)
    captured = capsys.readouterr()
    assert "SECRET" not in captured.out + captured.err


def test_the_import_loads_no_pyarrow_no_pyspark_no_boto3_and_nothing_that_plans_tables() -> None:
    heavy = ("pyarrow", "pyspark", "boto3", "pydantic", "yaml", "firn.tables", "firn.changes.decode.codec")
    probe = f"import sys, app; print([m for m in {heavy} if m in sys.modules])"
    layer = FUNCTIONS.parent / "layers" / "core" / "python"
    found = subprocess.run(
        [sys.executable, "-c", probe],
        cwd=FUNCTIONS / "ingest_http", env={"PYTHONPATH": str(layer)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.strip() == "[]"


def test_a_webhook_id_is_the_key_where_no_idempotency_key_is_sent(app: ModuleType) -> None:
    first = post(app, EVENT, webhook_id="msg_1")
    status, again = post(app, EVENT, webhook_id="msg_1")
    assert (status, again["duplicate"], again["batch_id"]) == (202, True, first[1]["batch_id"])
    status, refused = post(app, EVENT.replace(b'"id":1', b'"id":2'), webhook_id="msg_1")
    assert (status, refused["error"]) == (409, "idempotency_conflict")
    assert "webhook-id" in refused["message"]
    both = post(app, EVENT, webhook_id="msg_1", Idempotency_Key="k")
    assert (both[0], both[1]["duplicate"]) == (202, False)


def shut(store: FaultyStore, stream: str = "shop") -> None:
    now = datetime.now(UTC)
    limit = BacklogLimit(bytes=1_000_000)
    put(
        store,
        layout.state_path(stream),
        backlog_gate.encode(backlog_gate.judged(stream, 9, 80, 5_000_000, now, limit, now)),
    )


def test_a_stream_with_a_full_backlog_answers_429_and_when_to_come_again(app: ModuleType, store: FaultyStore) -> None:
    shut(store)
    event = {"httpMethod": "POST", "path": "/v1/streams/shop", "headers": {}, "body": EVENT.decode()}
    for headers in ({}, {"Idempotency-Key": "new"}):
        result = app.handler(event | {"headers": headers}, Context())
        told = json.loads(result["body"])
        assert (result["statusCode"], result["headers"]["Retry-After"]) == (429, "30")
        assert (told["error"], told["retry_after"]) == ("backlog_full", 30)
        assert "5.0 MB staged (limit 1.0 MB)" in told["message"]
    assert store.puts == [layout.state_path("shop")], "nothing was taken, not even a receipt"
    assert post(app, EVENT.replace(b"orders", b"things"), path="/v1/streams/other")[0] == 202


def test_what_was_acknowledged_before_is_acknowledged_again_while_the_backlog_is_full(
    app: ModuleType, store: FaultyStore
) -> None:
    _, first = post(app, EVENT, Idempotency_Key="k")
    shut(store)
    status, again = post(app, EVENT, Idempotency_Key="k")
    assert (status, again["batch_id"], again["duplicate"]) == (202, first["batch_id"], True)
    assert post(app, EVENT.replace(b'{"id":1}', b'{"id":2}'), Idempotency_Key="k")[0] == 429


def test_a_refused_request_is_taken_once_the_backlog_is_gone(app: ModuleType, store: FaultyStore) -> None:
    shut(store)
    assert post(app, EVENT, Idempotency_Key="k")[0] == 429
    store.delete(layout.state_path("shop"))
    status, taken = post(app, EVENT, Idempotency_Key="k")
    assert (status, taken["duplicate"]) == (202, False)


def test_what_is_throttled_is_a_metric(app: ModuleType, store: FaultyStore, capsys: pytest.CaptureFixture[str]) -> None:
    shut(store)
    post(app, EVENT)
    [line] = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "throttled" in line]
    assert (line["stream"], line["throttled"]) == ("shop", [1.0])


SECRET = "whsec_" + base64.b64encode(bytes(24)).decode()


@pytest.fixture
def guarded(load: Load, store: FaultyStore, tmp_path: Path) -> ModuleType:
    """Streams of which one asks for signatures and one for API keys."""
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "key").write_text("k" * 20)
    rules = "envelope: auto, tables: {'*': {to: 'shop.{table}'}}"
    publish(
        store,
        f"streams: {{shop: {{auth: {{by: signature, secret: 'file:{tmp_path}/secret'}}, {rules}}}, "
        f"keyed: {{auth: {{by: api_key, secret: 'file:{tmp_path}/key'}}, {rules.replace('shop', 'keyed')}}}}}",
    )
    return load("ingest_http")


def signed(body: bytes, id: str = "msg_1", at: float | None = None) -> dict[str, str]:
    now = int(time.time() if at is None else at)
    sign = signatures.sign(signatures.secret_of(SECRET), id, now, body)
    return {"Webhook-Id": id, "webhook-timestamp": str(now), "webhook-signature": sign}


def test_a_signed_request_is_taken_once(guarded: ModuleType, store: FaultyStore) -> None:
    status, first = post(guarded, EVENT, **signed(EVENT))
    assert (status, first["accepted"], first["duplicate"]) == (202, 1, False)
    # Sent again, as it is and with another key beside it: whoever listened can't make a new request of it.
    for more in ({}, {"Idempotency-Key": "another"}):
        status, again = post(guarded, EVENT, **signed(EVENT), **more)
        assert (status, again["duplicate"], again["batch_id"]) == (202, True, first["batch_id"])
    other = EVENT.replace(b'"id":1', b'"id":2')
    assert post(guarded, other, **signed(other))[0] == 409
    assert len(paths(store, "staged")) == 1


def test_without_the_right_signature_nothing_is_read_or_told(guarded: ModuleType, store: FaultyStore) -> None:
    answers = [
        post(guarded, EVENT),
        post(guarded, EVENT + b" ", **signed(EVENT)),
        post(guarded, EVENT, **signed(EVENT, at=time.time() - 301)),
        post(guarded, EVENT, path="/v1/streams/nosuch", **signed(EVENT)),
        post(guarded, EVENT, path="/v1/streams/keyed", x_api_key="x" * 20),
        post(guarded, b"\xff", content_encoding="gzip"),
        get(guarded, "/v1/batches/shop.01a1fb671864cce42c477bc25635"),
    ]
    assert {status for status, _ in answers} == {401}
    assert len({json.dumps(body) for _, body in answers}) == 1
    assert not paths(store, "staged")
    assert get(guarded, "/v1/streams") == (200, {"streams": []})


def test_an_api_key_opens_its_stream_and_shows_no_other(guarded: ModuleType) -> None:
    key = {"x_api_key": "k" * 20}
    status, done = post(guarded, EVENT, path="/v1/streams/keyed", **key)
    assert (status, done["accepted"]) == (202, 1)
    asked = {"httpMethod": "GET", "headers": {"X-Api-Key": "k" * 20}, "body": None}
    status, streams = answer(guarded.handler({**asked, "path": "/v1/streams"}, Context()))
    assert (status, [one["name"] for one in streams["streams"]]) == (200, ["keyed"])
    assert answer(guarded.handler({**asked, "path": f"/v1/batches/{done['batch_id']}"}, Context()))[0] == 200


def test_a_secret_that_is_not_there_is_no_open_door(guarded: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "secret").unlink()
    status, told = post(guarded, EVENT, **signed(EVENT))
    assert (status, told["error"]) == (503, "not_configured")
    assert SECRET not in str(told)


@pytest.mark.parametrize(
    ("body", "how"),
    [
        (b'{"op":"c","after":{},"source":{"table":"%s"}}' % (b"n" * 200_000), {}),
        (b'{"op":"%s","after":{},"source":{"table":"t"}}' % (b"n" * 200_000), {}),
        (b'{"op":"c","after":{"%s":1},"source":{"table":"t","schema":"%s"}}' % (b"n" * 200_000, b"n" * 200_000), {}),
        (EVENT, {"Content_Encoding": "n" * 200_000}),
        (EVENT, {"Content_Type": "n" * 200_000}),
        (EVENT, {"path": "/v1/streams/" + "n" * 200_000}),
        (EVENT, {"path": "/v1/" + "n" * 200_000}),
    ],
)
def test_no_refusal_is_long_whatever_the_request_names(load: Load, body: bytes, how: dict[str, Any]) -> None:
    app = load("ingest_http", limits=Limits(events=EventLimits(size=50_000)))
    status, told = post(app, body, **how)
    assert status >= 400
    assert len(json.dumps(told)) < 5_000
