"""Nanoseconds from a stream to a table of format 3 and to whoever reads it, in both homes of the engine. Spark itself
opens no such table (docs/types.md), so nothing that Firn does with one asks it to."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from firn.ingest import accept
from firn_lake.lake import Lake as Reader
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake, ndjson
from tests.integration.spark.test_commit import event, letters, with_schema
from tests.soak import times

pytestmark = pytest.mark.spark

FIRST, LAST = -(2**63), 2**63 - 1
NANO: Final = {"type": "int64", "name": "io.debezium.time.NanoTimestamp", "optional": True}
NAMES: Final = ("at", "zoned", "some", "part", "by")
MOMENT = st.none() | st.integers(FIRST, LAST) | st.integers(-(10**10), 10**10) | st.sampled_from([FIRST, -1, 0, LAST])


def text(value: int | None, end: str = "") -> str | None:
    if value is None:
        return None
    seconds, rest = divmod(value, 10**9)
    moment = pa.scalar(seconds, pa.timestamp("s")).as_py().isoformat()
    return f"{moment}.{rest:09}{end}"


def config(way: str, more: str = "") -> str:
    columns = (
        "id: long, at: timestamp_ns, zoned: timestamptz_ns, some: list<timestamp_ns>, "
        "part: 'struct<n: int, at: timestamptz_ns>', by: 'map<string, timestamp_ns>'"
    )
    declared = f", columns: {{{columns}}}" if way == "plain" else ""
    rows = "    envelope: rows\n" if way == "plain" else ""
    return (
        "warehouse: file:///set/by/the/deployment\ncatalog: {type: sql}\nstreams:\n  spec:\n"
        f"{rows}    tables:\n      app.t: {{to: lake.t, key: [id], format: 3{declared}{more}}}\n"
    )


def row_of(number: int, one: int | None, other: int | None) -> dict[str, Any]:
    return {
        "id": number, "at": text(one), "zoned": text(other, "Z"), "some": [text(one), text(other)],
        "part": {"n": 1, "at": text(one, "Z")}, "by": {"k": text(other)},
    }  # fmt: skip


def post(way: str, lake: Lake, values: Sequence[tuple[int | None, int | None]], begin: int = 0) -> None:
    rows = [row_of(begin + n, *pair) for n, pair in enumerate(values)]
    if way == "plain":
        done = accept.accept(lake.store, lake.config, "spec", ndjson(rows), now=lake.now, table="app.t")
        assert done.rejected == 0, done.errors
        return
    schema = {"id": "int64", "at": NANO, "some": {"type": "array", "items": NANO, "optional": True}}
    sent = [{"id": begin + n, "at": one, "some": [one, two]} for n, (one, two) in enumerate(values)]
    lake.post([with_schema(event("c", 10 + begin + n, one), **schema) for n, one in enumerate(sent)])


def counted(rows: pa.Table) -> list[dict[str, Any]]:
    """The rows with their moments as whole numbers."""

    def plain(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_timestamp(kind):
            return pa.int64()
        if pa.types.is_map(kind):
            return pa.map_(kind.key_type, plain(kind.item_type))
        if pa.types.is_list(kind):
            return pa.list_(plain(kind.value_type))
        if pa.types.is_struct(kind):
            return pa.struct([(one.name, plain(one.type)) for one in kind])
        return kind

    return pa.table([one.cast(plain(one.type)) for one in rows.columns], names=rows.column_names).to_pylist()


@HOMES
@pytest.mark.parametrize("way", ["plain", "debezium"])
def test_nanoseconds_are_the_same_to_each_reader(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, home: str, way: str
) -> None:
    commit_in(home, monkeypatch, events=3)

    @settings(
        max_examples=times(1, 40), deadline=None, suppress_health_check=list(HealthCheck), database=None,
        phases=[Phase.explicit, Phase.generate],
    )  # fmt: skip
    @example([(FIRST, LAST), (-1, 1), (None, -1_000_000_001), (1_700_000_000_123_456_789, None), (0, FIRST + 1)])
    @given(st.lists(st.tuples(MOMENT, MOMENT), min_size=4, max_size=12))
    def come_back(values: list[tuple[int | None, int | None]]) -> None:
        lake = Lake(spark, tmp_path_factory.mktemp("nanos"), config(way))
        post(way, lake, values)
        assert lake.commit(lake.seal()) == 0, lake.lines
        assert letters(lake) == []
        assert lake.line("lake.t")["way"]["lookup"] == home
        names = ["id", *(NAMES if way == "plain" else ("at", "some"))]
        wanted = [
            {"id": n, "at": one, "zoned": two, "some": [one, two], "part": {"n": 1, "at": one}, "by": [("k", two)]}
            for n, (one, two) in enumerate(values)
        ]
        reader, quoted = Reader(lake.catalog), ", ".join(f'"{name}"' for name in names)
        for found in (
            reader.sql(f"SELECT {quoted} FROM lake.t ORDER BY id").arrow(),
            reader.table("lake.t").read(names).arrow().sort_by("id"),
            lake.catalog.load_table("lake.t").scan(selected_fields=tuple(names)).to_arrow().sort_by("id"),
        ):
            assert counted(found.select(names)) == [{name: row[name] for name in names} for row in wanted]

    come_back()
