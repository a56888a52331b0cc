"""The order of rows that are rewritten: what lies together is read together."""

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from firn.changes.metadata_columns import POSITION
from firn.config.maintenance import Compaction
from firn.config.names import quoted
from firn_spark.not_eligible import Unfit
from firn_spark.tables.evolve import Table
from firn_spark.tables.rewriting import FILE, PLACE, stored_names

_BITS: Final = 6  # of each column: with two columns 4,096 cells, which is more than a group has row groups
_SAMPLE: Final = 20_000  # rows
_MOST_COLUMNS: Final = 10  # 60 bits
_CELL: Final = "_firn_cell"
_SAY_ORDER: Final = "say care.compact.sort_by, or care.compact.on: false"


def order_of(table: Table, policy: Compaction) -> tuple[str, ...]:
    """The columns by which rows are sorted, most significant first: what firn.yaml says, else the table's key, else the
    position (append tables), else the table's own sort order, else none: rows stay as they lie in their files. Columns
    of a z-order come as they are named; `arranged` knows.

    Raises Unfit if firn.yaml names a column that the table does not have.
    """
    there = {field["name"] for field in table.state.fields}
    # The facts beside a table have its key's columns only: firn.yaml speaks of the table.
    facts = table.state.properties.get("firn.mode") == "deletes"
    wanted = () if facts else policy.sort_by or policy.zorder_by
    missing = sorted(set(wanted) - there)
    if missing:
        raise Unfit(f"firn.yaml orders it by {', '.join(missing)}, which it does not have")
    if wanted:
        return wanted
    key = table.key()
    if key and set(key) <= there:
        return key
    return (POSITION,) if POSITION in there else _own_order(table)


def _own_order(table: Table) -> tuple[str, ...]:
    """The order that a table's owner has given it. Raises Unfit if it is not of columns as they are, ascending."""
    fields = list(table.java.sortOrder().fields())
    names = {int(field["id"]): str(field["name"]) for field in table.state.fields}
    plain = [str(one.direction().name()) == "ASC" and str(one.nullOrder().name()) == "NULLS_FIRST" for one in fields]
    if not all(plain) or any(str(one.transform().toString()) != "identity" for one in fields):
        raise Unfit(f"its own sort order ({table.java.sortOrder()}) is more than columns that ascend: {_SAY_ORDER}")
    found = tuple(names.get(int(one.sourceId()), "") for one in fields)
    if "" in found:
        raise Unfit(f"its own sort order names a field inside of a column: {_SAY_ORDER}")
    return found


def arranged(rows: DataFrame, table: Table, policy: Compaction, files: int) -> DataFrame:
    """`rows` (rewriting.rows_of) in as many partitions as `files` are to come of them, each sorted; only the table's
    columns. Two jobs more for a z-order, one for several files."""
    names = order_of(table, policy)
    zorder = bool(policy.zorder_by) and names == policy.zorder_by
    by: list[Column] = [f.col(quoted(name)).asc_nulls_first() for name in names]
    if zorder:
        if len(names) > _MOST_COLUMNS:
            raise Unfit(f"zorder_by names more than {_MOST_COLUMNS} columns")
        rows = rows.withColumn(_CELL, cell([f.col(quoted(name)) for name in names], splits_of(rows, names)))
        by = [f.col(_CELL), *by]
    # Rows of one order have a place all the same, so that as many files come of them as are wanted.
    by += [f.col(FILE), f.col(PLACE)]
    parted = rows.coalesce(1) if files == 1 else rows.repartitionByRange(files, *by)
    return parted.sortWithinPartitions(*by).select(*(f.col(quoted(name)) for name in stored_names(table)))


def splits_of(rows: DataFrame, names: Sequence[str]) -> list[list[Any]]:
    """For each column the values at which its next rank begins, of a sample: at most 2^6 - 1, none for one of nulls."""
    count = rows.count()
    columns = [f.col(quoted(name)).alias(f"c{place}") for place, name in enumerate(names)]
    some = rows.select(*columns)
    # Always the same rows: a try after a lost race would otherwise cut another way.
    some = some.sample(min(1.0, _SAMPLE / max(count, 1)), seed=1) if count > _SAMPLE else some
    sampled = some.collect()
    return [splits([row[place] for row in sampled]) for place in range(len(names))]


def splits(values: Sequence[Any]) -> list[Any]:
    """The values, each once and rising, that divide these into at most 2^6 ranks of about as many."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return []
    cuts = {known[len(known) * rank // 2**_BITS] for rank in range(1, 2**_BITS)}
    return sorted(cuts - {known[0]})


def cell(columns: Sequence[Column], cuts: Sequence[Sequence[Any]]) -> Column:
    """The place of a row on the curve through all columns: the bits of their ranks in turns."""
    ranks = [rank(column, mine) for column, mine in zip(columns, cuts, strict=True)]
    found = f.lit(0).cast("long")
    for bit in reversed(range(_BITS)):
        for one in ranks:
            found = f.shiftleft(found, 1).bitwiseOR(f.shiftright(one, bit).bitwiseAND(f.lit(1)).cast("long"))
    return found


def rank(column: Column, cuts: Sequence[Any]) -> Column:
    """How many of `cuts` are not above the value, as an int; 0 for null. Found by halving."""

    def among(low: int, high: int) -> Column:
        if low == high:
            return f.lit(low)
        middle = (low + high) // 2
        return f.when(column < f.lit(cuts[middle]), among(low, middle)).otherwise(among(middle + 1, high))

    return f.when(column.isNull(), f.lit(0)).otherwise(among(0, len(cuts)))
