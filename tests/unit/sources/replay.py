"""The tables that a source's changes lead to, one after the other in its own order: what a mirror has to be."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from firn.changes.decode.codec import DecodeSettings, RowCodec
from firn.changes.decode.connect_schema import columns_of

Rows = dict[tuple[Any, ...], dict[str, Any]]


class Replay:
    """`tables`: source table -> key -> column -> value; of tables without a key the key is the change's place."""

    def __init__(self, settings: DecodeSettings) -> None:
        self._settings = settings
        self._codecs: dict[bytes, tuple[RowCodec, list[str]]] = {}
        self._moved: dict[tuple[str, str], dict[str, Any]] = {}
        self.tables: dict[str, Rows] = {}

    def apply(self, changes: Iterable[Mapping[str, Any]]) -> "Replay":
        """Apply changes (as staged, images and schema in bytes) in this order."""
        for one in changes:
            self._apply(one)
        return self

    def _apply(self, one: Mapping[str, Any]) -> None:
        rows = self.tables.setdefault(one["table"], {})
        if one["op"] == "t":
            rows.clear()
            return
        place = (one["order"], one["tx_order"])
        key = tuple(json.loads(one["key"]).items()) if one["key"] else place
        if one["op"] == "d":
            self._moved[one["table"], one["order"]] = rows.pop(key)
            return
        codec, names = self._codec(one["schema"])
        decoded = codec.decode(one["after"])
        values = dict(zip(names, decoded.values, strict=True))
        before = rows.get(key) or self._moved.get((one["table"], one["order"]), {})
        for index in decoded.unavailable:
            values[names[index]] = before[names[index]]
        rows[key] = values

    def _codec(self, schema: bytes) -> tuple[RowCodec, list[str]]:
        if schema not in self._codecs:
            columns = columns_of(schema)
            self._codecs[schema] = RowCodec(columns, columns, self._settings), [one.name for one in columns]
        return self._codecs[schema]
