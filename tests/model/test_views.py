"""Views in jobs that die, are held and are resumed: in the end each is its query over the tables at the newest cuts."""

import pytest

from tests.faults.calls import Counting
from tests.model.views_world import (
    APART,
    TOGETHER,
    Lakes,
    configuration,
    read_views,
)


@pytest.fixture(autouse=True)
def views(monkeypatch: pytest.MonkeyPatch) -> None:
    read_views(monkeypatch)


def begun(streams: str = TOGETHER, gate: Counting | None = None) -> Lakes:
    """Two orders and a customer, and their views."""
    lakes = Lakes(configuration(streams=streams), gate)
    lakes.order(1, 1)
    lakes.order(2, 2)
    lakes.customer(1, "a")
    return lakes


@pytest.mark.parametrize("streams", [TOGETHER, APART])
def test_each_view_is_its_query_over_the_newest_cuts(streams: str) -> None:
    lakes = begun(streams)
    lakes.settle()
    for n in range(3, 6):
        lakes.order(n, n % 3)
        lakes.customer(n, f"c{n % 2}")
        lakes.settle()
    lakes.delete("shop", 1)
    lakes.delete("crm", 3)
    lakes.settle()
    lakes.check_history()
