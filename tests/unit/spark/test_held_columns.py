"""What look-ups have read stays in memory for the next ones, up to a bound."""

import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.changes.decode.types import Column, Type
from firn_spark.files.row_group import RowGroup
from firn_spark.tables.held_columns import HeldColumns
from firn_spark.tables.objects import Objects

ID = Column("id", Type("long"))


def held(most: int, *names: str) -> HeldColumns:
    found = HeldColumns(most)
    for name in names:
        found.put(name, 0, "id", name.upper(), 10)
    return found


def test_what_is_held_is_found_by_its_file_row_group_and_name() -> None:
    found = held(100, "a")
    assert found.get("a", 0, "id") == "A"
    assert [found.get(*key) for key in (("b", 0, "id"), ("a", 1, "id"), ("a", 0, "k"))] == [None] * 3


def test_more_than_the_bound_is_never_held() -> None:
    found = held(35, *"abcdefgh")
    assert found.bytes == 30
    found.put("large", 0, "id", "LARGE", 36)
    assert found.get("large", 0, "id") is None
    found.clear()
    assert (found.bytes, found.get("h", 0, "id")) == (0, None)


def test_what_is_asked_for_once_makes_room() -> None:
    found = held(20, "a", "b")
    for name in "cdefg":  # each is passed over once
        assert found.get("b", 0, "id") == "B"
        found.put(name, 0, "id", name.upper(), 10)
    assert found.get("a", 0, "id") is None
    assert found.get("b", 0, "id") == "B"


def test_of_more_than_there_is_room_for_some_is_found_each_time() -> None:
    found, hits = HeldColumns(50), []
    for _ in range(20):
        hits.append(0)
        for name in "abcdefgh":
            if found.get(name, 0, "id") is None:
                found.put(name, 0, "id", name, 10)
            else:
                hits[-1] += 1
    assert min(hits[2:]) >= 3, hits


def test_files_that_compaction_took_out_make_room() -> None:
    found = HeldColumns(50)
    for names in ("abcde", "vwxyz"):
        for _ in range(12):
            for name in names:
                if found.get(name, 0, "id") is None:
                    found.put(name, 0, "id", name, 10)
    assert all(found.get(name, 0, "id") for name in "vwxyz")
    assert found.bytes == 50


def test_pages_have_the_room_that_columns_leave() -> None:
    values = pa.array(range(25), pa.int64())  # 200 bytes, and 300 beside them
    found = held(2_100, "a")
    found.put_pages("f", 0, "k", dict.fromkeys(range(6), values))
    assert sorted(found.pages("f", 0, "k", range(9))) == [2, 3, 4, 5]
    assert found.bytes == 2_010
    assert not found.pages("f", 1, "k", range(9)) | found.pages("f", 0, "id", range(9))
    found.pages("f", 0, "k", [2])
    found.put_pages("f", 0, "k", {7: values})
    assert sorted(found.pages("f", 0, "k", range(9))) == [2, 4, 5, 7], "the least recently used goes"
    found.put("b", 0, "id", "B", 1_500)
    assert sorted(found.pages("f", 0, "k", range(9))) == [7]
    found.put("c", 0, "id", "C", 590)
    assert (found.pages("f", 0, "k", range(9)), found.bytes) == ({}, 2_100)
    found.put_pages("f", 0, "k", {7: values})
    assert not found.pages("f", 0, "k", [7]), "no column goes for a page"
    assert [found.get(name, 0, "id") for name in "abc"] == ["A", "B", "C"]
    found.clear()
    found.put_pages("f", 0, "k", {7: values})
    found.clear()
    assert (found.pages("f", 0, "k", [7]), found.bytes) == ({}, 0)


def test_a_column_that_is_held_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.parquet"
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    pq.write_table(pa.table([pa.array(range(5_000))], schema=schema), path, row_group_size=2_500)
    read, known = [], HeldColumns()
    real = pq.ParquetFile.read_row_group

    def counted(file: pq.ParquetFile, number: int, **more: object) -> pa.Table:
        read.append(number)
        return real(file, number, **more)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    wanted = pa.array(range(0, 5_000, 7), pa.int64())
    for columns in (known, known, HeldColumns(), None):
        found = []
        with Objects(f"file://{tmp_path}", columns).open(f"file://{path}") as file:
            for number in range(2):
                group = RowGroup(file, number, {"id": "id"})
                places = group.candidates([ID], [wanted])
                assert places is not None
                found += group.taken("id", places).to_pylist()
        assert found == wanted.to_pylist()
    assert read == [0, 1] * 3, "not the second time"


def test_places_of_pages_are_told_once(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    rows = pa.table([pa.array(range(100_000))], schema=schema)
    pq.write_table(rows, path, write_page_index=True, max_rows_per_page=1_000, use_dictionary=False)
    known, footers = HeldColumns(), []
    for wanted in (5, 77_777, 5):
        with Objects(f"file://{tmp_path}", known).open(f"file://{path}") as file:
            group = RowGroup(file, 0, {"id": "id"})
            assert group.candidates([ID], [pa.array([wanted])]).to_pylist() == [wanted]
            footers.append(file.pages)
    assert footers[0] is not None
    assert footers[1:] == footers[:1] * 2


def test_what_grows_counts_for_what_it_is() -> None:
    found = held(50, "a", "b")
    found.put("b", 0, "id", "B", 40)
    assert (found.bytes, found.get("b", 0, "id")) == (50, "B")
    found.put("b", 0, "id", "B", 51)
    assert (found.bytes, found.get("b", 0, "id"), found.get("a", 0, "id")) == (10, None, "A")


def test_what_is_known_of_many_pages_counts_for_what_it_takes(tmp_path: Path) -> None:
    path, names = tmp_path / "rows.parquet", [f"c{i}" for i in range(4)]
    rows = pa.table([pa.array(range(400_000))] * len(names), names=names)
    pq.write_table(rows, path, write_page_index=True, max_rows_per_page=100, use_dictionary=False)
    known = HeldColumns()
    tracemalloc.start()
    with Objects(f"file://{tmp_path}", known).open(f"file://{path}") as file:
        for name in names:
            group = RowGroup(file, 0, {name: name})
            assert group.candidates([Column(name, Type("long"))], [pa.array([5])]).to_pylist() == [5]
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken / 2 < known.bytes < taken * 2
    assert taken > 2_000_000
