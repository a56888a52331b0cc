"""What the benchmarks say of themselves: nothing that failed may look as if it held."""

import json
import math
from xml.etree import ElementTree

import pytest

from benchmarks.pairs import ratio
from benchmarks.report import markdown, svg
from benchmarks.results import Case, Must, Plot, Suite, suite_of
from firn.deployment.line_plot import HEIGHT, WIDTH


def suite() -> Suite:
    return Suite(
        "commit",
        "About it.",
        "2026-11-21T16:00+00:00",
        "abc1234",
        "2 cores",
        cases=[
            Case("1K into 1M", "firn", [{"seconds": s, "cpu": 4.0, "peak": 900} for s in (3.0, 1.0, 2.0)], True),
            Case("1K into 1M", "duckdb", [{"seconds": 0.5, "cpu": 0.7, "peak": 300}], True),
            Case("1K into 1M", "dlt", [{"seconds": 9.0, "cpu": 9.0, "peak": 300}], False),
        ],
        musts=[Must("Firn by the floor", 4.0, 2.5), Must("Firn by MERGE", 0.3, 0.4)],
    )


def test_a_line_that_failed_stands_in_the_page_as_failed() -> None:
    page = markdown([suite()], "benchmarks")
    assert "| **FAILS** | commit | Firn by the floor | 4.00 | 2.5 |" in page
    assert "| holds | commit | Firn by MERGE | 0.30 | 0.4 |" in page


def test_a_wrong_result_is_said_and_a_median_is_of_all_runs_by_the_floor() -> None:
    page = markdown([suite()], "benchmarks")
    assert "| **Firn** | 2.00 | 4.0 | 900 | 4.0 | yes |" in page
    assert "| dlt, Iceberg upsert | 9.00 | 9.0 | 300 | 18.0 | **no** |" in page


@pytest.mark.parametrize("value", [math.nan, 2.51, math.inf])
def test_what_was_not_measured_does_not_hold(value: float) -> None:
    assert not Must("…", value, 2.5).held
    assert Must("…", 2.5, 2.5).held


def test_a_case_that_never_ran_has_no_figures() -> None:
    assert math.isnan(suite().case("1K into 1M", "firn-of-another-group").median())


def test_the_stages_of_a_job_stand_under_its_suite() -> None:
    one = suite()
    one.cases[0].runs[-1]["stages"] = {"read": 0.25, "fold": 1.5}
    assert "| 1K into 1M | 0.25 | 1.50 |" in markdown([one], "benchmarks")
    assert "seconds of the last run" not in markdown([suite()], "benchmarks")


def test_results_come_back_from_their_file_as_they_were() -> None:
    one = suite()
    one.plots.append(Plot("p", "t", "x", "y", {"a": [(1.0, 2.0)]}))
    again = suite_of(json.loads(json.dumps(one.json())))
    assert markdown([again], "b") == markdown([one], "b")
    assert again.cases == one.cases
    assert again.musts == one.musts


@pytest.mark.parametrize("log", ["", "x", "xy"])
def test_a_plot_holds_a_point_for_each_that_was_measured(log: str) -> None:
    lines = {"firn & co": [(1e6, 1.2), (1e7, 1.4), (5e7, 1.9)], "MERGE": [(1e6, 1.0), (1e7, 2.7), (5e7, 11.0)]}
    lines["dlt"] = [(1e6, math.nan)]
    root = ElementTree.fromstring(svg(Plot("p", "Growth", "rows", "s", lines, log)))
    circles = root.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 6  # and nothing for what was not measured
    assert all(0 <= float(c.attrib["cx"]) <= WIDTH and 0 <= float(c.attrib["cy"]) <= HEIGHT for c in circles)
    assert float(circles[2].attrib["cy"]) < float(circles[0].attrib["cy"])


def test_the_cost_of_a_million_changes_follows_from_the_cpu_seconds_measured() -> None:
    one = suite()
    one.cases[0].events = 100_000  # 4 CPU s each run: 40 a million, on a vCPU with 4 GB
    a_second = (0.052624 + 4 * 0.0057785) / 3_600
    assert f"| 1K into 1M | 40 | {40 * a_second:.4f} |  |" in markdown([one], "benchmarks")
    one.cases[0].right = False
    assert "EMR Serverless" not in markdown([one], "benchmarks"), "what is wrong has no cost"


@pytest.mark.parametrize(("pairs", "low", "high"), [(6, 1, 6), (9, 2, 8), (25, 8, 18), (31, 10, 22)])
def test_a_ratio_is_told_with_the_pairs_between_which_it_lies(pairs: int, low: int, high: int) -> None:
    """The ranks of the sign test's interval, as tables of it have them for 95 %."""
    found = [(2.0, 2.0 * n) for n in range(pairs, 0, -1)]
    assert ratio(found) == ((pairs + 1) / 2, low, high)
    with pytest.raises(ValueError, match="5 pairs; an interval takes 6"):
        ratio(found[:5])
