"""Files as the target of a pipeline: `files:` in firn.yaml. Pure; file_sinks_reader reads it."""

from dataclasses import dataclass
from typing import Literal

FileFormat = Literal["parquet", "json"]
FileCompression = Literal["zstd", "snappy", "gzip", "lz4", "none"]


@dataclass(frozen=True)
class Roll:
    """When a file ends: `seconds` after its first event, or at `bytes`."""

    seconds: int = 300
    bytes: int = 100_000_000


@dataclass(frozen=True)
class FileSink:
    """`to`: an address below which files lie, without a slash at its end. `path`: the folders of a file, with
    strftime's codes of the event's acceptance and {column}; "": none."""

    to: str
    format: FileFormat = "parquet"
    compression: FileCompression = "zstd"
    path: str = ""
    roll: Roll = Roll()
