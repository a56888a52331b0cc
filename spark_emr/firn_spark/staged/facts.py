"""What staged objects say about their tables, by columns: as firn.tables.batch_facts.facts_in, for tables of which all
changes have one inline schema or none. Anything else is left to `facts_in`.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.decode.inference import seen_in_lines
from firn.changes.decode.json_lines import one_a_line
from firn.changes.decode.poison import poison
from firn.changes.decode.row_decoder import ChangeId
from firn.errors import EventError
from firn.tables.batch_facts import (
    SAID_BY,
    UNORDERED,
    USES,
    Facts,
    columns_fact,
    facts_in,
    key_fact,
    key_names_in_lines,
    keyed_facts,
    unordered_fact,
)
from firn_spark.staged.columnar import joined
from firn_spark.staged.packed import by_table
from firn_spark.staged.placing import FEW

_FEW_OF_A_TABLE = 20  # changes: as FEW, for what is done for each table


class _Unusual(Exception):
    """A turn to the rows, not an error."""


def facts_of(columns: Mapping[str, pa.Array]) -> tuple[Facts, dict[int, EventError]]:
    """As facts_in. `columns`: those of SAID_BY."""
    try:
        return list(_said(columns)), {}
    except _Unusual:
        pass
    except Exception as error:  # noqa: BLE001 (row by row it turns out whose fault it is)
        poison(error)
    return facts_in({name: columns[name].to_pylist() for name in SAID_BY})


def _said(columns: Mapping[str, pa.Array]) -> Iterator[dict[str, Any]]:
    told = pa.table({name: columns[name] for name in SAID_BY})
    texts = told.select(["schema_id", "schema"]).filter(pc.is_valid(told["schema"]))
    schemas = dict(zip(texts["schema_id"].to_pylist(), texts["schema"].to_pylist(), strict=True))
    truncates = pc.equal(told["op"], "t")
    rows = told.filter(pc.invert(truncates)) if pc.any(truncates).as_py() else told
    if len(rows) < max(FEW, _FEW_OF_A_TABLE * len(pc.unique(rows["table"]))):
        raise _Unusual
    for name, mine in by_table(rows):
        yield from _said_of(name, mine.combine_chunks(), schemas)


def _said_of(table: str, rows: pa.Table, schemas: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    flat, schema_id = (pc.unique(rows[name]).to_pylist() for name in ("flat", "schema_id"))
    if not len(flat) == len(schema_id) == 1:
        raise _Unusual
    fact = {"table": table, "flat": bool(flat[0]), "schema_id": schema_id[0]}
    key, before, after = (rows[name].chunk(0) for name in ("key", "before", "after"))
    faults = rows["fault"].chunk(0)
    if faults.null_count < len(rows):
        good = pc.is_null(faults)
        key, before, after = key.filter(good), before.filter(good), after.filter(good)
    if schema_id[0] is None:
        lines, count = _lines(before, after)
        seen = seen_in_lines(lines, count, flat=fact["flat"]) if count else ()
        if seen is None:
            raise _Unusual
        yield fact | columns_fact(seen)
        yield from _keyed(fact, rows, faults)
    else:
        yield fact | {"fact": "schema", "value": schemas[schema_id[0]]}
        if faults.null_count:
            yield fact | USES
    lines, count = _lines(key)
    names = key_names_in_lines(lines, count) if count else ()
    if names is None:
        raise _Unusual
    for one in names:
        yield key_fact(table, one)
    if pc.any(pc.equal(faults, UNORDERED)).as_py():
        yield unordered_fact(table)


def _keyed(fact: Mapping[str, Any], rows: pa.Table, faults: pa.Array) -> Iterator[dict[str, Any]]:
    """What the keys of the good deletes show of their columns."""
    deletes = pc.and_(pc.equal(rows["op"].chunk(0), "d"), pc.is_null(faults))
    lines, count = _lines(rows["key"].chunk(0).filter(deletes))
    shown = seen_in_lines(lines, count) if count else ()
    if shown is None:
        raise _Unusual
    yield from keyed_facts(fact, shown)


def _lines(*images: pa.Array) -> tuple[bytes, int]:
    """JSON objects, a line each, the first of a row before its second; and how many."""
    some = [texts for texts in images if texts.null_count < len(texts)]
    if not some:
        return b"", 0
    for texts in some:
        if not pc.all(pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))).as_py():
            raise _Unusual
    rows = some[0] if len(some) == 1 else pc.binary_join_element_wise(*some, "\n", null_handling="skip")
    lines = joined(rows.drop_null() if len(some) == 1 else rows.filter(pc.not_equal(rows, "")))
    count = sum(len(texts) - texts.null_count for texts in some)
    if not one_a_line(lines, count, objects=True):
        raise _Unusual
    return lines, count


def said_by_others(
    changes: pa.Table, without: Collection[ChangeId], schemas: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """The facts of changes (packed.CHANGES, of one epoch, batch after batch) but for those at these places, which is
    what their table takes: a fault is none to it. `schemas`: the texts of the inline schemas by id."""
    names = changes["batch"].cast(pa.string()).combine_chunks()
    runs = pc.run_end_encode(names)
    avoid = {batch for batch, _ in without}
    first = 0
    for batch, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        mine = changes.slice(first, end - first)
        first = end
        if batch in avoid:
            indexes = mine["index"].to_pylist()
            mine = mine.filter(pa.array([(batch, index) not in without for index in indexes], pa.bool_()))
        # A schema that nobody could ask is that of dead letters.
        known = pc.is_in(mine["schema_id"], value_set=pa.array(list(schemas), pa.string()))
        mine = mine.filter(pc.or_(known, pc.is_null(mine["schema_id"])))
        if not len(mine):
            continue
        columns = {name: mine[name].combine_chunks() for name in SAID_BY if name not in ("schema", "fault")}
        columns["fault"] = pa.nulls(len(mine), pa.string())
        columns["schema"] = _texts(columns["schema_id"], schemas)
        said, _ = facts_of(columns)
        place = {"epoch": mine["epoch"][0].as_py(), "batch": batch}
        yield from (fact | place for fact in said)


def _texts(ids: pa.Array, schemas: Mapping[str, str]) -> pa.Array:
    """The text of each inline schema, on a row that has it."""
    rows = {one: pc.index(ids, one).as_py() for one in pc.unique(ids).drop_null().to_pylist()}
    texts: list[str | None] = [None] * len(ids)
    for one, row in rows.items():
        texts[row] = schemas[one]
    return pa.array(texts, pa.string())
