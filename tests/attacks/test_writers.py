"""A writer that is bound to a tenant writes nothing of another's: over HTTP, a function URL and SQS."""

import base64
import json
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from firn.auth import signatures
from firn.commit import job
from firn.config.names import TableName
from firn.config.reader import parse
from firn.config.writers import Writer
from firn.errors import ConfigError
from firn.ingest.accept import accept
from firn.ingest.replay import Choice, replay
from firn.log import backlog, cuts, epochs, published_configs
from firn.log.dead_letters.letters import read_dead
from firn.log.published_configs import publish
from firn.log.store import paths
from tests.attacks.writers import MINE, config, debezium, emitted, image, plain, staged, strays, trees
from tests.emitter_events import WRITERS
from tests.model.memory_ground import MemoryGround
from tests.unit.functions.conftest import load, store
from tests.unit.log.storage_faults import FaultyStore

__all__ = ["load", "store"]

Load = Callable[..., ModuleType]
KEY, THEIRS = "k" * 20, "t" * 20
SECRET = "whsec_" + base64.b64encode(bytes(24)).decode()
ACME, OTHER, STRANGER = "AROAACMEACMEACMEACME0", "AROAOTHEROTHEROTHER00", "AIDASTRANGERSTRANGER0"
GOOD = debezium(1, "c", None, image())


@pytest.fixture
def auth(tmp_path: Path) -> str:
    (tmp_path / "key").write_text(KEY)
    return f"{{by: api_key, secret: 'file:{tmp_path}/key', queue: [{ACME}]}}"


def post(
    body: bytes, key: str = KEY, writer: str | None = "acme", path: str = "/v1/streams/shop", **more: Any
) -> dict[str, Any]:
    """As a REST API hands it over."""
    return {
        "httpMethod": "POST", "path": path, "body": body.decode("utf-8", "surrogateescape"), "requestContext": {},
        "headers": {"x-api-key": key, **more.pop("headers", {})},
        "queryStringParameters": None if writer is None else {"writer": writer}, **more,
    }  # fmt: skip


def by_url(body: bytes, writer: str = "acme") -> dict[str, Any]:
    """As a function URL hands it over."""
    context = {"http": {"method": "POST"}}
    return {
        "rawPath": "/v1/streams/shop", "rawQueryString": f"writer={writer}", "body": body.decode(),
        "headers": {"X-Api-Key": KEY}, "requestContext": context,
    }  # fmt: skip


def message(body: bytes, sender: str | None, n: int = 0, **named: str) -> dict[str, Any]:
    attributes = {
        name: {"dataType": "String", "stringValue": value} for name, value in {"stream": "shop", **named}.items()
    }
    system = {} if sender is None else {"attributes": {"SenderId": sender}}
    return {"messageId": f"m{n}", "body": body.decode(), "messageAttributes": attributes, **system}


def now() -> datetime:
    return datetime.now(UTC)


def answer(app: ModuleType, event: dict[str, Any]) -> tuple[int, str]:
    found = app.handler(event, None)
    told = json.loads(found["body"])
    return found["statusCode"], told.get("error", "") + told.get("message", "")


def dead(store: FaultyStore) -> list[tuple[str, str | None, bytes]]:
    found = [letter for path in paths(store, "dead/shop") for letter in read_dead(store, path)]
    return [(letter.reason, letter.writer, letter.original) for letter in found]


def test_what_is_not_the_writers_is_refused_whole(load: Load, store: FaultyStore, auth: str) -> None:
    publish(store, config(auth).text)
    app, dice = load("ingest_http"), random.Random(1)
    tried = list(trees(dice))
    assert len(tried) > 150
    for name, body in tried:
        status, why = answer(app, post(body))
        assert (status, why[:14]) == (403, "outside_writer"), (name, status, why)
    assert answer(app, by_url(tried[0][1]))[0] == 403
    assert [*paths(store, "staged"), *paths(store, "dead"), *paths(store, "receipts")] == []
    assert answer(app, post(GOOD))[0] == answer(app, by_url(GOOD))[0] == 202
    for same in ("7", "7.0", "70e-1", "0.7e1"):  # one number, however it is written
        assert answer(app, post(debezium(5, "u", image(same), image(same))))[0] == 202
    assert strays(store) == []


def test_or_it_is_a_dead_letter_and_what_is_beside_it_is_taken(load: Load, store: FaultyStore, auth: str) -> None:
    publish(store, config(auth, more=", outside: dead_letter").text)
    app = load("ingest_http")
    for name, body in trees(random.Random(2)):
        assert answer(app, post(body))[0] in (202, 400), name
    assert strays(store) == []
    assert len(staged(store)) >= 60
    assert {(reason, writer) for reason, writer, _ in dead(store)} == {("outside_writer", "acme")}


def test_plain_rows(load: Load, store: FaultyStore, auth: str) -> None:
    text = config(auth, "rows", rule="key: [tenant_id, id], update: patch").text
    publish(store, text.replace("envelope: rows", "envelope: rows\n    op_field: op"))
    app = load("ingest_http")
    for name, body in plain(random.Random(3)):
        assert answer(app, post(body, path="/v1/streams/shop/tables/orders"))[0] == 403, name
    assert staged(store) == []
    assert answer(app, post(image().encode(), path="/v1/streams/shop/tables/orders"))[0] == 202


@pytest.mark.parametrize("envelope", WRITERS)
def test_events_of_emitters(load: Load, store: FaultyStore, auth: str, envelope: str) -> None:
    publish(store, config(auth, envelope, scope="rows: \"tenant_id = 7 OR tenant_id = '7'\"").text)
    app = load("ingest_http")
    for name, event in emitted(envelope):
        status, why = answer(app, post(json.dumps(event).encode()))
        # Who moves a row to the writer's tenant may say nothing of where it was: then that row stays.
        if status != 202 or "'tenant_id': 8, 'id': 1, 'v': 'a'} {'tenant_id': 7" not in name:
            assert (status, why[:14]) == (403, "outside_writer"), (name, status, why)
    assert strays(store) == []
    mine = {"tenant_id": MINE, "id": 1, "v": "a"}
    for writer in WRITERS[envelope]:
        event = writer(1, "c", "orders", None, mine)
        assert answer(app, post(json.dumps(event).encode())) == (202, ""), event


def test_who_it_is_the_secret_has_to_show(load: Load, store: FaultyStore, auth: str, tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text(THEIRS)
    theirs = f"{{by: api_key, secret: 'file:{tmp_path}/theirs'}}"
    text = f"{config(auth).text}  crm: {{auth: {theirs}, tables: {{'*': {{to: 'crm.{{table}}'}}}}}}\n"
    publish(store, text)
    app = load("ingest_http")
    for event in (
        post(GOOD, key=THEIRS),
        post(GOOD, key=""),
        post(GOOD, key=KEY[:-1]),
        post(GOOD, writer=None),
        post(GOOD, writer=""),
        post(GOOD, writer="nobody"),
        post(GOOD, writer="ACME"),
        post(GOOD, writer="other"),
        post(GOOD, path="/v1/streams/crm"),
        post(GOOD, writer=None, headers={"x-firn-writer": "other"}),
        post(GOOD, headers={"x-firn-writer": "acme"}, writer="other"),
    ):
        assert answer(app, event)[0] == 401, event
    assert answer(app, post(GOOD, writer=None, headers={"X-Firn-Writer": "acme"}))[0] == 202
    (tmp_path / "key").write_text("n" * 20)  # revoked: seen once what is kept is too old
    app.senders._secrets._kept.clear()
    assert answer(app, post(GOOD))[0] == 401
    assert len(paths(store, "staged")) == 1


def test_a_signature_of_another_time_or_writer_opens_nothing(load: Load, store: FaultyStore, tmp_path: Path) -> None:
    (tmp_path / "whsec").write_text(SECRET)
    publish(store, config(f"{{by: signature, secret: 'file:{tmp_path}/whsec'}}").text)
    app = load("ingest_http")

    def signed(at: int, body: bytes = GOOD, key: str = SECRET) -> dict[str, str]:
        sign = signatures.sign(signatures.secret_of(key), "msg", at, body)
        return {"webhook-id": "msg", "webhook-timestamp": str(at), "webhook-signature": sign}

    at = int(time.time())
    other = "whsec_" + base64.b64encode(bytes(range(24))).decode()
    for headers in (signed(at - 400), signed(at + 400), signed(at, GOOD + b" "), signed(at, key=other), {}):
        assert answer(app, post(GOOD, headers=headers))[0] == 401
    bad = debezium(2, "c", None, image("8"))
    assert answer(app, post(bad, headers=signed(at, bad)))[0] == 403
    assert answer(app, post(GOOD, headers=signed(at)))[0] == 202


def test_keys_of_one_writer_are_nothing_to_another(load: Load, store: FaultyStore, auth: str, tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text(THEIRS)
    text = config(auth).text.replace(f"{{queue: [{OTHER}]}}", f"{{by: api_key, secret: 'file:{tmp_path}/theirs'}}")
    publish(store, text)
    app, once = load("ingest_http"), {"Idempotency-Key": "once"}
    theirs = debezium(3, "c", None, image("8"))
    assert answer(app, post(theirs, key=THEIRS, writer="other", headers=once))[0] == 202
    assert answer(app, post(GOOD, headers=once)) == (202, "")
    assert len(paths(store, "staged")) == 2
    again = app.handler(post(theirs, headers=once), None)
    assert again["statusCode"] == 403  # not told that it was taken


def test_what_a_writer_may_ask(load: Load, store: FaultyStore, auth: str, tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text(THEIRS)
    text = config(auth, more=", tables: ['public.*']").text
    publish(store, text.replace(f"{{queue: [{OTHER}]}}", f"{{by: api_key, secret: 'file:{tmp_path}/theirs'}}"))
    app = load("ingest_http")
    batch = json.loads(app.handler(post(GOOD), None)["body"])["batch_id"]

    def ask(path: str, key: str, writer: str) -> dict[str, Any]:
        event = post(b"", key=key, writer=writer, path=path) | {"httpMethod": "GET"}
        found = app.handler(event, None)
        return {"status": found["statusCode"], **json.loads(found["body"])}

    assert ask(f"/v1/batches/{batch}", KEY, "acme")["accepted"] == 1
    assert ask(f"/v1/batches/{batch}", THEIRS, "other")["status"] == 404
    assert ask("/v1/tables/shop.orders/health", KEY, "acme")["status"] == 401
    (found,) = ask("/v1/streams", KEY, "acme")["streams"]
    assert (found["name"], [one["source"] for one in found["tables"]]) == ("shop", ["*"])
    assert ask("/v1/streams", THEIRS, "acme")["streams"] == []


def test_no_row_of_another_is_touched_in_the_table(auth: str) -> None:
    ground, at = MemoryGround(), now()
    made = published_configs.publish(ground.store, config(auth, more=", outside: dead_letter").text)
    acme, other = made.streams["shop"].writers.values()

    def take(writer: Writer, *bodies: bytes) -> None:
        nonlocal at
        for body in bodies:
            at += timedelta(seconds=1)
            accept(ground.store, made, "shop", body, now=at, writer=writer)
        n = cuts.newest(ground.store, "shop")
        found = epochs.candidates(ground.store, "shop", at, above=n)
        epochs.seal(ground.store, "shop", found, now=at, config=made.sha, nonce=f"{found.next_n:032x}")
        assert job.run(ground.store, ground.lake, "shop", found.next_n, found.next_n, log=str, now=now, attempt=1) == 0

    def rows(tenant: int) -> list[dict[str, Any]]:
        every = ground.rows(TableName("shop", "orders"))
        return sorted((row for row in every if row["tenant_id"] == tenant), key=lambda row: row["id"])

    take(other, *(debezium(n, "c", None, image("8", n, v='"theirs"')) for n in range(1, 4)))
    before = rows(8)
    assert len(before) == 3
    take(acme, *(body for _, body in trees(random.Random(6))))
    assert rows(8) == before
    assert [row["id"] for row in rows(7)] == [1]
    assert {row["tenant_id"] for row in ground.rows(TableName("shop", "orders"))} == {7, 8}


@pytest.mark.parametrize("more", ["", ", outside: dead_letter"])
def test_bytes_that_are_no_text_stop_nothing(load: Load, store: FaultyStore, auth: str, more: str) -> None:
    publish(store, config(auth, more=more).text)
    app, queue = load("ingest_http"), load("ingest_queue")
    for n, tenant in enumerate("87"):
        for broken in (b'"id":1,"v":"\xff"', b'"id":1,"\xff":1', b'"id":"\xed\xa0\x80"'):
            body = debezium(1, "c", None, image(tenant)).replace(b'"id":1', broken)
            event = post(b"") | {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}
            assert answer(app, event)[0] in (400, 403)
        record = message(GOOD, ACME, n) | {"body": body.decode("utf-8", "surrogatepass")}
        assert queue.handler({"Records": [record]}, None) == {"batchItemFailures": []}
    assert len(dead(store)) == 2
    assert strays(store) == []


def test_a_writer_over_a_quota_hears_which_and_is_told_again_what_was_taken(
    load: Load, store: FaultyStore, auth: str, tmp_path: Path
) -> None:
    (tmp_path / "theirs").write_text(THEIRS)
    text = config(auth, more=", rate: 1KB/s, backlog: 1KB").text
    publish(store, text.replace(f"{{queue: [{OTHER}]}}", f"{{by: api_key, secret: 'file:{tmp_path}/theirs'}}"))
    shop, app, once = parse(text).streams["shop"], load("ingest_http"), {"Idempotency-Key": "once"}
    theirs = debezium(3, "c", None, image("8"))
    large = debezium(1, "c", None, image(v=json.dumps("x" * 1_500)))
    assert answer(app, post(large, headers=once))[0] == 202

    def refused(by: str) -> None:
        found = app.handler(post(GOOD), None)
        assert (found["statusCode"], int(found["headers"]["Retry-After"]) > 0) == (429, True)
        assert by in found["body"]
        assert answer(app, post(large, headers=once))[0] == 202  # taken before
        assert answer(app, post(theirs, key=THEIRS, writer="other"))[0] == 202
        queue = load("ingest_queue").handler({"Records": [message(GOOD, ACME, 1), message(theirs, OTHER, 2)]}, None)
        waits = [one["itemIdentifier"] for one in queue["batchItemFailures"]]
        assert waits == (["m1"] if "backlog" in by else [])

    refused("streams.shop.writers.acme.rate")  # this process has taken too much at once
    backlog.tell(store, shop, now())
    refused("streams.shop.writers.acme.backlog")


@pytest.mark.parametrize("table", ["orders", "private.orders", "public.customers", "PUBLIC.orders", "public.orders "])
def test_tables_that_it_does_not_name(load: Load, store: FaultyStore, auth: str, table: str) -> None:
    publish(store, config(auth, scope="tables: [public.orders]").text)
    schema, _, name = table.rpartition(".")
    told = f'"schema": "{schema}", "table": "{name}"'.encode()
    body = GOOD.replace(b'"schema": "public", "table": "orders"', told)
    assert answer(load("ingest_http"), post(body))[0] == 403
    assert answer(load("ingest_http"), post(GOOD))[0] == 202


@pytest.mark.parametrize(
    "sender",
    [
        None,
        "",
        "0",
        STRANGER,
        OTHER[:-1],
        ACME.lower(),
        f" {ACME}",
        f"x:{ACME}",
        f"{ACME}x:y",
        f"{ACME[:-1]}:0",
        ":",
        "*",
        "AROA*",
        "123456789012",
    ],
)
def test_a_queue_message_of_a_stranger_is_a_dead_letter_with_its_bytes(
    load: Load, store: FaultyStore, auth: str, sender: str | None
) -> None:
    publish(store, config(auth).text)
    app = load("ingest_queue")
    forged = {"writer": "acme", "SenderId": ACME, "x-firn-writer": "acme"}
    records = [message(GOOD, sender, 1, **forged), message(GOOD, f"{ACME}:session", 2)]
    assert app.handler({"Records": records}, None) == {"batchItemFailures": []}
    assert dead(store) == [("sender_not_allowed", None, GOOD)]
    assert len(staged(store)) == 1
    # It never comes in by itself.
    found = list(replay(store, config(auth), "shop", Choice(), clock=now))
    assert [(one.batch, sum(one.still.values())) for one in found] == [(None, 1)]


def test_messages_of_several_writers_are_each_held_to_its_own(load: Load, store: FaultyStore, auth: str) -> None:
    publish(store, config(auth).text)
    app = load("ingest_queue")
    theirs = debezium(9, "c", None, image("8"))
    sent = [(GOOD, f"{ACME}:a"), (theirs, f"{OTHER}:b"), (theirs, f"{ACME}:a"), (GOOD, OTHER)]
    records = [message(body, sender, n) for n, (body, sender) in enumerate(sent)]
    records += [message(body, f"{ACME}:a", 10 + n) for n, (_, body) in enumerate(trees(random.Random(4)))]
    assert app.handler({"Records": records}, None) == {"batchItemFailures": []}
    rows = [json.loads(row["after"])["tenant_id"] for row in staged(store)]
    assert rows.count(8) == 1
    found = {(reason, writer) for reason, writer, _ in dead(store)}
    assert found == {("outside_writer", "acme"), ("outside_writer", "other")}


def test_a_replay_holds_a_letter_to_its_writer(load: Load, store: FaultyStore, auth: str) -> None:
    publish(store, config(auth, more=", outside: dead_letter").text)
    answer(load("ingest_http"), post(debezium(2, "c", None, image("8"))))
    load("ingest_queue").handler({"Records": [message(debezium(3, "d", image("8"), None), ACME)]}, None)
    list(replay(store, config(auth), "shop", Choice(), clock=now))
    assert staged(store) == []
    wider = config(auth, scope="rows: 'tenant_id IN (7, 8)'")
    list(replay(store, wider, "shop", Choice(), clock=now))
    assert len(staged(store)) == 2


@pytest.mark.parametrize(
    ("writers", "why"),
    [
        ("{}", "is empty"),
        ("{A b: {auth: {queue: [AROAACMEACMEACMEACME0]}}}", "not a writer's name"),
        ("{a: {rows: 'tenant_id = 7'}}", "auth: is missing"),
        ("{a: {auth: {by: iam}}}", "lets in whomever"),
        ("{a: {auth: {by: api_key, secret: 'ssm:/x'}}, b: {auth: {by: api_key, secret: 'ssm:x'}}}", "could be either"),
        ("{a: {auth: {queue: [AROAACMEACMEACMEACME0]}}, b: {auth: {queue: [AROAACMEACMEACMEACME0]}}}", "write it once"),
        ("{a: {auth: {iam: [ROLE]}}, b: {auth: {iam: [ROLE]}}}", "write it once"),
        ("{a: {auth: {queue: ['arn:aws:iam::123456789012:role/r']}}}", "is an ARN"),
        ("{a: {auth: {queue: ['AROAACMEACMEACMEACME0:session']}}}", "is not the id"),
        ("{a: {auth: {queue: ['*']}}}", "is not the id"),
        ("{a: {auth: {queue: []}}}", "needs texts"),
        *(
            (f'{{a: {{auth: {{queue: [AROAACMEACMEACMEACME0]}}, rows: "{rows}"}}}}', why)
            for rows, why in (
                ("tenant_id <> 8", "something else than ="),
                ("NOT tenant_id = 8", "something else than ="),
                ("tenant_id > 6", "something else than ="),
                ("tenant LIKE 'a%'", "something else than ="),
                ("tenant_id IS NOT NULL", "something else than ="),
                ("1 = 1", "something else than ="),
                ("tenant_id = id", "something else than ="),
                ("tenant.id = 7", "looks into"),
                ("region = 'eu'", "not in the key"),
                ("tenant_id = 7 OR region = 'eu'", "not in the key"),
                ("tenant_id =", "the condition ends"),
            )
        ),
    ],
)
def test_writers_that_bound_nothing_are_refused_at_publish(writers: str, why: str) -> None:
    rule = "tables: {'*': {to: 'shop.{table}', key: [tenant_id, id]}}"
    told = writers.replace("ROLE", "'arn:aws:iam::123456789012:role/r'")
    with pytest.raises(ConfigError, match=why):
        parse(f"streams: {{shop: {{writers: {told}, {rule}}}}}")
