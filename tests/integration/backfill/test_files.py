"""Chunks out of files: Parquet by row groups, CSV and NDJSON as they are, packed or not."""

import gzip
import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.backfill.backfill_request import Request
from firn.backfill.chunk_plan import Plan
from firn.backfill.postgres_plan import Into
from firn.changes.decode.codec import RowCodec
from firn.changes.decode.connect_schema import columns_of
from firn.changes.decode.source_encodings import DecodeSettings
from firn.changes.decode.types import parse
from firn.errors import ConfigError, TerminalError
from firn.log import published_configs
from firn.log.batches import FORMAT
from firn.log.store import get, open_store, paths
from firn_spark.backfill.chunk_reader import Work
from firn_spark.backfill.chunk_task import ChunkTask
from firn_spark.backfill.file_source import make_plan

CONFIG = "streams: {shop: {tables: {'public.*': {to: 'shop.{table}', key: [id]}}}}"
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int32()),
        "big": pa.array([2**63 - 1, None, 0], pa.int64()),
        "huge": pa.array([2**64 - 1, None, 0], pa.uint64()),
        "real": pa.array([0.1, float("nan"), None], pa.float32()),
        "wide": pa.array([0.1, float("-inf"), -0.0], pa.float64()),
        "cents": pa.array([Decimal("1.10"), None, Decimal("-0.01")], pa.decimal128(12, 2)),
        "word": pa.array(["\u00e9\n", "", None], pa.string()),
        "kind": pa.array(["a", "b", "a"]).dictionary_encode(),
        "day": pa.array([date(2024, 2, 29), None, date(1, 1, 1)], pa.date32()),
        "at": pa.array([datetime(2024, 2, 29, 1, 2, 3, 500_000), None, None], pa.timestamp("ns")),
        "then": pa.array(
            [datetime(2024, 2, 29, tzinfo=timezone(timedelta(hours=2))), None, None], pa.timestamp("us", "+02:00")
        ),
        "raw": pa.array([b"\x00\xff", None, b""], pa.binary()),
        "list": pa.array([[1, None], [], None], pa.list_(pa.int64())),
        "part": pa.array([{"a": 1}, None, None], pa.struct({"a": pa.int64()})),
    }
)


class Files:
    """A backfill of `public.t` from files, run in this process."""

    def __init__(self, folder: Path, pattern: str, **columns: str) -> None:
        self.store = open_store(f"file://{folder}/staging")
        self.config = published_configs.publish(self.store, CONFIG)
        self.request = Request(FORMAT, "b1", "shop", f"file://{folder}/{pattern}", "", ("public.t",), chunk_rows=2)
        self.into = Into({name: parse(kind) for name, kind in columns.items()}, keyed=True)

    def plan(self) -> Plan:
        return make_plan(self.request, lambda _: self.into, "")

    def rows(self, floor: int = 0) -> list[dict[str, Any]]:
        """The staged changes."""
        plan = self.plan()
        work = Work(self.request, plan, self.config.streams["shop"], self.config.sha, floor)
        ChunkTask(self.store, work, sleep=lambda _: None).run(range(len(plan.chunks)))
        found = [get(self.store, path) for path in paths(self.store, "staged/shop")]
        return [row for data in found if data for row in pq.read_table(pa.BufferReader(data)).to_pylist()]


def test_parquet_is_cut_by_row_groups_and_keeps_its_values(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "a.parquet", row_group_size=1)
    pq.write_table(ROWS.slice(0, 0), tmp_path / "b.parquet")
    (tmp_path / "other.txt").write_text("x")
    one = Files(tmp_path, "*.parquet")
    assert [chunk.where for chunk in one.plan().chunks] == ["0-2", "2-3", "0-1"]
    staged = one.rows()
    assert {(row["op"], row["connector"], row["order"]) for row in staged} == {("r", "firn", "[0,0]")}
    columns = columns_of(one.plan().tables[0].schema.encode())
    codec = RowCodec(columns, columns, DecodeSettings())
    names = [column.name for column in columns]
    values = {}
    for row in staged:
        found = dict(zip(names, codec.decode(row["after"].encode()).values, strict=True))
        values[found["id"]] = found
    first, second, third = values[1], values[2], values[3]
    assert (first["big"], first["huge"], first["cents"]) == (2**63 - 1, Decimal(2**64 - 1), Decimal("1.10"))
    assert (first["word"], first["kind"], first["raw"], first["list"]) == ("\u00e9\n", "a", b"\x00\xff", [1, None])
    assert (str(first["real"])[:3], repr(second["real"]), second["wide"], repr(third["wide"])) == (
        "0.1",
        "nan",
        float("-inf"),
        "-0.0",
    )
    assert json.loads(first["part"]) == {"a": 1}
    kinds = {column.name: str(column.type) for column in columns}
    assert (kinds["at"], kinds["then"], kinds["day"]) == ("timestamp", "timestamptz", "date")
    assert all(second[name] is None for name in ("big", "cents", "day", "at", "then", "part"))


def test_csv_is_read_as_the_types_that_the_table_has(tmp_path: Path) -> None:
    text = b'id,note,amount\n1,"two\nlines",1.50\n2,,\n'
    (tmp_path / "a.csv").write_bytes(text)
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(text.replace(b"1,", b"3,").replace(b"2,,", b"4,,")))
    one = Files(tmp_path, "*.csv*", id="long", amount="decimal(12,2)", note="string")
    images = [json.loads(row["after"]) for row in one.rows()]
    assert sorted(image["id"] for image in images) == [1, 2, 3, 4]
    assert images[0] == {"id": 1, "note": "two\nlines", "amount": "1.50"}
    assert images[1] == {"id": 2, "note": "", "amount": None}


def test_a_line_of_ndjson_is_a_row_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_text('{"id": 1, "n": 1.0}\n\n{"id": 2}\n')
    staged = Files(tmp_path, "a.ndjson").rows()
    assert [(row["after"], "schema_id" in row) for row in staged] == [
        ('{"id": 1, "n": 1.0}', False),
        ('{"id": 2}', False),
    ]
    (tmp_path / "a.ndjson").write_text('{"id": 1}\n[2]\n')
    with pytest.raises(TerminalError, match=r"a\.ndjson, line 2: it is no JSON object"):
        Files(tmp_path / "..", f"{tmp_path.name}/a.ndjson").rows()


def test_rows_may_stand_above_what_the_tables_hold(tmp_path: Path) -> None:
    from msgspec.structs import replace

    (tmp_path / "a.ndjson").write_text('{"id": 1}\n')
    one = Files(tmp_path, "a.ndjson")
    one.request = replace(one.request, position="now")
    (row,) = one.rows(floor=77)
    assert (row["connector"], row["order"]) == ("postgresql", '["77","77"]')


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("*.parquet", "no file is at"),
        ("a.txt", r"files end in \.parquet"),
        ("a.parquet", "column id is int32 in the file and date"),
    ],
)
def test_what_can_not_be_read_is_said_before_anything_is_staged(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "a.txt").write_text("x")
    if name == "a.parquet":
        pq.write_table(ROWS.select(["id"]), tmp_path / name)
    with pytest.raises((ConfigError, TerminalError), match=said):
        Files(tmp_path, name, id="date").plan()
