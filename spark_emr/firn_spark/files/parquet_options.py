"""How a table's Parquet files are written, by its Iceberg properties: for pyarrow's writer. What is no number, or none
that a writer takes, counts as not said: another tool may have set it."""

from collections.abc import Mapping
from typing import Any, Final

from firn.config.file_writing import CODEC, DICTIONARY, LEVEL, PAGE, PAGE_ROWS, ROW_GROUP, TARGET
from firn.tables import file_properties

_CODECS: Final = {"uncompressed": "none", "lz4_raw": "lz4"}
_KNOWN: Final = frozenset({"none", "snappy", "gzip", "brotli", "lz4", "zstd"})
_LEVELS: Final = {"zstd": range(-7, 23), "gzip": range(1, 10), "brotli": range(12)}


def options_of(properties: Mapping[str, str]) -> dict[str, Any]:
    """For pq.write_table."""
    said = properties.get(CODEC, "zstd").lower()
    codec = _CODECS.get(said, said)
    codec = codec if codec in _KNOWN else "zstd"
    found: dict[str, Any] = {"compression": codec, "write_page_index": True}
    level = properties.get(LEVEL, "")
    if level.lstrip("-").isdecimal() and int(level) in _LEVELS.get(codec, ()):
        found["compression_level"] = int(level)
    for name, option in ((PAGE, "data_page_size"), (PAGE_ROWS, "max_rows_per_page"), (DICTIONARY, _DICTIONARY)):
        if (number := _number(properties, name)) is not None:
            found[option] = number
    return found


_DICTIONARY: Final = "dictionary_pagesize_limit"


def target_of(properties: Mapping[str, str]) -> int | None:
    """Bytes of a file, at most; None if it is not said."""
    return _number(properties, TARGET)


def row_group_of(properties: Mapping[str, str]) -> int | None:
    """Bytes of a row group, if somebody has said so: a file of a commit is one as a rule."""
    return _number(properties, ROW_GROUP) if properties.get(ROW_GROUP) != file_properties.OWN[ROW_GROUP] else None


def _number(properties: Mapping[str, str], name: str) -> int | None:
    text = properties.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 and int(text) else None
