"""Times of the encodings that sources have, as whole numbers or texts of the units that tables have. None: the source
has text already."""

from collections.abc import Callable
from typing import Final

from firn.changes.decode import values

MICROS: Final[dict[str, Callable[[int], int] | None]] = {
    "timestamp_s": values.micros_of_seconds,
    "timestamp_ms": values.micros_of_millis,
    "timestamp_us": values.micros,
    "timestamp_ns": values.micros_of_nanos,
    "timestamp_text": None,
}
TIMES: Final[dict[str, Callable[[int], str] | None]] = {
    "time_ms": lambda value: values.text_of_time(value * 1000),
    "time_us": values.text_of_time,
    "time_ns": values.text_of_nano_time,
    "time_text": None,
}
NANOS: Final[dict[str, Callable[[int], int] | None]] = {
    "timestamp_s": values.nanos_of_seconds,
    "timestamp_ms": values.nanos_of_millis,
    "timestamp_us": values.nanos_of_micros,
    "timestamp_ns": values.nanos,
    "timestamp_text": None,
}
