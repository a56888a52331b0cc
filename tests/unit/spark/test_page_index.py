"""Some rows of a Parquet file by its pages are those that whole columns have, and are read of these pages alone."""

import random
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from firn.changes.decode.types import Column, Type
from firn_spark.files import page_index, values
from firn_spark.files.compact_thrift import Reader, binary
from firn_spark.files.row_group import RowGroup
from firn_spark.tables.held_columns import HeldColumns
from firn_spark.tables.objects import DataFile

ROWS = 30_000
NAMES = ("id", "k", "text", "few", "bytes", "price", "at", "share", "flag", "own")
KEYS = [
    Column("id", Type("long")), Column("k", Type("int")), Column("text", Type("string")), Column("few", Type("string")),
    Column("bytes", Type("binary")), Column("own", Type("uuid")),
]  # fmt: skip


def table_of(dice: random.Random) -> pa.Table:
    def some(value: Any) -> Any:
        return None if dice.random() < 0.1 else value

    start = datetime(2026, 1, 1, tzinfo=UTC)
    cells = {
        "id": pa.array(range(-100, ROWS - 100), pa.int64()),
        "k": pa.array([some(dice.randrange(-5_000, 5_000)) for _ in range(ROWS)], pa.int32()),
        "text": pa.array([some(f"text {n} é") for n in range(ROWS)]),
        "few": pa.array([None] * 10_000 + [dice.choice("abc") for _ in range(ROWS - 10_000)]),
        "bytes": pa.array([dice.randbytes(16) for _ in range(ROWS)]),
        "price": pa.array([some(Decimal(dice.randrange(10**6)) / 100) for _ in range(ROWS)], pa.decimal128(18, 2)),
        "at": pa.array([some(start + timedelta(seconds=n)) for n in range(ROWS)], pa.timestamp("us", "UTC")),
        "share": pa.array([some(dice.choice([0.0, -0.0, float("nan"), dice.random()])) for _ in range(ROWS)]),
        "flag": pa.array([some(dice.random() < 0.5) for _ in range(ROWS)]),
        "own": pa.array([uuid.UUID(int=dice.getrandbits(128)).bytes for _ in range(ROWS)], pa.binary(16)),
        "parts": pa.array([[n, n + 1] for n in range(ROWS)]),
    }
    return pa.table(cells)


TABLE = table_of(random.Random(7))


class Counted(DataFile):
    """A file that counts the bytes that are asked for beside Arrow's."""

    asked = 0

    def part(self, first: int, length: int) -> bytes:
        self.asked += length
        return super().part(first, length)


def file_of(gap: int = 0, **options: Any) -> Counted:
    out = pa.BufferOutputStream()
    given = {"write_page_index": True, "max_rows_per_page": 500, "store_schema": False, "row_group_size": 20_000}
    pq.write_table(TABLE, out, **{**given, **options})
    return Counted(pa.BufferReader(out.getvalue()), gap)


WAYS: list[dict[str, Any]] = [
    {"compression": "zstd", "use_dictionary": False},
    {"compression": "zstd", "use_dictionary": True},
    {"compression": "none", "use_dictionary": ["few", "k"], "gap": 1_000_000},
    {"compression": "snappy", "data_page_version": "2.0", "use_dictionary": ["few"]},
    {
        "compression": "zstd",
        "use_dictionary": True,
        "store_decimal_as_integer": True,
        "dictionary_pagesize_limit": 2_000,
    },
]


@pytest.mark.parametrize("options", WAYS)
def test_some_rows_are_those_of_whole_columns(options: dict[str, Any]) -> None:
    dice = random.Random(1)
    with file_of(**options) as file:
        for group, first, count in ((0, 0, 20_000), (1, 20_000, 10_000)):
            places = pa.array(sorted(dice.sample(range(count), 7)), pa.int64())
            whole = file.read_row_group(group)
            for name in NAMES:
                found = page_index.of_rows(file, group, name, places)
                if found is None:  # nearly all of it is its dictionary
                    assert options["use_dictionary"], name
                    continue
                assert found.type == whole[name].type
                assert repr(found.to_pylist()) == repr(whole[name].take(places).to_pylist()), name
            shuffled = pa.array([count - 1, 0, 5, 0], pa.int64())
            found = RowGroup(file, group, {"id": "id"}).taken("id", shuffled)
            assert found.to_pylist() == [first + one - 100 for one in shuffled.to_pylist()]


@pytest.mark.parametrize("options", WAYS)
@pytest.mark.parametrize("most", [1 << 30, 60_000], ids=["held", "some held"])
def test_pages_that_are_held_have_the_rows_that_they_had(options: dict[str, Any], most: int) -> None:
    dice = random.Random(3)
    with file_of(**options) as file:
        file.path, file.held = "f", HeldColumns(most)
        whole = {group: file.read_row_group(group) for group in (0, 1)}
        for _ in range(4):
            for group, name in ((group, name) for group in (0, 1) for name in NAMES):
                places = pa.array(dice.sample(range(len(whole[group])), 7), pa.int64())  # in no order
                for again in range(2):
                    before = file.asked
                    found = page_index.of_rows(file, group, name, places)
                    if found is None:
                        continue
                    assert found.type == whole[group][name].type
                    assert repr(found.to_pylist()) == repr(whole[group][name].take(places).to_pylist()), name
                    assert file.held.bytes <= most
                    assert not again or most < 1 << 30 or file.asked == before, "read once"
        for wanted in ([400], [400, 7_777], [7_777]):
            places = RowGroup(file, 0, {"id": "id"}).candidates(KEYS[:1], [pa.array(wanted)])
            assert places is not None
            assert places.to_pylist() == [one + 100 for one in wanted]


@pytest.mark.parametrize("options", WAYS)
def test_the_rows_of_some_values_are_found_in_a_few_pages(options: dict[str, Any]) -> None:
    dice = random.Random(2)
    with file_of(**options) as file:
        for column in KEYS:
            whole = file.read_row_group(0, columns=[column.name]).column(0)
            own = values.found(whole, column.type).combine_chunks()
            wanted = own.take(pa.array(dice.sample(range(len(own)), 3))).drop_null()
            more = pa.array([b"\xff" * 16] if pa.types.is_binary(own.type) else [], own.type)
            wanted = pc.unique(pa.concat_arrays([wanted, more]))
            names: dict[str, str | None] = {column.name: column.name}
            found = RowGroup(file, 0, names).candidates([column], [wanted])
            assert found is not None
            assert sorted(found.to_pylist()) == pc.indices_nonzero(pc.is_in(own, value_set=wanted)).to_pylist(), column
        before = file.asked
        assert RowGroup(file, 0, {"id": "id"}).candidates(KEYS[:1], [pa.array([400])]).to_pylist() == [500]
        assert file.asked - before < 25_000 or options.get("gap")  # of 160,000, a dictionary among it


def test_a_value_between_two_pages_reads_none() -> None:
    out = pa.BufferOutputStream()
    rows = pa.table({"id": pa.array([n * 10 for n in range(10_000)], pa.int64())})
    pq.write_table(rows, out, write_page_index=True, max_rows_per_page=500, use_dictionary=False)
    with DataFile(pa.BufferReader(out.getvalue())) as file:
        assert len(page_index.with_values(file, 0, "id", [4_995]).values) == 0
        assert len(page_index.with_values(file, 0, "id", [4_991]).values) == 0
        assert page_index.with_values(file, 0, "id", [4_990]).rows().to_pylist() == list(range(0, 500))
        assert RowGroup(file, 0, {"id": "id"}).candidates(KEYS[:1], [pa.array([4_995])]).to_pylist() == []


def test_a_part_of_a_nested_column_and_most_rows_are_read_as_a_whole() -> None:
    some, most = pa.array([1, 9_000], pa.int64()), pa.array(range(0, 20_000, 500), pa.int64())
    with file_of() as file:
        assert page_index.of_rows(file, 0, "parts", some) is None
        assert page_index.of_rows(file, 0, "parts.list.element", some) is None
        assert page_index.of_rows(file, 0, "none", some) is None
        assert page_index.of_rows(file, 0, "id", most) is None
        assert RowGroup(file, 0, {"id": "id"}).taken("id", most).to_pylist() == [n - 100 for n in most.to_pylist()]
        assert RowGroup(file, 0, {"id": None}).taken("id", some) is None
    with file_of(max_rows_per_page=10_000) as file:  # both of two pages
        assert page_index.of_rows(file, 0, "id", pa.array([1, 19_000])) is None
    with file_of(write_page_index=False) as file:
        assert page_index.of_rows(file, 0, "id", some) is None
        assert page_index.with_values(file, 0, "id", [1]) is None


def test_the_footer_of_a_wide_file_is_not_gone_through_for_a_few_values() -> None:
    """It takes Python a thousand times as long as Arrow takes to read the column."""
    rows = pa.table({f"c{n}": pa.array(range(20_000), pa.int64()) for n in range(100)})
    out = pa.BufferOutputStream()
    pq.write_table(rows, out, write_page_index=True, max_rows_per_page=100, use_dictionary=False, row_group_size=2_000)
    with Counted(pa.BufferReader(out.getvalue())) as file:
        assert page_index.of_rows(file, 0, "c3", pa.array([5], pa.int64())) is None
        assert RowGroup(file, 1, {"id": "c3"}).candidates(KEYS[:1], [pa.array([2_005])]).to_pylist() == [5]
        assert file.asked == 0


def test_a_damaged_index_is_no_index() -> None:
    out = pa.BufferOutputStream()
    pq.write_table(TABLE.select(["id", "text"]), out, write_page_index=True, max_rows_per_page=500)
    body, dice = out.getvalue().to_pybytes(), random.Random(3)
    places, wanted = pa.array([5, 25_000], pa.int64()), [7, 20_000]
    size = int.from_bytes(body[-8:-4], "little")
    begin = len(body) - 8 - size - 6_000  # the indexes of two columns are there
    for _ in range(300):
        broken = bytearray(body)
        for _ in range(3):
            broken[dice.randrange(begin, len(body) - 8 - size)] = dice.randrange(256)
        with DataFile(pa.BufferReader(bytes(broken))) as file:
            for column in ("id", "text"):  # nothing is raised, whatever it says
                page_index.of_rows(file, 0, column, places)
            page_index.with_values(file, 0, "id", wanted)


_ENDLESS = b"\xff" * 8 + b"\x0f"  # more than 2^59, of elements
_ONE_PAGE = b"\x29\x18%b\x19\x18%b\0" % (binary(bytes(8)), binary(b"\x64" + bytes(7)))


@pytest.mark.parametrize(
    ("which", "lie"),
    [
        pytest.param("bounds", b"\x19\xf1" + _ENDLESS, id="very many booleans"),
        pytest.param("bounds", b"\x19\xf7" + _ENDLESS, id="very many doubles"),
        pytest.param("bounds", b"\x1c" * 1_100, id="structs in structs"),
        pytest.param("bounds", b"\x19" * 1_100, id="lists in lists"),
        pytest.param("bounds", _ONE_PAGE, id="fewer pages than there are"),
        pytest.param("bounds", b"\x15" + b"\x80" * 1_000 + b"\x01", id="a long number"),
        pytest.param("offsets", b"\x19\x1c\x16" + b"\x80" * 400 + b"\x01\x15\x02\x16\0\0", id="a far place"),
    ],
)
def test_an_index_that_lies_is_no_index(which: str, lie: bytes) -> None:
    with file_of(use_dictionary=False) as file:
        index = page_index._Footer(file).chunks[0][0]
        at, size = (index.bounds if which == "bounds" else index.offsets) or (0, 0)
        body = file._source.read_at(file.bytes, 0)
    lie = lie[: size - 1]
    with DataFile(pa.BufferReader(body[:at] + lie + body[at + len(lie) :])) as file:
        assert page_index.with_values(file, 0, "id", [15_000]) is None
        found = RowGroup(file, 0, {"id": "id"}).candidates(KEYS[:1], [pa.array([15_000])])
        assert found is not None
        assert found.to_pylist() == [15_100]


@pytest.mark.parametrize("at", [(1 << 40, 100), (10, 1 << 31), (10, -1), (-5, 10), (10, 0)])
def test_an_index_that_is_not_in_the_file_is_not_asked_for(at: tuple[int, int]) -> None:
    with file_of(use_dictionary=False) as file:
        file.pages = page_index._Footer(file)
        file.pages.chunks[0][0] = page_index._Chunk(file.pages.chunks[0][0].metadata, at, at)
        before = file.asked
        assert page_index.of_rows(file, 0, "id", pa.array([5], pa.int64())) is None
        assert file.asked == before


def test_a_number_of_many_bytes_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="no number"):
        Reader(b"\x80" * 1_000_000 + b"\1").number()
    with pytest.raises(IndexError):
        Reader(b"\x05abc").binary()
