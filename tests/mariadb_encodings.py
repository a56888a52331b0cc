"""The recorded events of MariaDB as the connector would write them under other settings, by its documentation ("Data
type mappings" of Debezium's MariaDB and MySQL connectors): other modes, inline schemas, rows flattened by
ExtractNewRecordState."""

import json
from base64 import b64decode, b64encode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from firn.changes.decode.values import EXACT
from tests.mariadb_corpus import META

Event = dict[str, Any]
_EPOCH = datetime(1970, 1, 1)
_PER_MICROSECOND: dict[str, Decimal | int] = {"connect": Decimal("0.001"), "microseconds": 1, "nanoseconds": 1000}
_SHAPES = ("point", "linestring", "polygon", "geometry", "multipoint", "geometrycollection")
_INTEGERS = {"tinyint": "int16", "smallint": "int16", "mediumint": "int32", "int": "int32", "bigint": "int64"}


@dataclass(frozen=True)
class Encoding:
    """The connector's settings, and what its converters add. `propagated`: datatype.propagate.source.type."""

    decimal: Literal["precise", "string"] = "precise"
    time: Literal["adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"] = "microseconds"
    binary: Literal["bytes", "hex", "base64-url-safe"] = "bytes"
    unsigned: Literal["long", "precise"] = "long"
    schema: bool = False
    flat: bool = False
    propagated: bool = False

    def event(self, one: Event) -> Event | None:
        """One event; None for what flattening drops."""
        if "op" not in one or one["source"]["table"] not in META:
            return None if self.flat else one
        table, source = one["source"]["table"], one["source"]
        before, after = (self._image(table, one[which]) for which in ("before", "after"))
        fields = [self._field(column) for column in META[table]["columns"]]
        if not self.flat:
            payload = one | {"before": before, "after": after}
            row = [{"field": name, "type": "struct", "fields": fields} for name in ("before", "after")]
            return {"schema": {"type": "struct", "fields": row}, "payload": payload} if self.schema else payload
        if one["op"] == "t":
            return None
        added = {f"__{name}": source[name] for name in ("db", "table", "file", "pos", "row", "connector")}
        payload = {**(after or before or {}), "__deleted": str(one["op"] == "d").lower(), "__op": one["op"], **added}
        payload["__source_ts_ms"] = source["ts_ms"]
        return {"schema": {"type": "struct", "fields": fields}, "payload": payload} if self.schema else payload

    def _image(self, table: str, image: Event | None) -> Event | None:
        kinds = {column["name"]: column["type"] for column in META[table]["columns"]}
        if image is None:
            return None
        return {name: None if v is None else self._value(kinds.get(name, "text"), v) for name, v in image.items()}

    def _value(self, kind: str, value: Any) -> Any:
        base, _, size = kind.partition("(")
        if base == "decimal" and self.decimal == "string":
            scale = int(size.partition(",")[2].partition(")")[0])
            return format(Decimal(int.from_bytes(b64decode(value), "big", signed=True)).scaleb(-scale, EXACT), "f")
        if base == "bigint" and "unsigned" in kind and self.unsigned == "precise":
            return b64encode((value % 2**64).to_bytes(9, "big")).decode()
        if base == "date" and self.time == "isostring":
            return (_EPOCH + timedelta(days=value)).date().isoformat() + "Z"
        if base == "time" and self.time == "isostring":
            within = 0 <= value <= 86_400_000_000  # Debezium 3.6 sent null for the others
            return (_EPOCH + timedelta(microseconds=value)).time().isoformat() + "Z" if within else None
        if base == "time" and self.time in _PER_MICROSECOND:
            return int(value * _PER_MICROSECOND[self.time])
        if base == "datetime" and self.time != "adaptive_time_microseconds":
            return self._moment(value if size[:1] in ("4", "5", "6") else value * 1000)
        if kind.endswith("blob") or base in ("binary", "varbinary"):
            return self._bytes(value)
        if base in _SHAPES and self.binary == "hex":
            return value | {"wkb": b64decode(value["wkb"]).hex()}
        return value

    def _moment(self, micros: int) -> Any:
        if self.time == "isostring":
            return (_EPOCH + timedelta(microseconds=micros)).isoformat() + "Z"
        return int(micros * _PER_MICROSECOND[self.time])

    def _bytes(self, text: str) -> str:
        data = b64decode(text)
        return {"bytes": text, "hex": data.hex(), "base64-url-safe": urlsafe_b64encode(data).decode()}[self.binary]

    def _field(self, column: Event) -> Event:
        kind = column["type"]
        field = self._type(kind) | {"field": column["name"], "optional": True}
        if self.propagated:
            word = kind.partition("(")[0].upper() + (" UNSIGNED" if "unsigned" in kind else "")
            field["parameters"] = {**field.get("parameters", {}), "__debezium.source.column.type": word}
        return field

    def _type(self, kind: str) -> Event:
        base, _, size = kind.partition("(")
        if base == "bit":
            bits = size.partition(")")[0]
            bitstring = {"type": "bytes", "name": "io.debezium.data.Bits", "parameters": {"length": bits}}
            return {"type": "boolean"} if bits == "1" else bitstring
        if base == "decimal" or (base == "bigint" and "unsigned" in kind and self.unsigned == "precise"):
            precision, _, scale = (size if base == "decimal" else "20,0)").partition(")")[0].partition(",")
            parameters = {"scale": scale, "connect.decimal.precision": precision}
            exact = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": parameters}
            return {"type": "string"} if base == "decimal" and self.decimal == "string" else exact
        if base in ("date", "time", "datetime", "timestamp"):
            return self._temporal(base, size[:1])
        if base in _INTEGERS:
            unsigned = {"tinyint": "int16", "smallint": "int32", "mediumint": "int32"}
            return {"type": unsigned.get(base, "int64") if "unsigned" in kind else _INTEGERS[base]}
        if kind.endswith("blob") or base in ("binary", "varbinary"):
            return {"type": "bytes" if self.binary == "bytes" else "string"}
        return {
            "float": {"type": "double" if size else "float"}, "double": {"type": "double"},
            "year": {"type": "int32", "name": "io.debezium.time.Year"},
            "enum": {"type": "string", "name": "io.debezium.data.Enum"},
            "set": {"type": "string", "name": "io.debezium.data.EnumSet"},
            "point": {"type": "struct", "name": "io.debezium.data.geometry.Point"},
            **{shape: {"type": "struct", "name": "io.debezium.data.geometry.Geometry"} for shape in _SHAPES[1:]},
        }.get(base, {"type": "string"})  # fmt: skip

    def _temporal(self, base: str, digits: str) -> Event:
        if base == "timestamp":
            return {"type": "string", "name": "io.debezium.time.ZonedTimestamp"}
        word = {"date": "Date", "time": "Time", "datetime": "Timestamp"}[base]
        fine = digits in ("4", "5", "6")
        match self.time:
            case "connect":
                return {"type": "int64", "name": f"org.apache.kafka.connect.data.{word}"}
            case "isostring":
                return {"type": "string", "name": f"io.debezium.time.Iso{word}"}
            case _ if base == "date":
                return {"type": "int32", "name": "io.debezium.time.Date"}
            case "nanoseconds":
                return {"type": "int64", "name": f"io.debezium.time.Nano{word}"}
            case "microseconds":
                return {"type": "int64", "name": f"io.debezium.time.Micro{word}"}
            case _:
                return {"type": "int64", "name": f"io.debezium.time.{'Micro' if fine or base == 'time' else ''}{word}"}


def sent(events: list[Event], encoding: Encoding) -> list[Event]:
    """All of them, in their order."""
    return [json.loads(json.dumps(one)) for one in map(encoding.event, events) if one is not None]
