"""Whether all of a view is made in one process, or in parts by Spark's tasks, and in how many. Pure, but that DuckDB is
asked for types: the same sizes give the same way."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import duckdb

from firn_sql.views.algebra import Plan, Scan, operators
from firn_sql.views.planner import SourceTable
from firn_sql.views.refresh_cost import Facts
from firn_sql.views.refresh_way import all_of
from firn_sql.views.view_parts import NotInParts, Parts, parts_of

LEAST: Final = 50_000_000  # rows that are read: of fewer one process takes some minutes at most, and costs less
ROWS: Final = 1_000_000  # of a part, about
SMALL: Final = 100_000  # rows of a table that each part may read all of
MOST: Final = 1_000  # parts


@dataclass(frozen=True)
class FillWay:
    """How all of a view is made, and why. parts: None in one process; count: how many parts."""

    parts: Parts | None
    count: int
    why: str

    @property
    def told(self) -> str:
        """In a few words."""
        return f"in {self.count} parts, by tasks: {self.why}" if self.parts else f"in one process: {self.why}"


def fill_way(
    plan: Plan, tables: Mapping[str, SourceTable], facts: Mapping[str, Facts], connection: duckdb.DuckDBPyConnection
) -> FillWay:
    """The way of a fill.

    tables  that the plan reads, by their names in lower case
    facts   of each
    """
    rows = sum(all_of(facts[one.source]) for one in operators(plan.root) if isinstance(one, Scan))
    costs = f"its tables count for {rows:,} rows"
    if rows < LEAST:
        return FillWay(None, 1, f"{costs}, and tasks are not worth it for fewer than {LEAST:,}")
    try:
        parts = parts_of(plan, tables, connection, lambda name: all_of(facts[name]) <= SMALL)
    except NotInParts as why:
        return FillWay(None, 1, f"{costs}, but {why}")
    shared_out = sum(all_of(facts[one.source]) for one in parts.inputs if not one.whole)
    return FillWay(parts, min(MOST, -(-shared_out // ROWS)), costs)
