"""An envelope is added by a module and a line of the registry: nothing else knows which there are."""

import base64
import io
import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pyarrow.parquet as pq
import pytest

from firn.changes.envelopes import registry
from firn.config.reader import parse as parse_config
from firn.errors import ConfigError, RequestError
from firn.ingest.accept import Accepted, accept
from firn.log import layout
from firn.log.dead_letters.letters import read_dead
from firn.log.store import get
from tests.unit.ingest import ledger
from tests.unit.log.storage_faults import FaultyStore

CONFIG = """
streams:
  shop:
    envelope: {}
    tables:
      "*": {{to: "lake.{{table}}"}}
"""


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    known = registry.Registry({**registry.ENVELOPES, "ledger": ledger.ENVELOPE})
    monkeypatch.setattr(registry, "KNOWN", known)


def said(number: int, kind: str = "insert") -> dict[str, Any]:
    return {
        "ledger": "shop", "entity": "orders", "verb": kind, "at": 1_700_000_000, "place": ["bin.7", number],
        "row": {"id": number},
    }  # fmt: skip


def taken(store: FaultyStore, envelope: str, now: datetime, *events: Any) -> Accepted:
    config = parse_config(CONFIG.format(envelope))
    return accept(store, config, "shop", json.dumps(events).encode(), now=now)


def staged(store: FaultyStore, batch: str) -> list[tuple[Any, ...]]:
    data = get(store, layout.staged_path(batch))
    assert data is not None
    columns = ("table", "op", "ts", "connector", "order", "before", "after")
    return [tuple(map(row.get, columns)) for row in pq.read_table(io.BytesIO(data)).to_pylist()]


ROWS = [
    ("shop.orders", "c", 1_700_000_000_000, "mysql", '["bin.7",1,0]', None, '{"id": 1}'),
    ("shop.orders", "u", 1_700_000_000_000, "mysql", '["bin.7",2,0]', None, '{"id": 2}'),
    ("shop.orders", "d", 1_700_000_000_000, "mysql", '["bin.7",3,0]', '{"id": 3}', None),
]


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize("envelope", ["ledger", "auto"])
def test_its_events_are_staged_as_changes_under_its_name_and_recognised(envelope: str, now: datetime) -> None:
    store = FaultyStore()
    done = taken(store, envelope, now, said(1), said(2, "update"), said(3, "delete"))
    assert (done.accepted, done.rejected) == (3, 0)
    assert staged(store, done.batch_id) == ROWS


@pytest.mark.usefixtures("added")
def test_what_it_cannot_read_is_a_dead_letter_that_names_its_table(now: datetime) -> None:
    store = FaultyStore()
    done = taken(store, "ledger", now, said(1), said(9, "merge"), said(2, "update"), said(3, "delete"))
    assert staged(store, done.batch_id) == ROWS
    (letter,) = read_dead(store, layout.batch_dead_path(done.batch_id))
    assert (letter.index, letter.reason, letter.table) == (1, "unknown_op", "shop.orders")


@pytest.mark.usefixtures("added")
def test_auto_tells_it_from_others_in_one_request(now: datetime, event: Callable[..., dict[str, Any]]) -> None:
    store = FaultyStore()
    for events in ([event(1), said(1)], [said(1), event(1)]):
        done = taken(store, "auto", now, *events)
        assert (done.accepted, done.rejected) == (2, 0)
        assert {row[:2] for row in staged(store, done.batch_id)} == {("public.orders", "c"), ("shop.orders", "c")}


@pytest.mark.usefixtures("added")
def test_a_stream_of_another_envelope_says_what_it_sees(now: datetime) -> None:
    (error,) = taken(FaultyStore(), "debezium", now, said(1)).errors
    assert error.message == "this is an entry of a ledger: write `envelope: ledger` (or auto) for this stream"


def batch_of(*entries: Any) -> dict[str, Any]:
    return {"ledger": "shop", "entries": [{k: v for k, v in one.items() if k != "ledger"} for one in entries]}


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize("envelope", ["ledger", "auto"])
def test_each_part_of_an_event_takes_a_place_like_an_event_of_its_own(envelope: str, now: datetime) -> None:
    store = FaultyStore()
    held = batch_of(said(2, "update"), said(9, "merge"), said(3, "delete"))
    for events in ([said(1), held, said(4)], [held, said(4), said(1)]):
        done = taken(store, envelope, now, *events)
        flat = [
            part
            for one in events
            for part in ([said(2, "update"), said(9, "merge"), said(3, "delete")] if "entries" in one else [one])
        ]
        alike = taken(store, envelope, now, *flat)
        assert (done.accepted, done.rejected) == (alike.accepted, alike.rejected) == (4, 1)
        assert done.errors == alike.errors
        assert staged(store, done.batch_id) == staged(store, alike.batch_id)


@pytest.mark.usefixtures("added")
def test_a_part_that_cannot_be_read_is_a_letter_of_its_own_that_is_read_alone(now: datetime) -> None:
    store = FaultyStore()
    done = taken(store, "ledger", now, batch_of(said(1), said(9, "merge")))
    (letter,) = read_dead(store, layout.batch_dead_path(done.batch_id))
    assert (letter.index, letter.reason, letter.table) == (1, "unknown_op", "shop.orders")
    assert json.loads(letter.original) == said(9, "merge")


@pytest.mark.usefixtures("added")
def test_an_event_without_parts_is_ignored_and_one_of_too_many_is_refused_before_they_are_made(now: datetime) -> None:
    store = FaultyStore()
    assert taken(store, "ledger", now, batch_of()).ignored == {"empty": 1}
    many = b'{"ledger":"shop","entries":[' + b",".join([b"{}"] * 1_000_001) + b"]}"
    config = parse_config(CONFIG.format("ledger"))
    with pytest.raises(RequestError, match="more than 200,000 events") as refused:
        accept(store, config, "shop", many, now=now)
    assert refused.value.status == 413


@pytest.mark.usefixtures("added")
def test_what_parts_grow_to_as_dead_letters_is_bounded(now: datetime) -> None:
    """Each part carries what the whole says once: a few bytes of each could be many letters of many bytes."""
    long = json.dumps({"ledger": "x" * 100_000, "entries": [{"verb": "merge"}] * 1_000}).encode()
    with pytest.raises(RequestError, match="can't be taken") as refused:
        accept(FaultyStore(), parse_config(CONFIG.format("ledger")), "shop", long, now=now)
    assert refused.value.code == "too_much_rejected"


@pytest.mark.usefixtures("added")
def test_the_records_of_a_delivery_are_events(now: datetime) -> None:
    store = FaultyStore()
    inside = [
        base64.b64encode(json.dumps(one).encode()).decode() for one in (said(2, "update"), batch_of(said(3, "delete")))
    ]
    records = [said(1), *({"kinesis": {"data": one, "sequenceNumber": "1"}, "eventID": "s:1"} for one in inside)]
    done = taken(store, "ledger", now, {"Records": records})
    assert staged(store, done.batch_id) == ROWS
    broken = taken(store, "ledger", now, {"Records": [{"kinesis": {"data": "?"}}, {"kinesis": 1}, None]})
    assert (broken.accepted, broken.rejected, broken.ignored) == (0, 2, {"tombstone": 1})


def test_without_its_line_nobody_knows_it(now: datetime) -> None:
    with pytest.raises(ConfigError, match="write debezium, flat, cloudevents, rows"):
        taken(FaultyStore(), "ledger", now, said(1))
