from datetime import UTC, datetime, timedelta

import pytest

from firn.log import layout

WHEN = datetime(2026, 3, 1, 9, 5, 7, 123000, tzinfo=UTC)


def test_a_batchs_path_follows_from_its_id_alone() -> None:
    batch = layout.batch_id("shop", WHEN, bytes(range(8)))
    assert layout.staged_path(batch) == f"staged/shop/2026/03/01/09/{batch}.parquet"
    assert layout.batch_dead_path(batch) == f"dead/shop/2026/03/01/{batch}.parquet"
    assert layout.stream_of(batch) == "shop"
    assert layout.time_of(batch) == WHEN
    assert layout.batch_of(layout.staged_path(batch)) == batch


def test_batch_ids_sort_by_time() -> None:
    ids = [layout.batch_id("s", WHEN + timedelta(milliseconds=ms), b"\xff" * 8) for ms in (0, 1, 255, 256, 10**9)]
    assert ids == sorted(ids)


def test_a_stream_name_with_dots_stays_readable_in_the_id() -> None:
    assert layout.stream_of(layout.batch_id("eu.shop-1", WHEN, bytes(8))) == "eu.shop-1"


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "-x", "a b", "ü", "x" * 65, "a\n"])
def test_what_could_leave_its_folder_is_no_stream_name(name: str) -> None:
    assert not layout.is_stream_name(name)
    with pytest.raises(ValueError, match="no batch id"):
        layout.batch_id(name, WHEN, bytes(8))


@pytest.mark.parametrize("text", ["", "shop", "shop.zz", "../x." + "0" * 28, "shop." + "f" * 28, "shop." + "0" * 27])
def test_other_text_is_no_batch_id(text: str) -> None:
    assert not layout.is_batch_id(text)
    with pytest.raises(ValueError, match="is not a batch id"):
        layout.staged_path(text)


def test_numbers_sort_as_text() -> None:
    found = [layout.epoch_path("s", n) for n in (9, 10, 11, 99_999, 100_000)]
    assert found == sorted(found)
    assert [layout.number_of(path) for path in found] == [9, 10, 11, 99_999, 100_000]
    assert layout.number_of("epochs/s/readme.json") is None


def test_a_listing_from_an_hour_holds_that_hour_and_nothing_earlier() -> None:
    floor = layout.staged_floor("s", WHEN)
    for later in (timedelta(), timedelta(milliseconds=1), timedelta(minutes=59), timedelta(days=400)):
        assert layout.staged_path(layout.batch_id("s", WHEN + later, bytes(8))) > floor
    for earlier in (timedelta(milliseconds=1), timedelta(minutes=59), timedelta(days=400)):
        assert layout.staged_path(layout.batch_id("s", WHEN - earlier, b"\xff" * 8)) < floor


def test_a_receipts_path_shows_nothing_of_the_key() -> None:
    assert "secret" not in layout.receipt_path("shop", "secret/../key")
    assert layout.receipt_path("shop", "a") != layout.receipt_path("shop", "b")


def test_each_kind_of_key_and_each_link_has_a_receipt_of_its_own() -> None:
    first = layout.receipt_path("shop", "k")
    others = [
        layout.receipt_path("shop", "k", kind, link) for kind in ("", "webhook-id", "queue") for link in (1, 2, 3)
    ]
    assert others[0] == first
    assert len(set(others)) == 9
    assert layout.receipt_path("shop", "k", link=2) == f"{first}.2"


def test_a_cuts_path_tells_its_stream_and_a_kept_cuts_does_not() -> None:
    assert layout.stream_of_cut(layout.cut_path("a.b", 7)) == "a.b"
    others = (layout.kept_path("7"), f"{layout.kept_prefix()}/{7:020d}.json", "cuts/a/readme.md", "cuts/a/b/c.json")
    assert [layout.stream_of_cut(path) for path in others] == [None] * 4
    for name in ("", "a/b"):
        with pytest.raises(ValueError, match="can't name a kept cut"):
            layout.kept_path(name)


def test_times_are_written_in_utc_with_milliseconds() -> None:
    assert layout.instant(WHEN) == "2026-03-01T09:05:07.123Z"
    assert datetime.fromisoformat(layout.instant(WHEN)) == WHEN
