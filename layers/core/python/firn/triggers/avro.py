"""Avro's binary encoding as JSON: with Connect's schema beside it, as Kafka Connect's JsonConverter writes the same
value, or as a plain row. Imported only once a record needs it, with fastavro (24 ms).

What AvroConverter makes of a Connect schema stands in Confluent's AvroData: Connect's semantic names, versions and
parameters as `connect.name`, `connect.version` and `connect.parameters`; its Decimal, Date, Time and Timestamp as
Avro's logical types; `optional` as a union with null. All of that is undone here.
"""

import base64
import io
import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import msgspec
from fastavro import parse_schema, schemaless_reader
from fastavro._read_py import schemaless_reader as bounded_reader

from firn.errors import EventError

_DEEPEST: Final = 50
_FARTHEST: Final = 10_000  # places of a decimal behind its point
_CONNECT: Final = {
    "boolean": "boolean", "int": "int32", "long": "int64", "float": "float", "double": "double", "string": "string",
    "bytes": "bytes", "fixed": "bytes", "enum": "string",
}  # fmt: skip
# Avro's logical types -> Connect's names of the same numbers.
_LOGICAL: Final = {
    "decimal": "org.apache.kafka.connect.data.Decimal",
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-millis": "io.debezium.time.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
    "uuid": "io.debezium.data.Uuid",
}


class AvroSchema:
    """One writer's schema."""

    def __init__(self, text: str) -> None:
        """`text`: of the schema. Raises EventError bad_schema."""
        try:
            self._schema = json.loads(text)
            self._read = _reader(self._schema)
            self._logical = parse_schema(self._schema)
            self._plain = parse_schema(_without_logical(self._schema))
            self._connect = msgspec.json.encode(_Connect().of(self._schema))
        except Exception as error:  # noqa: BLE001 (fastavro raises of many kinds)
            text = f"the schema can't be read as Avro: {type(error).__name__}: {error}"
            raise EventError("bad_schema", text[:500]) from None

    def json(self, data: bytes, *, typed: bool) -> bytes:
        """See kafka_values.value_json. Raises EventError bad_record."""
        if not typed:
            return _encoded(_read(self._read, data, self._logical), _of_row)
        payload = _encoded(_read(self._read, data, self._plain), _of_connect)
        return b'{"schema":' + self._connect + b',"payload":' + payload + b"}"


def _reader(schema: Any) -> Callable[..., Any]:
    """What reads data of a schema. Data decides how deep a value of a recursive one is: the quick reader would use up
    the stack of the process, the other one raises. Raises ValueError for arrays of nothing: a few bytes of data can say
    that they have any number of members."""
    shape = _Shape()
    shape.empty(schema, "")
    found: Callable[..., Any] = bounded_reader if shape.recursive else schemaless_reader
    return found


class _Shape:
    """What data of a schema may be like. `recursive`: whether a type was found within itself."""

    def __init__(self) -> None:
        self.recursive = False
        self._empty: dict[str, bool | None] = {}  # by full name; None: of a type that is being looked at

    def empty(self, schema: Any, space: str) -> bool:
        """Whether its values take no bytes. Raises ValueError."""
        if isinstance(schema, str):
            known = self._empty.get(schema if "." in schema or not space else f"{space}.{schema}", False)
            known = self._empty.get(schema, known)
            self.recursive |= known is None
            return schema == "null" or bool(known)
        if isinstance(schema, list):
            for one in schema:
                self.empty(one, space)
            return False
        kind = schema["type"]
        if kind not in ("record", "error", "fixed", "array", "map"):
            return self.empty(kind, space)
        if kind in ("array", "map"):
            if self.empty(schema["items" if kind == "array" else "values"], space) and kind == "array":
                raise ValueError("an array of what takes no bytes")
            return False
        name = str(schema["name"])
        space = name.rpartition(".")[0] or schema.get("namespace") or space
        full = name if "." in name or not space else f"{space}.{name}"
        self._empty[full] = None
        if kind == "fixed":
            found: bool = schema["size"] == 0
        else:
            widths = [self.empty(field["type"], space) for field in schema["fields"]]  # each is looked at
            found = all(widths)
        self._empty[full] = found
        return found


def _read(reader: Callable[..., Any], data: bytes, schema: Any) -> Any:
    source = io.BytesIO(data)
    try:
        value = reader(source, schema, None)
    except Exception as error:  # noqa: BLE001
        text = f"its Avro can't be read by its schema: {type(error).__name__}"
        raise EventError("bad_record", text) from None
    if source.tell() != len(data):
        raise EventError("bad_record", "more bytes follow what its schema describes")
    return value


def _encoded(value: Any, how: Callable[[Any], Any]) -> bytes:
    try:
        return msgspec.json.encode(_json(value, how, 0))
    except (TypeError, ValueError, RecursionError) as error:
        raise EventError("bad_record", f"its Avro is no JSON: {type(error).__name__}") from None


def _json(value: Any, how: Callable[[Any], Any], depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")
    if isinstance(value, dict):
        return {str(name): _json(one, how, depth + 1) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_json(one, how, depth + 1) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value).replace("inf", "Infinity").replace("nan", "NaN")
    return value if value is None or isinstance(value, bool | int | float | str) else how(value)


def _of_connect(value: Any) -> Any:
    """As JsonConverter writes it: bytes, those of a Decimal too, in Base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(type(value).__name__)


def _of_row(value: Any) -> Any:
    """As a row of JSON has it: decimals with all their digits, times as ISO 8601 writes them."""
    if isinstance(value, Decimal):
        if -int(value.as_tuple().exponent) > _FARTHEST:
            raise ValueError("a decimal of too many places")
        return msgspec.Raw(format(value, "f").encode())
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat().replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else _of_connect(value)


def _without_logical(schema: Any) -> Any:
    """The schema of the numbers and bytes as they stand there."""
    if isinstance(schema, list):
        return [_without_logical(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    left = {name: one for name, one in schema.items() if name != "logicalType"}
    for name in ("type", "items", "values"):
        if name in left:
            left[name] = _without_logical(left[name])
    if "fields" in left:
        left["fields"] = [{**one, "type": _without_logical(one["type"])} for one in left["fields"]]
    return left


class _Connect:
    """The Connect schema of an Avro schema. Named types may be used again by their name alone."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}

    def of(self, schema: Any, space: str = "", optional: bool = False) -> dict[str, Any]:
        """-> as JsonConverter writes it. `space`: the namespace that names without one are in."""
        if isinstance(schema, list):
            others = [one for one in schema if one != "null"]
            if len(others) == 1:
                return self.of(others[0], space, optional or len(others) < len(schema))
            return {"type": "struct", "optional": optional or "null" in schema}  # one of several: JSON as it is
        if isinstance(schema, str):
            if schema in _CONNECT:
                return {"type": _CONNECT[schema], "optional": optional}
            known = self._named.get(schema) or self._named.get(f"{space}.{schema}") or {"type": "struct"}
            return {**known, "optional": optional}
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.of(kind, space, optional)
        space = schema.get("namespace") or (schema.get("name", "").rpartition(".")[0] or space)
        found = self._complex(kind, schema, space) | self._meaning(schema) | {"optional": optional}
        if "name" in schema:
            full = schema["name"] if "." in schema["name"] or not space else f"{space}.{schema['name']}"
            self._named[full] = found
        return found

    def _complex(self, kind: str, schema: Mapping[str, Any], space: str) -> dict[str, Any]:
        if kind == "record":
            named = schema["name"] if "." in schema["name"] or not space else f"{space}.{schema['name']}"
            fields = [{**self.of(one["type"], space), "field": one["name"]} for one in schema["fields"]]
            return {"type": "struct", "fields": fields, "name": named}
        if kind == "array":
            return {"type": "array", "items": self.of(schema["items"], space)}
        if kind == "map":
            return {"type": "map", "keys": {"type": "string"}, "values": self.of(schema["values"], space)}
        return {"type": _CONNECT.get(kind, "struct")} if kind in _CONNECT else self.of(kind, space)

    @staticmethod
    def _meaning(schema: Mapping[str, Any]) -> dict[str, Any]:
        """Its semantic name and parameters: Connect's own, else those of the logical type."""
        found: dict[str, Any] = {}
        kind = schema.get("logicalType")
        if kind in _LOGICAL:
            found["name"] = _LOGICAL[kind]
        if kind == "decimal":
            scale, precision = str(schema.get("scale", 0)), str(schema.get("precision", ""))
            found["parameters"] = {"scale": scale, "connect.decimal.precision": precision}
        if "connect.name" in schema:
            found["name"] = schema["connect.name"]
        if "connect.parameters" in schema:
            found["parameters"] = {**found.get("parameters", {}), **schema["connect.parameters"]}
        return found
