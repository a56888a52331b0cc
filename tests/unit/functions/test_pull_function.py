"""functions/pull: which sources an event is for, and what is answered."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from firn.function_context import staging
from firn.log import published_configs
from firn.log.store import open_store
from tests.unit.sources.wal import Wal

APP = Path(__file__).parents[3] / "functions" / "pull" / "app.py"
CONFIG = """
streams:
  shop: {tables: {public.items: {to: shop.items, key: [id]}}}
sources:
  shop: {postgres: 'postgresql://firn@127.0.0.1:1/shop', stream: shop, linger: 0s}
"""


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    monkeypatch.setenv("FIRN_STAGING", f"memory://{request.node.name}")
    staging.cache_clear()
    published_configs.publish(open_store(f"memory://{request.node.name}"), CONFIG)
    spec = importlib.util.spec_from_file_location("pull_app", APP)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    staging.cache_clear()


def test_a_schedules_event_pulls_every_source_and_a_database_that_is_away_is_said(app: Any) -> None:
    event = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}
    (done,) = app.handler(event, None)["sources"]
    assert done["source"] == "shop"
    assert "PostgreSQL at 127.0.0.1:1/shop can't be reached" in done["error"]


def test_one_source_by_name_and_an_unknown_one(app: Any) -> None:
    assert app.handler({"pull": "shop"}, None)["sources"][0]["source"] == "shop"
    assert "no source other" in app.handler({"pull": "other"}, None)["error"]


def test_what_is_new_is_staged_and_counted(app: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from contextlib import contextmanager

    from tests.unit.sources.test_pull import inserts

    log = Wal()
    inserts(log, 1, 3)

    @contextmanager
    def reader_of(source: Any, secrets: Any) -> Any:
        yield lambda: log

    monkeypatch.setattr(app, "reader_of", reader_of)
    assert app.handler({}, None) == {"sources": [{"source": "shop", "plans": 1, "changes": 3, "batches": 1}]}
    assert log.confirmed == log.end
    assert '"firn_pull_stopped":0' in capsys.readouterr().out
