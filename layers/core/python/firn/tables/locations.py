"""Locations of files and folders, in one spelling, so that they can be compared. Pure."""

import re
from typing import Final
from urllib.parse import urlsplit

_SAME: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss", "wasb": "abfss", "wasbs": "abfss"}
# An account's blobs and its files of ADLS Gen2 are the same, at two addresses of it. Hosts are compared in lower case.
_AZURE_HOST: Final = re.compile(r"^([^/@]*@[^/@.]+)\.(?:blob|dfs)\.([^/@]+)", re.IGNORECASE)


def spelled(location: str) -> str:
    """A file's or a folder's location in the one spelling: `s3a://b//x` is `s3://b/x`, `file:/x` and `file:///x` are
    `/x`, `wasbs://c@a.blob.core.windows.net/x` is `abfss://c@a.dfs.core.windows.net/x`. Without a slash at the end."""
    parts = urlsplit(location)
    # urlsplit would take ? and # for ends of the path: in a file's name they are characters.
    rest = location[len(parts.scheme) + 1 :] if parts.scheme else location
    if parts.scheme in ("", "file"):
        rest = re.sub(r"^//(localhost)?(?=/)", "", rest)
        return "/" + re.sub(r"/{2,}", "/", rest).strip("/")
    scheme = _SAME.get(parts.scheme, parts.scheme)
    rest = re.sub(r"/{2,}", "/", rest.lstrip("/")).rstrip("/")
    if scheme == "abfss":
        rest = _AZURE_HOST.sub(lambda found: f"{found[1]}.dfs.{found[2]}".lower(), rest)
    return f"{scheme}://{rest}"


def below(location: str, path: str) -> str | None:
    """The path from the folder `location` on; None if it does not lie there. Both `spelled`."""
    return path[len(location) + 1 :] if path.startswith(location + "/") else None
