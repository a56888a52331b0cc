"""The function that looks at the alerts: once a minute, and when somebody asks for a test."""

from collections.abc import Callable
from types import ModuleType

import pytest

from firn.errors import StorageUnavailable
from firn.log import alert_log, holds
from firn.log.holds import Quarantine
from firn.log.published_configs import publish
from firn.log.store import paths
from tests.unit.functions.conftest import CONFIG
from tests.unit.log.storage_faults import FaultyStore

TICK = {"source": "aws.events", "detail-type": "Scheduled Event"}
ALERTS = """
alerts:
  targets: {oncall: {webhook: 'file:/none/url', secret: 'file:/none/key'}}
  rules: {held: {on: quarantine}}
"""


@pytest.fixture
def app(load: Callable[..., ModuleType]) -> ModuleType:
    return load("alerts")


def test_a_round_begins_what_is_wrong_and_counts_what_reached_nobody(
    app: ModuleType, store: FaultyStore, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(store, CONFIG + ALERTS)
    at = "2026-03-01T00:00:00.000Z"
    holds.hold(store, Quarantine(1, "shop", 1, at, "failed", "bad", "fix it", table="shop.orders"))
    done = app.handler(TICK, None)
    assert (done["begun"], done["failed"]) == (1, 1)
    assert [path.rpartition(".")[2] for path in paths(store, "alerts")] == ["begun", "failed", "try"]
    assert '"firn_alerts_untold":0' in capsys.readouterr().out


def test_without_alerts_nothing_is_looked_at(app: ModuleType, store: FaultyStore) -> None:
    assert app.handler(TICK, None) == {}
    assert store.puts == []


def test_a_round_that_can_read_nothing_fails_where_it_is_counted(
    app: ModuleType, store: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(store, CONFIG + ALERTS)

    def away(*_: object) -> None:
        raise StorageUnavailable("away")

    monkeypatch.setattr(alert_log, "read_all", away)
    with pytest.raises(StorageUnavailable):
        app.handler(TICK, None)


def test_a_test_is_sent_and_begins_nothing(app: ModuleType, store: FaultyStore) -> None:
    assert "no alerts.targets" in app.handler({"test": "", "nonce": "a1"}, None)["error"]
    publish(store, CONFIG + ALERTS)
    [told] = app.handler({"test": "held", "nonce": "a1"}, None)["tests"]
    assert (told["target"], told["outcome"]) == ("oncall", "failed")
    assert "correct alerts.targets.oncall.webhook" in told["why"]
    wrong: list[tuple[dict[str, object], str]] = [
        ({"test": "x", "nonce": "a1"}, "there are oncall, held"), ({"test": "", "nonce": "../"}, "letters and digits"),
        ({"test": None}, "nonce a text"),
    ]  # fmt: skip
    for event, said in wrong:
        assert said in app.handler(event, None)["error"]
    assert paths(store, "alerts") == []
