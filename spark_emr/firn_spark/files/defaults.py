"""Default values of columns, of Iceberg's format 3 (https://iceberg.apache.org/spec/#default-values): what rows have
of a column that their file lacks (`initial-default`), and new rows of one that nobody told a value of
(`write-default`)."""

import json
import uuid
from collections.abc import Mapping
from datetime import time
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

_INITIAL: Final = b"firn.initial-default"
_WRITE: Final = b"firn.write-default"
_NAMES: Final[Mapping[bytes, str]] = {_INITIAL: "initial-default", _WRITE: "write-default"}


def metadata_of(field: Mapping[str, Any]) -> dict[bytes, bytes]:
    """The defaults of a table's field (Iceberg's JSON) as metadata of an Arrow field."""
    return {key: json.dumps(field[name]).encode() for key, name in _NAMES.items() if field.get(name) is not None}


def lacking(rows: int, field: pa.Field) -> pa.Array | None:
    """What rows have of a column (values.file_field) that their file lacks; None: null. Raises pa.ArrowInvalid for a
    default that is not known here."""
    return _repeated(rows, field, _INITIAL)


def untold(rows: int, field: pa.Field) -> pa.Array | None:
    """What new rows have of a column (values.file_field) that nobody told a value of; None: null. Raises as lacking."""
    return _repeated(rows, field, _WRITE)


def _repeated(rows: int, field: pa.Field, which: bytes) -> pa.Array | None:
    told = (field.metadata or {}).get(which)
    return None if told is None else _one(json.loads(told), field).take(pa.repeat(pa.scalar(0, pa.int32()), rows))


def _one(told: Any, field: pa.Field) -> pa.Array:
    """The value as an array of one. As Iceberg writes it in JSON: spec, appendix D, single-value serialization."""
    kind = field.type
    try:
        if isinstance(kind, pa.UuidType):
            return pa.ExtensionArray.from_storage(kind, pa.array([uuid.UUID(str(told)).bytes], kind.storage_type))
        if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
            return pa.array([bytes.fromhex(told)], kind)
        if pa.types.is_decimal(kind):
            return pa.array([Decimal(told)], kind)
        if pa.types.is_time(kind):
            return pa.array([time.fromisoformat(told)], kind)
        if pa.types.is_temporal(kind):
            return pa.array([told], pa.string()).cast(kind)
        if pa.types.is_nested(kind):
            raise pa.ArrowInvalid("a column with parts")
        return pa.array([told], kind)
    except (ValueError, TypeError, ArithmeticError) as error:  # ArrowInvalid is a ValueError
        raise pa.ArrowInvalid(f"the default of {field.name} is not known here: {error}") from error
