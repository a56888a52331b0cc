"""What must hold of the simulation of lanes (benchmarks/hot_table.py), and how far it is from runs that wait."""

from argparse import Namespace
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.hot_table import HotCosts, in_lanes, rows, spent, table

ROOT = Path(__file__).resolve().parents[2]
GIVEN = Namespace(shards=8, changes=1_000_000, lanes=[1, 2, 4, 8], cores=[2, 4, 16], request_ms=100.0)
# benchmarks.shards --events 100000 --wait 1.7 on two busy cores: the median of three turns, by one lane's time
MEASURED = {2: 0.60, 4: 0.47}


def test_the_same_arguments_give_the_same_and_the_page_shows_it() -> None:
    found = list(rows(GIVEN))
    assert found == list(rows(GIVEN))
    assert table(found) in (ROOT / "docs" / "scale.md").read_text(), (
        "run benchmarks.hot_table as the page says, and paste"
    )
    assert max(map(len, table(found).splitlines())) <= 80


@pytest.mark.parametrize("lanes", MEASURED)
def test_it_is_as_the_machine_was(lanes: int) -> None:
    one, several = (spent(100_000, 8, n, 2, HotCosts()).seconds for n in (1, lanes))
    assert several / one == pytest.approx(MEASURED[lanes], abs=0.1)


@pytest.mark.parametrize("request_seconds", [0.0, 0.025, 0.1])
def test_more_lanes_or_cores_never_take_longer_and_as_much_of_the_cpu(request_seconds: float) -> None:
    costs = replace(HotCosts(), request=request_seconds)
    for cores in (1, 2, 4):
        each = [spent(100_000, 8, lanes, cores, costs) for lanes in (1, 2, 4, 8)]
        assert all(more.seconds <= 1.02 * fewer.seconds for fewer, more in pairwise(each))
        assert len({one.cpu for one in each}) == 1
        assert all(one.lanes >= spent(100_000, 8, 8, 16, costs).lanes - 1e-9 for one in each)


def test_lanes_by_hand() -> None:
    # One after the other; side by side on two cores; one core, or Python's lock, is all there is.
    assert in_lanes(4, 1, 2, 0.1, 0.2, 0.7) == pytest.approx(4.0)
    assert in_lanes(4, 2, 2, 0.0, 0.5, 0.5) == pytest.approx(2.0)
    assert in_lanes(4, 4, 1, 0.0, 1.0, 0.0) == pytest.approx(4.0)
    assert in_lanes(4, 4, 8, 1.0, 0.0, 0.0) == pytest.approx(4.0)
    assert in_lanes(4, 4, 8, 0.0, 0.0, 1.0) == pytest.approx(1.0)
