"""A tenant that has used its quota gets no further by any way, and nobody else waits for it."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from firn.auth.readers import Readers
from firn.auth.senders import Request
from firn.config.reader import parse
from firn.log import backlog, query_usage, table_health
from firn.log.backlog_gate import STORAGE_RETRY_SECONDS
from firn.log.published_configs import publish
from firn.log.query_usage import QuotaUsed
from firn.log.store import paths
from firn.log.table_health import Health
from firn.usage.query_meter import expect_seconds_left, metered
from tests.attacks.test_writers import ACME, KEY, OTHER, by_url, message, post
from tests.unit.functions.conftest import load, store
from tests.unit.log.storage_faults import FaultyStore

__all__ = ["load", "store"]

NOW = datetime.now(UTC)


@pytest.fixture
def ingest(load: Callable[..., ModuleType], store: FaultyStore, tmp_path: Path) -> Callable[[str], ModuleType]:
    """The functions over a stream whose writer acme is full; other has a megabyte more."""
    (tmp_path / "key").write_text(KEY)
    config = publish(
        store,
        f"""
streams:
  shop:
    envelope: rows
    table_by: t
    writers:
      acme: {{auth: {{by: api_key, secret: 'file:{tmp_path}/key', queue: [{ACME}]}},
              storage: 1MB, stored_in: ['acme.*', shop.orders_acme]}}
      other: {{auth: {{queue: [{OTHER}]}}, storage: 2MB, stored_in: ['acme.*']}}
    tables: {{'*': {{to: 'acme.{{table}}', mode: append}}}}
""",
    )
    table_health.write(store, "shop", [Health("acme.orders", "x", bytes=1_000_000, delete_bytes=1)])
    backlog.tell(store, config.streams["shop"], datetime.now(UTC))
    return lambda name: load(name, queue_stream="shop")


def test_a_writer_over_its_storage_gets_nothing_in(ingest: Callable[[str], ModuleType], store: FaultyStore) -> None:
    app = ingest("ingest_http")
    row = b'[{"t": "orders", "id": 1}]'
    tries: list[dict[str, Any]] = [
        post(row), by_url(row), post(row, headers={"Idempotency-Key": "new"}), post(b"[]"),
        post(row, path="/v1/streams/shop/tables/orders"), post(row, writer=None, headers={"x-firn-writer": "acme"}),
        post(b'[{"t": "elsewhere", "id": 1}]'), post(b'[{"t": "orders", "op": "d", "id": 1}]'),
    ]  # fmt: skip
    for event in tries:
        answer = app.handler(event, None)
        told = json.loads(answer["body"])
        assert (answer["statusCode"], told["error"]) == (429, "storage_full"), event
        assert answer["headers"]["Retry-After"] == str(STORAGE_RETRY_SECONDS)
    for event in (post(row, writer=None), post(row, writer="other"), post(row, writer="ACME"), post(row, writer="")):
        assert app.handler(event, None)["statusCode"] == 401, "nor as somebody else"
    queue = ingest("ingest_queue")
    records = [message(row, ACME, 1), message(row, f"{ACME}:a-session", 2), message(row, OTHER, 3)]
    records.append(message(row, ACME, 4, writer="other"))
    again = queue.handler({"Records": records}, None)["batchItemFailures"]
    assert {one["itemIdentifier"] for one in again} == {"m1", "m2", "m4"}
    assert len(paths(store, "staged/shop")) == 1, "the other's message"


READERS = """
query: {auth: {by: api_key, secret: 'file:%(at)s/all'}, readers: {
  acme: {auth: {by: api_key, secret: 'file:%(at)s/acme'}, tables: ['*.*'], seconds: 10},
  acme2: {auth: {by: api_key, secret: 'file:%(at)s/acme2'}, tables: ['*.*'], seconds: 10},
  other: {auth: {by: iam, iam: ['arn:aws:iam::123456789012:role/r']}, tables: ['*.*'], seconds: 10}}}
streams: {shop: {tables: {'*': {to: 'shop.{table}', key: [id]}}}}
"""


def test_a_reader_over_its_seconds_asks_nothing_by_any_key_or_header(tmp_path: Path) -> None:
    keys = {"acme": f"acme.{KEY}", "acme2": f"acme2.{KEY}", "all": KEY}
    for name, key in keys.items():
        (tmp_path / name).write_text(key)
    config, store, readers = parse(READERS % {"at": tmp_path}), FaultyStore(), Readers()

    def ask(headers: dict[str, str], caller: str = "", *, fails: bool = False) -> str:
        scope = readers.scope(config, Request(headers, b"", caller), NOW, open_to_all=False)
        reader = expect_seconds_left(store, config, scope, NOW)
        try:
            with metered(store, config, reader, NOW):
                if fails:
                    raise ValueError
        except ValueError:
            pass
        return reader

    query_usage.add(store, "acme", 9.998, NOW)
    assert ask({"x-api-key": keys["acme"]}, fails=True) == "acme"
    query_usage.add(store, "acme", 0.1, NOW)
    for headers in (
        {"x-api-key": keys["acme"]}, {"authorization": f"Bearer {keys['acme']}"},
        {"x-api-key": keys["acme"], "x-firn-reader": "acme2"}, {"x-api-key": keys["acme"], "x-firn-writer": "other"},
    ):  # fmt: skip
        with pytest.raises(QuotaUsed, match="the reader acme has used"):
            ask(headers)
        with pytest.raises(QuotaUsed):
            ask(headers, "arn:aws:sts::123456789012:assumed-role/r/s")
    assert ask({"x-api-key": keys["acme2"]}) == "acme2"
    assert ask({}, "arn:aws:sts::123456789012:assumed-role/r/s") == "other"
    assert ask({"x-api-key": keys["all"]}) == "", "who reads all has no quota"
    assert query_usage.used_in(store, "acme", NOW.strftime("%Y-%m")).queries == 3
