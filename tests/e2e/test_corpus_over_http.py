"""Debezium's recordings sent whole over HTTP, each in its encoding, against PostgreSQL's own final state."""

import gzip
import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.e2e.conftest import CORPUS, Stack
from tests.integration import comparing
from tests.soak import LONG

TABLES = comparing.tables(CORPUS / "spec" / "final" / "_tables.json")
COMPARED = {name: about for name, about in TABLES.items() if name != "numspecial"}  # not in these four recordings
KEYLESS = {"nopk_full", "nopk_insert"}
KEYS = {name: about["pk"] or ["a", "b"] for name, about in COMPARED.items() if name not in KEYLESS}
ENCODINGS = {"plain": "debezium", "schema": "debezium", "flat": "flat", "cloudevents": "cloudevents"}
UNTYPED = {"integer", "bigint", "smallint", "text", "uuid", "boolean", "citext", "character varying"}


def stream(name: str, envelope: str) -> str:
    keys = "".join(
        f'      "s.{table}": {{to: "{name}.{table}", key: {json.dumps(key, ensure_ascii=False)}}}\n'
        for table, key in KEYS.items()
    )
    return f'  {name}:\n    envelope: {envelope}\n    tables:\n{keys}      "s.*": {{to: "{name}.{{table}}"}}\n'


# CI sends `flat` in tests/e2e/test_shuffled_corpora.py, which compares its tables with the same rows; so does
# tests/integration/spark/test_corpus.py with `plain` and `schema`, without the stack.
SENT = [name for name in ENCODINGS if LONG or name == "cloudevents"]
STREAMS = "".join(stream(name, ENCODINGS[name]) for name in SENT)
pytestmark = pytest.mark.spark


def send(stack: Stack) -> None:
    """Each of them, as few requests under the body limit."""
    for name in SENT:
        lines = gzip.decompress((CORPUS / "spec" / f"{name}.ndjson.gz").read_bytes()).splitlines(keepends=True)
        # Bare values, as Debezium Server's HTTP sink posts them: no keys, no tombstones, no headers.
        if name in {"plain", "cloudevents"}:
            values = [json.loads(line)["value"] for line in lines]
            lines = [json.dumps(value).encode() + b"\n" for value in values if value is not None]
        body = gzip.compress(b"".join(lines))
        status, answer = stack.post(name, body, Content_Encoding="gzip", Content_Type="application/x-ndjson")
        assert status == 202, answer
        assert answer["rejected"] == 0, answer["errors"][:3]


def differences(stack: Stack, encoding: str, table: str, namespace: str = "") -> list[str]:
    """Of a table against its final CSV. `namespace`: where it is, if not in the encoding's."""
    columns = {column["name"]: column["type"] for column in COMPARED[table]["columns"]}
    columns = {name: kind for name, kind in columns.items() if comparing.is_scalar(kind)}
    if encoding != "schema":  # without a schema only these types are plain JSON
        columns = {name: kind for name, kind in columns.items() if kind.partition("(")[0] in UNTYPED}
    columns = {name: kind for name, kind in columns.items() if name not in IMPOSSIBLE.get(table, set())}
    found = stack.read(namespace or encoding, table).to_pylist()
    expected = comparing.final_rows(CORPUS / "spec" / "final" / f"{table}.csv")
    return comparing.differences(expected, found, columns, KEYS[table])


# What no reader of these events can know (tests/data/README.md): generated columns are not streamed, and numeric(5,-2)
# arrives wrong in every mode.
IMPOSSIBLE: Mapping[str, set[str]] = {"gen": {"area"}, "types": {"nneg"}}
# A table rename makes no event: row 1 came as ren_old's.
RENAMED = {"ren_new": ["missing (1,)"]}
# Neither do renamed and dropped columns: only the incremental snapshot, which `plain` and `schema` have, tells.
NO_INCREMENTAL: Mapping[str, list[str]] = {"evolve": ["(1,) c: expected None, is 'back'"]}
# ExtractNewRecordState drops truncates, so the rows that they removed stay.
NO_TRUNCATE: Mapping[str, list[str]] = {
    "trunc_a": ["not expected (1,)", "not expected (2,)", "not expected (3,)"],
    "trunc_b": ["not expected (1,)", "not expected (2,)"],
}
KNOWN: Mapping[str, Mapping[str, list[str]]] = {
    "plain": RENAMED,
    "schema": RENAMED,
    "flat": {**RENAMED, **NO_INCREMENTAL, **NO_TRUNCATE},
    "cloudevents": {**RENAMED, **NO_INCREMENTAL},
}


@pytest.mark.parametrize("encoding", SENT)
def test_every_keyed_table_equals_the_source(committed: Stack, encoding: str) -> None:
    wrong = {table: differences(committed, encoding, table) for table in sorted(KEYS)}
    assert {table: sorted(lines) for table, lines in wrong.items() if lines} == KNOWN[encoding]


@pytest.mark.parametrize("encoding", SENT)
def test_keyless_tables_hold_every_change_once(committed: Stack, encoding: str) -> None:
    sent: dict[str, list[str]] = {name: [] for name in KEYLESS}
    for line in gzip.decompress((CORPUS / "spec" / f"{encoding}.ndjson.gz").read_bytes()).splitlines():
        op, table = _op_and_table(json.loads(line)["value"])
        if table in KEYLESS:
            sent[table].append(op)
    for table, ops in sent.items():
        assert sorted(committed.read(encoding, table)["_firn_op"].to_pylist()) == sorted(ops), table


def _op_and_table(value: dict[str, Any] | None) -> tuple[str, str]:
    value = (value or {}).get("payload", value) or {}
    if "iodebeziumop" in value:
        return value["iodebeziumop"], value["iodebeziumtable"]
    if "__op" in value:
        return value["__op"], value["__table"]
    return value.get("op", ""), (value.get("source") or {}).get("table", "")
