"""Bloom filters that firn.yaml asks for (`bloom:`), as properties of the Iceberg table. Pure.

Iceberg's own words, so that every engine that writes the table heeds them. What firn.yaml asked for last is remembered:
columns that it no longer names are switched off, those that someone else switched on stay.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from firn.changes.decode.types import Column
from firn.config.model import Bloom

ENABLED: Final = "write.parquet.bloom-filter-enabled.column."
VALUES: Final = "write.parquet.bloom-filter-ndv.column."
ASKED: Final = "firn.bloom"
# Without it Iceberg makes each a megabyte, in a file of ten rows too. For so many values it is 256 KB, a hundredth of a
# row group of 32 MB. Files that Firn writes without Spark have filters of their own size (firn_spark/files/write.py).
_VALUES: Final = 200_000


def properties(wanted: Bloom, key: Sequence[str], columns: Sequence[Column], now: Mapping[str, str]) -> dict[str, str]:
    """The properties that a table needs, some of which it may have.

    key      its key
    columns  its columns, as far as they are known; a Boolean gets none: Parquet's own writer would leave it empty, and
             an empty filter denies every value
    now      the properties it has
    """
    booleans = {column.name for column in columns if column.type.name == "boolean"}
    names = tuple(name for name in (key if wanted == "key" else wanted) if name not in booleans)
    asked = tuple(json.loads(now.get(ASKED, "[]")))
    if not names and not asked:
        return {}
    found = {f"{ENABLED}{name}": "false" for name in asked if name not in names}
    for name in names:
        found |= {f"{ENABLED}{name}": "true", f"{VALUES}{name}": now.get(f"{VALUES}{name}", str(_VALUES))}
    return {**found, ASKED: json.dumps(names, ensure_ascii=False)}


def enabled(now: Mapping[str, str]) -> tuple[str, ...]:
    """The columns whose Bloom filters a table's properties ask for."""
    return tuple(
        name.removeprefix(ENABLED)
        for name, value in now.items()
        if name.startswith(ENABLED) and value.strip().lower() == "true"
    )
