"""Placing by columns: what firn.changes.merge.ordering.placed gives change by change, for batches without surprises.

Without surprises is a batch that nobody replays, of which each change has a known op, a time in range and an order that
can be read, and none is MongoDB's. Any other is left to `placed`, which tells the change that is at fault, and why.
"""

from array import array
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate, chain, pairwise, repeat

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from firn.changes import clocks
from firn.changes.change import OPS, ROWS, TIMES
from firn.changes.decode import nesting
from firn.changes.decode.json_lines import one_a_line
from firn.changes.decode.poison import poison
from firn.changes.merge import ordering
from firn.changes.merge.ordering import OWN_PLACE, PLACED_BY, Order, placed_by_field
from firn.changes.positions import HASHED, MONGODB, NAMED_LATER, RANK, WIDTH, position
from firn.changes.redelivery import has_own_place
from firn_spark.staged.columnar import joined
from firn_spark.staged.packed import CHANGES

Arrays = Mapping[str, pa.Array]
FEW = 200  # changes: for fewer, calls of Arrow's cost more than rows do
# Where the parts of a total order lie: \1, the position (positions.py), the op's rank, the hash of the content.
_GENERATION, _COMMIT, _KIND, _CHANGE, _RANK, _HASH = 1, 13, 21, 38, 1 + WIDTH, 1 + WIDTH + 1
_LENGTH = _HASH + HASHED
_OWN_PLACE = pa.scalar(OWN_PLACE, pa.int32())
_OF_ONE_RECORD = pa.array([op for op in RANK if has_own_place("postgresql", op, "0")])
_RANKS = pa.array(sorted(RANK, key=RANK.__getitem__))
_hash = blake2b(digest_size=HASHED).copy  # copying one costs less than making one
_decode_lsns = msgspec.json.Decoder(tuple[int | None, int], strict=False).decode_lines
_LSN = "(?:0|[1-9][0-9]{0,18})"
_LSNS = rf'^\["{_LSN}","{_LSN}"\]$'
_BATCH = 28  # characters: the time of a batch and its random part, in hex
_ARRIVALS = rf'^\["[0-9a-f]{{{_BATCH}}}",(?:0|[1-9][0-9]{{0,18}})\]$'
# ordering._SENT for RE2, whose \s is not Python's.
_SPACE = r"[\t-\r\x1c-\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]*"
_SENT = rf',{_SPACE}"__ts_[mun]s":{_SPACE}-?[0-9]+'


def placed(columns: Arrays, place: int, by: Order, accepted: int) -> dict[str, pa.Array]:
    """As ordering.placed. `columns`: those of PLACED_BY and `ts`."""
    at_once = placed_at_once(columns, by, [len(columns["op"])], [accepted])
    if at_once is not None:
        return at_once
    found = ordering.placed({name: columns[name].to_pylist() for name in (*PLACED_BY, "ts")}, place, by, accepted)
    return {name: pa.array(values, CHANGES.field(name).type) for name, values in found.items()}


def placed_at_once(
    columns: Arrays, by: Order, sizes: Sequence[int], accepted: Sequence[int]
) -> dict[str, pa.Array] | None:
    """The same of the changes of several requests, one after the other; None for what is not without surprises.
    `sizes`: how many are of each, `accepted`: when each was."""
    if not _is_usual(columns, by) or any(_may_be_deep(columns[name]) for name in ("key", "before", "after")):
        return None
    try:
        return _at_once(columns, by, sizes, accepted)
    except Exception as error:  # noqa: BLE001 (change by change it turns out whose fault it is)
        poison(error)
        return None


def _is_usual(columns: Arrays, by: Order) -> bool:
    rows, orders = len(columns["op"]), columns["order"]
    if not rows or rows < FEW or orders.null_count not in (0, rows if by.fields else 0) or by.kept:
        return False
    if columns["occurrence"].null_count != rows or columns["generation"].null_count != rows:
        return False
    ends = pc.min_max(columns["ts"])
    times = {ends["min"].as_py(), ends["max"].as_py()} - {None}
    told_apart = MONGODB if not by.fields else MONGODB | NAMED_LATER
    ops, connectors = (set(pc.unique(columns[name]).to_pylist()) for name in ("op", "connector"))
    return ops <= OPS and told_apart.isdisjoint(connectors) and all(time in TIMES for time in times)


def _may_be_deep(images: pa.Array) -> bool:
    """Whether an image has so many brackets that it may be nested too deeply."""
    if (pc.max(pc.binary_length(images)).as_py() or 0) <= nesting.MOST:
        return False
    brackets = pc.add(pc.count_substring(images, "["), pc.count_substring(images, "{"))
    return (pc.max(brackets).as_py() or 0) > nesting.MOST


def _at_once(columns: Arrays, by: Order, sizes: Sequence[int], accepted: Sequence[int]) -> dict[str, pa.Array]:
    op, reads = columns["op"], pc.equal(columns["op"], "r")
    rows = len(op)
    hashes = _hashes(columns, reads)
    orders = bytearray((b"\1" + by.generation.to_bytes(4) + bytes(_LENGTH - 5)) * rows)
    if not _put_numbers(orders, columns["connector"], columns["order"]):
        found = (_fields if columns["order"].null_count else _positions)(columns, by, sizes, accepted)
        _put(orders, _GENERATION, WIDTH, b"".join(found))
    else:
        _put(orders, _KIND, 1, _bytes_of(pc.invert(reads)))
    _put(orders, _RANK, 1, _bytes_of(pc.index_in(op, value_set=_RANKS)))
    _put(orders, _HASH, HASHED, b"".join(hashes))
    total = pa.Array.from_buffers(pa.binary(_LENGTH), rows, [None, pa.py_buffer(orders)]).cast(pa.binary())
    number = columns["tx_order"]
    return {
        "pos": pc.binary_slice(total, 1, 1 + WIDTH),
        "ord": total,
        "occurrence": pc.if_else(_own_places(columns), _OWN_PLACE, _occurrences(columns, total, hashes, sizes)),
        "fault": pa.nulls(rows, pa.string()),
        "fault_text": pa.nulls(rows, pa.string()),
        "tx_order": pc.if_else(pc.and_(reads, pc.is_null(number)), columns["emitted"], number),
    }


def _own_places(columns: Arrays) -> pa.Array:
    """As redelivery.has_own_place."""
    connectors = pc.unique(columns["connector"]).to_pylist()
    if connectors == ["postgresql"]:
        return pc.and_(pc.is_in(columns["op"], value_set=_OF_ONE_RECORD), pc.is_valid(columns["order"]))
    told = (columns[name].to_pylist() for name in ("connector", "op", "order"))
    return pa.array(list(map(has_own_place, *told)), pa.bool_())


def _put_numbers(orders: bytearray, connector: pa.Array, order: pa.Array) -> bool:
    """Writes the numbers that come as text into each order. False where they have to be read one by one."""
    connectors = pc.unique(connector).to_pylist()
    if connectors == ["postgresql"] and (lsns := _lsns(order)) is not None:
        for at, numbers in zip((_COMMIT, _CHANGE), lsns, strict=True):
            numbers.byteswap()
            _put(orders, at, 8, numbers.tobytes())
        return True
    if connectors == [ROWS] and order.null_count == 0 and pc.all(pc.match_substring_regex(order, _ARRIVALS)).as_py():
        came = pc.utf8_slice_codeunits(order, 2, 2 + _BATCH).dictionary_encode()
        batches = [bytes.fromhex(one) for one in came.dictionary.to_pylist()]
        places = array("Q")
        numbers = pc.utf8_slice_codeunits(order, _BATCH + 4, -1).cast(pa.uint64())
        places.frombytes(numbers.buffers()[1].to_pybytes()[: 8 * len(numbers)])
        places.byteswap()
        _put(orders, _CHANGE, 8, places.tobytes())
        _put(
            orders, _COMMIT + 8 - _BATCH // 2, _BATCH // 2, b"".join(map(batches.__getitem__, came.indices.to_pylist()))
        )
        return True
    return False


def _fields(columns: Arrays, by: Order, sizes: Sequence[int], accepted: Sequence[int]) -> Sequence[bytes]:
    """By the stream's fields. Raises EventError for a change that has no place."""
    ops, *images = (columns[name].to_pylist() for name in ("op", "after", "before", "key"))
    when = chain.from_iterable(repeat(at, size) for at, size in zip(accepted, sizes, strict=True))
    fields, generation = by.fields, by.generation
    told = zip(ops, zip(*images, strict=True), when, strict=True)
    found = [placed_by_field(fields, op, generation, mine, at) for op, mine, at in told]
    return [where for where in found if where is not None]  # fewer don't fit, and are left to `placed`


def _positions(columns: Arrays, by: Order, sizes: Sequence[int], accepted: Sequence[int]) -> Sequence[bytes]:
    """By what their sources say. Raises EventError for a change that has no place."""
    connectors, ops, orders = (columns[name].to_pylist() for name in ("connector", "op", "order"))
    when = list(chain.from_iterable(repeat(at, size) for at, size in zip(accepted, sizes, strict=True)))
    for why in clocks.ahead(connectors, orders, columns["ts"].to_pylist(), when).values():
        raise why
    found = map(position, connectors, ops, orders, repeat(by.generation), repeat(by.generation == by.commits))
    return [where for where in found if where is not None]  # each has an order


def _lsns(orders: pa.Array) -> tuple["array[int]", "array[int]"] | None:
    """Commits and changes of PostgreSQL's orders, [commit, change]; None if one is of another form."""
    if pc.all(pc.match_substring_regex(orders, _LSNS)).as_py():  # as Debezium writes them: twice as fast
        numbers = array("Q")
        parts = pc.utf8_trim(pc.split_pattern(orders, '","').values, '[]"').cast(pa.uint64())
        numbers.frombytes(parts.buffers()[1].to_pybytes()[: 8 * len(parts)])
        return numbers[::2], numbers[1::2]
    arrays = pc.and_(pc.starts_with(orders, "["), pc.ends_with(orders, "]"))
    lines = joined(orders)
    if not one_a_line(lines, len(orders), objects=pc.all(arrays).as_py()):
        return None
    try:
        rows = _decode_lsns(lines)
        commits, changes = zip(*rows, strict=True)
        if len(rows) != len(orders):
            return None
        return array("Q", [commit or 0 for commit in commits]), array("Q", changes)
    except (ValueError, OverflowError, RecursionError):  # msgspec's errors are ValueErrors
        return None


def _hashes(columns: Arrays, reads: pa.Array) -> list[bytes]:
    """The hash of each change's content, as ordering.placed takes it."""
    key, before, after = (pc.fill_null(columns[name], "None") for name in ("key", "before", "after"))
    bare = pc.and_(pc.is_null(columns["before"]), pc.is_null(columns["after"]))
    content = pc.binary_join_element_wise(before, after, pc.if_else(bare, key, ""), "\0")
    if b'"__ts_' in content.buffers()[2].to_pybytes():
        content = pc.if_else(reads, content, pc.replace_substring_regex(content, pattern=_SENT, replacement=""))
    _, ends, data = content.buffers()
    text, found = data.to_pybytes(), []
    for first, end in pairwise(memoryview(ends).cast("i")[: len(content) + 1]):
        one = _hash()
        one.update(text[first:end])
        found.append(one.digest())
    return found


def _occurrences(columns: Arrays, total: pa.Array, hashes: Sequence[bytes], sizes: Sequence[int]) -> pa.Array:
    rows = len(hashes)
    if len(set(hashes)) == rows or pc.count_distinct(total).as_py() == rows:
        return pa.repeat(pa.scalar(0, pa.int32()), rows)
    told = [total.to_pylist(), *(columns[name].to_pylist() for name in ("table", "index", "emitted", "occurrence"))]
    ends = list(accumulate(sizes))
    requests = (slice(end - size, end) for size, end in zip(sizes, ends, strict=True))
    found = (ordering.occurrences(*(one[request] for one in told)) for request in requests)
    return pa.array(list(chain.from_iterable(found)), pa.int32())


def _bytes_of(numbers: pa.Array) -> bytes:
    """Small numbers, a byte each."""
    found: bytes = numbers.cast(pa.uint8()).buffers()[1].to_pybytes()[: len(numbers)]
    return found


def _put(orders: bytearray, at: int, width: int, parts: bytes) -> None:
    """Writes parts of one width into each order, from its byte `at` on."""
    for byte in range(width):
        orders[at + byte :: _LENGTH] = parts[byte::width]
