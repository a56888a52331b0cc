import json
from collections import Counter
from datetime import UTC, datetime

import pytest

from firn.config.model import Config
from firn.ingest.accept import accept
from firn.ingest.dead_letter_metrics import print_dead
from firn.log import layout
from firn.metrics import dead_lines, known_tables
from tests.unit.log.storage_faults import FaultyStore

WHEN = datetime(2026, 3, 1, tzinfo=UTC)


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
