"""The shards of many values at once (placement.shard_map.ShardMap.of)."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.decode.types import Type
from firn.changes.placement import murmur3
from firn.changes.placement.shard_map import Bands, ShardMap
from firn.changes.placement.shard_values import HASHES
from firn_spark.files import values

_WHOLE: Final = frozenset({"int", "long", "date", "timestamp", "timestamptz"})  # hashed as eight bytes
_BYTES: Final = frozenset({"string", "binary", "fixed"})
_LONGEST: Final = 256  # bytes of a value that is hashed with others: a longer one costs less alone


def places_of(shards: ShardMap, column: pa.ChunkedArray, kind: Type) -> pa.Array:
    """The shard of each value of a decoded column, whose type is `kind`: an array of names."""
    encoded = whole(column).dictionary_encode()
    spread = shards.spread
    hashes = _hashes(encoded.dictionary, kind) if shards.by == "hash" else None
    if hashes is not None and isinstance(spread, Bands):
        numbers = pc.bit_wise_and(hashes, HASHES - 1).cast(pa.int64())
        bands = pc.search_sorted(pa.array(spread.at, pa.int64()), numbers, side="right")
        names = pa.array(spread.shards, pa.string()).take(bands)
    else:
        told = values.decoded(pa.chunked_array([encoded.dictionary]), kind)
        names = pa.array([shards.of(value) for value in told], pa.string())
    return names.take(encoded.indices).fill_null(shards.rest)


def whole(column: Any) -> pa.Array:
    """A column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _hashes(some: pa.Array, kind: Type) -> pa.Array | None:
    """murmur3 of values without null; None if they have to be hashed one by one."""
    if kind.name in _WHOLE:
        wide = some.cast(values.plain_type(kind)).cast(pa.int64())
        return _murmur3([pc.bit_wise_and(half, murmur3.MASK).cast(pa.uint32()) for half in _halves(wide)], 8)
    if kind.name not in _BYTES:
        return None
    some = some.cast(pa.binary())
    lengths = pc.binary_length(some)
    found, numbers = [], []
    for length in pc.unique(lengths.filter(pc.less_equal(lengths, _LONGEST))).to_pylist():
        numbers.append(pc.indices_nonzero(pc.equal(lengths, length)))
        found.append(_murmur3(_blocks(some.take(numbers[-1]), length), length, len(numbers[-1])))
    if len(long := pc.indices_nonzero(pc.greater(lengths, _LONGEST))):
        numbers.append(long)
        found.append(pa.array([murmur3.murmur3(some[place].as_py()) for place in long.to_pylist()], pa.uint32()))
    if not found:
        return pa.array([], pa.uint32())
    return pa.concat_arrays(found).take(pc.inverse_permutation(pa.concat_arrays(numbers).cast(pa.int64())))


def _halves(wide: pa.Array) -> tuple[Any, Any]:
    return wide, pc.shift_right(wide, 32)


def _blocks(some: pa.Array, length: int) -> list[pa.Array]:
    """Values of one length as numbers of four bytes, little-endian, the last one filled up with zeros."""
    count = -(-length // 4)
    if not count:
        return []
    filled = pc.binary_join_element_wise(some, bytes(4 * count - length), b"").cast(pa.binary(4 * count))
    flat = pa.Array.from_buffers(
        pa.uint32(), len(some) * count, [None, filled.buffers()[1]], offset=filled.offset * count
    )
    return [flat.take(pa.arange(place, len(flat), count)) for place in range(count)]


def _murmur3(blocks: Sequence[Any], length: int, count: int = 0) -> Any:
    """The hash of values of so many bytes, by their blocks. `count`: how many values, if there are no blocks."""
    found: Any = pa.scalar(0, pa.uint32()) if blocks else pa.repeat(pa.scalar(0, pa.uint32()), count)
    for place, block in enumerate(blocks):
        block = pc.multiply(_turned(pc.multiply(block, _bits(murmur3.C1)), 15), _bits(murmur3.C2))
        found = pc.bit_wise_xor(block, found)
        if 4 * place + 4 <= length:
            found = pc.add(pc.multiply(_turned(found, 13), _bits(5)), _bits(murmur3.C3))
    found = pc.bit_wise_xor(found, _bits(length))
    for shift, factor in ((16, murmur3.C4), (13, murmur3.C5)):
        found = pc.multiply(pc.bit_wise_xor(found, pc.shift_right(found, _bits(shift))), _bits(factor))
    return pc.bit_wise_xor(found, pc.shift_right(found, _bits(16)))


def _turned(block: Any, by: int) -> Any:
    return pc.bit_wise_or(pc.shift_left(block, _bits(by)), pc.shift_right(block, _bits(32 - by)))


def _bits(number: int) -> pa.Scalar:
    return pa.scalar(number, pa.uint32())
