"""A value of every type, from a stream to the table and to whoever reads it: the same value, in both homes of the
engine, as plain rows and as Debezium's events with their schema. What a type is to each way is in docs/types.md."""

import base64
import json
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from firn.ingest import accept
from firn_lake.encoding import encoded
from firn_lake.lake import Lake as Reader
from tests.integration.spark.engine_types import told
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake, ndjson
from tests.integration.spark.test_commit import event, letters, with_schema
from tests.soak import few_cases, times

pytestmark = pytest.mark.spark

_FIRST, _LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)
_EPOCH: Final = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Kind:
    """A type as firn.yaml declares it. `edges`: values that are always tried; `connect`: its schema in Debezium's
    events, None where these have none that says it; `sent`: the value in such an event; `row`: in a plain row, as
    `sent` if None; `stored`: what the table holds of a value."""

    type: str
    values: st.SearchStrategy[Any]
    edges: Sequence[Any]
    connect: Any
    sent: Callable[[Any], Any] = lambda value: value
    row: Callable[[Any], Any] | None = None
    stored: Callable[[Any], Any] = lambda value: value


def in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def number(value: float) -> Any:
    """JSON has no word for some."""
    return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity" if math.isinf(value) else value


def unscaled(scale: int) -> Callable[[Decimal], str]:
    def sent(value: Decimal) -> str:
        whole = int(Context(prec=60).scaleb(value, scale))
        return in_base64(whole.to_bytes(whole.bit_length() // 8 + 1, "big", signed=True))

    return sent


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda n: Decimal((n < 0, tuple(map(int, str(abs(n)))), -scale)))


def connect_decimal(precision: int, scale: int) -> dict[str, Any]:
    told = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": told}


def micros(value: datetime) -> int:
    return (value - _EPOCH) // timedelta(microseconds=1)


def zulu(value: datetime) -> str:
    return value.isoformat().replace("+00:00", "Z")


def either(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def entries(keys: st.SearchStrategy[Any], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Of maps, as tables give them."""
    return st.dictionaries(keys, either(values), max_size=3).map(lambda some: list(some.items()))


def in_pairs(some: list[tuple[Any, Any]], sent: Callable[[Any], Any]) -> list[list[Any]]:
    """A map as Connect writes those whose keys are no strings."""
    return [[str(key), None if value is None else sent(value)] for key, value in some]


def ewkb(iso: bytes) -> bytes:
    """A point as PostGIS writes it, with a reference system."""
    return iso[:4] + b"\x20" + (4326).to_bytes(4, "little") + iso[5:]


def as_geometry(iso: bytes, srid: int | None = 4326) -> dict[str, Any]:
    """A point as Debezium has it of PostGIS."""
    return {"wkb": in_base64(ewkb(iso)), "srid": srid}


_POINTS = st.tuples(st.floats(), st.floats()).map(lambda at: b"\1\1\0\0\0" + struct.pack("<2d", *at))
_ZERO: Final = b"\1\1" + bytes(19)
_GEOMETRY: Final = {"type": "struct", "name": "io.debezium.data.geometry.Geometry"}
_INT = st.integers(-(2**31), 2**31 - 1)
_PAIR = st.builds(lambda n, s: {"n": n, "s": s}, either(_INT), either(st.text(max_size=5)))
_LISTS = st.lists(either(st.lists(either(decimals(9, 2)), max_size=2)), max_size=2)
KINDS: Final = {
    "boolean": Kind("boolean", st.booleans(), [True, False], "boolean"),
    "int": Kind("int", _INT, [-(2**31), 2**31 - 1], "int32"),
    "long": Kind("long", st.integers(-(2**63), 2**63 - 1), [-(2**63), 2**63 - 1], "int64"),
    "float": Kind("float", st.floats(width=32), [-0.0, math.nan, -math.inf, 2.0**-149], "float", number),
    "double": Kind("double", st.floats(), [-0.0, math.nan, math.inf, 5e-324, 0.1], "double", number),
    "decimal": Kind("decimal(20,4)", decimals(20, 4), [Decimal("-0.0001"), Decimal("9" * 16 + ".9999")],
                    connect_decimal(20, 4), unscaled(4), str),
    "widest": Kind("decimal(38,10)", decimals(38, 10), [Decimal("-" + "9" * 28 + "." + "9" * 10)],
                   connect_decimal(38, 10), unscaled(10), str),
    "date": Kind("date", st.dates(), [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)],
                 {"type": "int32", "name": "io.debezium.time.Date"}, lambda one: (one - _EPOCH.date()).days, str),
    "time": Kind("time", st.times(), [time(0), time(23, 59, 59, 999_999)],
                 {"type": "int64", "name": "io.debezium.time.MicroTime"},
                 lambda one: micros(datetime.combine(_EPOCH, one)), str, lambda one: one.isoformat("microseconds")),
    "timestamp": Kind("timestamp", st.datetimes(), [_FIRST, datetime(1969, 12, 31, 23, 59, 59, 1), _LAST],
                      {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, micros, datetime.isoformat),
    "timestamptz": Kind("timestamptz", st.datetimes(timezones=st.just(UTC)),
                        [_FIRST.replace(tzinfo=UTC), _LAST.replace(tzinfo=UTC)],
                        {"type": "string", "name": "io.debezium.time.ZonedTimestamp"}, zulu),
    "string": Kind("string", st.text(), ["", "\0", "ünï 🏔 \\ '\"\n", "null"], "string"),
    "uuid": Kind("uuid", st.uuids(), [UUID(int=0), UUID(int=2**128 - 1)],
                 {"type": "string", "name": "io.debezium.data.Uuid"}, str),
    "binary": Kind("binary", st.binary(max_size=40), [b"", b"\0\xff"], "bytes", in_base64),
    "fixed": Kind("fixed[3]", st.binary(min_size=3, max_size=3), [b"\0\0\0", b"\xff\0\x7f"], "bytes", in_base64),
    "fixeds": Kind("list<fixed[2]>", st.lists(either(st.binary(min_size=2, max_size=2)), max_size=3),
                   [[], [None, b"\0\xff"]], {"type": "array", "items": {"type": "bytes", "optional": True}},
                   lambda some: [None if one is None else in_base64(one) for one in some]),
    "wkb": Kind("wkb", _POINTS, [_ZERO], _GEOMETRY, as_geometry, lambda iso: ewkb(iso).hex()),
    "place": Kind("struct<wkb: wkb, srid: int>",
                  st.builds(lambda iso, n: {"wkb": iso, "srid": n}, _POINTS, either(_INT)),
                  [{"wkb": _ZERO, "srid": None}], _GEOMETRY, lambda one: as_geometry(one["wkb"], one["srid"])),
    "list": Kind("list<int>", st.lists(either(_INT), max_size=4), [[], [None], [1, None, 2]],
                 {"type": "array", "items": {"type": "int32", "optional": True}}),
    "lists": Kind("list<list<decimal(9,2)>>", _LISTS, [[], [None, []], [[None, Decimal("0.10")]]], None,
                  lambda one: json.loads(json.dumps(one, default=str))),
    "struct": Kind("struct<n: int, s: string>", _PAIR, [{"n": None, "s": None}, {"n": 1, "s": ""}], None),
    "map": Kind("map<string, int>", entries(st.text(max_size=5), _INT), [[], [("", None)], [("b", 1), ("a", 2)]],
                {"type": "map", "keys": {"type": "string"}, "values": {"type": "int32", "optional": True}}, dict),
    "moments": Kind("map<long, timestamp>", entries(st.integers(-(2**63), 2**63 - 1), st.datetimes()),
                    [[(-(2**63), _FIRST), (0, None)], [(2**63 - 1, _LAST)]],
                    {"type": "map", "keys": {"type": "int64"},
                     "values": {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "optional": True}},
                    lambda one: [[key, None if at is None else micros(at)] for key, at in one],
                    lambda one: {str(key): None if at is None else at.isoformat() for key, at in one}),
    "maps": Kind("list<map<uuid, map<date, decimal(9,2)>>>",
                 st.lists(either(entries(st.uuids(), entries(st.dates(), decimals(9, 2)))), max_size=2),
                 [[], [None, []], [[(UUID(int=1), [(date(1, 1, 1), Decimal("-0.10"))]), (UUID(int=0), None)]]], None,
                 lambda some: [one and in_pairs(one, lambda days: in_pairs(days, str)) for one in some]),
    "structs": Kind("list<struct<n: int, s: string>>", st.lists(either(_PAIR), max_size=3),
                    [[], [None], [{"n": 1, "s": None}, None]], None),
}  # fmt: skip
Rows = list[dict[str, Any]]


def edges() -> Rows:
    """The edges of all types, and null in each."""
    most = max(len(kind.edges) for kind in KINDS.values()) + 1
    return [{name: [*kind.edges, *[None] * most][n] for name, kind in KINDS.items()} for n in range(most)]


ROWS = st.lists(
    st.fixed_dictionaries({name: either(kind.values) for name, kind in KINDS.items()}), min_size=10, max_size=30
)


def config(way: str, names: Sequence[str]) -> str:
    columns = ", ".join(["id: long", *(f"{name}: '{KINDS[name].type}'" for name in names)])
    rows = "    envelope: rows\n    debezium: {decimal.handling.mode: string}\n"
    stream = {"plain": rows, "debezium": ""}[way]
    return (
        "warehouse: file:///set/by/the/deployment\ncatalog: {type: sql}\nstreams:\n  spec:\n"
        f"{stream}    tables:\n      app.t: {{to: lake.t, key: [id], columns: {{{columns}}}}}\n"
    )


def sent(way: str, lake: Lake, rows: Rows, names: Sequence[str]) -> None:
    encode = {name: KINDS[name].sent for name in names}
    if way == "plain":
        encode |= {name: row for name in names if (row := KINDS[name].row) is not None}

    def one(number: int, row: dict[str, Any]) -> dict[str, Any]:
        return {"id": number} | {name: None if row[name] is None else encode[name](row[name]) for name in names}

    values = [one(number, row) for number, row in enumerate(rows)]
    if way == "debezium":
        fields = {"id": "int64"} | {name: KINDS[name].connect for name in names}
        lake.post([with_schema(event("c", 10 + n, value), **fields) for n, value in enumerate(values)])
    else:
        done = accept.accept(lake.store, lake.config, "spec", ndjson(values), now=lake.now, table="app.t")
        assert done.rejected == 0, done.errors


def reads(lake: Lake, names: Sequence[str]) -> Iterator[tuple[str, Rows]]:
    """The rows by each reader."""
    reader, columns = Reader(lake.catalog), ["id", *names]
    named = ", ".join(f'"{name}"' for name in columns)
    yield "SQL", reader.sql(f"SELECT {named} FROM lake.t ORDER BY id").pylist()
    yield "Arrow", reader.table("lake.t").read(columns).arrow().sort_by("id").to_pylist()
    scanned = lake.catalog.load_table("lake.t").scan(selected_fields=tuple(columns)).to_arrow()
    yield "PyIceberg", scanned.sort_by("id").to_pylist()
    yield "Spark", lake.spark.table("firn.lake.t").select(columns).orderBy("id").toArrow().to_pylist()


def as_json(name: str, value: Any) -> Any:
    """As the JSON API has it (docs/http.md)."""
    match value:
        case float() if not math.isfinite(value):
            return None
        case float():
            return value
        case datetime():
            return zulu(value)
        case bytes():
            return in_base64(value)
        case list() | tuple():
            return [as_json(name, one) for one in value]
        case dict():
            return {part: as_json(name, one) for part, one in value.items()}
        case date() | UUID() | Decimal():
            return str(value)
    return value


@few_cases(1)
@HOMES
@pytest.mark.parametrize("way", ["plain", "debezium"])
def test_a_value_of_any_type_is_the_same_to_each_reader(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, home: str, way: str
) -> None:
    commit_in(home, monkeypatch, events=12)
    names = [name for name, kind in KINDS.items() if way == "plain" or kind.connect is not None]

    @settings(
        max_examples=times(1, 60), deadline=None, suppress_health_check=list(HealthCheck), database=None,
        phases=[Phase.explicit, Phase.generate],  # a smaller example is not worth a hundred commits
    )  # fmt: skip
    @example(edges())
    @given(ROWS)
    def comes_back(rows: Rows) -> None:
        lake = Lake(spark, tmp_path_factory.mktemp("types"), config(way, names))
        sent(way, lake, rows, names)
        assert lake.commit(lake.seal()) == 0, lake.lines
        assert letters(lake) == []
        assert lake.line("lake.t")["way"]["lookup"] == home
        stored = [
            {name: row[name] if row[name] is None else KINDS[name].stored(row[name]) for name in names} for row in rows
        ]
        wanted = [{name: told(KINDS[name].type, row[name]) for name in names} for row in stored]
        for reader, found in reads(lake, names):
            seen = [{name: told(KINDS[name].type, row[name]) for name in names} for row in found]
            assert seen == wanted, reader
        named = ", ".join(f'"{name}"' for name in names)
        batches = Reader(lake.catalog).sql(f"SELECT {named} FROM lake.t ORDER BY id")
        body = json.loads(b"".join(encoded(batches.schema, batches, "json", {})))
        assert body["rows"] == [{name: as_json(name, row[name]) for name in names} for row in stored]

    comes_back()
