"""Keys and values of Kafka as JSON: as they are, or decoded by the schema whose id stands before them.

Confluent's wire format: a zero byte, the schema's id (4 bytes, big-endian), then Avro's binary encoding, or JSON of a
JSON Schema ("Wire format" in Confluent's "Formats, Serializers, and Deserializers"). Apicurio's own has 8 bytes.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw

from firn.errors import EventError
from firn.triggers.schema_registry import AnySchema

MAGIC: Final = 0
Schemas = Callable[[int], AnySchema]
"""An id -> its schema. Raises EventError unknown_schema, TransientError."""

_any: Final = msgspec.json.Decoder(Raw).decode


def value_json(value: bytes, schemas: Schemas | None, id_bytes: int, *, typed: bool) -> bytes:
    """A record's value as JSON text. `schemas`: None where the stream names no registry; `typed`: with Connect's schema
    beside what Avro encodes, as `{"schema", "payload"}`, where an envelope may have that; else as a plain row.

    Raises EventError no_registry, bad_record, unknown_schema, TransientError.
    """
    if value[:1] != bytes([MAGIC]):
        return value
    if schemas is None:
        raise EventError(
            "no_registry",
            "its value begins with a schema's id, and the stream names no registry: write kafka: {registry: {url: …}} "
            "into firn.yaml",
        )
    if len(value) <= 1 + id_bytes:
        raise EventError("bad_record", f"its value has {len(value)} bytes, too few for a schema's id and a value")
    schema = schemas(int.from_bytes(value[1 : 1 + id_bytes]))
    return schema.json(value[1 + id_bytes :], typed=typed)


def key_json(key: bytes | None, schemas: Schemas | None, id_bytes: int) -> str | None:
    """A record's key as JSON text: of a row's key columns, or one value. What is no JSON is a text."""
    if key is None:
        return None
    if schemas is not None and key[:1] == bytes([MAGIC]) and len(key) > 1 + id_bytes:
        key = schemas(int.from_bytes(key[1 : 1 + id_bytes])).json(key[1 + id_bytes :], typed=False)
    try:
        return bytes(_any(key)).decode()
    except (ValueError, RecursionError):  # some key of another producer's
        return msgspec.json.encode(key.decode("utf-8", "replace")).decode()
