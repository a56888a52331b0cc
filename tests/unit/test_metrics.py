import json
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from firn.config.model import Config
from firn.ingest.accept import accept
from firn.ingest.dead_letter_metrics import print_dead
from firn.log import layout
from firn.metrics import Metric, dead_lines, known_tables
from tests.unit.log.storage_faults import FaultyStore

WHEN = datetime(2026, 3, 1, tzinfo=UTC)
ROOT = Path(__file__).parents[2]
MONITORING = (ROOT / "infra" / "monitoring.yaml").read_text(encoding="utf-8")


def test_every_metric_is_written_and_by_nothing_but_its_line_in_the_registry() -> None:
    folders = ("layers/core/python/firn", "functions", "infra/local/firn_local")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    code = "".join(path.read_text(encoding="utf-8").rpartition("\n\ndef emf(")[2] for path in files)
    assert [metric.name for metric in Metric if not re.search(rf"\bMetric\.{metric.name}\b", code)] == []
    own = [metric.value for metric in Metric if metric.value.startswith(("firn_", "dlq_"))]
    assert [name for name in own if f'"{name}"' in code] == []
    assert re.findall(r"""add_metric\(["'].*""", code) == []


def test_alarms_look_at_the_metrics_that_are_said_to_have_one() -> None:
    alarms = re.findall(r"Namespace: !Sub Firn/\$\{Environment\}\n +MetricName: (\w+)", MONITORING)
    assert set(alarms) == {metric.value for metric in Metric if "alarm" in metric.shown}


def test_the_dashboard_shows_the_metrics_that_are_said_to_be_on_it() -> None:
    shown = re.findall(r'''MetricName=\\"(\w+)|\["Firn/\$\{Environment\}", "(\w+)"''', MONITORING)
    assert {one or other for one, other in shown} == {m.value for m in Metric if "dashboard" in m.shown}


def test_the_table_in_operations_has_a_line_for_each_metric_and_no_other() -> None:
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    table = text.partition("| metric | unit | kind | shown by | says |\n|---|---|---|---|---|\n")[2].partition("\n\n")[
        0
    ]
    assert table.splitlines() == [
        f"| `{m.value}` | {m.unit} | {m.kind} | {m.shown} | {m.says} |".replace("|  |", "| |") for m in Metric
    ]


def test_each_table_and_reason_is_a_line_in_the_embedded_metric_format() -> None:
    first, second = dead_lines("shop", {"public.a": {"no_key": 2}, "": {"bad_json": 1}}, WHEN)
    assert {name: first[name] for name in ("stream", "table", "reason", "dlq_total")} == {
        "stream": "shop", "table": "public.a", "reason": "no_key", "dlq_total": 2
    }  # fmt: skip
    assert second["table"] == "unknown"
    about = first["_aws"]
    assert about["Timestamp"] == 1_772_323_200_000
    (metrics,) = about["CloudWatchMetrics"]
    assert metrics["Dimensions"] == [["stream", "table", "reason"], ["stream"], []]
    assert metrics["Metrics"] == [{"Name": "dlq_total", "Unit": "Count"}]
    # What the format asks for: a value for each dimension and metric that is named.
    assert all(name in first for dimensions in metrics["Dimensions"] for name in dimensions)


def test_letters_of_firns_own_mistakes_count_once_more() -> None:
    (line,) = dead_lines("shop", {"public.a": {"internal": 3}}, WHEN)
    assert (line["dlq_total"], line["dlq_internal"]) == (3, 3)
    (metrics,) = line["_aws"]["CloudWatchMetrics"]
    assert [one["Name"] for one in metrics["Metrics"]] == ["dlq_total", "dlq_internal"]


def test_names_of_tables_that_no_rule_takes_make_no_metrics(config: Config) -> None:
    counts = Counter(
        {("public.orders", "no_key"): 2, ("made.up", "x"): 1, ("else", "x"): 1, ("twin", "y"): 1, (None, "x"): 1}
    )
    assert known_tables(counts, config.streams["shop"]) == {"public.orders": {"no_key": 2}, "": {"x": 3, "y": 1}}


def test_a_batch_counts_from_its_footer_and_storage_that_is_away_fails_nothing(
    config: Config, now: datetime, capsys: pytest.CaptureFixture[str]
) -> None:
    store = FaultyStore()
    body = b'{"op":"x","source":{"schema":"public","table":"orders"}}\n{"op":"c"}\n[]'
    done = accept(store, config, "shop", body, now=now)
    print_dead(store, config.streams["shop"], done.batch_id, WHEN)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(line["table"], line["reason"]): line["dlq_total"] for line in lines} == {
        ("public.orders", "unknown_op"): 1, ("unknown", "missing_table"): 1, ("unknown", "not_an_object"): 1
    }  # fmt: skip
    store.away = True
    print_dead(store, config.streams["shop"], layout.batch_id("shop", now, bytes(8)), WHEN)
    assert capsys.readouterr().out == ""
