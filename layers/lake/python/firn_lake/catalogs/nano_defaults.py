"""Defaults of timestamps with nanoseconds can be read.

PyIceberg 0.12 opens no table that has one: it knows no JSON for it. Importing this mends it for all that PyIceberg does
in this process; tests/unit/lake/test_nano_defaults.py says when that is no longer needed. The value is the count of
nanoseconds since 1970-01-01T00:00:00, as it is in manifests; in JSON ISO 8601 (Iceberg spec, appendix D).
"""

from datetime import datetime, timedelta
from typing import Any, Final

from pyiceberg.conversions import from_json, to_json
from pyiceberg.types import TimestampNanoType, TimestamptzNanoType
from pyiceberg.utils.datetime import timestamp_to_nanos, timestamptz_to_nanos

_EPOCH: Final = datetime(1970, 1, 1)


@from_json.register(TimestampNanoType)
@from_json.register(TimestamptzNanoType)
def _nanos(kind: Any, value: str | int) -> int:
    """Nanoseconds of the JSON text."""
    if isinstance(value, int):
        return value
    return timestamptz_to_nanos(value) if isinstance(kind, TimestamptzNanoType) else timestamp_to_nanos(value)


@to_json.register(TimestampNanoType)
@to_json.register(TimestamptzNanoType)
def _text(kind: Any, value: int) -> str:
    """The JSON text of nanoseconds."""
    seconds, nanos = divmod(value, 10**9)
    moment = (_EPOCH + timedelta(seconds=seconds)).isoformat()
    return f"{moment}.{nanos:09d}" + ("+00:00" if isinstance(kind, TimestamptzNanoType) else "")
