"""Where each staged object lies: object keys are made and read here and nowhere else. Pure.

    staged/{stream}/{yyyy}/{mm}/{dd}/{hh}/{batch id}.parquet    dead/{stream}/{yyyy}/{mm}/{dd}/{batch id}.parquet
    epochs/{stream}/{n:020d}.json                               cuts/{stream}/{n:020d}.json
    receipts/{stream}/{sha256 of the idempotency key}           config/{sha}.yaml, config/current.json

A batch id is `{stream}.{ms:012x}{random:016x}`: it sorts by time inside its stream, is safe in URLs and file names,
and its object's path follows from the id alone. Numbers are 20 digits, so that they sort as text.
"""

import hashlib
import re
from datetime import UTC, datetime, timedelta
from typing import Final

STREAM_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_BATCH_ID: Final = re.compile(r"(?P<stream>[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})\.(?P<ms>[0-9a-f]{12})[0-9a-f]{16}")
_RANDOM_BYTES: Final = 8
_EPOCH_START: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS: Final = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z

CONFIG_POINTER: Final = "config/current.json"


def is_stream_name(name: str) -> bool:
    """1 to 64 letters, digits, `_`, `-` or `.`, not starting with `.` or `-`: safe in paths, URLs, job names."""
    return STREAM_NAME.fullmatch(name) is not None


def batch_id(stream: str, now: datetime, random: bytes) -> str:
    """The id of a batch of `stream` received at `now` (aware); `random` is 8 bytes or more, of which 8 are used."""
    if not is_stream_name(stream) or len(random) < _RANDOM_BYTES:
        raise ValueError(f"no batch id for stream {stream!r} with {len(random)} random bytes")
    ms = (now - _EPOCH_START) // timedelta(milliseconds=1)
    return f"{stream}.{ms:012x}{random[:_RANDOM_BYTES].hex()}"


def is_batch_id(text: str) -> bool:
    """Could Firn have given out this id?"""
    match = _BATCH_ID.fullmatch(text)
    return match is not None and int(match["ms"], 16) <= _LAST_MS


def stream_of(batch: str) -> str:
    """The stream that a batch id belongs to. ValueError if `batch` is no batch id."""
    return _parts(batch)[0]


def time_of(batch: str) -> datetime:
    """When the batch was received, UTC, to the millisecond. ValueError if `batch` is no batch id."""
    return _parts(batch)[1]


def staged_prefix(stream: str) -> str:
    """Below which all batches of `stream` lie."""
    return f"staged/{stream}"


def staged_path(batch: str) -> str:
    """Where the batch lies. ValueError if `batch` is no batch id."""
    stream, when = _parts(batch)
    return f"{staged_prefix(stream)}/{when:%Y/%m/%d/%H}/{batch}.parquet"


def staged_floor(stream: str, when: datetime) -> str:
    """A text below every staged path of an hour from `when`'s on, above every earlier one: where a listing starts."""
    return f"{staged_prefix(stream)}/{when:%Y/%m/%d/%H}"


def batch_of(path: str) -> str | None:
    """The batch id in a staged or dead-letter path; None if the object is none of Firn's."""
    name = path.rpartition("/")[2].removesuffix(".parquet")
    return name if is_batch_id(name) else None


def dead_prefix(stream: str) -> str:
    """Below which all dead letters of `stream` lie."""
    return f"dead/{stream}"


def dead_path(stream: str, when: datetime, name: str) -> str:
    """Dead letters found at `when`. `name`: the batch id at ingest; at commit any name fixed by the work itself."""
    if "/" in name or not name:
        raise ValueError(f"{name!r} can't name a dead-letter object: it must have no slash")
    return f"{dead_prefix(stream)}/{when:%Y/%m/%d}/{name}.parquet"


def batch_dead_path(batch: str) -> str:
    """Where ingest puts the dead letters of a batch. ValueError if `batch` is no batch id."""
    stream, when = _parts(batch)
    return dead_path(stream, when, batch)


def epoch_prefix(stream: str) -> str:
    """Below which the epochs of `stream` lie."""
    return f"epochs/{stream}"


def epoch_path(stream: str, n: int) -> str:
    """The epoch `n` (from 1) of `stream`."""
    return f"{epoch_prefix(stream)}/{n:020d}.json"


def cut_prefix(stream: str) -> str:
    """Below which the cuts of `stream` lie."""
    return f"cuts/{stream}"


def cut_path(stream: str, n: int) -> str:
    """The cut at the end of epoch `n` of `stream`."""
    return f"{cut_prefix(stream)}/{n:020d}.json"


def number_of(path: str) -> int | None:
    """The number in an epoch's or a cut's path; None if the object is none of Firn's."""
    name = path.rpartition("/")[2].removesuffix(".json")
    return int(name) if len(name) == 20 and name.isascii() and name.isdigit() else None


def receipt_path(stream: str, key: str) -> str:
    """The receipt of an idempotency key: by its hash, because the key is the sender's text."""
    return f"receipts/{stream}/{hashlib.sha256(key.encode()).hexdigest()}"


def config_path(sha: str) -> str:
    """A configuration by the hash of its text."""
    return f"config/{sha}.yaml"


def instant(when: datetime) -> str:
    """A time as Firn writes it into JSON: UTC, RFC 3339, milliseconds (`2026-01-31T09:05:00.123Z`)."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _parts(batch: str) -> tuple[str, datetime]:
    match = _BATCH_ID.fullmatch(batch)
    if match is None or int(match["ms"], 16) > _LAST_MS:
        raise ValueError(f"{batch!r} is no batch id")
    return match["stream"], _EPOCH_START + timedelta(milliseconds=int(match["ms"], 16))
