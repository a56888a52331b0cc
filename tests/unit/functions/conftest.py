import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from firn import function_context
from firn.function_context import Staging
from firn.log.backlog_gate import Gate
from firn.log.published_configs import CurrentConfig, publish
from firn.settings import Settings
from tests.unit.log.storage_faults import FaultyStore

FUNCTIONS = Path(__file__).parents[3] / "functions"
CONFIG = """
warehouse: s3://acme-lake/warehouse
streams:
  shop:
    envelope: auto
    tables:
      public.orders: {to: shop.orders, key: [id]}
  other:
    tables:
      public.things: {to: shop.things, key: [id]}
"""


@pytest.fixture
def store() -> FaultyStore:
    store = FaultyStore()
    publish(store, CONFIG)
    store.puts.clear()
    return store


@pytest.fixture
def load(store: FaultyStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ModuleType]]:
    """Loads functions/{name}/app.py as Lambda would, on the fake store; keywords replace settings."""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "test")
    monkeypatch.setenv("POWERTOOLS_LOG_LEVEL", "CRITICAL")

    def make(name: str, **settings: object) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"{name}_app", FUNCTIONS / name / "app.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        opened = Staging(
            Settings(**{"staging": "memory://x", **settings}),  # type: ignore[arg-type]
            store,
            CurrentConfig(store, seconds=0),
            Gate(store, seconds=0),
        )
        monkeypatch.setattr(module, "staging", lambda: opened)
        return module

    yield make
    function_context.staging.cache_clear()
