"""The recordings of real Debezium: what each holds, and that batching and wrapping do not matter."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firn.changes.change import Change, Parsed
from firn.changes.envelopes.parser import parse

CORPUS = Path(__file__).parents[2] / "data" / "corpus"
SPEC = {
    "plain": "debezium",
    "schema": "debezium",
    "flat": "flat",
    "cloudevents": "cloudevents",
}
OPS = {
    "plain": {"r": 304, "c": 2130, "u": 645, "d": 226, "t": 3},
    "schema": {"r": 304, "c": 2130, "u": 645, "d": 226, "t": 3},
    "flat": {"r": 253, "c": 2117, "u": 645, "d": 226},
    "cloudevents": {"r": 253, "c": 2117, "u": 645, "d": 226, "t": 3},
}
IGNORED = {
    "plain": {"tombstone": 226, "transaction": 226, "heartbeat": 16, "message": 2},
    "schema": {"tombstone": 226, "transaction": 226, "heartbeat": 16, "message": 2},
    "flat": {"heartbeat": 16, "message": 2},
    # The converter makes null of everything that is not a data change.
    "cloudevents": {"tombstone": 454, "heartbeat": 15},
}


def recording(name: str) -> bytes:
    return gzip.decompress((CORPUS / f"{name}.ndjson.gz").read_bytes())


def changes(parsed: Parsed) -> list[tuple[Any, ...]]:
    return [(c.op, c.table, c.ts, c.connector, c.order, c.tx_order, c.before, c.after) for c in parsed.changes()]


@pytest.mark.parametrize("name", SPEC)
def test_a_recording_holds_what_its_readme_says(name: str) -> None:
    parsed = parse(recording(f"spec/{name}"), SPEC[name])
    assert Counter(parsed.op) == OPS[name]
    assert parsed.ignored == IGNORED[name]
    assert parsed.rejected == []
    assert {table.split(".")[0] for table in parsed.table} <= {"s", "public"}
    assert "s.Mixed Case-Table" in parsed.table
    assert all(schema is not None for schema in parsed.schema) == (name == "schema")


@pytest.mark.parametrize("name", SPEC)
def test_auto_finds_the_envelope(name: str) -> None:
    assert parse(recording(f"spec/{name}"), "auto") == parse(recording(f"spec/{name}"), SPEC[name])


@pytest.mark.parametrize("name", SPEC)
def test_any_split_into_requests_gives_the_same_changes(name: str) -> None:
    lines = recording(f"spec/{name}").splitlines()[:1500:3]
    whole = parse(b"\n".join(lines), "auto")
    alone = [parse(line, "auto") for line in lines]
    arrays = [parse(b"[" + b",".join(lines[i : i + 7]) + b"]", "auto") for i in range(0, len(lines), 7)]
    for split in (alone, arrays):
        assert [c for parsed in split for c in parsed.changes()] == list(whole.changes())
        assert sum((Counter(parsed.ignored) for parsed in split), Counter()) == whole.ignored


@pytest.mark.parametrize("name", SPEC)
def test_an_event_that_spoils_the_decode_of_all_changes_nothing_for_the_others(name: str) -> None:
    lines = recording(f"spec/{name}").splitlines()[:1500:3]
    spoilt = parse(b"\n".join([*lines, b'{"op":5,"__op":5,"source":5,"value":{}}']), SPEC[name])
    whole = parse(b"\n".join(lines), SPEC[name])
    assert len(spoilt.rejected) == 1
    assert list(spoilt.changes()) == list(whole.changes())
    assert spoilt.ignored == whole.ignored


@pytest.mark.parametrize("name", SPEC)
def test_the_values_alone_say_what_the_records_say(name: str) -> None:
    lines = recording(f"spec/{name}").splitlines()[:1500:3]
    records = parse(b"\n".join(lines), "auto")
    values = [json.dumps(json.loads(line)["value"], ensure_ascii=False, separators=(",", ":")) for line in lines]
    bare = parse(f"[{','.join(values)}]".encode("utf-8", "surrogatepass"), "auto")
    assert bare.op == records.op
    assert (bare.order, bare.ts, bare.tx_order) == (records.order, records.ts, records.tx_order)
    last = [table.rpartition(".")[2] for table in records.table] if name == "flat" else records.table
    assert bare.table == last
    assert all(key is None for key in bare.key)


def test_the_inline_schema_changes_nothing_but_that_it_is_there() -> None:
    # Two engines read one log: their snapshots differ in time, what they streamed is the same.
    plain, schema = (
        [(c.op, c.table, c.order, c.key, c.before, c.after) for c in parse(recording(name), "auto").changes()]
        for name in ("spec/plain", "spec/schema")
    )
    assert [change for change in plain if change[0] != "r"] == [change for change in schema if change[0] != "r"]


def test_a_key_is_handed_on_without_its_schema() -> None:
    parsed = parse(recording("spec/schema"), "auto")
    keys = {table: key for table, key in zip(parsed.table, parsed.key, strict=True) if key is not None}
    assert set(json.loads(keys["s.order_items"])) == {"order_id", "line"}
    assert "s.nopk_full" not in keys


# --- the very requests of Debezium Server's HTTP sink


def requests(name: str) -> Iterator[bytes]:
    for line in recording(f"http_raw/{name}").splitlines():
        yield json.loads(line)["body"].encode()


REQUESTS = {
    "single_schema": ({"c": 10, "d": 3, "u": 1, "t": 1}, {"transaction": 14, "heartbeat": 2}),
    "single_noschema_webhooksig": ({"r": 2, "c": 10, "d": 3, "u": 1, "t": 1}, {"transaction": 14, "heartbeat": 2}),
    "batch_noschema": ({"r": 2, "c": 10, "d": 3, "u": 1, "t": 1}, {"heartbeat": 3}),
    "batch_noschema_webhooksig": ({"r": 2, "c": 10, "d": 3, "u": 1, "t": 1}, {"transaction": 14, "heartbeat": 2}),
    "single_cloudevents": ({"r": 2, "c": 10, "d": 3, "u": 1, "t": 1}, {}),
}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("content", ["json", "auto"])
def test_debezium_servers_requests_are_all_read(name: str, content: Any) -> None:
    ops, ignored = Counter[str](), Counter[str]()
    found: list[Change] = []
    for request in requests(name):
        parsed = parse(request, "auto", content)
        assert parsed.rejected == []
        ops.update(parsed.op)
        ignored.update(parsed.ignored)
        found += parsed.changes()
    assert (ops, ignored) == REQUESTS[name]
    assert {change.table for change in found} == {"raw.c"}
    assert all(change.order for change in found)


def test_a_message_from_the_queue_is_read() -> None:
    message = json.loads((CORPUS / "other" / "sqs_message_debezium_server.json").read_text())
    (change,) = parse(message["Body"].encode(), "auto").changes()
    assert (change.op, change.table, change.order) == ("c", "inv.load", '[null,"103913184"]')
