import json
from collections.abc import Callable
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, ClassVar

import pytest

from firn.config import epoch_limits
from firn.dispatch import scheduled_rounds
from firn.errors import StorageUnavailable
from firn.ingest.accept import accept
from firn.log import backlog_gate, epochs, holds
from firn.log.holds import Quarantine
from firn.log.published_configs import current_sha, publish
from firn.log.published_configs import load as load_config
from firn.runs.emr import EmrJobs
from firn.runs.job_runs import Run
from firn.settings import Settings
from tests.unit.functions.conftest import CONFIG
from tests.unit.log.storage_faults import FaultyStore

Load = Callable[..., ModuleType]


class FakeJobs:
    settings: ClassVar[list[Settings]] = []

    def __init__(self, settings: Settings, **_: object) -> None:
        FakeJobs.settings.append(settings)

    def runs(self, since: datetime) -> list[Run]:
        return []

    def start(self, stream: str, first: int, last: int, attempt: int) -> str:
        if stream == "other":
            raise StorageUnavailable("away")
        return f"{stream}-{first}-{last}-{attempt}"


def stage(store: FaultyStore, stream: str, table: str) -> None:
    source = {"connector": "postgresql", "schema": "public", "table": table, "sequence": '["1","2"]'}
    event = {"op": "c", "before": None, "after": {"id": 1}, "source": source}
    config = load_config(store, current_sha(store))
    accept(store, config, stream, json.dumps(event).encode(), now=datetime.now(UTC))


@pytest.fixture
def app(load: Load, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    app = load("dispatch", emr_application="app-1")
    monkeypatch.setattr(scheduled_rounds, "EmrJobs", FakeJobs)
    return app


def results(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    json.dumps(answer)
    return {result["stream"]: result for result in answer["streams"]}


def test_a_function_that_knows_an_older_configuration_seals_under_the_newer_one(
    app: ModuleType, store: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, _, current, gate = app.staging()
    held = current()
    monkeypatch.setattr(app, "staging", lambda: (settings, store, lambda: held, gate))
    FakeJobs.settings.clear()
    new = publish(store, held.text.replace("s3://acme-lake/warehouse", "s3://acme-lake/moved") + "# another\n")
    stage(store, "shop", "orders")
    found = results(app.handler({"stream": "shop", "force": True}, None))
    assert found["shop"]["sealed"] == (1,)
    sealed = epochs.read(store, "shop", 1)
    assert sealed is not None
    assert sealed.config == new.sha != held.sha
    assert [one.warehouse for one in FakeJobs.settings] == ["s3://acme-lake/warehouse", "s3://acme-lake/moved"]


def test_the_schedule_dispatches_every_stream(app: ModuleType, store: FaultyStore) -> None:
    stage(store, "shop", "orders")
    found = results(app.handler({}, None))
    assert list(found) == ["shop", "other"]
    assert found["shop"]["run"] == "shop-1-1-1"
    assert found["other"]["sealed"] == ()


@pytest.mark.parametrize(("linger", "sealed"), [("60s", 1), ("0s", 2)])
def test_a_writers_flood_is_shared_out_where_a_job_stays_for_the_rest(
    app: ModuleType, store: FaultyStore, monkeypatch: pytest.MonkeyPatch, linger: str, sealed: int
) -> None:
    monkeypatch.setattr(epoch_limits, "EVENTS_PER_WRITER", 1)
    writers = ", ".join(f"{name}: {{auth: {{by: api_key, secret: 'file:/{name}'}}, tables: ['*']}}" for name in "ab")
    publish(store, CONFIG.replace("auto", f"auto\n    writers: {{{writers}}}\n    commit: {{linger: {linger}}}"))
    for _ in range(2):
        stage(store, "shop", "orders")
    assert results(app.handler({"stream": "shop"}, None))["shop"]["batches"] == sealed


def test_one_stream_can_be_named(app: ModuleType, store: FaultyStore) -> None:
    stage(store, "shop", "orders")
    assert list(results(app.handler({"stream": "other", "force": True}, None))) == ["other"]
    assert epochs.numbers(store, "shop") == []


def test_an_unknown_stream_is_told_as_that_streams_error(app: ModuleType, store: FaultyStore) -> None:
    [told] = app.handler({"stream": "nobody"}, None)["streams"]
    assert told["stream"] == "nobody"
    assert "no stream 'nobody'" in told["error"]
    assert epochs.numbers(store, "nobody") == []


def test_one_streams_failure_does_not_keep_the_others(
    app: ModuleType, store: FaultyStore, capsys: pytest.CaptureFixture[str]
) -> None:
    stage(store, "shop", "orders")
    stage(store, "other", "things")
    found = results(app.handler({}, None))
    assert found["other"] == {"stream": "other", "error": "away"}
    assert found["shop"]["run"]
    assert "firn_dispatch_failed" in capsys.readouterr().out


def test_the_deployments_places_win_over_those_of_the_configuration(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeJobs.settings.clear()
    for settings in ({}, {"warehouse": "file:///here", "catalog_uri": "sqlite:///c.db"}):
        app = load("dispatch", emr_application="app-1", **settings)
        monkeypatch.setattr(scheduled_rounds, "EmrJobs", FakeJobs)
        app.handler({}, None)
    assert [(s.warehouse, s.catalog_uri) for s in FakeJobs.settings] == [
        ("s3://acme-lake/warehouse", ""), ("file:///here", "sqlite:///c.db")
    ]  # fmt: skip


def test_what_no_job_could_commit_is_sealed_and_waits_with_the_reason(
    load: Load, store: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmrJobs, "runs", lambda *_: [])
    stage(store, "shop", "orders")
    app = load("dispatch", emr_application="app-1", catalog_uri="thrift://metastore:9083", jobs_region="eu-central-1")
    for _ in range(4):
        told = results(app.handler({"force": True}, None))["shop"]
        assert "thrift://metastore:9083 can't be reached" in told["error"]
    assert epochs.numbers(store, "shop") == [1]
    assert holds.read_all(store, "shop").held() == {}


def test_without_an_application_epochs_are_sealed_only(load: Load, store: FaultyStore) -> None:
    stage(store, "shop", "orders")
    assert results(load("dispatch").handler({}, None))["shop"]["sealed"] == (1,)


def test_a_stuck_stream_is_a_metric(
    app: ModuleType, store: FaultyStore, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage(store, "shop", "orders")
    monkeypatch.setattr(FakeJobs, "runs", lambda *_: [Run(str(n), "shop", 1, 1, n, "FAILED") for n in range(1, 21)])
    assert results(app.handler({}, None))["shop"]["stuck"]
    metrics = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "firn_epoch_stuck" in line]
    assert {m["stream"]: m["firn_epoch_stuck"] for m in metrics if "stream" in m} == {"shop": 1, "other": 0}


def test_what_is_quarantined_is_a_metric(
    app: ModuleType, store: FaultyStore, capsys: pytest.CaptureFixture[str]
) -> None:
    at = "2026-03-01T00:00:00.000Z"
    holds.hold(store, Quarantine(1, "shop", 1, at, "failed", "bad", "fix it", table="shop.orders"))
    assert results(app.handler({}, None))["shop"]["quarantined"] == ("shop.orders",)
    metrics = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "firn_quarantined" in line]
    assert {m["stream"]: m["firn_quarantined"] for m in metrics if "stream" in m} == {"shop": 1, "other": 0}


def test_every_dispatch_tells_the_backlog_also_one_that_failed(
    app: ModuleType, store: FaultyStore, capsys: pytest.CaptureFixture[str]
) -> None:
    stage(store, "shop", "orders")
    stage(store, "other", "things")
    assert "error" in results(app.handler({}, None))["other"]
    for stream in ("shop", "other"):
        told = backlog_gate.read(store, stream)
        assert told is not None
        assert (told.batches, told.events, told.over) == (1, 1, False)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {line["stream"]: line["firn_backlog_events"] for line in lines if "firn_backlog_events" in line}
    assert found == {"shop": 1, "other": 1}
    ages = [line["firn_oldest_uncommitted_seconds"] for line in lines if "firn_oldest_uncommitted_seconds" in line]
    assert len(ages) == 2
    assert all(0 <= age < 60 for age in ages)
