"""Columns that were renamed after a view's SQL was written. The SQL goes on: the view's snapshot says which columns it
means, by their ids. Pure."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from firn.views.cut import SQL

COLUMNS: Final = "firn.view.columns"  # in a snapshot's summary: JSON, table -> name in the SQL -> id of its column


def meant_columns(ancestry: Iterable[Mapping[str, str]], sql: str) -> Mapping[str, Mapping[str, int]]:
    """COLUMNS of the newest refresh among these summaries (TableState.ancestry), if that was of the same SQL, View.sha;
    nothing where it can't be read: then the SQL goes by today's names."""
    found = next((one for one in ancestry if COLUMNS in one and one.get(SQL) == sql), None)
    try:
        read = {} if found is None else json.loads(found[COLUMNS])
        return {table: {name: int(i) for name, i in names.items()} for table, names in read.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def called_in_sql(fields: Iterable[Mapping[str, Any]], meant: Mapping[str, int]) -> dict[str, str]:
    """What SQL calls columns that have another name now. `fields`: Iceberg's own JSON objects of the table's schema."""
    names = {int(one["id"]): str(one["name"]) for one in fields}
    there = frozenset(names.values())
    return {names[i]: name for name, i in meant.items() if i in names and name not in there}
