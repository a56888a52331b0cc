"""Which files below a table's location nobody needs. Pure: firn_spark.care.orphans lists and deletes.

A path is compared in one spelling, and otherwise as it is stored: `%` in it is a character like any other.
"""

import re
from collections.abc import Collection, Container, Iterable, Iterator
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

from firn.staging.store import Stored

_SAME: Final = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs", "gs": "gs"}
_METADATA: Final = re.compile(r"(?P<table>.+)/metadata/[^/]+\.metadata\.json(\.gz)?")


def spelled(location: str) -> str:
    """A file's or a folder's location in the one spelling: `s3a://b//x` is `s3://b/x`, `file:/x` and `file:///x` are
    `/x`. Without a slash at the end."""
    parts = urlsplit(location)
    # urlsplit would take ? and # for ends of the path: in a file's name they are characters.
    rest = location[len(parts.scheme) + 1 :] if parts.scheme else location
    if parts.scheme in ("", "file"):
        rest = re.sub(r"^//(localhost)?(?=/)", "", rest)
        return "/" + re.sub(r"/{2,}", "/", rest).strip("/")
    scheme = _SAME.get(parts.scheme, parts.scheme)
    return f"{scheme}://" + re.sub(r"/{2,}", "/", rest.lstrip("/")).rstrip("/")


def below(location: str, path: str) -> str | None:
    """The path from the folder `location` on; None if it does not lie there. Both `spelled`."""
    return path[len(location) + 1 :] if path.startswith(location + "/") else None


def orphans(
    listed: Iterable[Stored], used: Container[str], before: datetime, others: Collection[str] = ()
) -> Iterator[Stored]:
    """The listed files that are not used and that were last written before an instant.

    used    paths from the table's location on
    others  folders from there on that are another table's; folders with table metadata of their own are left alone too
    """
    every = list(listed)
    found = {match["table"] for one in every if (match := _METADATA.fullmatch(one.path))}
    folders = {folder + "/" for folder in (*found, *others)}
    for one in every:
        if one.path not in used and one.modified < before and not _lies_in(one.path, folders):
            yield one


def _lies_in(path: str, folders: Collection[str]) -> bool:
    if not folders:
        return False
    return any(path[: place + 1] in folders for place, letter in enumerate(path) if letter == "/")
