"""Unavailable values: what Debezium writes in place of a column that an update left unchanged and out of line (TOAST).

The stream's placeholder travels in a form that suits the column (Debezium's UnchangedToastedPlaceholder): its text; its
bytes in base64 or hex; a one-element array of either; an array of integers, one for each byte; a name-based UUID in an
array of UUIDs; a map of the placeholder to itself for hstore; a fixed far-away point for geometry.

What Firn reads from a source itself has a mark instead, an object that is no value of any column. Its schema says so.
"""

import hashlib
import uuid
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any, Final

from firn.changes.decode.types import Encoding

# SRID=4326;POINT(-99999999 -99999999) and SRID=4326;POINT(179.999999 89.999999), as WKB in base64: independent of the
# configured placeholder.
_GEOMETRIES: Final = frozenset(
    b64encode(bytes.fromhex(wkb)).decode()
    for wkb in (
        "0101000020E6100000000000FC83D797C1000000FC83D797C1",
        "0101000020E61000000C21E7FDFF7F66401842CEFBFF7F5640",
    )
)
_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+. ")
_INTEGERS: Final = frozenset({"integer", "date_days", "time_ms", "time_us", "time_ns", "timestamp_ms", "timestamp_us"})

Test = Callable[[Any], bool]

# The parameter of an inline schema, and its value, by which unavailable values are marks.
UNAVAILABLE_AS: Final = "firn.unavailable"
MARKED: Final = "mark"
_MARK_NAME: Final = "__firn_unavailable__"
MARK: Final = b'{"__firn_unavailable__":true}'
MARK_TRACE: Final = _MARK_NAME.encode()


def is_mark(value: Any) -> bool:
    """Whether a decoded JSON value is the mark."""
    return value.__class__ is dict and value == {_MARK_NAME: True}


class Placeholder:
    """All forms of one stream's placeholder text."""

    def __init__(self, text: str, binary_mode: str) -> None:
        data = text.encode()
        padded = b64encode(data).decode()
        url_safe = urlsafe_b64encode(data).decode()
        self.text = text
        self._binary = {
            "binary_base64": frozenset({padded, padded.rstrip("=")}),
            "binary_base64url": frozenset({url_safe, url_safe.rstrip("=")}),
            "binary_hex": frozenset({data.hex(), data.hex().upper()}),
        }
        self._integers = [byte - 256 if byte > 127 else byte for byte in data]  # Java's bytes are signed
        # Java's UUID.nameUUIDFromBytes: version 3 of the bare bytes, without a namespace.
        self._uuid = str(uuid.UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3))
        self._map = {text: text}
        # A plain string in a schema may be a bytea only if the connector writes bytea as strings.
        mode = {"hex": "binary_hex", "base64": "binary_base64", "base64-url-safe": "binary_base64url"}.get(binary_mode)
        self._in_strings = self._binary[mode] if mode else frozenset[str]()

    def forms(self, source: Encoding, schema_known: bool) -> frozenset[str]:
        """The strings that stand for an unavailable value in a column of `source`.

        With a schema, a text column that holds the base64 form really holds that text; without one, every form counts.
        """
        if not schema_known:
            return frozenset({self.text}).union(*self._binary.values())
        if source.kind == "string":
            return self._in_strings | {self.text}
        if source.kind == "uuid":
            return frozenset({self.text, self._uuid})
        return self._binary.get(source.kind, frozenset()) | {self.text}

    def test(self, source: Encoding, schema_known: bool) -> Test:
        """-> a predicate on a decoded JSON value of a column of `source`: does it stand for an unavailable value?"""
        element = source.element or Encoding("any")
        strings = self.forms(source, schema_known)
        in_arrays = self.forms(element, schema_known) | ({self._uuid} if not schema_known else frozenset())
        integers = self._integers if element.kind == "any" or element.kind in _INTEGERS else None
        as_map, map_text = self._map, {self.text, *_map_texts(self.text)} if source.kind in {"json", "any"} else ()

        def stands_for_unavailable(value: Any) -> bool:
            kind = value.__class__
            if kind is str:
                return value in strings or value in map_text
            if kind is list:
                if len(value) == 1 and value[0].__class__ is str:
                    return value[0] in in_arrays
                return integers is not None and value == integers
            if kind is dict:
                wkb = value.get("wkb")
                return value == as_map or (wkb.__class__ is str and wkb in _GEOMETRIES)
            return False

        return stands_for_unavailable

    def traces(self, sources: list[tuple[Encoding, bool]]) -> tuple[bytes, ...] | None:
        """Byte strings of which an image holds at least one if any of its columns is unavailable, but for arrays of
        integers: a search for them spares a look at each value. None: the placeholder may be escaped in JSON, look."""
        wanted: set[str] = set()
        for source, schema_known in sources:
            wanted |= self.forms(source, schema_known)
            if source.element is not None:
                wanted |= self.forms(source.element, schema_known)
            if source.kind == "array" or (source.kind == "any" and not schema_known):
                wanted.add(self._uuid)
            if source.kind == "geometry" or (source.kind == "any" and not schema_known):
                wanted |= _GEOMETRIES
        needles = {form.rstrip("=").encode() for form in wanted}
        if any(not _PLAIN.issuperset(needle) for needle in needles if needle not in _GEOMETRY_NEEDLES):
            return None
        shortest_first = sorted(needles, key=len)
        return tuple(n for i, n in enumerate(shortest_first) if not any(m in n for m in shortest_first[:i]))

    def integers_of(self, source: Encoding) -> list[int] | None:
        """The integers that stand for an unavailable array of integers, if `source` can be one."""
        if source.element is not None and source.element.kind in _INTEGERS:
            return self._integers
        return None


_GEOMETRY_NEEDLES: Final = frozenset(form.rstrip("=").encode() for form in _GEOMETRIES)


def _map_texts(text: str) -> tuple[str, ...]:
    return f'{{"{text}":"{text}"}}', f'{{"{text}": "{text}"}}'
