"""How firn.yaml wants a table's files written (config/file_writing.py), as properties of the Iceberg table. Pure.

Iceberg's own words, so that every engine that writes the table heeds them. What firn.yaml asked for last is remembered:
what it no longer names is as it was without it, what someone else set stays.
"""

import json
from collections.abc import Mapping
from typing import Final

from firn.config.file_writing import MANIFEST, PAGE_ROWS, ROW_GROUP, FileWriting
from firn.tables.iceberg_format import NANOSECONDS, keeps_nanoseconds

ASKED: Final = "firn.properties"
# A look-up reads the key's column of each row group whose bounds hold a wanted key. Iceberg's 128 MB would be whole
# files, and a file that was made of others has their bounds and all that lies between.
# Scattered rows cost the pages that they are in, which the page index tells. Iceberg's 20,000 rows are so many that one
# in 10,000 rows lies in nearly all of them; of 4,000 rows, whole columns cost the same.
# A query of one partition reads whole manifests, and a reader in Python keeps those of up to 4 MB: Iceberg's 8 MB
# list some 30,000 files each.
OWN: Final[Mapping[str, str]] = {ROW_GROUP: str(32 * 1024 * 1024), PAGE_ROWS: "4000", MANIFEST: str(1024 * 1024)}
"""What Firn sets itself where firn.yaml says nothing."""


def properties(wanted: FileWriting, now: Mapping[str, str]) -> dict[str, str | None]:
    """The properties that a table needs, some of which it may have; None for one that is to go. `now`: those it has."""
    asked = json.loads(now.get(ASKED, "[]"))
    if not wanted.properties and not asked:
        return {}
    gone = {name: OWN.get(name) for name in asked if name not in wanted.properties}
    return {**gone, **wanted.properties, ASKED: json.dumps(sorted(wanted.properties))}


def first(wanted: FileWriting) -> dict[str, str]:
    """The same of a table that is made now, and whether it keeps nanoseconds."""
    found = {name: value for name, value in properties(wanted, {}).items() if value is not None}
    return found | ({NANOSECONDS: "true"} if keeps_nanoseconds(None, wanted.format) else {})
