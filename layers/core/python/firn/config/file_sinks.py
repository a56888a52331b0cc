"""`files:` of a pipeline: where its files go, and how they are written. Checked as text; nothing is opened here."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from firn.config import quantities, sink_path
from firn.config.problems import Section, shown
from firn.config.sink_path import NO_FOLDERS, SinkPath
from firn.config.storage import read_place

Format = Literal["parquet", "json"]
Compression = Literal["zstd", "snappy", "gzip", "lz4", "none"]

COMPRESSIONS: Final[Mapping[Format, tuple[Compression, ...]]] = {
    "parquet": ("zstd", "snappy", "gzip", "lz4", "none"),
    "json": ("zstd", "gzip", "none"),
}
_ENDS: Final[Mapping[Compression, str]] = {"zstd": ".zst", "gzip": ".gz"}
_KEYS: Final = ("to", "format", "compression", "path", "time", "roll")
_MOST_SIZE: Final = 1_000_000_000  # a file is one request: only so the storage can refuse to overwrite it
_LONGEST_TO: Final = 250
_TO: Final = re.compile(r"[A-Za-z0-9_.=+,@/-]*")


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
    format: Format = "parquet"
    compression: Compression = "zstd"
    path: SinkPath = NO_FOLDERS
    roll: Roll = Roll()
    time: str | None = None

    @property
    def ending(self) -> str:
        """How the names of its files end: `.parquet`, `.json.gz`."""
        return ".parquet" if self.format == "parquet" else f".json{_ENDS.get(self.compression, '')}"


def read_file_sink(section: Section) -> FileSink | None:
    """The `files:` of a pipeline, None if they can't be read; every problem is noted."""
    section.allow_only(_KEYS)
    to = section.parsed("to", _read_to, None, "to: s3://bucket/prefix")
    if not section.has("to"):
        section.note("to", "is missing; write to: s3://bucket/prefix, or file:///path for a folder")
    kind: Format = section.choice("format", Format, "format", "parquet")
    path = section.parsed("path", sink_path.parse, NO_FOLDERS, "path: dt=%Y-%m-%d/region={region}")
    time = section.text("time", "the name of a column with a time")
    if time is not None and not path.codes and (path.text or not section.has("path")):
        section.note("time", "gives the %-codes of path their time, and there are none; write path: dt=%Y-%m-%d")
    found = FileSink(to or "", kind, _compression(section, kind), path, _roll(section.section("roll")), time)
    return found if to else None


def _compression(section: Section, kind: Format) -> Compression:
    word: Compression = section.choice("compression", Compression, "compression", "zstd")
    if word not in COMPRESSIONS[kind]:
        known = ", ".join(COMPRESSIONS[kind][:-1])
        section.note("compression", f"{shown(word)} is not for {kind}; write {known} or {COMPRESSIONS[kind][-1]}")
    return word


def _roll(section: Section) -> Roll:
    section.allow_only(("every", "size"))
    return Roll(
        section.parsed("every", quantities.seconds, Roll.seconds, "300s"),
        section.parsed("size", _size, Roll.bytes, "100MB"),
    )


def _size(text: str) -> int:
    value = quantities.size(text)
    if value > _MOST_SIZE:
        raise ValueError(f"{text!r} is more than 1GB, and a file is written in one request; write 100MB")
    return value


def _read_to(text: str) -> str:
    """The address. Raises ValueError, whose text says what to write."""
    to = read_place(text, "file sinks")
    place = to.partition("://")[2]
    odd = next((one for one in place if not _TO.fullmatch(one)), None)
    if odd is not None:
        raise ValueError(
            f"{shown(text)} holds {odd!r}; write letters, digits, slashes and _.=+,@- such as s3://bucket/files"
        )
    names = place.removeprefix("/").split("/")
    if not all(name.strip(".") for name in names):
        raise ValueError(f"{shown(text)} holds an empty folder, . or ..; write the folders' own names")
    if len(place) > _LONGEST_TO:
        raise ValueError(f"has {len(place)} characters; at most {_LONGEST_TO} are taken")
    return to


def overlap(to: str, other: str) -> bool:
    """Whether one address lies in the other, or is it: objects of the two could meet."""
    some, others = to.rstrip("/") + "/", other.rstrip("/") + "/"
    return bool(other) and (some.startswith(others) or others.startswith(some))


def refused_place(to: str, places: Mapping[str, str]) -> str | None:
    """Why files can't go there, with what to write instead; None if they can. `places`: addresses of the deployment by
    what they are, "" for one that is not known."""
    for what, place in places.items():
        if overlap(to, place):
            bucket = "/".join(place.split("/")[:3]) if place.startswith("s3://") else place.rpartition("/")[0]
            beside = f"{bucket}/files" if not overlap(f"{bucket}/files", place) else "a bucket of their own"
            return f"{to} lies in the {what} ({place}), or holds it; files need a place of their own: write {beside}"
    return None
