"""Values with a schema's id: decoded as the same value in JSON, and what is broken is a dead letter."""

import io
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from fastavro import schemaless_writer
from obstore.store import MemoryStore

from firn.auth.secrets import Secrets
from firn.changes.decode.connect_schema import columns_of
from firn.config.event_sources import Registry
from firn.errors import EventError, TransientError
from firn.log.dead_letters.letters import read_dead
from firn.log.store import paths
from firn.triggers.avro import AvroSchema
from firn.triggers.schema_registry import Schemas
from tests.unit.triggers.conftest import Deliver, staged
from tests.unit.triggers.lambda_events import kafka

URL = Registry("http://registry:8081")
# As Debezium's AvroConverter registers them, shortened.
ROW = {
    "type": "record", "name": "Value", "connect.name": "bank.public.accounts.Value", "fields": [
        {"name": "id", "type": "int"},
        {"name": "balance", "type": {
            "type": "bytes", "scale": 2, "precision": 12, "connect.version": 1, "logicalType": "decimal",
            "connect.parameters": {"scale": "2", "connect.decimal.precision": "12"},
            "connect.name": "org.apache.kafka.connect.data.Decimal"}},
        {"name": "opened", "type": ["null", {"type": "int", "connect.name": "io.debezium.time.Date"}], "default": None},
        {"name": "changed", "type": {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}  # fmt: skip
SOURCE = {
    "type": "record", "name": "Source", "namespace": "io.debezium.connector.postgresql", "fields": [
        {"name": "connector", "type": "string"}, {"name": "ts_ms", "type": "long", "default": 0},
        {"name": "sequence", "type": ["null", "string"], "default": None},
        {"name": "schema", "type": "string"}, {"name": "table", "type": "string"},
    ],
}  # fmt: skip
ENVELOPE = {
    "type": "record", "name": "Envelope", "namespace": "bank.public.accounts", "connect.name": "bank.Envelope",
    "fields": [
        {"name": "before", "type": ["null", ROW], "default": None}, {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": SOURCE}, {"name": "op", "type": "string"},
    ],
}  # fmt: skip
# The same by JsonConverter.
FIELDS = [
    {"field": "id", "type": "int32", "optional": False},
    {"field": "balance", "type": "bytes", "optional": False, "name": "org.apache.kafka.connect.data.Decimal",
     "parameters": {"scale": "2", "connect.decimal.precision": "12"}},
    {"field": "opened", "type": "int32", "optional": True, "name": "io.debezium.time.Date"},
    {"field": "changed", "type": "int64", "optional": False, "name": "io.debezium.time.MicroTimestamp"},
    {"field": "note", "type": "string", "optional": True},
]  # fmt: skip
ACCOUNT = {"id": 7, "balance": Decimal("12.50"), "opened": 19_000, "changed": 1_700_000_000_000_001, "note": None}
PLACE = {"connector": "postgresql", "ts_ms": 5, "sequence": '["1","2"]', "schema": "public", "table": "accounts"}


def encoded(schema: dict[str, Any], value: Any, number: int = 1, id_bytes: int = 4) -> bytes:
    out = io.BytesIO()
    schemaless_writer(out, json.loads(json.dumps(schema)), value)
    return b"\0" + number.to_bytes(id_bytes) + out.getvalue()


class Asked:
    """A registry that answers what it is told to, and remembers what it was asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers, self.urls, self.headers, self.away = answers, list[str](), list[dict[str, str]](), False

    def __call__(self, url: str, headers: dict[str, str]) -> bytes | None:
        self.urls.append(url)
        self.headers.append(headers)
        if self.away:
            raise TransientError("the registry can't be asked")
        answer = self.answers.get("n" + url.rpartition("/")[2])
        return None if answer is None else json.dumps(answer).encode()


@pytest.fixture
def registry() -> Asked:
    return Asked(
        n1={"schema": json.dumps(ENVELOPE)},
        n2={"schema": json.dumps({"type": "object"}), "schemaType": "JSON"},
        n3={"schema": "syntax", "schemaType": "PROTOBUF"},
        n4={"schema": json.dumps(ROW)},
        n5={"schema": '{"type": "record", "name": "x"}'},
    )


@pytest.fixture
def send(deliver: Deliver, registry: Asked) -> Callable[..., Any]:
    schemas = Schemas(URL, Secrets(), registry)
    return lambda store, event: deliver(store, event, registries=lambda _: schemas)


def test_debeziums_avro_is_staged_as_its_json_with_the_same_types(send: Any, registry: Asked) -> None:
    store = MemoryStore()
    value = {"before": None, "after": ACCOUNT, "source": PLACE, "op": "c"}
    done = send(store, kafka([(0, n, None, encoded(ENVELOPE, value)) for n in range(3)], "bank.public.accounts"))
    assert done.failed is None
    one = staged(store, "bank")[0]
    assert (one["table"], one["op"], one["order"], one["connector"]) == (
        "public.accounts",
        "c",
        '["1","2"]',
        "postgresql",
    )
    assert json.loads(one["after"]) == {**ACCOUNT, "balance": "BOI="}
    connect = json.dumps({"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": FIELDS}]})
    assert columns_of(one["schema"].encode()) == columns_of(connect.encode())
    assert registry.urls == ["http://registry:8081/schemas/ids/1"], "asked once"


def test_a_row_of_avro_has_its_values_as_json_writes_them() -> None:
    fields = [
        ("amount", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}),
        ("day", {"type": "int", "logicalType": "date"}),
        ("at", {"type": "long", "logicalType": "timestamp-micros"}),
        ("raw", "bytes"), ("kind", {"type": "enum", "name": "k", "symbols": ["A"]}),
        ("tags", {"type": "array", "items": "string"}),
        ("bad", "double"),
    ]  # fmt: skip
    schema = {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in fields]}
    value = {
        "amount": Decimal("12345678901234567.125"), "day": date(2026, 3, 1),
        "at": datetime(2026, 3, 1, 1, 2, 3, 4, UTC),
        "raw": b"\xff", "kind": "A", "tags": ["x"], "bad": float("nan"),
    }  # fmt: skip
    text = AvroSchema(json.dumps(schema)).json(encoded(schema, value)[5:], typed=False)
    assert text == (
        b'{"amount":12345678901234567.125,"day":"2026-03-01","at":"2026-03-01T01:02:03.000004Z","raw":"/w==",'
        b'"kind":"A","tags":["x"],"bad":"NaN"}'
    )


def test_json_with_a_schemas_id_is_its_json_and_a_key_of_avro_names_the_row(send: Any) -> None:
    store = MemoryStore()
    value = b"\0" + (2).to_bytes(4) + b'{"name": "Ada"}'
    send(store, kafka([(0, 0, encoded(ROW, ACCOUNT, 4), value), (0, 1, encoded(ROW, ACCOUNT, 4), None)]))
    assert [(one["op"], one["after"] or one["before"]) for one in staged(store, "crm")] == [
        ("c", '{"id":7,"name": "Ada"}'),
        ("d", '{"id":7}'),
    ]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (encoded(ROW, ACCOUNT, 9), "unknown_schema"),
        (encoded(ROW, ACCOUNT, 3), "bad_schema"),
        (encoded(ROW, ACCOUNT, 5), "bad_schema"),
        (encoded(ROW, ACCOUNT, 4)[:-3], "bad_record"),
        (encoded(ROW, ACCOUNT, 4) + b"x", "bad_record"),
        (b"\0\0", "bad_record"),
    ],
)
def test_a_value_that_can_not_be_decoded_is_a_dead_letter_with_its_bytes(send: Any, value: bytes, reason: str) -> None:
    store = MemoryStore()
    assert send(store, kafka([(0, 0, b"1", value), (0, 1, b"2", b"{}")])).failed is None
    [letter] = [letter for path in paths(store, "dead/crm") for letter in read_dead(store, path)]
    assert (letter.reason, letter.original) == (reason, value)
    assert len(staged(store, "crm")) == 1


def test_while_the_registry_is_away_what_came_before_is_staged_and_the_rest_comes_again(
    send: Any, registry: Asked
) -> None:
    store = MemoryStore()
    event = kafka([(0, 0, b"1", b"{}"), (0, 1, b"2", encoded(ROW, ACCOUNT, 4)), (0, 2, b"3", b"{}")])
    registry.away = True
    assert send(store, event).failed == 1
    assert len(staged(store, "crm")) == 1
    registry.away = False
    assert send(store, event).failed is None
    assert {one["order"] for one in staged(store, "crm")} == {f"@kafka:{n}:0:0" for n in range(3)}


def test_without_a_registry_in_firn_yaml_a_value_with_an_id_is_a_dead_letter(deliver: Deliver) -> None:
    store = MemoryStore()
    deliver(store, kafka([(0, 0, b"1", encoded(ROW, ACCOUNT))], "timed"))
    [letter] = read_dead(store, paths(store, "dead/timed")[0])
    assert letter.reason == "no_registry"


def test_apicurios_own_ids_have_eight_bytes_and_its_answer_is_the_schema(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("reader:pass")
    asked = Asked(n1=ROW, n2={"type": "object"})
    schemas = Schemas(Registry("http://apicurio/apis/registry/v2", f"file:{secret}", 8), Secrets(), asked)
    assert json.loads(schemas(1).json(encoded(ROW, ACCOUNT)[5:], typed=False))["balance"] == 12.5
    assert schemas(2).json(b"{}", typed=True) == b"{}"
    assert asked.urls[0] == "http://apicurio/apis/registry/v2/ids/globalIds/1"
    assert asked.headers[0] == {"Authorization": "Basic cmVhZGVyOnBhc3M="}


def test_what_is_no_answer_is_tried_again_and_no_server_hangs_a_function(registry: Asked) -> None:
    registry.answers["n7"] = ["nonsense"]
    with pytest.raises(TransientError):
        Schemas(URL, Secrets(), registry)(7)
    with pytest.raises(TransientError, match="can't be asked"):
        Schemas(Registry("http://127.0.0.1:1"), Secrets())(1)
    with pytest.raises(EventError, match="knows no schema 8"):
        Schemas(URL, Secrets(), registry)(8)


def _record(kind: Any) -> AvroSchema:
    return AvroSchema(json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}))


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("space", ["", "a.b"])
def test_a_value_that_is_nested_without_end_is_refused_and_ends_no_process(typed: bool, space: str) -> None:
    chain = {"type": "record", "name": "Link", "namespace": space, "fields": [{"name": "n", "type": ["null", "Link"]}]}
    schema = AvroSchema(json.dumps(chain))
    assert b'{"n":{"n":null}}' in schema.json(b"\x02\x00", typed=typed)
    for depth in (60, 200_000):
        with pytest.raises(EventError) as error:
            schema.json(b"\x02" * depth + b"\x00", typed=typed)
        assert error.value.code == "bad_record"


@pytest.mark.parametrize(
    "items",
    ["null", {"type": "record", "name": "E", "fields": []}, {"type": "fixed", "name": "F", "size": 0},
     {"type": "record", "name": "N", "fields": [{"name": "n", "type": {"type": "null"}}]}],
)  # fmt: skip
def test_a_schema_with_an_array_of_what_takes_no_bytes_is_refused(items: Any) -> None:
    with pytest.raises(EventError) as error:
        _record({"type": "array", "items": items})
    assert error.value.code == "bad_schema"
    assert _record({"type": "array", "items": ["null", "int"]}).json(b"\x02\x00\x00", typed=False) == b'{"a":[null]}'
    assert _record({"type": "map", "values": items}).json(b"\x00", typed=False) == b'{"a":{}}'


def test_a_decimal_of_millions_of_places_is_refused() -> None:
    schema = _record({"type": "bytes", "logicalType": "decimal", "precision": 20_000_000, "scale": 20_000_000})
    with pytest.raises(EventError) as error:
        schema.json(b"\x02\x01", typed=False)
    assert error.value.code == "bad_record"
