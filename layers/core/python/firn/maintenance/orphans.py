"""Which files below a table's location nobody needs. Pure: firn_spark.maintenance.orphans lists and deletes.

A path is compared in one spelling, and otherwise as it is stored: `%` in it is a character like any other.
"""

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from firn.log.store import Stored

VERSION_HINT: Final = "metadata/version-hint.text"
"""Names the current metadata for readers without a catalog (firn export-metadata). No table names it."""

_METADATA: Final = re.compile(r"(?P<table>.+)/metadata/[^/]+\.metadata\.json(\.gz)?")


# What tells the files of a table in another format, which needs files that this one has let go.
_FORMATS: Final = {"_delta_log": "Delta Lake", ".hoodie": "Hudi", "snapshot/LATEST": "Paimon"}


def shared(listed: Iterable[Stored], properties: Mapping[str, str]) -> str | None:
    """Why files in a table's folder that it does not use may be somebody else's; None if they can't be."""
    if properties.get("gc.enabled", "true").lower() == "false":
        return "its property gc.enabled is false: its files are another table's too"
    for one in listed:
        for mark, kind in _FORMATS.items():
            if f"/{mark}/" in f"/{one.path}/":
                return f"its folder has a table of {kind}, too ({one.path}): which of its files that needs is not known"
    return None


def orphans(
    listed: Iterable[Stored], used: Container[str], before: datetime, others: Collection[str] = ()
) -> Iterator[Stored]:
    """The listed files that are not used and that were last written before an instant.

    used    paths from the table's location on
    others  folders from there on that are another table's; folders with table metadata of their own are left alone too
    """
    every = [one for one in listed if one.path != VERSION_HINT]
    found = {match["table"] for one in every if (match := _METADATA.fullmatch(one.path))}
    folders = {folder + "/" for folder in (*found, *others)}
    for one in every:
        if one.path not in used and one.modified < before and not _lies_in(one.path, folders):
            yield one


def _lies_in(path: str, folders: Collection[str]) -> bool:
    if not folders:
        return False
    return any(path[: place + 1] in folders for place, letter in enumerate(path) if letter == "/")
