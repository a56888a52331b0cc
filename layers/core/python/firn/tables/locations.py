"""Locations of files and folders, in one spelling, so that they can be compared. Pure."""

import re
from typing import Final
from urllib.parse import urlsplit

_SAME: Final = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs", "gs": "gs"}


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
