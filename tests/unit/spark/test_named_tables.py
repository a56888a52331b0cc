"""What a job of care takes a name for: the table of that name, or all that a pattern of firn.yaml stands for."""

from collections.abc import Iterator
from typing import Any

import pytest
from obstore.store import MemoryStore

from firn.config.names import TableName
from firn.config.reader import parse
from firn.log import table_health
from firn.maintenance import unfed
from firn_spark import maintenance_job

CONFIG = parse("care: {also: [reports.*]}\nstreams: {shop: {tables: {'*': {to: 'shop.{table}'}}}}", "firn.yaml")


class Names:
    """A catalog with two tables in each namespace."""

    def names(self, _namespace: str) -> list[str]:
        return ["a*b", "axb"]


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []

    def table(_job: Any, name: TableName) -> Iterator[dict[str, Any]]:
        found.append(str(name))
        yield {"table": str(name), "status": "done"}

    monkeypatch.setattr(maintenance_job._Job, "table", table)
    monkeypatch.setattr(maintenance_job, "Tables", lambda _spark: Names())
    return found


def taken(name: str) -> MemoryStore:
    store = MemoryStore()
    request = maintenance_job.Request("one", ("expire",), ())
    job = maintenance_job._Job(request, store, CONFIG, None, "file:///lake")
    list(job.tables(TableName.parse(name)))
    return store


def test_a_table_of_a_stream_that_has_a_star_in_its_name_is_that_table(looked: list[str]) -> None:
    store = taken("shop.a*b")
    assert looked == ["shop.a*b"]
    assert table_health.read(store, unfed.HEALTH) == {}


def test_a_pattern_stands_for_what_no_stream_feeds(looked: list[str]) -> None:
    store = taken("reports.*")
    assert looked == ["reports.a*b", "reports.axb"]
    assert set(table_health.read(store, unfed.HEALTH)) == {"look:reports.*"}
