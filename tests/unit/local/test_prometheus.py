"""The metrics of the functions' and jobs' logs, as Prometheus reads them."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from firn.metrics import Metric, dead_lines, emf
from firn_local.prometheus import Metrics

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def powertools(stream: str, **values: float) -> str:
    """A line as Powertools prints it: values are lists."""
    group = {"Namespace": "Firn", "Dimensions": [["service", "stream"]], "Metrics": [{"Name": name} for name in values]}
    line = {"_aws": {"Timestamp": 1, "CloudWatchMetrics": [group]}, "service": "ingest_http", "stream": stream}
    return json.dumps(line | {name: [value] for name, value in values.items()}) + "\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs" / "ingest_http.log"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as opened:
        opened.write(text)


def test_what_happened_adds_up_and_how_things_are_is_the_newest(log: Path, tmp_path: Path) -> None:
    metrics = Metrics(tmp_path)
    write(log, powertools("shop", accepted=2, bytes=100) + "started\n" + powertools("shop", accepted=3, bytes=50))
    write(log, powertools("shop", firn_backlog_events=7) + powertools("shop", firn_backlog_events=4))
    assert metrics.text() == (
        "# TYPE firn_accepted_total counter\n"
        'firn_accepted_total{service="ingest_http",stream="shop"} 5\n'
        "# TYPE firn_bytes_total counter\n"
        'firn_bytes_total{service="ingest_http",stream="shop"} 150\n'
        "# TYPE firn_backlog_events gauge\n"
        'firn_backlog_events{service="ingest_http",stream="shop"} 4\n'
    )
    write(log, powertools("shop", accepted=1))
    assert 'firn_accepted_total{service="ingest_http",stream="shop"} 6\n' in metrics.text()
    assert 'firn_accepted_total{service="ingest_http",stream="shop"} 6\n' in metrics.text(), "each line counts once"


def test_what_an_earlier_stack_wrote_is_not_counted(log: Path, tmp_path: Path) -> None:
    write(log, powertools("shop", accepted=2))
    assert Metrics(tmp_path).text() == ""


def test_a_line_counts_once_it_is_ended(log: Path, tmp_path: Path) -> None:
    metrics = Metrics(tmp_path)
    line = powertools("shop", accepted=2)
    write(log, line[:40])
    assert metrics.text() == ""
    write(log, line[40:])
    assert "firn_accepted_total" in metrics.text()


def test_a_jobs_metrics_are_read_too_and_each_counts_under_its_finest_dimensions(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path)
    lines = [*dead_lines("shop", {"public.orders": {"no_key": 2}}, NOW)]
    lines.append(emf({"stream": "shop", "stage": "fold"}, {Metric.STAGE_SECONDS: 1.5}, NOW))
    write(tmp_path / "jobs" / "r1" / "stdout", "".join(json.dumps(line) + "\n" for line in lines))
    assert metrics.text() == (
        "# TYPE dlq_total counter\n"
        'dlq_total{reason="no_key",stream="shop",table="public.orders"} 2\n'
        "# TYPE firn_stage_seconds_total counter\n"
        'firn_stage_seconds_total{stage="fold",stream="shop"} 1.5\n'
    )


def test_lines_of_somebody_else_are_passed_over_and_names_are_only_text(log: Path, tmp_path: Path) -> None:
    metrics = Metrics(tmp_path)
    for wrong in ('{"_aws": 1}', '"_aws" no json', '{"_aws": {"CloudWatchMetrics": [{"Dimensions": []}]}}', "[]"):
        write(log, wrong + "\n")
    write(log, powertools('a"b\\\n', accepted=1))
    metrics.count(Metric.API_REQUESTS, status="202")
    assert 'stream="a\\"b\\\\\\n"} 1\n' in metrics.text()
    assert 'firn_api_requests_total{status="202"} 1\n' in metrics.text()
