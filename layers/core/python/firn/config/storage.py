"""Where tables and their catalog live: the two addresses in firn.yaml, checked as text. Nothing is opened here."""

import re
from difflib import get_close_matches
from typing import Final

SCHEMES: Final = ("s3", "file")
_NOT_YET: Final = ("gs", "abfss")  # the jobs' file systems lack them
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
# A password in an address: user:password@host.
_PASSWORD: Final = re.compile(r"[^/@:]*:[^/@]+@")


def read_warehouse(text: str) -> str:
    """The warehouse's address without a slash at its end. Raises ValueError, whose text says what to write."""
    return read_place(text, "warehouses")


def read_place(text: str, things: str) -> str:
    """An address that jobs write to, without a slash at its end. `things`: what is to lie there, for the messages.
    Raises ValueError, whose text says what to write."""
    found = _URL.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not an address; write s3://bucket/prefix, or file:///absolute/path for a folder")
    scheme, rest = found.group(1), found.group(2).rstrip("/")
    if scheme in _NOT_YET:
        raise ValueError(f"{scheme}:// {things} are not supported yet; write s3://bucket/prefix or file:///path")
    if scheme not in SCHEMES:
        close = "s3" if scheme.lower() in ("s3a", "s3n") else "".join(get_close_matches(scheme.lower(), SCHEMES, 1))
        raise ValueError(f"{scheme}:// is not a storage that Firn writes to; write {close or 's3 or file'}://")
    if _PASSWORD.match(rest):
        raise ValueError("holds a password, and this file is stored beside the data; take it out of the address")
    if scheme == "file" and not rest.startswith("/"):
        raise ValueError(f"{text!r} is not an absolute path; write file:///path, with three slashes")
    if scheme != "file" and (not rest or rest.startswith("/")):
        raise ValueError(f"{text!r} names no bucket; write {scheme}://bucket/prefix")
    return f"{scheme}://{rest}"


def read_catalog_uri(text: str) -> str:
    """The catalog's address as it is. Raises ValueError if it (or one of several, with commas) holds a password."""
    if any(_PASSWORD.match(place.partition("://")[2]) for place in text.split(",")):
        raise ValueError("holds a password, and this file is stored beside the data; set FIRN_CATALOG_URI instead")
    return text.strip()
