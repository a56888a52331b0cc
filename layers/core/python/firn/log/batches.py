"""The staged batch, format 1: one accepted request as one Parquet object (docs/architecture.md, docs/adr/0002).

Row images are copied, never parsed. The audit counts travel in the file's footer, so that dispatch learns what a batch
holds from its last few kilobytes.
"""

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from arro3.core import Array, DataType, Field, RecordBatch, Schema
from arro3.io import write_parquet

from firn.changes.change import Parsed
from firn.errors import FirnError
from firn.log.store import Store, tail

T = TypeVar("T")
FORMAT: Final = 1
_META_KEY: Final = "firn"
# Enough for the footer of a batch of some hundred tables; a longer one costs a second read.
_TAIL: Final = 16_384

_INT32, _INT64, _BOOL = DataType.int32(), DataType.int64(), DataType.bool()
_TEXT, _BINARY = DataType.string(), DataType.binary()
_COLUMNS: Final[Mapping[str, tuple[Any, bool]]] = {  # name -> (type, nullable), in the file's order
    "index": (_INT32, False),
    "table": (_TEXT, False),
    "op": (_TEXT, False),
    "ts": (_INT64, True),
    "connector": (_TEXT, False),
    "order": (_TEXT, True),
    "tx_order": (_INT64, True),
    "emitted": (_INT64, True),
    "flat": (_BOOL, False),
    "key": (_TEXT, True),
    "before": (_TEXT, True),
    "after": (_TEXT, True),
    "schema_id": (_TEXT, True),
    "schema": (_TEXT, True),
    "transaction": (_TEXT, True),
    # Only of replayed dead letters (ingest/replay.py): what says who they were the first time.
    "occurrence": (_INT32, True),
    "generation": (_INT64, True),
    "origin": (_TEXT, True),
}
_AGAIN: Final = frozenset({"occurrence", "generation", "origin"})
_RAW: Final = frozenset({"key", "before", "after", "schema"})  # bytes in Parsed
_FIELDS: Final = {name: Field(name, kind, nullable=nullable) for name, (kind, nullable) in _COLUMNS.items()}
# Measured (docs/adr/0002): dictionaries pay where few values repeat, and cost a hash per row elsewhere; zstd has a
# fixed cost a column, so only text gets it; differences make the two columns of rising numbers as good as free. `order`
# is digits, for which lz4 is quicker; pages of 128 KB are quicker than of 1 MB.
_ENCODING: Final[Mapping[str, Any]] = {
    "dictionary_enabled": False,
    "column_dictionary_enabled": dict.fromkeys(("table", "op", "connector", "schema_id", "transaction"), True),
    "column_encoding": dict.fromkeys(("index", "ts", "emitted"), "delta_binary_packed"),
    "compression": "uncompressed",
    "column_compression": {"order": "lz4_raw"} | dict.fromkeys(("key", "before", "after", "schema"), "zstd(1)"),
    "data_page_size_limit": 131_072,
}


class BatchMeta(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the footer says. `accepted` = rows in the file; events received = accepted + rejected + ignored.

    `replay` is the path of the dead letters that this batch brings again; None where a sender sent it. `json`: bytes of
    the request or messages, uncompressed; 0 where the stream has no `rate` and not a part of them is from a writer.
    `schemas`: the versions of the schemas that its rows were held to, by source table. `plan`: the path of the pull's
    plan that it is a part of (log/pulls.py).
    `writers`: the stream's writers whose requests or messages it holds, and their bytes of JSON.
    """

    format: int
    stream: str
    batch: str
    received_at: str  # RFC 3339, UTC, milliseconds
    config: str  # sha of the configuration it was accepted under
    accepted: int
    rejected: int
    ignored: dict[str, int]  # reason -> events
    tables: dict[str, int]  # source table -> rows
    replay: str | None = None
    json: int = 0
    schemas: dict[str, str] = {}
    plan: str | None = None
    writers: dict[str, int] = {}

    def is_of(self, writer: str) -> bool:
        """Whether all of it is from this writer: no part from another, or from who is none."""
        return set(self.writers) == {writer} and self.json <= self.writers[writer]


class UnreadableBatch(FirnError):
    """The object is not a staged batch of a format that this version reads."""


_decode_meta = msgspec.json.Decoder(BatchMeta).decode
_encode = msgspec.json.encode


def write_batch(parsed: Parsed, meta: BatchMeta, again: Mapping[str, Sequence[Any]] | None = None) -> bytes:
    """`parsed`'s rows as a Parquet file, with `meta` in its footer. `again`: the columns of replayed dead letters.

    The same arguments give the same bytes, which makes a repeated put recognisable. Raises UnicodeError if an image is
    not UTF-8.
    """
    columns = _told(parsed, again or {})
    arrays = [_array(column, _COLUMNS[name][0], raw=name in _RAW) for name, column in columns.items()]
    rows = RecordBatch.from_arrays(arrays, schema=Schema([_FIELDS[name] for name in columns]))
    return parquet(rows, {_META_KEY: _encode(meta).decode()}, _ENCODING)


def parquet(rows: Any, metadata: dict[str, str], encoding: Mapping[str, Any]) -> bytes:
    """An Arrow record batch as the bytes of a Parquet file; `encoding`: options of arro3.io.write_parquet."""
    file = io.BytesIO()
    write_parquet(rows, file, key_value_metadata=metadata, skip_arrow_metadata=True, created_by="firn", **encoding)
    return file.getvalue()


def read_meta(store: Store, path: str, size: int | None = None) -> BatchMeta | None:
    """The footer's account of the batch at `path`, None if there is no object. `size` in bytes, if known, saves a read.

    Raises UnreadableBatch, StorageUnavailable.
    """
    footer = read_footer(store, path, size)
    return None if footer is None else meta_of(footer, path)


def read_footer(store: Store, path: str, size: int | None = None) -> bytes | None:
    """The footer of the Parquet file at `path`, None if there is no object. Raises as `read_meta`."""
    end = tail(store, path, _TAIL, size)
    if end is None:
        return None
    if end[-4:] != b"PAR1":
        folder = path.partition("/")[0]
        raise UnreadableBatch(f"{path} is not a Parquet file: move it out of {folder}/, it was not written by Firn")
    footer = int.from_bytes(end[-8:-4], "little") + 8
    if footer > len(end):
        end = tail(store, path, footer, size) or b""
    return end[-footer:]


def meta_of(footer: bytes, path: str) -> BatchMeta:
    """The batch's meta out of a Parquet footer (`path` only for the message). Raises UnreadableBatch."""
    meta = entry_of(_decode_meta, footer, path)
    if meta.format > FORMAT:
        raise UnreadableBatch(
            f"{path} has format {meta.format}, this Firn reads up to {FORMAT}: update this side first"
        )
    return meta


def entry_of(decode: Callable[[bytes], T], footer: bytes, path: str) -> T:
    """What `decode` makes of the entry `firn` of a Parquet footer.

    Thrift's compact protocol writes `KeyValue(1: key, 2: value)` as two length-prefixed strings in a row, after all
    row groups and their statistics: the last match is ours, whatever the data holds.
    https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
    """
    key = _META_KEY.encode()
    mark = b"\x18" + bytes([len(key)]) + key + b"\x18"
    at = footer.rfind(mark)
    if at < 0:
        raise UnreadableBatch(f"{path} has no 'firn' entry in its footer: it was not written by Firn")
    length, start = _varint(footer, at + len(mark))
    try:
        return decode(footer[start : start + length])
    except msgspec.MsgspecError as error:
        raise UnreadableBatch(f"{path}: the 'firn' entry in the footer can't be read ({error})") from error


def _told(parsed: Parsed, again: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """The columns to write, in order. One that says nothing is left out, for each has its cost: `index` if it is
    0, 1, 2, …, `flat` if it is false throughout, any other if it is null throughout."""
    columns: dict[str, Sequence[Any]] = {name: getattr(parsed, name, ()) for name in _COLUMNS if name not in _AGAIN}
    columns["schema_id"], columns["schema"] = _first_uses(parsed.schema)
    rows = len(parsed)
    if rows and parsed.index[-1] == rows - 1:  # it rises from row to row
        del columns["index"]
    if not any(parsed.flat):
        del columns["flat"]
    columns |= again
    return {name: column for name, column in columns.items() if not _only_nulls(column)}


def _only_nulls(column: Sequence[Any]) -> bool:
    return len(column) > 0 and column[0] is None and column.count(None) == len(column)


def _array(column: Sequence[Any], kind: Any, *, raw: bool) -> Any:
    """The column as Arrow. Most requests have one table, one connector, no keys: one value is copied within Arrow."""
    rows = len(column)
    if rows > 1 and column[0] == column[-1] and column.count(column[0]) == rows:
        one = _array(column[:1], kind, raw=raw)
        return one.take(Array.from_buffer(memoryview(bytes(4 * rows)).cast("I")))
    if not raw:
        return Array(column, kind)
    array = Array(column, _BINARY)
    text = array.cast(kind)  # turns what is not UTF-8 into null
    if text.null_count != array.null_count:
        raise UnicodeError("a row image is not UTF-8")
    return text


def _first_uses(schemas: Sequence[bytes | None]) -> tuple[Sequence[str | None], Sequence[bytes | None]]:
    """(schema_id per row, the schema's JSON on the first row that uses it)."""
    if not any(schemas):
        return [None] * len(schemas), [None] * len(schemas)
    ids: dict[bytes, str] = {}
    columns: tuple[list[str | None], list[bytes | None]] = ([], [])
    for schema in schemas:
        known = schema is None or schema in ids
        if schema is not None and not known:
            ids[schema] = hashlib.sha256(schema).hexdigest()[:32]
        columns[0].append(None if schema is None else ids[schema])
        columns[1].append(None if known else schema)
    return columns


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, index after it) of a ULEB128 number."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
