"""What an event holds is counted where it is one event to all who bound a delivery."""

import json
from datetime import UTC, datetime

import pytest

from firn.changes.envelopes.json_text import count_alone
from firn.changes.envelopes.limits import LIMITS
from firn.config.reader import parse as parse_config
from firn.ingest.accept import accept_messages
from tests.emitters import lines
from tests.unit.log.storage_faults import FaultyStore

NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.mark.parametrize("whitespace", [(",", ":"), (", ", ": "), (" ,\n ", ":\n")])
def test_a_queue_message_counts_by_what_it_holds(whitespace: tuple[str, str]) -> None:
    rows = [{"id": str(n)} for n in range(7)]
    for whole in ({"data": rows, "isDdl": False}, {"change": rows}, {"Records": rows}):
        assert count_alone(json.dumps(whole, separators=whitespace).encode(), LIMITS) == 7
    assert count_alone(json.dumps(rows, separators=whitespace).encode(), LIMITS) == 7
    assert count_alone(json.dumps({"rows": rows}, separators=whitespace).encode(), LIMITS) == 1


def test_no_recorded_event_holds_more_than_it_is_counted_for() -> None:
    for line in lines("wal2json/v1.ndjson.gz"):
        assert count_alone(line, LIMITS) >= len(json.loads(line)["change"])
    for line in lines("canal/flat.ndjson.gz"):
        assert count_alone(line, LIMITS) >= len(json.loads(line)["data"] or [None])


def test_after_a_message_that_is_refused_whole_the_next_ones_rows_stand_behind_all_of_its() -> None:
    """It may be taken one day, and its rows count by where they came."""
    config = parse_config("streams: {s: {envelope: canal, tables: {'*': {to: 'l.{table}'}}}}")
    row = {"data": [{"id": "1"}], "database": "d", "table": "t", "type": "INSERT", "isDdl": False, "es": 1}
    broken = json.dumps([row | {"data": [{"id": str(n)} for n in range(5)]}]).encode()[:-1]
    done = accept_messages(FaultyStore(), config, "s", [broken, json.dumps(row | {"type": "?"}).encode()], now=NOW)
    assert [one.reason for one in done.errors] == ["bad_json", "unknown_op"]
    assert done.errors[1].index >= 5
