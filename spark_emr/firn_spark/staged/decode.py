"""Raw changes of one table (packed.py) to typed columns c0…cn, with what the fold needs beside them, on the executors.

Names of source columns never enter a DataFrame: they may hold dots, quotes or differ only in case.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

from firn.changes.decode.row_decoder import META, Decoder, Decoding
from firn_spark.staged.columnar import Columnar
from firn_spark.tables.columns import arrow_type

_TYPES = {
    "_epoch": pa.int64(), "_batch": pa.string(), "_index": pa.int32(), "_op": pa.string(), "_ts": pa.int64(),
    "_pos": pa.binary(), "_ord": pa.binary(), "_unavail": pa.list_(pa.int32()), "_code": pa.string(),
    "_message": pa.string(), "_before": pa.string(), "_tx_order": pa.int64(), "_occurrence": pa.int32(),
    "_origin": pa.string(), "_table": pa.string(), "_nulls": pa.list_(pa.string()),
}  # fmt: skip
_ROWS_PER_BATCH = 8_192


def decoded_schema(decoding: Decoding, meta: Sequence[str] = META) -> pa.Schema:
    """Columns of the decoded rows: META or some of it, then c0, c1, …"""
    typed = [(f"c{i}", arrow_type(column.type)) for i, column in enumerate(decoding.columns)]
    return pa.schema([(name, _TYPES[name]) for name in meta] + typed)


def decoded(
    batches: Iterable[pa.RecordBatch],
    decoding: Decoding,
    decoder: Callable[[Decoding], Decoder],
    meta: Sequence[str] = META,
) -> Iterator[pa.RecordBatch]:
    """Record batches of decoded rows from record batches with the columns READ."""
    columnar = Columnar(decoder(decoding), decoded_schema(decoding, meta))
    for batch in batches:
        for first in range(0, batch.num_rows, _ROWS_PER_BATCH):
            yield from columnar.batches(batch.slice(first, _ROWS_PER_BATCH))
