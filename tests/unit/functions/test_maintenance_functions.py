"""compact and expire: a job where something is due, and next to nothing where nothing is."""

from collections.abc import Callable
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, ClassVar

import pytest

from firn.dispatch import scheduled_rounds
from firn.log import layout, pause, table_health
from firn.log.table_health import Health
from tests.unit.log.storage_faults import FaultyStore


class FakeJobs:
    """EMR Serverless with a list. `running`: names of active runs; `started`: (script, arguments, name, token)."""

    running: ClassVar[list[str]] = []
    started: ClassVar[list[tuple[str, list[str], str, str]]] = []

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def active(self, prefix: str) -> dict[str, str]:
        return {name: "00run" for name in self.running if name.startswith(prefix)}

    def start_script(self, script: str, arguments: list[str], name: str, token: str, _tags: object) -> str:
        self.started.append((script, list(arguments), name, token))
        return "00run"


@pytest.fixture(params=["compact", "expire"])
def function(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def app(function: str, load: Callable[..., ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    app = load(function, emr_application="00app")
    FakeJobs.started.clear()
    FakeJobs.running.clear()
    monkeypatch.setattr(scheduled_rounds, "EmrJobs", FakeJobs)
    return app


def told(store: FaultyStore, *, debt: bool, table: str = "shop.orders") -> None:
    now = layout.instant(datetime.now(UTC))
    numbers: dict[str, Any] = {"rewrite_bytes": 10**6, "small": 9, "snapshots": 9000} if debt else {"snapshots": 20}
    table_health.write(store, "shop", [Health(table, now, orphans_at=now, **numbers)])


def did(app: ModuleType) -> dict[str, Any]:
    """What was done, but for the staged log."""
    return {name: value for name, value in app.handler({}, None).items() if name != "swept"}


def test_nothing_is_known_and_nothing_is_done(app: ModuleType, store: FaultyStore) -> None:
    assert did(app) == {"due": {}, "run": None, "left": None}
    assert FakeJobs.started == []


def test_tables_that_are_well_cost_a_few_reads(app: ModuleType, store: FaultyStore) -> None:
    told(store, debt=False)
    app.handler({}, None)  # the configuration is kept from here on
    before = store.reads
    assert app.handler({}, None)["run"] is None
    assert FakeJobs.started == []
    assert store.reads - before <= 9, "the configuration, and of each stream its health, and how far it was swept"


def test_debt_starts_one_job_for_what_is_due(app: ModuleType, store: FaultyStore, function: str) -> None:
    told(store, debt=True)
    done = app.handler({}, None)
    assert (done["run"], set(done["due"]["shop.orders"])) == ("00run", {function})
    [(script, arguments, name, _)] = FakeJobs.started
    assert (script, name[:5]) == ("care.py", "care-")
    assert arguments[arguments.index("--do") + 1] == function
    assert arguments[arguments.index("--table") + 1] == "shop.orders"


def test_the_same_quarter_of_an_hour_asks_with_the_same_token(app: ModuleType, store: FaultyStore) -> None:
    told(store, debt=True)
    app.handler({}, None)
    app.handler({}, None)
    assert len({token for *_, token in FakeJobs.started}) == 1


def test_a_paused_stack_cares_for_nothing(app: ModuleType, store: FaultyStore) -> None:
    told(store, debt=True)
    pause.begin(store)
    assert (did(app)["run"], FakeJobs.started) == (None, [])
    pause.end(store)
    assert did(app)["run"] == "00run"


@pytest.mark.parametrize("running", ["care-1234", "firn-shop-1-2-1"])
def test_a_job_that_does_it_already_is_left_alone(app: ModuleType, store: FaultyStore, running: str) -> None:
    told(store, debt=True)
    FakeJobs.running.append(running)
    done = app.handler({}, None)
    assert (done["run"], FakeJobs.started) == (None, [])
    assert done["left"]


def test_a_table_that_no_stream_feeds_any_more_is_nobodys(app: ModuleType, store: FaultyStore) -> None:
    told(store, debt=True, table="elsewhere.orders")
    assert did(app) == {"due": {}, "run": None, "left": None}
    assert FakeJobs.started == []
