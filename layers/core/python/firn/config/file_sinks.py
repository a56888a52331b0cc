"""Files as the target of a pipeline: `files:` in firn.yaml. Pure; file_sinks_reader reads it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from firn.config.sink_path import NO_FOLDERS, SinkPath

FileFormat = Literal["parquet", "json"]
FileCompression = Literal["zstd", "snappy", "gzip", "lz4", "none"]

COMPRESSIONS: Final[Mapping[FileFormat, tuple[FileCompression, ...]]] = {
    "parquet": ("zstd", "snappy", "gzip", "lz4", "none"),
    "json": ("zstd", "gzip", "none"),
}
_ENDS: Final[Mapping[FileCompression, str]] = {"zstd": ".zst", "gzip": ".gz"}


@dataclass(frozen=True)
class Roll:
    """When files are written: once what waits for them is `seconds` old, or takes `bytes` of the staged log. A file
    then has about `bytes`."""

    seconds: int = 300
    bytes: int = 100_000_000


@dataclass(frozen=True)
class FileSink:
    """A pipeline's target that is files. `to`: an address without a slash at its end; `path`: the folders below it;
    `time`: the output column that gives its %-codes their time, None: when the event's batch was accepted."""

    to: str
    format: FileFormat = "parquet"
    compression: FileCompression = "zstd"
    path: SinkPath = NO_FOLDERS
    roll: Roll = Roll()
    time: str | None = None

    @property
    def ending(self) -> str:
        """How the names of its files end: `.parquet`, `.json.gz`."""
        return ".parquet" if self.format == "parquet" else f".json{_ENDS.get(self.compression, '')}"


def overlap(to: str, other: str) -> bool:
    """Whether one address lies in the other, or is it: objects of the two could meet."""
    some, others = f"{to.rstrip('/')}/", f"{other.rstrip('/')}/"
    return bool(to and other) and (some.startswith(others) or others.startswith(some))


def refused_place(to: str, places: Mapping[str, str]) -> str | None:
    """Why files can't go there, with what to write instead; None if they can. `places`: addresses of the deployment by
    what they are, "" for one that is not known."""
    for what, place in places.items():
        if overlap(to, place):
            bucket = "/".join(place.split("/")[:3]) if place.startswith("s3://") else place.rpartition("/")[0]
            beside = f"{bucket}/files" if not overlap(f"{bucket}/files", place) else "a bucket of their own"
            return f"{to} lies in the {what} ({place}), or holds it; files need a place of their own: write {beside}"
    return None
