"""How a table's files are written, as firn.yaml says it: compression, file sizes, Bloom filters, write properties."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from firn.config.maintenance import Care

CODEC: Final = "write.parquet.compression-codec"
LEVEL: Final = "write.parquet.compression-level"
TARGET: Final = "write.target-file-size-bytes"
ROW_GROUP: Final = "write.parquet.row-group-size-bytes"
PAGE: Final = "write.parquet.page-size-bytes"
PAGE_ROWS: Final = "write.parquet.page-row-limit"
DICTIONARY: Final = "write.parquet.dict-size-bytes"
MANIFEST: Final = "commit.manifest.target-size-bytes"
OLDEST_FORMAT: Final = 2
NEWEST_FORMAT: Final = 3
"""Iceberg's format versions that a table may have."""
DEFAULTS_FORMAT: Final = 3
"""The first of them whose columns may have defaults."""


@dataclass(frozen=True)
class FileWriting:
    """`properties`: Iceberg's properties of the table by name, `compression`, `compression_level` and
    `target_file_size` among them; `target_bytes`: of a file, None if it isn't said; `format`: Iceberg's format version,
    None: a new table gets OLDEST_FORMAT, and one that is there keeps its own."""

    properties: Mapping[str, str] = field(default_factory=dict)
    target_bytes: int | None = None
    format: int | None = None

    def caring(self, care: Care) -> Care:
        """The same care for files of the size that is wanted."""
        if self.target_bytes is None:
            return care
        return replace(care, compaction=replace(care.compaction, target_bytes=self.target_bytes))


@dataclass(frozen=True)
class BloomSize:
    """Of a Bloom filter: the share of absent values of which it says that they may be there, and the bytes that it may
    have in a row group, which win."""

    wrong: float = 0.01
    most_bytes: int = 1024 * 1024
