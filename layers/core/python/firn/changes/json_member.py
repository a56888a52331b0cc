"""One member of JSON objects, read without making anything of the others."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

_ODD: Final = re.compile(r'["\\\x00-\x1f]')
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode


@lru_cache(maxsize=64)
def member(name: str) -> Callable[[bytes | str], Raw | UnsetType]:
    """-> a function from an object's text to the member's JSON, the last one if there are several; UNSET if there is
    none. It raises msgspec.DecodeError for what is no JSON object, RecursionError for one that is nested too deeply."""
    if _ODD.search(name):  # a struct can't have it

        def among_all(text: bytes | str) -> Raw | UnsetType:
            return _members(text).get(name, UNSET)

        return among_all
    kind = msgspec.defstruct("Object", [("value", Raw | UnsetType, UNSET)], rename={"value": name}, gc=False)
    decode: Callable[[bytes | str], Any] = msgspec.json.Decoder(kind).decode

    def read(text: bytes | str) -> Raw | UnsetType:
        found: Raw | UnsetType = decode(text).value
        return found

    return read
