"""job_events: the end of a run is a reason to dispatch its streams, however often and late it is told."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, ClassVar

import pytest

from firn.dispatch import scheduled_rounds
from firn.log import epochs
from firn.log.store import paths
from firn.log.usage_layout import month_of
from firn.runs.job_runs import Run
from firn.usage import job_account
from firn.usage.job_account import CARE, Resources
from tests.unit.functions.test_dispatch_function import stage
from tests.unit.log.storage_faults import FaultyStore


class FakeJobs:
    """Knows the names of its runs; `started` are the starts that were asked for."""

    names: ClassVar[dict[str, str]] = {
        "00run": "firn-shop-1-1-1", "00care": "care-abc", "00other": "nightly-report",
    }  # fmt: skip
    started: ClassVar[list[str]] = []

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def ended(self, run: str) -> tuple[str, Resources]:
        return self.names.get(run, ""), Resources(120, 480)

    def runs(self, since: object) -> list[Run]:
        return [Run(name, *_parts(name), "RUNNING") for name in self.started]

    def start(self, stream: str, first: int, last: int, attempt: int) -> str:
        self.started.append(f"{stream}/{first}/{last}/{attempt}")
        return self.started[-1]


def _parts(name: str) -> tuple[str, int, int, int]:
    stream, first, last, attempt = name.split("/")
    return stream, int(first), int(last), int(attempt)


@pytest.fixture
def app(load: Callable[..., ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    app = load("job_events", emr_application="00app")
    FakeJobs.started.clear()
    monkeypatch.setattr(app, "EmrJobs", FakeJobs)
    monkeypatch.setattr(scheduled_rounds, "EmrJobs", FakeJobs)
    return app


def ended(run: str = "00run", state: str = "SUCCESS", application: str = "00app") -> dict[str, Any]:
    return {"detail": {"applicationId": application, "jobRunId": run, "state": state}}


def test_the_end_of_a_run_starts_the_next_one(app: ModuleType, store: FaultyStore) -> None:
    stage(store, "shop", "orders")
    answer = app.handler(ended(), None)
    json.dumps(answer)
    assert [one["stream"] for one in answer["streams"]] == ["shop", "other"], "both share their runs"
    assert FakeJobs.started == ["shop/1/1/1"]


def test_what_a_run_used_is_noted_once_and_of_no_job_of_others(app: ModuleType, store: FaultyStore) -> None:
    for run in ("00run", "00run", "00care", "00other", "00unknown"):
        app.handler(ended(run), None)
    month = month_of(datetime.now(UTC))
    assert job_account.total(store, "shop", month) == Resources(120, 480)
    assert job_account.total(store, CARE, month) == Resources(120, 480)
    assert len(paths(store, "usage/jobs")) == 2
    assert job_account.total(store, "shop", "2020-01") == Resources()


def test_a_run_is_of_the_month_in_which_it_ended_whenever_that_is_told(app: ModuleType, store: FaultyStore) -> None:
    for at in ("2025-12-31T23:59:59Z", "2025-12-31T23:59:59Z", "2026-01-01T00:30:00+01:00"):
        app.handler(ended() | {"time": at}, None)
    app.handler(ended("00care") | {"time": "then"}, None)
    assert job_account.total(store, "shop", "2025-12") == Resources(120, 480)
    assert job_account.total(store, CARE, month_of(datetime.now(UTC))) == Resources(120, 480)
    assert len(paths(store, "usage/jobs")) == 2


def test_the_same_event_twice_starts_one_run(app: ModuleType, store: FaultyStore) -> None:
    stage(store, "shop", "orders")
    app.handler(ended(), None)
    assert app.handler(ended(), None)["streams"][0]["waits_for"] == "shop/1/1/1"
    assert FakeJobs.started == ["shop/1/1/1"]
    assert epochs.numbers(store, "shop") == [1]


@pytest.mark.parametrize(
    "event",
    [
        ended("00unknown"),
        ended("00other"),
        ended(state="RUNNING"),
        ended(application="00else"),
        {"detail": {}},
        {},
    ],
)
def test_what_is_no_end_of_a_commit_job_does_nothing(
    app: ModuleType, store: FaultyStore, event: dict[str, Any]
) -> None:
    stage(store, "shop", "orders")
    assert app.handler(event, None) == {"streams": []}
    assert FakeJobs.started == []


def test_the_run_of_a_stream_that_is_configured_no_more_does_nothing(
    app: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FakeJobs.names, "00run", "firn-gone-1-1-1")
    assert app.handler(ended(), None) == {"streams": []}


def test_a_failed_run_is_counted(app: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    app.handler(ended(state="FAILED"), None)
    app.handler(ended(state="SUCCESS"), None)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (failed,) = [line for line in lines if "firn_job_failed" in line]
    assert (failed["stream"], failed["firn_job_failed"]) == ("shop", 1)
    # Alarms can't name streams: the same once more, without a dimension.
    assert failed["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["service", "stream"], []]
