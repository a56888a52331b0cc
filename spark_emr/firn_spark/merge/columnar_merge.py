"""A mirror table's plain changes (column_decoder.split), by columns: of each key the newest counts, if it is whole and
the table remembers nothing newer. That is what most keys are, and takes a fifth of what changes take one by one
(changes.merge.decide), whose rules these are for such changes.
"""

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.decode.row_decoder import META, Decoding
from firn.changes.decode.types import Column
from firn.changes.merge.fold import Key
from firn.changes.merge.ordering import plain
from firn.changes.metadata_columns import OP, POSITION, SOURCE, TIME
from firn.changes.positions import WIDTH
from firn.tables.table_state import of_unnamed
from firn_spark.files import values
from firn_spark.merge import column_decoder
from firn_spark.merge.key_lookup import HOLDS, PATH, PLACE, THERE, PlainLookup
from firn_spark.merge.survey import Survey
from firn_spark.tables import deletes

_COLUMNS_AT_ONCE = 4
_FEW = 10_000  # rows
_OF_GAPS = ("_unavail", "_nulls")  # what only updates with unavailable values have


@dataclass(frozen=True)
class DecidedColumns:
    """What becomes of each key that is decided here.

    rows    of the newest change of each key, by key: its number among the plain changes, its key, `_op`, `_order`, and
            `_path` and `_place` of the table's row with that key
    write   which of them are written; `remove`: which remove the table's row
    apart   the numbers of the newest changes of the keys that have to be decided one by one
    """

    rows: pa.Table
    write: pa.ChunkedArray
    remove: pa.ChunkedArray
    apart: pa.Array

    @property
    def told(self) -> int:
        """How many keys a change decided."""
        return int(pc.sum(pc.or_(self.write, self.remove)).as_py() or 0)


def survey(good: pa.Table, decoding: Decoding) -> Survey:
    """What columnar_merge.survey tells of columns."""
    gone = pc.equal(good["_op"], "d")
    facts = pc.and_(gone, column_decoder.are_placed(good["_ord"]))
    gaps = pc.unique(pc.list_flatten(good["_unavail"])).to_pylist() if "_unavail" in good.column_names else ()
    required = [i for i, column in enumerate(decoding.columns) if column.required]
    low, _ = _ends(good["_ord"])
    _, newest = _ends(good["_ord"].filter(facts))
    least, greatest = _key_ends(good, decoding)
    return Survey(
        changes=len(good),
        rejected=0,
        truncates=0,
        unavailable=tuple(sorted(gaps)),
        creates_unavailable=False,
        nulls=tuple(i for i in required if good[f"c{i}"].filter(pc.invert(gone)).null_count),
        newest_fact=newest,
        low=low,
        least=least,
        greatest=greatest,
    )


def _key_ends(good: pa.Table, decoding: Decoding) -> tuple[Any, Any]:
    """Survey.least and Survey.greatest."""
    if not decoding.key:
        return None, None
    first = values.sought(good[key_names(decoding)[0]], decoding.columns[decoding.key[0]].type)
    ends = pc.min_max(first)
    return ends["min"].as_py(), ends["max"].as_py()


def _ends(orders: pa.ChunkedArray) -> tuple[bytes, bytes]:
    ends = pc.min_max(orders)
    return ends["min"].as_py() or b"", ends["max"].as_py() or b""


def halves(plain: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Plain changes (column_decoder.split): deletes and whole rows, and the updates of which values are
    unavailable."""
    gaps, own = plain["_unavail"], [name for name in _OF_GAPS if name in plain.column_names]
    if gaps.null_count == len(plain):
        return plain.drop_columns(own), plain.slice(0, 0)
    return plain.filter(pc.is_null(gaps)).drop_columns(own), plain.filter(pc.is_valid(gaps))


def together(whole: pa.Table, gaps: pa.Table) -> pa.Table:
    """The halves as one."""
    for name in gaps.column_names:
        if name in _OF_GAPS:
            whole = whole.append_column(name, pa.nulls(len(whole), gaps[name].type))
    return pa.concat_tables([gaps, whole.select(gaps.column_names)])


def that_count(gaps: pa.Table, last: pa.Table, moving: pa.Table, emptied: bytes) -> pa.Table:
    """The updates with unavailable values (`halves`) that neither the newest whole change or delete of their key
    (`newest`) nor a truncate makes nothing of, and those of the keys `moving`."""
    if not len(gaps):
        return gaps
    names, numbers = moving.column_names, pa.arange(0, len(gaps))
    mine = gaps.select([*names, "_ord"]).append_column("_row", numbers)
    both = mine.join(last.select([*names, "_ord"]).rename_columns([*names, "_last"]), names, join_type="inner")
    older = both["_row"].filter(pc.less(both["_ord"], both["_last"])).combine_chunks()
    void = pc.or_(pc.is_in(numbers, value_set=older), pc.less_equal(gaps["_ord"], pa.scalar(emptied, pa.binary())))
    return gaps.filter(pc.or_(pc.invert(void), among(gaps, moving)))


def newest(good: pa.Table, decoding: Decoding, emptied: bytes = b"") -> pa.Table:
    """The newest change of each key, by key: `_number` in `good`, c… of the key, `_op`, `_ord`, and `_order`
    (column_decoder.order). The other columns are by far the most, and stay where they are. Without the keys
    whose newest is not above the order `emptied`: a truncate makes nothing of them."""
    names = key_names(decoding)
    orders, numbers = good["_ord"], pa.arange(0, len(good))
    rises = pc.less if decoding.several else pc.less_equal
    rising = pc.all(rises(orders.slice(0, len(orders) - 1), orders.slice(1))).as_py()
    by = [("_ord", "ascending"), *([("_table", "ascending")] if decoding.several else [])]
    oldest_first = numbers if rising else pc.sort_indices(good, by)
    keys = good.select(names) if rising else good.select(names).take(oldest_first)
    last = keys.append_column("_at", numbers).group_by(names).aggregate([("_at", "max")])
    last = last.take(pc.sort_indices(last, [(name, "ascending") for name in names]))["_at_max"]
    chosen = (last if rising else oldest_first.take(last)).cast(pa.int64())
    rows = good.select([*names, "_op", "_ord"]).take(chosen).append_column("_number", chosen)
    if emptied:
        rows = rows.filter(pc.greater(rows["_ord"], pa.scalar(emptied, pa.binary())))
    return rows.append_column("_order", column_decoder.order(rows["_ord"]))


def key_names(decoding: Decoding) -> list[str]:
    """The columns of decoded changes by which keys are compared."""
    return column_decoder.key_names(decoding)


def orders(last: pa.Table, decoding: Decoding) -> pa.Table:
    """The key and the order of the newest changes."""
    return last.select([*key_names(decoding), "_order"])


def orders_by_key(last: pa.Table, keys: pa.Table, decoding: Decoding) -> dict[Key, bytes]:
    """The same of some keys."""
    found = orders(last.filter(among(last, keys)), decoding)
    return dict(zip(tuples(found, decoding), found["_order"].to_pylist(), strict=True))


def tuples(rows: pa.Table, decoding: Decoding) -> list[Key]:
    """The keys of decoded rows."""
    kinds = [decoding.columns[i].type for i in decoding.key]
    columns = [values.keys(rows[name], kind) for name, kind in zip(key_names(decoding), kinds, strict=True)]
    return list(zip(*columns, strict=True))


def keys_of(keys: Collection[Key], decoding: Decoding) -> pa.Table:
    """Keys as columns."""
    found = list(zip(*keys, strict=True)) or [()] * len(decoding.key)
    kinds = [decoding.columns[i].type for i in decoding.key]
    arrays = [values.keyed(some, kind) for some, kind in zip(found, kinds, strict=True)]
    return pa.table(arrays, names=key_names(decoding))


def at(good: pa.Table, positions: Collection[bytes], decoding: Decoding) -> pa.Table:
    """The keys of the plain changes at these positions."""
    if not positions:
        return keys_of((), decoding)
    found = pc.is_in(column_decoder.position(good["_ord"]), value_set=pa.array(positions, pa.binary()))
    return good.filter(found).select(key_names(decoding))


def among(rows: pa.Table, keys: pa.Table) -> Any:
    """Which of `rows` have one of `keys`."""
    names = keys.column_names
    if not len(keys):
        return pa.repeat(pa.scalar(False), len(rows))
    if len(names) == 1:
        return pc.is_in(rows[names[0]], value_set=keys[names[0]].combine_chunks())
    numbers = pa.arange(0, len(rows))
    found = rows.select(names).append_column("_row", numbers).join(keys, names, join_type="left semi")
    return pc.is_in(numbers, value_set=found["_row"].combine_chunks())


def numbers_of(good: pa.Table, keys: pa.Table) -> pa.Array:
    """The numbers of the plain changes of these keys."""
    return pc.indices_nonzero(among(good, keys)).cast(pa.int64()) if len(keys) else pa.array([], pa.int64())


def decide(lookup: PlainLookup, last: pa.Table, decoding: Decoding, floor: bytes, apart: pa.Table) -> DecidedColumns:
    """What becomes of the keys of `last` (`newest`) but for those in `apart`. Which of the others have to be decided
    one by one shows only here: those whose row holds values that a change from before it may tell, whose delete may be
    forgotten, of which two source tables say the same at one position, or that the table has several rows of. Raises
    what the look-up raises."""
    chosen = among(last, apart)
    left, last = [last["_number"].filter(chosen)], last.filter(pc.invert(chosen))
    found = lookup.places(last, decoding)
    beside, several = _beside(last, found, decoding)
    for name in (PATH, PLACE, THERE, HOLDS):
        last = last.append_column(name, found[name].take(beside))
    exists, gone = pc.is_valid(beside), pc.equal(last["_op"], "d")
    # What is there without an order is older than all.
    newer = pc.fill_null(pc.greater(last["_order"], last[THERE]), True)
    same = pc.fill_null(pc.equal(last["_order"], last[THERE]), False)
    write = pc.and_(newer, pc.invert(gone))
    removes = pc.and_(exists, pc.or_(newer, pc.and_(gone, same)))
    odd = pc.or_(several, pc.and_(pc.fill_null(last[HOLDS], False), pc.invert(newer)))
    if floor:
        late = pc.and_(write, pc.invert(exists))
        placed = pc.greater(last["_order"], b"")
        odd = pc.or_(odd, pc.and_(late, pc.and_(placed, pc.less_equal(last["_order"], floor))))
    if decoding.several:
        odd = pc.or_(odd, pc.and_(same, pc.invert(gone)))
    if pc.any(odd).as_py():
        left.append(last["_number"].filter(odd))
        sure = pc.invert(odd)
        last, write, removes = last.filter(sure), write.filter(sure), removes.filter(sure)
    return DecidedColumns(
        last, write, removes, _whole(pa.chunked_array([chunk for one in left for chunk in one.chunks], pa.int64()))
    )


def _beside(last: pa.Table, found: pa.Table, decoding: Decoding) -> tuple[pa.Array, pa.Array]:
    """For each row of `last` the number of the found row that has its key, or null, and whether there are several: then
    null."""
    if not len(last):
        return pa.array([], pa.int64()), pa.array([], pa.bool_())
    names = key_names(decoding)
    kinds = [decoding.columns[i].type for i in decoding.key]
    keys = [values.sought(last[name], kind) for name, kind in zip(names, kinds, strict=True)]
    # `last` is sorted by it, and nothing else was looked for. Arrow searches no decimals.
    if len(names) == 1 and kinds[0].name != "decimal":
        rows, numbers = pc.search_sorted(keys[0], found[names[0]]), pa.arange(0, len(found))
    else:
        mine = pa.table([*keys, pa.arange(0, len(last))], names=[*names, "_row"])
        both = mine.join(
            found.select(names).append_column("_number", pa.arange(0, len(found))), names, join_type="inner"
        )
        rows, numbers = both["_row"], both["_number"]
    rows, numbers = _whole(rows.cast(pa.int64())), _whole(numbers)
    twice = pa.array([], pa.int64())
    if len(pc.unique(rows)) < len(rows):  # others wrote it: which of them counts, the row engine knows
        counts = pc.value_counts(rows)
        twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        once = pc.invert(pc.is_in(rows, value_set=twice))
        rows, numbers = rows.filter(once), numbers.filter(once)
    places = pc.inverse_permutation(rows, max_index=len(last) - 1)
    return numbers.take(places), pc.is_in(pa.arange(0, len(last)), value_set=twice)


def rows_of(good: pa.Table, decoding: Decoding, source: str) -> list[list[Any]]:
    """Plain changes as decoded rows (changes.merge.decoded_rows), whose batch is not known. `source`: their source
    table, if they do not tell it."""
    orders = good["_ord"].to_pylist()
    own: dict[str, Sequence[Any]] = {
        "_op": good["_op"].to_pylist(), "_ts": good["_ts"].to_pylist(), "_ord": orders,
        "_pos": [order[1 : 1 + WIDTH] if plain(order) else None for order in orders],
        "_table": good["_table"].to_pylist() if decoding.several else [source] * len(good),
    }  # fmt: skip
    own |= {name: good[name].to_pylist() for name in _OF_GAPS if name in good.column_names}
    nothing = [None] * len(good)
    cells = [values.decoded(good[f"c{i}"], column.type) for i, column in enumerate(decoding.columns)]
    return [list(row) for row in zip(*(own.get(name, nothing) for name in META), *cells, strict=True)]


def facts(good: pa.Table, decoding: Decoding, source: str) -> dict[str, Any]:
    """The deletes with a position among plain changes as the table remembers them: Arrow arrays by name, none for none.
    `source`: as for rows_of."""
    gone = good.filter(pc.and_(pc.equal(good["_op"], "d"), column_decoder.are_placed(good["_ord"])))
    if not len(gone):
        return {}
    found = {decoding.columns[i].name: gone[f"c{i}"] for i in decoding.key}
    found |= {OP: gone["_op"], POSITION: column_decoder.order(gone["_ord"]), TIME: _micros(gone["_ts"])}
    found[SOURCE] = gone["_table"] if decoding.several else pa.repeat(pa.scalar(source, pa.string()), len(gone))
    return found


def cells(
    sources: Sequence[str | None], good: pa.Table, decided: DecidedColumns, columns: Sequence[Column]
) -> dict[str, Any]:
    """The rows to write as Arrow arrays by name. `sources`: the table's (table_state)."""
    chosen = _whole(decided.rows["_number"].filter(decided.write))
    # Of few rows a thread takes longer to begin than all columns.
    with ThreadPoolExecutor(_COLUMNS_AT_ONCE) if len(chosen) > _FEW else nullcontext() as pool:
        taken = (map if pool is None else pool.map)(lambda name: good[name].take(chosen), good.column_names)
        rows = dict(zip(good.column_names, taken, strict=True))
    found = {column.name: rows[f"c{i}"] for i, column in enumerate(columns)}
    orders = column_decoder.order(rows["_ord"])
    placed = pc.if_else(pc.equal(orders, b""), pa.scalar(None, pa.binary()), orders)
    found |= {POSITION: placed, TIME: _micros(rows["_ts"])}
    if "_table" in rows:
        unnamed = pa.scalar(of_unnamed(sources), pa.string())
        told = rows["_table"]
        found[SOURCE] = pc.if_else(pc.fill_null(pc.equal(told, unnamed), False), pa.scalar(None, pa.string()), told)
    return found


def gone(decided: DecidedColumns) -> deletes.Places:
    """The places of the rows that go."""
    rows = decided.rows.select([PATH, PLACE]).filter(decided.remove).combine_chunks()
    return deletes.by_file(rows[PATH], rows[PLACE])


def _micros(milliseconds: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.multiply(milliseconds, 1000)


def _whole(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
