"""What the rows of a mirror table are made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from firn.changes.decode.row_decoder import OTHERS_LEFT_OUT
from firn.changes.decode.types import Column
from firn.changes.metadata_columns import HELD_METADATA, OTHERS_ID
from firn.tables.planning import ColumnPlan
from firn.tables.table_state import HELD_IDS, PATCHES_FORMAT, at_least
from firn_spark.merge.survey import Survey
from firn_spark.tables.evolve import Table, Tables
from firn_spark.tables.fence import unmoved


@dataclass(frozen=True)
class Shape:
    """The columns of a table, and what its rows hold.

    columns   in order, c0 and so on
    held_ids  of the ordinals that changes leave unavailable or that rows may hold: the field id in the table
    extras    names of columns that Firn has no type for, of an adopted table
    """

    columns: Sequence[Column]
    held_ids: Mapping[int, int]
    extras: Sequence[str]


def shape_of(tables: Tables, table: Table, plan: ColumnPlan, key: Sequence[int], seen: Survey) -> tuple[Table, Shape]:
    """The table, with a place for held columns if these changes need one, and its shape."""
    ids = {field["name"]: int(field["id"]) for field in table.state.fields}
    known = {int(text) for text in table.state.properties.get(HELD_IDS, "").split(",") if text}
    patched = OTHERS_LEFT_OUT in seen.unavailable
    held = known | ({OTHERS_ID} if patched else {ids[plan.columns[i].name] for i in seen.unavailable})
    if held:
        ready = tables.evolve(table, ColumnPlan(plan.columns), (HELD_METADATA,))
        told = {HELD_IDS: ",".join(map(str, sorted(held)))}
        told |= at_least(table.state, PATCHES_FORMAT) if OTHERS_ID in held else {}
        table = unmoved(table, tables.set_properties(ready, told))
    every = {i: ids[column.name] for i, column in enumerate(plan.columns)}
    gaps = {i: number for i, number in every.items() if number in held and i not in key}
    return table, Shape(plan.columns, every if OTHERS_ID in held else gaps, sorted(plan.unwritable))
