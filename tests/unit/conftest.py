import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from firn.config.model import Config
from firn.config.reader import parse

CONFIG = """
streams:
  shop:
    envelope: auto
    tables:
      public.orders: {to: shop.orders, key: [id]}
      public.customers: {to: shop.customers, key: [id]}
      sales.twin: {to: sales.twin, key: [id]}
      hr.twin: {to: hr.twin, key: [id]}
"""


@pytest.fixture
def config() -> Config:
    return parse(CONFIG)


@pytest.fixture
def now() -> datetime:
    return datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


@pytest.fixture
def event() -> Callable[..., dict[str, Any]]:
    """A bare Debezium value."""

    def make(number: int = 1, table: str = "orders", op: str = "c") -> dict[str, Any]:
        source = {
            "connector": "postgresql", "schema": "public", "table": table, "ts_ms": 1_700_000_000_000 + number,
            "sequence": f'["{number}","{number}"]', "lsn": number,
        }  # fmt: skip
        return {"op": op, "before": None, "after": {"id": number}, "source": source, "ts_ms": 1_700_000_000_500}

    return make


@pytest.fixture
def body(event: Callable[..., dict[str, Any]]) -> Callable[..., bytes]:
    """A request with that many events of public.orders."""
    return lambda count=1, start=1: json.dumps([event(start + i) for i in range(count)]).encode()
