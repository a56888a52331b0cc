"""`files:` of a pipeline; every problem is noted."""

from typing import Final

from firn.config import quantities
from firn.config.file_sinks import FileCompression, FileFormat, FileSink, Roll
from firn.config.problems import Section
from firn.config.storage import read_warehouse

KEYS: Final = ("to", "format", "compression", "path", "roll")
ROLL_KEYS: Final = ("every", "size")


def read_files(section: Section) -> FileSink:
    """The files that a pipeline writes."""
    section.allow_only(KEYS)
    roll = section.section("roll")
    roll.allow_only(ROLL_KEYS)
    if not section.has("to"):
        section.note("to", "is missing; write to: s3://bucket/folder")
    return FileSink(
        to=section.parsed("to", read_warehouse, "", "s3://bucket/folder"),
        format=section.choice("format", FileFormat, "format", FileSink.format),
        compression=section.choice("compression", FileCompression, "compression", FileSink.compression),
        path=section.text("path", "dt=%Y-%m-%d") or "",
        roll=Roll(
            roll.parsed("every", quantities.seconds, Roll.seconds, "300s"),
            roll.parsed("size", quantities.size, Roll.bytes, "100MB"),
        ),
    )
