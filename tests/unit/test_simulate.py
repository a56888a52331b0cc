"""What must hold of the simulation of many tenants (benchmarks/simulate.py), whatever its figures are."""

import json
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.scale_costs import AWS, LIMITS, Costs
from benchmarks.scale_load import Ages, Load, anchored, zipf
from benchmarks.simulate import Setting, anchor, row, simulate, table

ROOT = Path(__file__).resolve().parents[2]
FAST = replace(AWS, request=0.02)


def came(load: Load) -> int:
    return sum(load.upto(load.tables, load.seconds)) - sum(load.upto(load.tables, 0.0))


@pytest.mark.parametrize("setting", [
    Setting(), Setting(every=60.0), Setting(every=600.0), Setting(streams=3), Setting(lanes=4), Setting(2, 3),
])  # fmt: skip
@pytest.mark.parametrize("costs", [AWS, FAST])
def test_what_comes_in_is_committed_once(setting: Setting, costs: Costs) -> None:
    load = zipf(50, 2_000, 1.0, 900, seed=3)
    found = simulate(load, costs, setting)
    assert found.age.count == found.cut.count == came(load) == pytest.approx(2_000 * 900, rel=0.01)
    assert found.cut.quantile(1.0) >= found.age.quantile(1.0) > 0


def test_so_it_is_where_tables_rest_in_between() -> None:
    load = anchored(100, 890, 60)
    found = simulate(load, FAST, Setting())
    assert found.age.count == came(load) == pytest.approx(890 * 60, rel=0.01)
    assert 40 <= found.commits / found.rounds <= 100


@pytest.mark.parametrize("tables", [0, 16])
@pytest.mark.parametrize("every", [2.0, 60.0, 600.0])
def test_more_lanes_are_never_less_fresh(tables: int, every: float) -> None:
    load = zipf(200, 2_000, 1.0, 1_800, seed=5)
    load = load.hashed(tables) if tables else load
    lines = [row(load, AWS, Setting(lanes=lanes, every=every), "tenant") for lanes in (1, 2, 4, 8)]
    for name in ("p50", "p99"):
        ages = [one[name] for one in lines]
        # A poll, and what each job's own looks cost.
        assert all(more <= 1.01 * fewer + 0.5 for fewer, more in pairwise(ages)), (name, ages)
    assert all(one["limits"]["jobs at once"]["takes"] == lanes for one, lanes in zip(lines, (1, 2, 4, 8), strict=True))


def test_no_load_costs_nothing_but_the_looks_of_the_schedule() -> None:
    for every in (2.0, 600.0):
        one = row(zipf(100, 0.0, 1.0, 3_600, seed=1), AWS, Setting(every=every), "tenant")
        assert (one["changes"], one["committed"], one["rounds"], one["cpu_a_second"], one["jobs"]) == (0, 0, 0, 0.0, 0)
        assert {name: cost for name, cost in one["dollars"].items() if cost} == {"S3 requests": 1.73}  # 8 a minute


def test_the_same_arguments_give_the_same() -> None:
    def told(seed: int) -> str:
        return json.dumps(row(zipf(60, 500, 1.1, 600, seed), AWS, Setting(lanes=2), "hash"))

    assert told(7) == told(7)
    assert told(7) != told(8)


def test_more_than_a_job_can_take_is_said() -> None:
    one = row(zipf(10, 400_000, 1.0, 60, seed=1), AWS, Setting(), "tenant")
    assert one["behind"]
    assert one["p99"] is None
    assert "never" in table([one])


def test_the_table_fits_into_80_columns() -> None:
    lines = [
        row(zipf(tenants, changes, 1.0, 60, seed=1), AWS, Setting(streams, 1, 600.0), "hash")
        for tenants, changes, streams in ((10, 1, 1), (200, 12_500, 20))
    ]
    assert max(map(len, table(lines).splitlines())) <= 80
    assert "sim" in table(lines)


def test_a_round_by_hand() -> None:
    """One table, ten changes a second, nothing to wait for: sealed at 2.5 seconds, committed one second later."""
    nothing = dict.fromkeys(
        ("request", "key", "state", "ingest", "change", "read", "object", "part", "held", "care"), 0.0
    )
    costs = replace(AWS, **nothing, round=0.45, table=0.55 * AWS.together)
    found = simulate(Load((0.0, 2.0), [{0: 10.0}], 1), costs, Setting())
    assert (found.rounds, found.commits, found.age.count) == (1, 1, 20)
    assert found.cpu == pytest.approx(0.45 + 0.55 * AWS.together)
    assert found.age.quantile(1.0) == pytest.approx(3.0, abs=0.1)  # looked at 2.0: the first is as old then
    assert found.age.quantile(0.01) == pytest.approx(1.0, abs=0.1)


def test_ages_are_spread_evenly_over_their_range() -> None:
    ages = Ages()
    ages.add(0.0, 10.0, 100)
    ages.add(20.0, 20.0, 100)
    assert ages.count == 200
    assert [ages.quantile(share) for share in (0.25, 0.5, 0.75)] == pytest.approx([5.0, 10.0, 20.0], abs=0.1)
    assert Ages().quantile(0.5) == 0


def test_the_page_shows_what_is_computed() -> None:
    load = zipf(10_000, 125_000, 1.0, 3_600, seed=7).hashed(10)
    lines = [row(load, AWS, Setting(10, 1, every, 4e6), "hash") for every in (2.0, 10.0, 60.0, 600.0)]
    shown = "\n".join(table(lines).splitlines()[:-2])
    assert shown in (ROOT / "docs" / "scale.md").read_text(), "run benchmarks.simulate as the page says, and paste"


def test_it_is_as_the_machine_was() -> None:
    runs = (ROOT / "docs" / "benchmarks" / "tenants.json").read_text().splitlines()
    found = {told["tables"]: anchor(told) for told in map(json.loads, runs)}
    assert list(found) == [1000, 100, 300]
    alone = ("p50", "p99", "CPU seconds of the job", "commits")
    every = (*alone, "p99 of cuts", "rounds", "objects put")
    for tables, names, most in ((1000, alone, 0.1), (100, every, 0.25), (300, every, 0.25)):
        assert found[tables].keys() == set(names)
        for name in names:
            assert abs(found[tables][name]["off"]) <= most, (tables, name, found[tables][name])


def test_every_cost_and_limit_says_where_it_is_from() -> None:
    described = Costs.__doc__ or ""
    assert [one.name for one in fields(Costs) if f"    {one.name} " not in described and one.name != "cores"] == []
    assert all(limit.said for limit in LIMITS.values())
