"""One member of JSON objects, read without making anything of the others."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType


@lru_cache(maxsize=64)
def member(name: str) -> Callable[[bytes | str], Raw | UnsetType]:
    """-> a function from an object's text to the member's JSON, the last one if there are several; UNSET if there is
    none. It raises msgspec.DecodeError for what is no JSON object, RecursionError for one that is nested too deeply."""
    kind = msgspec.defstruct("Object", [("value", Raw | UnsetType, UNSET)], rename={"value": name}, gc=False)
    decode: Callable[[bytes | str], Any] = msgspec.json.Decoder(kind).decode

    def read(text: bytes | str) -> Raw | UnsetType:
        found: Raw | UnsetType = decode(text).value
        return found

    return read
