import io
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow.parquet as pq
import pytest

from firn.config.event_sources import Registry
from firn.config.model import Config
from firn.config.reader import parse
from firn.ingest.bodies import Limits
from firn.log.store import Store, get, paths
from firn.triggers.deliveries import read_delivery
from firn.triggers.kafka_values import Schemas
from firn.triggers.schema_registry import AnySchema
from firn.triggers.staging import Outcome, take
from tests.unit.triggers.lambda_events import STREAM

CONFIG = f"""
streams:
  clicks:
    envelope: rows
    kinesis: {STREAM}
    tables: {{users: {{to: web.users, key: [id]}}}}
  bank:
    kafka: {{topics: ['bank.*'], registry: {{url: 'http://registry:8081'}}}}
    tables: {{'public.*': {{to: 'bank.{{table}}'}}}}
  crm:
    envelope: rows
    kafka: {{topics: [users, notes], registry: {{url: 'http://registry:8081'}}}}
    tables:
      users: {{to: crm.users, key: [id]}}
      notes: {{to: crm.notes, mode: append}}
  shop:
    kinesis: {STREAM.replace("clicks", "bank")}
    tables: {{'public.*': {{to: 'shop.{{table}}'}}}}
  timed:
    envelope: rows
    kafka: {{topics: [timed], order: timestamp}}
    tables: {{timed: {{to: crm.timed, key: [id]}}}}
"""

Deliver = Callable[..., Outcome]


@pytest.fixture
def config() -> Config:
    return parse(CONFIG)


@pytest.fixture
def deliver(config: Config) -> Deliver:
    def nothing(_number: int) -> AnySchema:
        raise AssertionError("nobody needs the registry here")

    def no_registry(_: Registry) -> Schemas:
        return nothing

    def run(store: Store, event: dict[str, Any], **how: Any) -> Outcome:
        how = {"now": datetime(2026, 3, 1, tzinfo=UTC), "limits": Limits(), "registries": no_registry, **how}
        return take(store, config, read_delivery(event), **how)

    return run


def staged(store: Store, stream: str) -> list[dict[str, Any]]:
    """All staged rows of a stream; columns that say nothing are not in a file."""
    nothing = dict.fromkeys(("after", "before", "order", "key", "connector"))
    found: list[dict[str, Any]] = []
    for path in paths(store, f"staged/{stream}"):
        data = get(store, path)
        assert data is not None
        found += [nothing | row for row in pq.read_table(io.BytesIO(data)).to_pylist()]
    return found
