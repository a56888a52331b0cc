import json
from collections.abc import Callable
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest

from firn.config.model import BacklogLimit
from firn.log import backlog_gate, layout
from firn.log.batches import BatchMeta, read_meta
from firn.log.dead_letters.letters import read_dead
from firn.log.published_configs import publish
from firn.log.store import paths, put
from tests.unit.log.storage_faults import FaultyStore


def message(identifier: str, body: str, stream: str | None = None) -> dict[str, Any]:
    attributes = {"stream": {"dataType": "String", "stringValue": stream}} if stream else {}
    return {"messageId": identifier, "body": body, "messageAttributes": attributes, "eventSource": "aws:sqs"}


def change(number: int, table: str = "orders") -> str:
    source = {"connector": "postgresql", "schema": "public", "table": table, "sequence": f'["1","{number}"]'}
    return json.dumps({"op": "c", "before": None, "after": {"id": number}, "source": source})


def failed(result: dict[str, Any]) -> list[str]:
    return [item["itemIdentifier"] for item in result["batchItemFailures"]]


@pytest.fixture
def app(load: Callable[..., ModuleType]) -> ModuleType:
    return load("ingest_queue", queue_stream="shop")


def test_a_lambda_batch_is_one_staged_object(app: ModuleType, store: FaultyStore) -> None:
    records = [message(str(n), change(n)) for n in range(10)]
    assert failed(app.handler({"Records": records}, None)) == []
    assert len(paths(store, "staged/shop")) == 1


def test_messages_of_several_streams_are_one_object_a_stream(app: ModuleType, store: FaultyStore) -> None:
    records = [
        message("1", change(1)),
        message("2", change(2, "things"), "other"),
        message("3", change(3), "shop"),
    ]
    assert failed(app.handler({"Records": records}, None)) == []
    assert len(paths(store, "staged/shop")) == 1
    assert len(paths(store, "staged/other")) == 1


def test_an_unreadable_message_is_dead_lettered_and_does_not_come_again(app: ModuleType, store: FaultyStore) -> None:
    result = app.handler({"Records": [message("1", "no json"), message("2", change(2))]}, None)
    assert failed(result) == []
    (path,) = paths(store, "dead/shop")
    assert [letter.original for letter in read_dead(store, path)] == [b"no json"]
    assert len(paths(store, "staged/shop")) == 1


def test_rows_name_their_table_beside_their_stream(app: ModuleType, store: FaultyStore) -> None:
    publish(store, "streams: {web: {envelope: rows, tables: {'*': {to: 'web.{table}', mode: append}}}}")
    record = message("1", '[{"id": 1}, {"id": 2}]', "web")
    record["messageAttributes"]["table"] = {"dataType": "String", "stringValue": "clicks"}
    assert failed(app.handler({"Records": [record]}, None)) == []
    (path,) = paths(store, "staged/web")
    meta = read_meta(store, path)
    assert meta is not None
    assert meta.tables == {"clicks": 2}


def test_a_message_of_an_unknown_stream_fails_alone(app: ModuleType, store: FaultyStore) -> None:
    result = app.handler({"Records": [message("1", change(1), "nobody"), message("2", change(2))]}, None)
    assert failed(result) == ["1"]
    assert len(paths(store, "staged/shop")) == 1


def test_a_message_without_a_stream_fails_alone_where_the_queue_names_none(
    load: Callable[..., ModuleType], store: FaultyStore
) -> None:
    result = load("ingest_queue").handler({"Records": [message("1", change(1)), message("2", change(2), "shop")]}, None)
    assert failed(result) == ["1"]


def test_while_storage_is_away_all_messages_come_again_and_land_once(app: ModuleType, store: FaultyStore) -> None:
    records = [message("1", change(1)), message("2", change(2, "things"), "other")]
    store.away = True
    assert failed(app.handler({"Records": records}, None)) == ["1", "2"]
    store.away = False
    assert failed(app.handler({"Records": records}, None)) == []
    assert len(paths(store, "staged")) == 2


def test_while_no_configuration_is_published_all_messages_come_again(app: ModuleType, store: FaultyStore) -> None:
    store.delete(layout.CONFIG_POINTER)
    assert failed(app.handler({"Records": [message("1", change(1))]}, None)) == ["1"]


@pytest.mark.parametrize("body", ['{"op":"\ud800"}', '{"\ud800":1}', '{"destination":"\ud800","value":{"op":"c"}}'])
def test_text_that_no_utf8_can_hold_is_dead_lettered(app: ModuleType, store: FaultyStore, body: str) -> None:
    assert failed(app.handler({"Records": [message("1", body), message("2", change(1))]}, None)) == []
    assert [batch.accepted for batch in metas(store)] == [1]
    assert len(paths(store, "dead/shop")) == 1


def test_messages_that_come_again_regrouped_are_staged_once(app: ModuleType, store: FaultyStore) -> None:
    first = [message(str(n), change(n)) for n in range(4)]
    assert failed(app.handler({"Records": first}, None)) == []
    assert failed(app.handler({"Records": [first[2], message("9", change(9)), first[0]]}, None)) == []
    assert failed(app.handler({"Records": first}, None)) == []
    assert [batch.accepted for batch in metas(store)] == [4, 1]


def test_a_message_under_way_elsewhere_fails_alone(app: ModuleType, store: FaultyStore) -> None:
    store.faults = [None, "refused", "refused", "refused"]  # the receipt is written, the batch is not
    assert failed(app.handler({"Records": [message("1", change(1))]}, None)) == ["1"]
    assert failed(app.handler({"Records": [message("1", change(1)), message("2", change(2))]}, None)) == ["1"]
    assert [batch.accepted for batch in metas(store)] == [1]


def test_an_id_with_another_body_is_dead_lettered_and_does_not_come_again(app: ModuleType, store: FaultyStore) -> None:
    assert failed(app.handler({"Records": [message("1", change(1))]}, None)) == []
    assert failed(app.handler({"Records": [message("1", change(2))]}, None)) == []
    (path,) = paths(store, "dead/shop")
    assert [letter.reason for letter in read_dead(store, path)] == ["message_conflict"]


def test_while_the_backlog_is_full_a_streams_messages_come_again_and_the_others_are_taken(
    app: ModuleType, store: FaultyStore, capsys: pytest.CaptureFixture[str]
) -> None:
    now = datetime.now(UTC)
    full = backlog_gate.judged("shop", 9, 80, 5_000_000, now, BacklogLimit(bytes=1_000_000), now)
    put(store, layout.state_path("shop"), backlog_gate.encode(full))
    records = [message("1", change(1)), message("2", change(2, "things"), "other"), message("3", change(3))]
    assert failed(app.handler({"Records": records}, None)) == ["1", "3"]
    assert (len(paths(store, "staged/other")), paths(store, "staged/shop"), paths(store, "receipts/shop")) == (
        1,
        [],
        [],
    )
    [line] = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "throttled" in line]
    assert (line["stream"], line["throttled"]) == ("shop", [2.0])
    store.delete(layout.state_path("shop"))
    assert failed(app.handler({"Records": records}, None)) == []
    assert [batch.accepted for batch in metas(store)] == [1, 2]


def metas(store: FaultyStore) -> list[BatchMeta]:
    found = [read_meta(store, path) for path in paths(store, "staged")]
    return [meta for meta in found if meta is not None]
