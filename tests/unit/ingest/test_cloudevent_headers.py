"""CloudEvents in binary mode: attributes in headers, data in the body."""

import json
from datetime import datetime

import pytest

from firn.auth.senders import Request
from firn.config.reader import parse as parse_config
from firn.errors import RequestError
from firn.ingest.accept import Accepted
from firn.ingest.bodies import Limits
from firn.ingest.cloudevent_headers import structured
from firn.ingest.request import stage_request
from firn.log.backlog_gate import Gate
from firn.log.store import Store
from tests.unit.ingest.test_added_envelope import staged
from tests.unit.log.storage_faults import FaultyStore

HEADERS = {
    "content-type": "application/json", "ce-specversion": "1.0", "ce-id": "name:shop;lsn:7", "ce-source": "/debezium",
    "ce-type": "io.debezium.connector.postgresql.DataChangeEvent", "ce-iodebeziumop": "c", "ce-iodebeziumschema":
    "public", "ce-iodebeziumtable": "caf%C3%A9", "ce-iodebeziumconnector": "postgresql",
    "ce-iodebeziumsequence": '["1","2"]', "ce-iodebeziumtsms": "1700000000000",
}  # fmt: skip


def posted(store: Store, now: datetime, envelope: str, body: bytes, **headers: str) -> Accepted:
    config = parse_config(f'streams: {{shop: {{envelope: {envelope}, tables: {{"*": {{to: "l.{{table}}"}}}}}}}}')
    told = {name: value for name, value in ({**HEADERS} | headers).items() if value}
    return stage_request(store, config, Gate(store, seconds=0), "shop", Request(told, body), Limits(), now)


@pytest.mark.parametrize("envelope", ["cloudevents", "auto"])
def test_a_request_is_one_event(envelope: str, now: datetime) -> None:
    store = FaultyStore()
    done = posted(store, now, envelope, b'{"before": null, "after": {"id": 1}}')
    assert (done.accepted, done.rejected) == (1, 0)
    (row,) = staged(store, done.batch_id)
    assert row == ("public.café", "c", 1_700_000_000_000, "postgresql", '["1","2"]', None, '{"id": 1}')


def test_a_batch_and_a_structured_event_are_read_from_the_body(now: datetime) -> None:
    store = FaultyStore()
    event = json.loads(structured(HEADERS, b'{"after": {"id": 1}}'))
    for body, kind, count in (([event, event], "cloudevents-batch+json", 2), (event, "cloudevents+json", 1)):
        done = posted(store, now, "auto", json.dumps(body).encode(), **{"content-type": f"application/{kind}"})
        assert (done.accepted, done.rejected) == (count, 0)


def test_a_body_that_is_an_event_of_its_own_stays_one(now: datetime) -> None:
    """A broker gives headers to whatever it delivers."""
    store = FaultyStore()
    body = b'{"operation": "INSERT", "table": "t", "newRow": {"id": 1}}'
    done = posted(store, now, "auto", body, **{"ce-iodebeziumop": ""})
    assert [row[0] for row in staged(store, done.batch_id)] == ["t"]


def test_data_that_is_no_json_value_is_refused(now: datetime) -> None:
    with pytest.raises(RequestError) as caught:
        posted(FaultyStore(), now, "cloudevents", b'{"a": 1} {"a": 2}')
    assert (caught.value.status, caught.value.code) == (400, "bad_json")


def test_an_event_without_data_is_its_attributes(now: datetime) -> None:
    done = posted(FaultyStore(), now, "cloudevents", b"", **{"ce-iodebeziumop": "t"})
    assert (done.accepted, done.rejected) == (1, 0)


def test_quotes_and_percent_signs_of_headers_are_undone() -> None:
    told = json.loads(structured({"ce-subject": '"a\\"b%20c"', "ce-UPPER": "x", "ce-ok": "%E2%82%AC"}, b"null"))
    assert told == {"subject": 'a"b c', "ok": "€", "datacontenttype": "application/json", "data": None}


def test_a_header_that_is_no_text_is_refused() -> None:
    with pytest.raises(RequestError) as caught:
        structured({"ce-specversion": "1.0", "ce-source": "\ud800"}, b"{}")
    assert (caught.value.status, caught.value.code) == (400, "not_utf8")
