"""The table of a join, read by values out of its files: without Spark, as a reader or a task has it."""

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.changes.decode.types import Column, Type, decimal
from firn.tables.joined_snapshots import Joined
from firn_spark.files.row_lookup import Files, Wanted
from firn_spark.pipelines.joined_table import JoinedTable
from firn_spark.tables.columns import arrow_type
from firn_sql.isolation import TooLarge

COLUMNS = tuple(
    Column(name, Type(kind) if kind else decimal(9, 2))
    for name, kind in {
        "id": "long", "n": "int", "d": "", "s": "string", "u": "uuid", "b": "boolean", "x": "binary",
        "day": "date", "at": "timestamptz", "late": "string",
    }.items()
)  # fmt: skip
MOST = 1_000_000
IDS = {one.name: number for number, one in enumerate(COLUMNS, 1)}
U = [uuid.UUID(int=n) for n in range(4)]
AT = [dt.datetime(2026, 1, 1, 0, 0, n, tzinfo=dt.UTC) for n in range(4)]


def row(n: int) -> dict[str, Any]:
    return {
        "id": n, "n": n, "d": Decimal(n) / 2, "s": f"s{n}", "u": str(U[n]), "b": n % 2 == 0, "x": bytes([n]),
        "day": AT[n].date(), "at": AT[n],
    }  # fmt: skip


def table(folder: Path, *files: list[dict[str, Any]]) -> JoinedTable:
    kinds = {"uuid": pa.uuid()}
    schema = pa.schema(
        pa.field(one.name, kinds.get(one.type.name, arrow_type(one.type)), metadata={"PARQUET:field_id": str(number)})
        for number, one in enumerate(COLUMNS[:-1], 1)  # `late` came after these files
    )
    paths = []
    for number, rows in enumerate(files):
        there = [one | {"u": None if one["u"] is None else uuid.UUID(one["u"]).bytes} for one in rows]
        paths.append(str(folder / f"{number}.parquet"))
        pq.write_table(pa.Table.from_pylist(there, schema), paths[-1])
    return JoinedTable("lake.t", Joined("uuid", 1), COLUMNS, IDS, Files(Wanted(()), paths))


@pytest.mark.parametrize("name", [one.name for one in COLUMNS[:-1]])
def test_the_rows_of_the_values_are_found_whatever_their_type(tmp_path: Path, name: str) -> None:
    rows = [row(n) for n in range(4)]
    one = table(tmp_path, rows[:1], [*rows[1:], row(3) | {name: None}])
    kind = next(arrow_type(each.type) for each in COLUMNS if each.name == name)
    wanted = pa.table({name: pa.array([rows[1][name], rows[3][name]], kind)})
    found = one.rows([each.name for each in COLUMNS], wanted, MOST)
    expected = [each | {"late": None} for each in rows if each[name] in (rows[1][name], rows[3][name])]
    assert found.sort_by("id").to_pylist() == expected


def test_a_text_that_is_no_uuid_equals_none_and_a_column_of_later_equals_nothing(tmp_path: Path) -> None:
    one = table(tmp_path, [row(1)])
    assert one.rows(["id"], pa.table({"U": ["no", "{" + str(U[1]) + "}", U[1].hex]}), MOST).to_pylist() == []
    assert one.rows(["id"], pa.table({"late": ["x"]}), MOST).to_pylist() == []


def test_several_columns_are_looked_up_together(tmp_path: Path) -> None:
    one = table(tmp_path, [row(n) for n in range(4)])
    found = one.rows(["id"], pa.table({"id": pa.array([1, 2], pa.int64()), "s": ["s2", "s1"]}), MOST)
    assert sorted(found["id"].to_pylist()) == [1, 2]


def test_more_than_a_process_may_hold_is_said(tmp_path: Path) -> None:
    one = table(tmp_path, [row(n) for n in range(4)])
    with pytest.raises(TooLarge, match=r"more than 10 bytes of lake\.t"):
        one.rows(["id", "s"], pa.table({"id": pa.array([1, 2], pa.int64())}), 10)
