"""Reads what firn.yaml says of a table's files (config/file_writing.py)."""

from collections.abc import Callable, Mapping
from typing import Final, Literal

from firn.config import quantities
from firn.config.file_writing import (
    CODEC,
    DICTIONARY,
    LEVEL,
    MANIFEST,
    NEWEST_FORMAT,
    OLDEST_FORMAT,
    PAGE,
    PAGE_ROWS,
    ROW_GROUP,
    TARGET,
    BloomSize,
    FileWriting,
)
from firn.config.model import Bloom
from firn.config.names import OWN
from firn.config.problems import Section, shown, words

Codec = Literal["zstd", "snappy", "gzip", "lz4", "none"]
_LEVELS: Final = {"zstd": (1, 22, 3), "gzip": (1, 9, 6)}  # least, most, an example
# Iceberg's words for what Parquet's writers call otherwise; the LZ4 that all readers know is raw.
_ICEBERGS: Final = {"none": "uncompressed", "lz4": "lz4_raw"}
_METRICS: Final = "write.metadata.metrics.column."


def read_file_writing(section: Section) -> FileWriting:
    """`compression`, `compression_level`, `target_file_size`, `properties` and `format` of a table's rule. Notes every
    problem in the section."""
    found = dict(_properties(section.section("properties")))
    codec: Codec = section.choice("compression", Codec, "compression", "zstd")
    if section.has("compression"):
        found[CODEC] = _ICEBERGS.get(codec, codec)
    if section.has("compression_level"):
        if codec not in _LEVELS:
            section.note("compression_level", f"says nothing of {codec}; leave it out, or write compression: zstd")
        else:
            found[LEVEL] = str(section.integer("compression_level", *_LEVELS[codec]))
    target = section.parsed("target_file_size", file_size, None, "256MB")
    if target is not None:
        found[TARGET] = str(target)
    version = None
    if section.has("format"):
        version = section.integer("format", OLDEST_FORMAT, NEWEST_FORMAT, OLDEST_FORMAT)
    return FileWriting(found, target, version)


def file_size(text: str) -> int:
    """Bytes of a data file. Raises ValueError, whose text says what to write."""
    size = quantities.size(text)
    if not 10**6 <= size <= 10**9:
        raise ValueError(f"{text!r} is not from 1MB to 1GB; write 256MB")
    return size


def read_bloom(section: Section) -> tuple[Bloom, BloomSize]:
    """`bloom` of a table's rule: the columns, or a mapping of them with `fpp` and `max_bytes`. Notes every problem in
    the section."""
    key, size = "bloom", BloomSize()
    if section.is_mapping(key):
        section, key = section.section(key), "columns"
        section.allow_only(("columns", "fpp", "max_bytes"))
        size = BloomSize(
            section.parsed("fpp", _share, BloomSize.wrong, "0.01"),
            section.parsed("max_bytes", _filter_size, BloomSize.most_bytes, "1MB"),
        )
        if not section.has(key):
            section.note(key, "is missing; write columns: key, or columns: [order_id]")
    names = section.each_once(key, f"{key}: key, or {key}: [order_id]")
    return "key" if names == ("key",) and not section.is_list(key) else names, size


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0001 <= value <= 0.5:
        raise ValueError(f"{text!r} is not a share from 0.0001 to 0.5; write 0.01")
    return value


def _filter_size(text: str) -> int:
    size = quantities.size(text)
    if size > 128 * 10**6:  # Parquet's own writers have 128 MiB at most
        raise ValueError(f"{text!r} is more than 128MB; write 1MB")
    return size


def _bytes(least: int, most: int, instead: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        size = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else quantities.size(text)
        if not least <= size <= most:
            raise ValueError(f"{text!r} is not from {least // 1000}KB to {most // 10**6}MB; write {instead}")
        return str(size)

    return read


def _whole(least: int, most: int, instead: int) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not (text.isascii() and text.isdecimal() and len(text) < 19 and least <= int(text) <= most):
            raise ValueError(f"{text!r} is not a whole number from {least} to {most}; write {instead}")
        return str(int(text))

    return read


def _one_of(*options: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in options:
            raise ValueError(f"{text!r} is not known here; write {words(options)}")
        return text.lower()

    return read


def _metrics(text: str) -> str:
    word = text.replace(" ", "")
    number = word.removeprefix("truncate(").removesuffix(")")
    cut = word == f"truncate({number})" and number.isascii() and number.isdecimal() and 1 <= int(number[:9]) <= 1_000
    if word not in ("none", "counts", "full") and not cut:
        raise ValueError(f"{text!r} is not a kind of metrics; write none, counts, truncate(16) or full")
    return word


# What each may be: those that mean something to all who write the table, and take nothing from what Firn rests on.
_KNOWN: Final[Mapping[str, Callable[[str], str]]] = {
    ROW_GROUP: _bytes(10**6, 10**9, "32MB"),
    PAGE: _bytes(1_000, 10**8, "1MB"),
    PAGE_ROWS: _whole(100, 10**7, 20_000),
    DICTIONARY: _bytes(1_000, 10**8, "2MB"),
    MANIFEST: _bytes(64 * 1024, 64 * 10**6, "1MB"),
    "write.metadata.compression-codec": _one_of("none", "gzip"),
    "write.metadata.previous-versions-max": _whole(1, 1_000, 100),
    "write.metadata.metrics.default": _metrics,
    "write.metadata.metrics.max-inferred-column-defaults": _whole(1, 10_000, 100),
    "write.object-storage.enabled": _one_of("true", "false"),
}
_INSTEAD: Final[Mapping[str, str]] = {
    CODEC: "write compression: zstd beside `properties:`",
    LEVEL: "write compression_level: 3 beside `properties:`",
    TARGET: "write target_file_size: 256MB beside `properties:`",
    "write.parquet.bloom-filter-": "write bloom: {columns: key, fpp: 0.01, max_bytes: 1MB} beside `properties:`",
    "write.delete.": "write write: merge-on-read or copy-on-write beside `properties:`",
    "write.update.": "write write: merge-on-read or copy-on-write beside `properties:`",
    "write.merge.": "write write: merge-on-read or copy-on-write beside `properties:`",
    "write.format.": "Firn writes Parquet; leave the line out",
    "format-version": "write format: 2 or format: 3 beside `properties:`",
}


def _properties(section: Section) -> dict[str, str]:
    found = {}
    for name in section.names:
        known = _metrics if name.startswith(_METRICS) and len(name) > len(_METRICS) else _KNOWN.get(name)
        if known is None:
            why = next((text for start, text in _INSTEAD.items() if name.startswith(start)), None)
            section.note(name, why or f"is not a property that firn.yaml sets; write one of {', '.join(_KNOWN)}, …")
        elif name.startswith(_METRICS + OWN):
            section.note(name, f"is of a column that Firn keeps for itself ({shown(OWN)}…); leave the line out")
        else:
            value = section.parsed(name, known, None, "a value")
            if value is not None:
                found[name] = value
    return found
