import json
from collections.abc import Callable
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest

from firn.config.model import BacklogLimit
from firn.log import backlog_gate, layout
from firn.log.published_configs import publish
from firn.log.store import paths, put
from tests.unit.log.storage_faults import FaultyStore
from tests.unit.triggers.conftest import CONFIG
from tests.unit.triggers.lambda_events import FIRST, kafka, kinesis, row


@pytest.fixture
def app(load: Callable[..., ModuleType], store: FaultyStore) -> ModuleType:
    publish(store, CONFIG)
    store.puts.clear()
    return load("ingest_stream")


def failed(answer: dict[str, Any]) -> list[str]:
    return [item["itemIdentifier"] for item in answer["batchItemFailures"]]


def test_a_batch_is_staged_with_its_poison_as_a_dead_letter(app: ModuleType, store: FaultyStore) -> None:
    assert failed(app.handler(kinesis([(FIRST, row(1)), (FIRST + 1, b"poison")]), None)) == []
    assert (len(paths(store, "staged/clicks")), len(paths(store, "dead/clicks"))) == (1, 1)


def test_while_storage_is_away_a_batch_comes_again_from_its_first_record(app: ModuleType, store: FaultyStore) -> None:
    store.away = True
    assert failed(app.handler(kinesis([(FIRST, row(1)), (FIRST + 1, row(2))]), None)) == [str(FIRST)]
    with pytest.raises(app.NotStaged):
        app.handler(kafka([(0, 0, b"1", b"{}")]), None)
    store.away = False
    assert app.handler(kafka([(0, 0, b"1", b"{}")]), None) == {"batchItemFailures": []}
    assert len(paths(store, "staged/crm")) == 1


def test_while_no_configuration_is_published_a_batch_comes_again(app: ModuleType, store: FaultyStore) -> None:
    store.delete(layout.CONFIG_POINTER)
    assert failed(app.handler(kinesis([(FIRST, row(1))]), None)) == [str(FIRST)]


def test_while_the_backlog_is_full_a_batch_comes_again(
    app: ModuleType, store: FaultyStore, capsys: pytest.CaptureFixture[str]
) -> None:
    now = datetime.now(UTC)
    full = backlog_gate.judged("clicks", 9, 80, 5_000_000, now, BacklogLimit(bytes=1_000_000), now)
    put(store, layout.state_path("clicks"), backlog_gate.encode(full))
    assert failed(app.handler(kinesis([(FIRST, row(1))]), None)) == [str(FIRST)]
    assert paths(store, "staged") == []
    assert [json.loads(line)["throttled"] for line in capsys.readouterr().out.splitlines() if "throttled" in line]


def test_an_event_of_something_else_is_an_error_of_who_wired_it(app: ModuleType) -> None:
    with pytest.raises(Exception, match="not of Kinesis, DynamoDB Streams or Kafka"):
        app.handler({"Records": [{"eventSource": "aws:sqs"}]}, None)
