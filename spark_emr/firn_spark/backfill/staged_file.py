"""The rows of a chunk as a staged batch (docs/architecture.md), written row group by row group as they come."""

import hashlib
import io
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from firn.errors import TerminalError
from firn.log.batches import BatchMeta

_GROUP_BYTES: Final = 16_000_000  # of row images
MOST_BYTES: Final = 4_000_000_000
MOST_ROW_BYTES: Final = 100_000_000  # of a row image: some five copies of it are held at once
_META: Final = "firn"
_REPEATED: Final = ("table", "op", "connector", "order", "schema_id")
_FIELDS: Final = {
    "table": (pa.string(), False), "op": (pa.string(), False), "ts": (pa.int64(), True),
    "connector": (pa.string(), False), "order": (pa.string(), True), "key": (pa.string(), True),
    "after": (pa.string(), True), "schema_id": (pa.string(), True), "schema": (pa.string(), True),
}  # fmt: skip


class TooLarge(TerminalError):
    """A chunk holds more than one batch can, or a row more than a task."""


class NotText(TerminalError):
    """A row holds what is no text."""


class StagedFile:
    """Reads of one source table, in memory. `schema`: the Connect schema of them all, "" for none; `order` and `ts`: of
    them all; `keyed`: whether they name their keys."""

    def __init__(self, table: str, schema: str, connector: str, order: str, ts: int | None, *, keyed: bool) -> None:
        self._schema, self._keyed = schema, keyed
        self._same: dict[str, Any] = {
            "table": table, "op": "r", "ts": ts, "connector": connector, "order": order,
            "schema_id": hashlib.sha256(schema.encode()).hexdigest()[:32] if schema else None,
        }  # fmt: skip
        unsaid = {*(() if keyed else ("key",)), *(() if schema else ("schema_id", "schema")), *(() if ts else ("ts",))}
        names = [name for name in _FIELDS if name not in unsaid]
        self._arrow = pa.schema([pa.field(name, _FIELDS[name][0], nullable=_FIELDS[name][1]) for name in names])
        self._file = io.BytesIO()
        self._writer = _writer(self._file, self._arrow)
        self._images: list[bytes] = []
        self._keys: list[bytes | None] = []
        self._held = 0
        self._data = b""
        self.rows = self.raw = 0

    def add(self, image: bytes, key: bytes | None = None) -> None:
        """One row. Raises TooLarge."""
        if len(image) > MOST_ROW_BYTES:
            raise TooLarge(
                f"a row of {self._same['table']} has {len(image):,} bytes as JSON, and {MOST_ROW_BYTES:,} are the most "
                "that is read: leave such rows out with --where, by the length of what is so large"
            )
        self._images.append(image)
        if self._keyed:
            self._keys.append(key)
        self._held += len(image)
        if self._held > _GROUP_BYTES:
            self.flush()

    def finished(self, meta: BatchMeta) -> bytes:
        """The object, with the batch's account in its footer. May be asked again with another account."""
        self.flush()
        if not self._data:
            self._writer.add_key_value_metadata({_META: msgspec.json.encode(meta).decode()})
            self._writer.close()
            self._data = self._file.getvalue()
            return self._data
        file = io.BytesIO()
        with pq.ParquetFile(io.BytesIO(self._data)) as before, _writer(file, self._arrow) as writer:
            for group in range(before.num_row_groups):
                writer.write_table(before.read_row_group(group).cast(self._arrow))
            writer.add_key_value_metadata({_META: msgspec.json.encode(meta).decode()})
        return file.getvalue()

    def flush(self) -> None:
        """Writes what was added until now, which then counts. Raises TooLarge, NotText."""
        count = len(self._images)
        if not count:
            return
        columns: dict[str, pa.Array] = {
            name: pa.repeat(pa.scalar(value, _FIELDS[name][0]), count) for name, value in self._same.items()
        }
        try:
            columns["after"] = _texts(self._images)
        except pa.ArrowInvalid:
            raise NotText(
                f"a row of {self._same['table']} is not UTF-8, which JSON has to be: correct it in the source (a "
                "database in SQL_ASCII takes any bytes), or leave it out with --where"
            ) from None
        columns["schema"] = pa.array([None if self.rows else self._schema or None], pa.string())
        if count > 1:
            columns["schema"] = pa.concat_arrays([columns["schema"], pa.nulls(count - 1, pa.string())])
        if self._keyed:
            columns["key"] = pa.array(self._keys, pa.binary()).cast(pa.string())
        rows = pa.table([columns[name] for name in self._arrow.names], schema=self._arrow)
        self._writer.write_table(rows, row_group_size=count)
        self.rows, self.raw = self.rows + count, self.raw + self._held
        self._images, self._keys, self._held = [], [], 0
        if self.raw > MOST_BYTES:
            raise TooLarge(
                f"a chunk of {self._same['table']} holds more than {MOST_BYTES / 1e9:.0f} GB: firn backfill --cancel, "
                "then again with a smaller --chunk-rows"
            )


def _texts(images: Sequence[bytes]) -> pa.Array:
    return pa.array(images, pa.binary()).cast(pa.string())  # which checks that it is UTF-8


def _writer(file: io.BytesIO, schema: pa.Schema) -> pq.ParquetWriter:
    repeated = [name for name in _REPEATED if name in schema.names]
    return pq.ParquetWriter(
        file, schema, use_dictionary=repeated, compression="zstd", compression_level=1, store_schema=False,
        write_statistics=False, data_page_size=1 << 20,
    )  # fmt: skip


def images_of(data: bytes) -> list[str]:
    """The row images of such an object, as it will be read."""
    found: list[str] = pq.ParquetFile(io.BytesIO(data)).read(["after"]).column(0).to_pylist()
    return found
