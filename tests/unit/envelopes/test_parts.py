"""What an event holds is counted where it is one event to all who bound a delivery."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from firn.changes.envelopes.json_text import count_alone
from firn.changes.envelopes.limits import LIMITS
from firn.changes.envelopes.parser import parse
from firn.config.reader import parse as parse_config
from firn.errors import RequestError
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


@pytest.mark.parametrize(
    ("envelope", "whole", "row"),
    [
        ("canal", {"type": "INSERT", "isDdl": False, "database": "d", "table": "t"}, ("data", {"id": "1"})),
        ("wal2json", {"xid": 1, "nextlsn": "0/1"}, ("change", {"kind": "message"})),
    ],
)
def test_what_each_row_of_an_event_is_read_with_is_bounded_over_a_request(
    envelope: str, whole: dict[str, Any], row: tuple[str, Any]
) -> None:
    large = {"sql" if envelope == "canal" else "origin": "x" * 20_000}
    event = json.dumps(whole | large | {row[0]: [row[1]] * 1_000})
    limits = replace(LIMITS, size=100_000)  # of which 256 may be repeated
    parsed = parse(event.encode(), envelope, limits=limits)
    assert len(parsed) + sum(parsed.ignored.values()) == 1_000
    with pytest.raises(RequestError) as error:
        parse(f"{event}\n{event}".encode(), envelope, limits=limits)
    assert (error.value.status, error.value.code) == (413, "too_much_repeated")


def test_rows_that_grow_as_they_are_read_are_bounded_over_a_request() -> None:
    """A number of a `set` stands for up to 64 labels."""
    labels = ",".join(f"'{n:02}{'x' * 200}'" for n in range(64))
    head = {"type": "INSERT", "isDdl": False, "database": "d", "table": "t", "es": 1, "pkNames": ["id"]}
    types = {"mysqlType": {"id": "int", "s": f"set({labels})"}, "sqlType": {"id": 4, "s": -7}}
    rows = [{"id": str(n), "s": str(2**64 - 1)} for n in range(100)]  # 13 KB each, of 50 bytes
    event = json.dumps(head | types | {"data": rows}).encode()
    limits = replace(LIMITS, size=100_000)  # of which 16 may be made
    assert len(parse(event, "canal", limits=limits)) == 100
    with pytest.raises(RequestError, match="grow to more than 1,600,000 bytes") as error:
        parse(event + b"\n" + event, "canal", limits=limits)
    assert (error.value.status, error.value.code) == (413, "too_much_repeated")
