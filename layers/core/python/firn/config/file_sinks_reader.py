"""`files:` of a pipeline; every problem is noted."""

import re
from collections.abc import Mapping
from typing import Final

from firn.config import quantities, sink_path
from firn.config.file_sinks import COMPRESSIONS, FileCompression, FileFormat, FileSink, Roll, refused_place
from firn.config.model import StreamConfig
from firn.config.problems import Section, shown
from firn.config.sink_path import NO_FOLDERS
from firn.config.storage import SCHEMES, read_place

KEYS: Final = ("to", "format", "compression", "path", "time", "roll")
ROLL_KEYS: Final = ("every", "size")
_MOST_SIZE: Final = 1_000_000_000  # a file is one request: only so the storage can refuse to overwrite it
_LONGEST_TO: Final = 250
_TO: Final = re.compile(r"[A-Za-z0-9_.=+,@/-]*")


def read_files(section: Section) -> FileSink:
    """The files that a pipeline writes."""
    section.allow_only(KEYS)
    to = section.parsed("to", _read_to, "", "s3://bucket/prefix")
    if not section.has("to"):
        section.note("to", "is missing; write to: s3://bucket/prefix, or file:///path for a folder")
    kind: FileFormat = section.choice("format", FileFormat, "format", "parquet")
    path = section.parsed("path", sink_path.parse, NO_FOLDERS, "path: dt=%Y-%m-%d/region={region}")
    time = section.text("time", "the name of a column with a time")
    if time is not None and not path.codes and (path.text or not section.has("path")):
        section.note("time", "gives the %-codes of path their time, and there are none; write path: dt=%Y-%m-%d")
    return FileSink(to, kind, _compression(section, kind), path, _roll(section.section("roll")), time)


def check_places(streams: Section, found: Mapping[str, StreamConfig], warehouse: str) -> None:
    """Notes files that would lie among tables. `streams`: the section of the streams `found`."""
    for name, settings in found.items():
        for one in settings.pipelines:
            wrong = refused_place(one.files.to, {"warehouse": warehouse}) if one.files is not None else None
            if wrong is not None:
                pipelines = streams.section(name).section("pipelines")
                pipelines.section(one.name).section("files").note("to", wrong)


def _compression(section: Section, kind: FileFormat) -> FileCompression:
    word: FileCompression = section.choice("compression", FileCompression, "compression", "zstd")
    if word not in COMPRESSIONS[kind]:
        known = ", ".join(COMPRESSIONS[kind][:-1])
        section.note("compression", f"{shown(word)} is not for {kind}; write {known} or {COMPRESSIONS[kind][-1]}")
    return word


def _roll(section: Section) -> Roll:
    section.allow_only(ROLL_KEYS)
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
    to = read_place(text, SCHEMES)
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
