"""How deeply the JSON of a change may be nested. Pure.

Readers of JSON call themselves for each level, and how many levels they bear depends on the reader, on Python's version
and on what has called them: a job could fail at what ingest took. So levels are counted first, without recursion and in
time by the text's length; 800 leave all of these readers room.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

from firn.errors import EventError

MOST: Final = 800
CODE: Final = "too_deep"

_NAMED: Final = 3  # levels of a path that are told
# A text without an end reaches to the end: what has one is no JSON, and is told as that by its reader.
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_TOKEN: Final = re.compile(rb'("(?:[^"\\]++|\\.)*+(?:"|\\?\Z))[ \t\r\n]*+(:)?|[\[\]{}]', re.DOTALL)
_SIGNS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEPS: Final = tuple({ord("["): 1, ord("{"): 1}.get(sign, -1) for sign in range(256))

Image = bytes | str | None


def is_too_deep(image: Image) -> bool:
    """Whether JSON text is nested more than MOST deep."""
    if image is None or len(image) <= MOST:
        return False
    if isinstance(image, str):
        return image.count("[") + image.count("{") > MOST and _is_deep(image.encode("utf-8", "surrogatepass"))
    return image.count(b"[") + image.count(b"{") > MOST and _is_deep(image)


def too_deep(columns: Mapping[str, Sequence[Image]]) -> dict[int, EventError]:
    """The places of changes with an image that is, and where: `columns` has a kind of images by its name."""
    found: dict[int, EventError] = {}
    for name, images in columns.items():
        if max(map(len, filter(None, images)), default=0) > MOST:
            found |= {place: _error(name, image) for place, image in enumerate(images) if is_too_deep(image)}
    return found


def _is_deep(text: bytes) -> bool:
    signs = _STRING.sub(b"", text).translate(None, _SIGNS)
    return max(accumulate(map(_STEPS.__getitem__, signs)), default=0) > MOST


def _error(name: str, image: Image) -> EventError:
    path = _path(image.encode("utf-8", "surrogatepass") if isinstance(image, str) else image or b"")
    where = f"`{name}`, below {path}," if path else f"`{name}`"
    return EventError(CODE, f"{where} is nested more than {MOST} levels deep: have the source send that as text")


def _path(text: bytes) -> str:
    """The members on the way to what is too deep, as far down as is of help."""
    path: list[bytes] = []
    name = b""
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if sign in (b"[", b"{"):
            path.append(name)
            name = b""
            if len(path) > MOST:
                break
        elif sign in (b"]", b"}"):
            name = path.pop() if path else b""
        elif token[2]:
            name = token[1].strip(b'"')
    names = [one.decode(errors="replace")[:60] for one in path[1 : _NAMED + 1] if one]
    return ".".join(names)
