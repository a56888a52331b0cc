"""How many rows a change of a map would move, for columns of every type that shards have."""

import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firn.changes.decode.types import DATE, LONG, STRING, TIMESTAMP, UUID, Type, decimal
from firn.changes.decode.types import parse as type_of
from firn.changes.placement.map_changes import merge, move, split
from firn.changes.placement.shard_map import Bands, Home, ShardMap
from firn.changes.placement.shard_values import bound_of
from firn.config.map_document import MapVersion
from firn.log.store import open_store
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.shard_moves import map_in_use, moved, not_free, shards_of
from firn_lake.sharded.placed_rows import value_of, with_value

UID = ["00000000-0000-0000-0000-000000000001", "f79c3e09-677c-4bbd-a479-3f349cb785e7"]
DAYS = [date(2025, 1, 1), date(2026, 1, 1), date(2026, 2, 1), date(2027, 1, 1), None]
ZONED = [one and datetime(one.year, one.month, one.day, tzinfo=UTC) for one in DAYS]
MOMENTS = pa.timestamp("us", "UTC")
UIDS = [uuid.UUID(one).bytes for one in ("0" * 32, *UID, "f" * 32)]
CASES: list[tuple[Type, str, str, pa.Array]] = [
    (LONG, "10", "20", pa.array([1, 10, 20, 30, None], pa.int64())),
    (STRING, "b", "c", pa.array(["a", "b", "c", "Ünter", None])),
    (DATE, "2026-01-01", "2026-02-01", pa.array(DAYS)),
    (TIMESTAMP, "2026-01-01", "2026-02-01", pa.array(DAYS, pa.date32()).cast(pa.timestamp("us"))),
    (type_of("timestamptz"), "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", pa.array(ZONED, MOMENTS)),
    (
        decimal(9, 2), "9.5", "9.75",
        pa.array([*map(Decimal, ("9.00", "9.50", "9.75", "10.00")), None], pa.decimal128(9, 2)),
    ),
    (UUID, *UID, pa.array([*UIDS, None], pa.uuid())),
]  # fmt: skip


def ranges(kind: Type, *bounds: str) -> ShardMap:
    names = [f"s{n}" for n in range(len(bounds) + 1)]
    homes = {name: Home(f"{name}.t") for name in (*names, "rest")}
    return ShardMap(
        1, "range", "c", kind, Bands(tuple(bound_of(kind, one) for one in bounds), tuple(names)), "rest", homes
    )


@pytest.mark.parametrize(("kind", "low", "high", "values"), CASES)
def test_rows_are_counted_by_where_they_would_be(tmp_path: Path, kind: Type, low: str, high: str, values: Any) -> None:
    catalog = open_catalog(f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/lake", {})
    before = ranges(kind, low)
    rows = pa.table({"c": values})
    for name in ("s1", "rest"):
        catalog.create_namespace(name)
    catalog.create_table(("s1", "t"), rows.schema).append(rows.slice(1, 3))
    catalog.create_table(("rest", "t"), rows.schema).append(rows.slice(4))
    after = split(before, "s1", "new", Home("new.t"), at=bound_of(kind, high))
    (found,) = moved(catalog, before, after)
    assert (found.source, found.target, found.rows, found.files) == ("s1", "new", 2, 1)
    (whole,) = moved(catalog, before, move(before, "s1", Home("x.t")))
    assert (whole.rows, found.bytes) == (3, whole.bytes * 2 // 3)
    (none,) = moved(catalog, before, merge(before, ["s0"], "s1"))
    assert (none.source, none.rows) == ("s0", 0)
    told = shards_of(catalog, MapVersion(before))
    assert [(one.shard, one.rows, one.table) for one in told] == [
        ("s0", 0, "s0.t"),
        ("s1", 3, "s1.t"),
        ("rest", 1, "rest.t"),
    ]
    store = open_store(f"file://{tmp_path}/staging")
    assert map_in_use(catalog, "rest.t", store, "shop") is None, "it is no table of shards"
    taken = not_free(catalog, MapVersion(ranges(kind)), before)
    assert taken == "s1.t is there already, and no shard of rest.t; write another name"
    catalog.close()


@pytest.mark.parametrize(
    "kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.timestamp("ns", "UTC")]
)
def test_moments_that_python_has_none_of_have_their_shards(kind: pa.DataType) -> None:
    days = pa.types.is_date32(kind)
    told = [-(2**31), -1, None, 1, 2**31 - 1] if days else [-(2**63) + 1, -1, None, 1, 2**63 - 1]
    column = pa.array(told, pa.int32() if days else pa.int64()).cast(kind)
    assert [value_of(DATE if days else TIMESTAMP, one) for one in column] == told
    keep = with_value("n", DATE if days else TIMESTAMP, lambda value: value is not None and value > 0)
    assert keep(pa.record_batch({"n": column})).to_pylist() == [False, False, False, True, True]
