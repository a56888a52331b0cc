import io
from datetime import datetime

import msgspec
import pyarrow.parquet as pq
import pytest

from firn.changes.change import Parsed
from firn.log.batches import BatchMeta, UnreadableBatch, read_meta, write_batch
from firn.log.dead_letters.letters import DeadLetter, dead_bytes, read_dead, write_dead
from firn.log.store import put
from tests.unit.log.storage_faults import FaultyStore

META = BatchMeta(1, "shop", "shop.x", "2026-03-01T12:30:00.000Z", "sha", 3, 1, {"heartbeat": 2}, {"public.a": 3})
PARSED = Parsed(
    index=[0, 2, 5],
    table=["public.a"] * 3,
    op=["c", "u", "d"],
    ts=[1, None, 3],
    connector=["postgresql"] * 3,
    order=['["1","2"]', None, "3"],
    tx_order=[None, 7, None],
    emitted=[None, None, 1_795_215_283_944_813_315],
    flat=[False, False, True],
    key=[None, b'{"id":1}', None],
    before=[None, None, '{"n":"ü"}'.encode()],
    after=[b'{ "id": 1.50 }', b"{}", None],
    schema=[b"{S}", b"{T}", b"{S}"],
    transaction=[None, "7:100", None],
    ignored={},
    rejected=[],
)


def test_a_staged_batch_holds_the_columns_of_format_1() -> None:
    file = io.BytesIO(write_batch(PARSED, META))
    table = pq.read_table(file)
    assert {field.name: str(field.type) for field in table.schema} == {
        "index": "int32", "table": "string", "op": "string", "ts": "int64", "connector": "string", "order": "string",
        "tx_order": "int64", "emitted": "int64", "flat": "bool", "key": "string", "before": "string", "after": "string",
        "schema_id": "string", "schema": "string", "transaction": "string",
    }  # fmt: skip
    images = pq.ParquetFile(file).metadata.row_group(0).column(11)
    assert (images.path_in_schema, images.compression) == ("after", "ZSTD")
    rows = table.to_pylist()
    assert [row["index"] for row in rows] == [0, 2, 5]
    assert [row["after"] for row in rows] == ['{ "id": 1.50 }', "{}", None]
    assert rows[2]["before"] == '{"n":"ü"}'
    assert [row["ts"] for row in rows] == [1, None, 3]


def test_a_column_that_says_nothing_is_left_out() -> None:
    plain = msgspec.structs.replace(
        PARSED,
        index=[0, 1, 2],
        flat=[False] * 3,
        ts=[0] * 3,
        key=[None] * 3,
        tx_order=[None] * 3,
        emitted=[None] * 3,
        schema=[None] * 3,
        transaction=[None] * 3,
    )
    table = pq.read_table(io.BytesIO(write_batch(plain, META)))
    assert table.column_names == ["table", "op", "ts", "connector", "order", "before", "after"]
    late = msgspec.structs.replace(plain, flat=[False, True, False], key=[None, b"{}", None])
    table = pq.read_table(io.BytesIO(write_batch(late, META)))
    assert (table["flat"].to_pylist(), table["key"].to_pylist()) == ([False, True, False], [None, "{}", None])


def test_a_schema_stands_on_the_first_row_that_uses_it() -> None:
    rows = pq.read_table(io.BytesIO(write_batch(PARSED, META))).to_pylist()
    assert [row["schema"] for row in rows] == ["{S}", "{T}", None]
    assert rows[0]["schema_id"] == rows[2]["schema_id"] != rows[1]["schema_id"]


def test_the_same_batch_gives_the_same_bytes() -> None:
    assert write_batch(PARSED, META) == write_batch(PARSED, META)


def test_the_footer_alone_tells_what_a_batch_holds() -> None:
    store = FaultyStore()
    put(store, "a", write_batch(PARSED, META))
    assert read_meta(store, "a") == META
    assert store.reads == 0  # only ranges
    assert read_meta(store, "b") is None


def test_a_footer_longer_than_the_first_read_is_read_too() -> None:
    store = FaultyStore()
    wide = BatchMeta(1, "s", "b", "t", "sha", 3, 0, {}, {f"public.table_{n:05d}": 1 for n in range(3_000)})
    put(store, "a", write_batch(PARSED, wide))
    assert read_meta(store, "a") == wide


def test_an_empty_batch_is_still_a_file_with_its_counts() -> None:
    empty = Parsed([], [], [], [], [], [], [], [], [], [], [], [], [], [], ignored={}, rejected=[])
    meta = BatchMeta(1, "shop", "b", "t", "sha", 0, 0, {"heartbeat": 9}, {})
    store = FaultyStore()
    put(store, "a", write_batch(empty, meta))
    assert read_meta(store, "a") == meta


def test_data_that_looks_like_a_footer_entry_is_not_taken_for_it() -> None:
    fake = "\x18\x04firn\x18\x02{}PAR1"
    odd = Parsed(
        [0],
        ["c"],
        [fake],
        [None],
        [fake],
        [fake],
        [None],
        [None],
        [False],
        [None],
        [None],
        [fake.encode()],
        [None],
        [fake],
        {},
        [],
    )
    store = FaultyStore()
    put(store, "a", write_batch(odd, META))
    assert read_meta(store, "a") == META


@pytest.mark.parametrize("data", [b"", b"nothing", dead_bytes([]), b"x" * 50_000 + b"\xff\xff\xff\xffPAR1"])
def test_a_foreign_object_is_refused_with_its_path(data: bytes) -> None:
    store = FaultyStore()
    put(store, "staged/x", data)
    with pytest.raises(UnreadableBatch, match="staged/x"):
        read_meta(store, "staged/x")


def test_a_newer_format_is_refused() -> None:
    store = FaultyStore()
    put(store, "a", write_batch(PARSED, BatchMeta(2, "s", "b", "t", "sha", 0, 0, {}, {})))
    with pytest.raises(UnreadableBatch, match="format 2"):
        read_meta(store, "a")


def test_an_image_that_is_not_utf8_can_not_be_staged() -> None:
    bad = Parsed(
        [0],
        ["c"],
        ["t"],
        [None],
        [""],
        [None],
        [None],
        [None],
        [False],
        [None],
        [None],
        [b"\xff"],
        [None],
        [None],
        {},
        [],
    )
    with pytest.raises(UnicodeError):
        write_batch(bad, META)


def test_dead_letters_keep_reason_place_and_bytes(now: datetime) -> None:
    store = FaultyStore()
    letters = [
        DeadLetter("bad_json", "it is cut off", "shop", None, "shop.x", 3, now, b"\xff\x00{"),
        DeadLetter("bad_op", "no op", "shop", "public.a", "shop.x", 4, now, b"{}"),
    ]
    assert write_dead(store, "dead/a", letters)
    assert read_dead(store, "dead/a") == letters
    table = pq.read_table(io.BytesIO(dead_bytes(letters)))
    assert table.column_names == [
        "_dlq_reason", "_dlq_message", "stream", "table", "batch", "index", "received_at", "original",
        "change", "generation",
    ]  # fmt: skip
    assert str(table.schema.field("received_at").type) == "timestamp[ms, tz=UTC]"
    assert str(table.schema.field("original").type) == "binary"


def test_without_dead_letters_nothing_is_written() -> None:
    store = FaultyStore()
    assert write_dead(store, "dead/a", [])
    assert store.puts == []
    assert read_dead(store, "dead/a") == []
