"""The same key is staged once, wherever the first try died."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, get_args

import pytest
from obstore.store import MemoryStore

from firn.config.model import Config
from firn.errors import RequestError
from firn.ingest.accept import accept
from firn.log import layout, published_configs
from firn.log.dead_letters.letters import read_dead
from firn.log.receipts import Header
from firn.log.store import paths
from tests.unit.log.interrupted_store import Died, InterruptedStore, When

Event = Callable[..., dict[str, Any]]
LATER = timedelta(minutes=10)


@pytest.fixture
def request_body(event: Event) -> bytes:
    """One good event and one that becomes a dead letter."""
    return json.dumps([event(1), {"op": "x"}]).encode()


@pytest.mark.parametrize("when", get_args(When))
@pytest.mark.parametrize("header", get_args(Header))
def test_a_retry_heals_a_request_that_died_anywhere(
    config: Config, now: datetime, request_body: bytes, when: When, header: Header
) -> None:
    at, clean = 0, False
    while not clean:
        at += 1
        store = MemoryStore()
        try:
            accept(InterruptedStore(store, at, when), config, "shop", request_body, now=now, key="k", key_header=header)
            clean = True
        except Died:
            pass
        receipt_there = bool(paths(store, "receipts"))
        again = accept(store, config, "shop", request_body, now=now + LATER, key="k", key_header=header)
        assert paths(store, "staged") == [layout.staged_path(again.batch_id)], f"died {when} call {at}"
        assert paths(store, "dead") == [layout.batch_dead_path(again.batch_id)], f"died {when} call {at}"
        assert (again.accepted, again.rejected, again.duplicate) == (1, 1, receipt_there), f"died {when} call {at}"
        assert (layout.time_of(again.batch_id) == now) == receipt_there
    assert at == 4, "receipt, dead letters and batch were interrupted"


@pytest.mark.parametrize("when", get_args(When))
def test_a_retry_under_another_configuration_reads_as_the_first_try_did(
    now: datetime, event: Event, when: When
) -> None:
    """Else the batch would count other dead letters than the first try has written."""
    first = "streams:\n  shop:\n    tables:\n      public.orders: {to: shop.orders, key: [id]}\n"
    # The event names its table without a schema, which fits two rules now: it would be a dead letter.
    second = first + "      other.orders: {to: other.orders, key: [id]}\n"
    bare = event(1)
    del bare["source"]["schema"]
    body = json.dumps([bare, {"op": "x"}]).encode()
    for at in range(1, 5):
        store = MemoryStore()
        old, new = published_configs.publish(store, first), published_configs.publish(store, second)
        with suppress(Died):
            accept(InterruptedStore(store, at, when), old, "shop", body, now=now, key="k")
        claimed = bool(paths(store, "receipts"))
        again = accept(store, new, "shop", body, now=now + LATER, key="k")
        letters = read_dead(store, layout.batch_dead_path(again.batch_id))
        assert len(letters) == again.rejected, f"died {when} call {at}"
        assert again.accepted == (1 if claimed else 0), f"died {when} call {at}"


@pytest.mark.parametrize("when", get_args(When))
def test_two_tries_at_once_are_one_batch(config: Config, now: datetime, request_body: bytes, when: When) -> None:
    for at in range(1, 4):
        store = MemoryStore()
        inner: list[str] = []

        def twin(store: MemoryStore = store, inner: list[str] = inner) -> None:
            inner.append(accept(store, config, "shop", request_body, now=now + LATER, key="k").batch_id)

        outer = accept(InterruptedStore(store, at, when, twin), config, "shop", request_body, now=now, key="k")
        assert inner == [outer.batch_id]
        assert paths(store, "staged") == [layout.staged_path(outer.batch_id)]


def test_the_same_text_as_webhook_id_and_as_idempotency_key_are_two_keys(
    config: Config, now: datetime, request_body: bytes, event: Event
) -> None:
    store = MemoryStore()
    one = accept(store, config, "shop", request_body, now=now, key="k")
    other = json.dumps(event(2)).encode()
    two = accept(store, config, "shop", other, now=now, key="k", key_header="webhook-id")
    assert not two.duplicate
    assert one.batch_id != two.batch_id


def test_a_key_can_not_be_written_so_that_it_meets_another_space(config: Config, now: datetime, event: Event) -> None:
    body = json.dumps(event(1)).encode()
    with pytest.raises(RequestError) as caught:
        accept(MemoryStore(), config, "shop", body, now=now, key="webhook-id\nk")
    assert caught.value.code == "bad_idempotency_key"


@pytest.mark.parametrize("header", get_args(Header))
def test_the_refusal_names_the_header(config: Config, now: datetime, event: Event, header: Header) -> None:
    store = MemoryStore()
    accept(store, config, "shop", json.dumps(event(1)).encode(), now=now, key="k", key_header=header)
    with pytest.raises(RequestError, match=f"this {header} was used") as caught:
        accept(store, config, "shop", json.dumps(event(2)).encode(), now=now, key="k", key_header=header)
    assert caught.value.status == 409
