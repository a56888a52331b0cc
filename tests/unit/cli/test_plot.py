"""The plot of freshness is well-formed SVG that shows each commit where it belongs."""

import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta

import pytest

from firn.deployment import line_plot
from firn.log.freshness import Commit
from firn_cli.plot import freshness_svg

T = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
SVG = "{http://www.w3.org/2000/svg}"


def commit(minute: int, *lags: int) -> Commit:
    at = T + timedelta(minutes=minute)
    return Commit(minute, at, tuple((at - timedelta(seconds=lag), 1) for lag in lags), 10)


def points(line: ET.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in line.attrib["points"].split())]


def texts(root: ET.Element) -> list[str]:
    return [text.text or "" for text in root.iter(f"{SVG}text")]


def test_each_commit_is_a_point_of_each_line() -> None:
    root = ET.fromstring(freshness_svg({"shop": [commit(0, 10), commit(30, 10, 40), commit(60, 20)]}, T, T + HOUR))
    p50, p99 = (points(line) for line in root.iter(f"{SVG}polyline"))
    assert [x for x, _ in p50] == [x for x, _ in p99] == [64, 337, 610]
    # The axis goes to 40 s: from 252 (0 s) up to 36.
    assert [y for _, y in p50] == [198, 198, 144]
    assert [y for _, y in p99] == [198, 36, 144]
    assert "shop: seconds from acceptance to commit (p50 10.0, p99 40.0; 4 events in 3 commits, 0 events/s)" in texts(
        root
    )
    assert {"0", "10", "20", "30", "40", "12:00", "12:30", "13:00"} <= set(texts(root))


def test_each_stream_has_its_panel_and_its_name_is_only_text() -> None:
    root = ET.fromstring(freshness_svg({"<b>&": [commit(1, 1)], "idle": []}, T, T + HOUR))
    assert len(list(root.iter(f"{SVG}g"))) == 2
    assert any(text.startswith("<b>&: seconds") for text in texts(root))
    assert "idle: nothing was committed" in texts(root)
    assert root.attrib["viewBox"] == "0 0 760 600"


def test_without_streams_there_is_an_empty_plot() -> None:
    assert list(ET.fromstring(freshness_svg({}, T, T + HOUR)).iter(f"{SVG}g")) == []


@pytest.mark.parametrize(
    ("top", "marks"),
    [(0, [0, 1]), (40, [0, 10, 20, 30, 40]), (41, [0, 10, 20, 30, 40, 50]), (0.7, [0, 0.2, 0.4, 0.6, 0.8])],
)
def test_marks_are_round_and_reach_the_top(top: float, marks: list[float]) -> None:
    axis = line_plot.linear(top)
    assert list(axis.marks) == pytest.approx(marks)
    assert (axis.share(0), axis.share(marks[-1])) == (0, 1)
