"""Files as a source: which there are, and how they are cut into chunks.

Parquet is cut by row groups; a file of CSV or NDJSON is one chunk.
"""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from firn.backfill.backfill_request import Request
from firn.backfill.chunk_plan import Chunk, Plan, PlannedTable
from firn.backfill.postgres_plan import Target
from firn.changes.decode.types import Type
from firn.errors import ConfigError
from firn.log.batches import FORMAT
from firn.log.store import ObjectFile, Store, listing, open_store
from firn_spark.backfill.arrow_rows import csv_reader, schema_json

KINDS: Final[Mapping[str, str]] = {
    ".parquet": "parquet", ".csv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson"
}  # fmt: skip
_SECONDS: Final = 60  # that a request for a part of a file may take


def make_plan(request: Request, target: Target, now: str) -> Plan:
    """Looks at the files and cuts them. Raises ConfigError, NoColumn (one that fits no table), StorageUnavailable."""
    (source,) = request.tables or ("",)
    into = target(source)
    if into is None:
        raise ConfigError(f"no rule of stream {request.stream} takes {source}: see tables: in firn.yaml")
    if not into.keyed:
        raise ConfigError(f"files name no key: write key: [...] into the rule of {source} in firn.yaml")
    store, found = files_of(request.source)
    tables: dict[str, PlannedTable] = {}
    chunks: list[Chunk] = []
    rows = 0
    for path, _ in found:
        kind = kind_of(path)
        schema, mine, count = _cut(store, path, kind, into.columns, request)
        if schema not in tables:
            tables[schema] = PlannedTable(source, schema, [])
        rows += count
        chunks += [Chunk(list(tables).index(schema), path, where) for where in mine]
    planned = list(tables.values())
    planned[0] = PlannedTable(source, planned[0].schema, [], rows=rows)
    return Plan(FORMAT, request.id, now, planned, chunks)


def kind_of(path: str) -> str:
    """parquet, csv or ndjson, by the file's name. Raises ConfigError."""
    name = path.removesuffix(".gz")
    kind = KINDS.get(PurePosixPath(name).suffix.lower(), "")
    if not kind or (kind == "parquet" and name != path):
        raise ConfigError(f"{path}: files end in {', '.join(KINDS)}; text may be packed (.csv.gz)")
    return kind


def files_of(pattern: str) -> tuple[Store, list[tuple[str, int]]]:
    """Where the files of a pattern lie, and their paths there with their sizes, sorted. Raises ConfigError,
    StorageUnavailable."""
    parts = urlsplit(pattern)
    fixed = parts.path.lstrip("/").split("/")
    wild = next((n for n, word in enumerate(fixed) if any(sign in word for sign in "*?[")), len(fixed) - 1)
    below = "/".join(fixed[wild:])
    root = f"{parts.scheme}://{parts.netloc}/{'/'.join(fixed[:wild])}".rstrip("/")
    store = open_store(root, seconds=_SECONDS)
    depth = below.count("/")
    found = [
        (path, size)
        for path, size in listing(store, "")
        if path.count("/") == depth and fnmatchcase(path, below) and size
    ]
    if not found:
        raise ConfigError(f"no file is at {pattern}; write such as s3://bucket/folder/*.parquet or /folder/*.csv")
    return store, sorted(found)


def _cut(
    store: Store, path: str, kind: str, existing: Mapping[str, Type], request: Request
) -> tuple[str, list[str], int]:
    """-> the schema of the file's rows, what its chunks are, and how many rows it has (0: unknown)."""
    if kind == "ndjson":
        return "", [""], 0
    if kind == "csv":
        return schema_json(csv_reader(store, path, existing).schema, existing), [""], 0
    with pq.ParquetFile(pa.PythonFile(ObjectFile(store, path), "r")) as file:
        schema = schema_json(file.schema_arrow, existing)
        groups = [file.metadata.row_group(n) for n in range(file.metadata.num_row_groups)]
        ranges = _ranges([(one.num_rows, one.total_byte_size) for one in groups], request)
        return schema, [f"{first}-{end}" for first, end in ranges], file.metadata.num_rows


def _ranges(groups: list[tuple[int, int]], request: Request) -> Iterator[tuple[int, int]]:
    """Row groups that follow on one another, up to a chunk's size, one at least: (first, end)."""
    first = rows = size = 0
    for n, (more, larger) in enumerate(groups):
        if n > first and (rows + more > request.chunk_rows or size + larger > request.chunk_bytes):
            yield first, n
            first, rows, size = n, 0, 0
        rows, size = rows + more, size + larger
    yield first, len(groups)
