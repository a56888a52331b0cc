"""A real PostgreSQL."""

from collections.abc import Iterator

import pytest

from firn.backfill.postgres_connection import Session
from tests.integration.backfill.in_process import connected
from tests.postgresql import postgresql


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    with postgresql() as url:
        yield url


@pytest.fixture
def server(address: str) -> Iterator[Session]:
    with connected(address, "test") as opened:
        yield opened
        opened.rows("DROP SCHEMA public CASCADE")
        opened.rows("CREATE SCHEMA public")
