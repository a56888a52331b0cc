"""The rows of a chunk as a staged batch."""

import io

import pyarrow.parquet as pq
import pytest

from firn.log.batches import FORMAT, BatchMeta, meta_of
from firn_spark.backfill import staged_file
from firn_spark.backfill.staged_file import NotText, StagedFile, TooLarge, images_of


def meta(batch: str) -> BatchMeta:
    return BatchMeta(FORMAT, "shop", batch, "2026-03-01T00:00:00.000Z", "c", 3, 0, {}, {"public.t": 3})


def filled(rows: list[bytes], schema: str = "{}") -> StagedFile:
    file = StagedFile("public.t", schema, "postgresql", '["0","5"]', 7, keyed=False)
    for row in rows:
        file.add(row)
    return file


def test_it_is_a_staged_batch_in_row_groups_whose_schema_is_on_the_first_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_file, "_GROUP_BYTES", 10)
    rows = [b'{"id":1}', b'{"id":22}', b'{"id":3}']
    data = filled(rows).finished(meta("shop.1"))
    assert meta_of(data, "x") == meta("shop.1")
    read = pq.ParquetFile(io.BytesIO(data))
    assert read.num_row_groups == 2
    table = read.read().to_pydict()
    assert (table["schema"], len(set(table["schema_id"]))) == (["{}", None, None], 1)
    assert (set(table["op"]), set(table["ts"]), set(table["order"])) == ({"r"}, {7}, {'["0","5"]'})
    assert images_of(data) == [row.decode() for row in rows]


def test_it_may_be_finished_again_under_another_name() -> None:
    file = filled([b"{}"])
    first, second = file.finished(meta("shop.1")), file.finished(meta("shop.2"))
    assert (meta_of(first, "x").batch, meta_of(second, "x").batch) == ("shop.1", "shop.2")
    assert images_of(first) == images_of(second) == ["{}"]


def test_what_is_no_text_or_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotText, match=r"a row of public\.t is not UTF-8"):
        filled([b'{"a":"\xff"}']).flush()
    monkeypatch.setattr(staged_file, "MOST_BYTES", 3)
    with pytest.raises(TooLarge, match="smaller --chunk-rows"):
        filled([b"{  }"]).flush()


def test_a_row_above_the_limit_is_named_before_it_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_file, "MOST_ROW_BYTES", 9)
    file = filled([b'{"id":12}'])
    with pytest.raises(TooLarge, match=r"a row of public\.t has 10 bytes as JSON, and 9 are the most"):
        file.add(b'{"id":123}')
