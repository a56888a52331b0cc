"""Changes for append tables decoded to columns: once, for all tables that take them.

What changes are decoded to travels beside them, as one more column, from whatever process decodes to those that make
rows of it: to decode and to name an event costs several times what a pipeline's SQL does.
"""

import threading
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.decode.row_decoder import META, READ, AppendDecoder, Decoding
from firn.changes.merge import decoded_rows
from firn_spark.staged.decode import decoded, decoded_schema
from firn_spark.staged.packed import CHANGES

ID: Final = "_id"  # decoded_rows.identity; null for a change that is rejected
PLACE: Final = "_place"  # int64: of the change among those that it was decoded with
MOST_HELD: Final = 128 * 1024 * 1024  # bytes of decoded changes that a process keeps for the next table
_AT_ONCE: Final = 16_384  # changes: of fewer the start of a pipeline's SQL is what costs
_BYTES_AT_ONCE: Final = 64_000_000
_DECODED: Final = "decoded"  # a struct of META, c0, c1, … and ID; null for a change that is left out
_NAMED_BY: Final = frozenset(
    {"_batch", "_index", "_op", "_pos", "_ord", "_tx_order", "_occurrence", "_origin", "_table"}
)


@dataclass(frozen=True)
class Shared:
    """How changes of a stream are decoded for so many tables. Goes to other processes."""

    decoding: Decoding
    stream: str
    tables: int


def found_in(changes: pa.Table, decoding: Decoding, stream: str) -> pa.Table:
    """What changes (packed.CHANGES) are decoded to: META, c0, c1, …, ID, PLACE, in their order. Decodes them if they do
    not come from `beside`."""
    if _DECODED not in changes.column_names:
        return _decoded(changes, decoding, stream)
    column = changes[_DECODED]
    # Neither of the two is to be copied where it need not be.
    cells = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    each = cells.flatten() if cells.null_count else [cells.field(i) for i in range(len(cells.type))]
    found = pa.table([*each, pa.arange(0, len(changes))], names=[*(field.name for field in cells.type), PLACE])
    return found.filter(pc.is_valid(cells)) if cells.null_count else found


def beside(changes: pa.Table, by: Shared) -> pa.Table:
    """The changes, and what they are decoded to beside them."""
    found = _decoded(changes, by.decoding, by.stream)
    places = found[PLACE].combine_chunks()
    found = found.drop_columns([PLACE]).combine_chunks()
    kinds = list(found.schema)
    if len(found) == len(changes):
        cells = pa.StructArray.from_arrays([found[one.name].combine_chunks() for one in kinds], fields=kinds)
    else:  # some are left out
        rows = pc.index_in(pa.arange(0, len(changes)), value_set=places)
        each = [found[one.name].combine_chunks().take(rows) for one in kinds]
        cells = pa.StructArray.from_arrays(each, fields=kinds, mask=pc.is_null(rows))
    return changes.append_column(_DECODED, cells)


def together(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Parts of changes (packed.CHANGES), so large that the start of what is made of them counts little."""
    held: list[pa.Table] = []
    rows = size = 0
    for part in parts:
        held.append(part)
        rows, size = rows + len(part), size + part.nbytes
        if rows >= _AT_ONCE or size >= _BYTES_AT_ONCE:
            yield pa.concat_tables(held)
            held, rows, size = [], 0, 0
    if rows:
        yield pa.concat_tables(held)


def as_staged(changes: pa.Table) -> pa.Table:
    """The changes without what is beside them."""
    return changes.select(CHANGES.names)


class DecodedOnce:
    """Decoded changes of a process, in parts, until all tables that take them have done so. Safe to use from several
    threads: one decodes, and the others wait for it."""

    def __init__(self, most: int = MOST_HELD) -> None:
        """`most`: bytes that are kept; what is more, each table decodes for itself."""
        self._most = most
        self.bytes = 0  # that are kept
        self._kept: dict[tuple[Hashable, int], list[tuple[Decoding, pa.Table, int]]] = {}
        self._lock = threading.Lock()

    def parts(self, which: Hashable, raw: Iterable[pa.Table], by: Shared) -> Iterator[pa.Table]:
        """Parts of changes, as `beside` gives them. `which`: names them, and they are the same parts for each table."""
        for number, changes in enumerate(together(raw)):
            with self._lock:
                found = self._taken((which, number), by.decoding)
                if found is None:
                    found = beside(changes, by)
                    self._keep((which, number), by.decoding, found, by.tables - 1)
            yield found

    def _taken(self, part: tuple[Hashable, int], decoding: Decoding) -> pa.Table | None:
        there = self._kept.get(part, [])
        for place, (by, found, left) in enumerate(there):
            if by == decoding:
                there[place] = by, found, left - 1
                if left == 1:
                    del there[place]
                    self.bytes -= found.nbytes
                return found
        return None

    def _keep(self, part: tuple[Hashable, int], decoding: Decoding, found: pa.Table, left: int) -> None:
        if left > 0 and self.bytes + found.nbytes <= self._most:
            self._kept.setdefault(part, []).append((decoding, found, left))
            self.bytes += found.nbytes


def _decoded(changes: pa.Table, decoding: Decoding, stream: str) -> pa.Table:
    raw = changes.select(READ).combine_chunks()
    batches = list(decoded(raw.to_batches(), decoding, AppendDecoder))
    found = pa.Table.from_batches(batches, decoded_schema(decoding))
    places = pa.arange(0, len(raw)) if _are_in_order(found, raw) else _places(found, raw)
    found = found.append_column(ID, _names(found, stream)).append_column(PLACE, places)
    return found if places.equals(pa.arange(0, len(found))) else found.take(pc.sort_indices(places))


def _names(found: pa.Table, stream: str) -> pa.Array:
    told = [found[name].to_pylist() if name in _NAMED_BY else repeat(None) for name in META]
    good = pc.is_null(found["_code"]).to_pylist()
    rows = zip(good, zip(*told, strict=False), strict=False)
    return pa.array([decoded_rows.identity(row, stream) if one else None for one, row in rows], pa.string())


def _are_in_order(found: pa.Table, raw: pa.Table) -> bool:
    """Whether decoded rows are of all these changes, in their order: what is not plain comes behind the rest."""
    return bool(found["_index"].equals(raw["index"]) and found["_batch"].equals(raw["batch"]))


def _places(found: pa.Table, raw: pa.Table) -> pa.Array:
    """The places of the changes that decoded rows are of: they may be in another order, and some left out."""
    there = zip(raw["batch"].to_pylist(), raw["index"].to_pylist(), strict=True)
    numbers = {one: number for number, one in enumerate(there)}
    mine = zip(found["_batch"].to_pylist(), found["_index"].to_pylist(), strict=True)
    return pa.array([numbers[one] for one in mine], pa.int64())
