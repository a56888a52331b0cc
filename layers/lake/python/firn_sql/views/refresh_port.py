"""What a refresh of a view asks of whoever has the tables, and the conditions and changes that it speaks of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from firn_sql.views.algebra import Expression, column

BEFORE: Final = 0
AFTER: Final = 1
NOTHING: Final = 2
"""A cut at which all tables are empty: it is asked for to know the types of what is made of their rows."""


class Sources(Protocol):
    """The tables that a view reads, at two cuts, as a connection of DuckDB sees them."""

    def rows(self, source: str, cut: int, columns: Sequence[str], within: "Within | None") -> str:
        """A SELECT of these columns of a table at a cut. within: rows that are not in it are not asked for."""
        ...

    def changes(self, source: str, columns: Sequence[str]) -> tuple[str, str] | None:
        """SELECTs of the rows that went from the one cut to the other, and of those that came; None if none did."""
        ...

    def held(self, columns: Sequence[str], within: "Within") -> str:
        """A SELECT of these columns (Plan.stored) of the view itself, of its rows in `within`."""
        ...

    def all_held(self, columns: Sequence[str]) -> str | None:
        """The same of all its rows; None if it does not have all of these columns."""
        ...

    def count(self, source: str) -> int:
        """About how many rows a table has."""
        ...


@dataclass(frozen=True)
class Within:
    """Rows whose values are among those of a table of the connection, nulls being equal.

    values  of each of its columns w0, w1, … what is compared
    """

    values: tuple[Expression, ...]
    table: str

    def semi_join(self, rows: str, columns: Sequence[str]) -> str:
        """Those of `rows` (a SELECT) that are in it. An expression that fails is null here: the query may leave such
        rows out before it computes anything of them."""
        return self._joined("SEMI", rows, columns)

    def anti_join(self, rows: str, columns: Sequence[str]) -> str:
        """The others of them."""
        return self._joined("ANTI", rows, columns)

    def _joined(self, how: str, rows: str, columns: Sequence[str]) -> str:
        values = (f"({one.sql})" if one.column else f"TRY({one.sql})" for one in self.values)
        on = " AND ".join(f"{one} IS NOT DISTINCT FROM w{i}" for i, one in enumerate(values)) or "TRUE"
        return f"SELECT {listed(columns)} FROM ({rows}) {how} JOIN {self.table} ON {on}"


@dataclass(frozen=True)
class Span(Within):
    """Rows whose one value lies from w0 to w1 of any row of a table of the connection, both included; `ends`: whose
    value is one of the two."""

    ends: bool = False

    def semi_join(self, rows: str, columns: Sequence[str]) -> str:
        """As Within says."""
        return f"SELECT {listed(columns)} FROM ({rows}) SEMI JOIN {self.table} ON {self.holds}"

    @property
    def holds(self) -> str:
        """Whether a row is in it, beside one of the table."""
        value = f"({self.values[0].sql})"
        said = f"{value} = w0 OR {value} = w1" if self.ends else f"{value} BETWEEN w0 AND w1"
        return f"coalesce(TRY({said}), FALSE)"


@dataclass(frozen=True)
class Delta:
    """Rows that went and rows that came: tables of the connection."""

    gone: str
    come: str


def named(within: Within | None, names: Mapping[str, str]) -> Within | None:
    """What a source may be asked for: values that are columns of its own, by the source's names."""
    if within is None:
        return None
    return replace(within, values=tuple(column(names[one.column or ""]) for one in within.values))


def through(within: Within | None, columns: Sequence[str], values: Sequence[Expression]) -> Within | None:
    """A condition on columns as one on what they are computed from. None if it is on others too."""
    known = dict(zip(columns, values, strict=True))
    if within is None or not all(one.columns <= known.keys() for one in within.values):
        return None
    return replace(within, values=tuple(one.over(known) for one in within.values))


def listed(columns: Sequence[str]) -> str:
    """Columns after SELECT; something where there are none."""
    return ", ".join(columns) or "1"
