"""What an engine that others wrote sees of a column, type by type, in a process without Firn: of .venv-duckdb,
.venv-engines, or .venv.

python engine_types.py ENGINE KIND=METADATA_FILE…   -> {"version": …, "seen": {KIND: {"type", "values"} or {"error"}}}
as JSON, of tables with the columns `id`, by which their rows are ordered, and `v`, of Iceberg's type KIND.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import UUID

_ERROR = 90  # characters of one
_PLACE = re.compile(r"(\w+:)?/\S+")  # where this run's tables are

# -> the engine's own name of the column's type, and its values
Read = Callable[[str], tuple[str, Sequence[Any]]]


def duckdb() -> Read:
    """DuckDB by its Iceberg extension, and nothing of PyIceberg."""
    import duckdb
    import duckdb_extension_avro
    import duckdb_extension_iceberg

    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    connection.execute("SET TimeZone = 'UTC'")
    for package in (duckdb_extension_avro, duckdb_extension_iceberg):
        (file,) = Path(package.__path__[0]).glob("extensions/*/*.duckdb_extension")
        connection.execute(f"LOAD '{file}'")

    def read(metadata: str) -> tuple[str, Sequence[Any]]:
        rows = f"FROM iceberg_scan('{metadata}')"
        kind = connection.execute(f"DESCRIBE SELECT v {rows}").fetchall()[0][1]
        v = "epoch_ns(v)" if kind.startswith("TIMESTAMP_NS") else "v"  # Python's own has no nanoseconds
        return kind, [value for (value,) in connection.execute(f"SELECT {v} {rows} ORDER BY id").fetchall()]

    return read


def polars() -> Read:
    """Polars, which plans by itself and reads the files itself."""
    import polars

    def read(metadata: str) -> tuple[str, Sequence[Any]]:
        found = polars.scan_iceberg(metadata).sort("id").collect()["v"]
        numbers = isinstance(found.dtype, polars.Datetime) and found.dtype.time_unit == "ns"
        return str(found.dtype), (found.to_physical() if numbers else found).to_list()

    return read


def daft() -> Read:
    """Daft, which plans by PyIceberg and reads the files itself."""
    import daft
    from pyiceberg.table import StaticTable

    def read(metadata: str) -> tuple[str, Sequence[Any]]:
        found = daft.read_iceberg(StaticTable.from_metadata(metadata)).sort("id").select("v")
        kind = str(found.schema()["v"].dtype)
        if kind.startswith("Timestamp[ns"):
            found = found.select(found["v"].cast(daft.DataType.int64()))
        return kind, found.to_pydict()["v"]

    return read


def pyiceberg() -> Read:
    """PyIceberg, and nothing of Firn's."""
    from pyiceberg.table import StaticTable

    def read(metadata: str) -> tuple[str, Sequence[Any]]:
        found = StaticTable.from_metadata(metadata).scan().to_arrow().sort_by("id")["v"]
        numbers = str(found.type).startswith("timestamp[ns")
        return str(found.type), (found.cast("int64") if numbers else found).to_pylist()

    return read


ENGINES: dict[str, Callable[[], Read]] = {"duckdb": duckdb, "pyiceberg": pyiceberg, "polars": polars, "daft": daft}


def told(kind: str, value: Any) -> Any:
    """A value of an Iceberg type as JSON has it, the same whichever engine's own type held it. A time without a zone
    counts as UTC: that the type says so, or not, is in its name. Moments in nanoseconds come as whole numbers, variants
    as what they hold or as its JSON."""
    if value is None:
        return None
    if kind == "variant":
        with suppress(ValueError):
            value = json.loads(value) if isinstance(value, str) else value
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    if kind in ("timestamp_ns", "timestamptz_ns") and isinstance(value, int):
        seconds, nanoseconds = divmod(value, 10**9)
        return f"{(datetime(1970, 1, 1) + timedelta(seconds=seconds)).isoformat()}.{nanoseconds:09}"
    if kind.startswith("map"):
        pairs = value.items() if isinstance(value, Mapping) else value
        entries = (list(pair.values() if isinstance(pair, Mapping) else pair) for pair in pairs)
        return sorted(([told("", part) for part in entry] for entry in entries), key=repr)
    if kind.startswith("struct"):
        return [told("", part) for part in (value.values() if isinstance(value, Mapping) else value)]
    if kind == "uuid" and isinstance(value, bytes):
        return str(UUID(bytes=value))
    match value:
        case bool() | str():
            return value
        case float():
            return repr(value)
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
        case bytes() | bytearray():
            return value.hex()
        case Decimal() | date() | time() | UUID():
            return str(value)
        case Mapping():
            return [told("", part) for part in value.values()]
        case int():
            return value
    return [told("", part) for part in value]


def cell(kind: str, read: Read, place: str) -> dict[str, Any]:
    """What is seen of one table."""
    try:
        name, values = read(place)
        return {"type": name, "values": [told(kind, value) for value in values]}
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return {"error": _PLACE.sub("…", " ".join(str(error).split()))[:_ERROR] or type(error).__name__}


if __name__ == "__main__":
    engine, *places = sys.argv[1:]
    reader = ENGINES[engine]()
    seen = {kind: cell(kind, reader, place) for kind, _, place in (one.rpartition("=") for one in places)}
    print(json.dumps({"version": version(engine), "seen": seen}))
