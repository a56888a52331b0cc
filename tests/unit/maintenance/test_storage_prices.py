"""Whether a move to a colder class pays, by one table of prices."""

import pytest

from firn.config.storage_classes import AZURE, GOOGLE, S3, TABLES, ClassTable
from firn.maintenance.storage_prices import HORIZON_MONTHS, economics, storage_price

GB = 2**30


def test_a_terabyte_that_nobody_reads_saves_the_difference_of_the_storage_prices() -> None:
    found = economics(8_000, 1024 * GB, "STANDARD_IA")
    assert found.saving == pytest.approx(1024 * (0.023 - 0.0125))
    assert found.transition == pytest.approx(8 * 0.01)
    assert (found.retrieval, found.penalty) == (0, 0)
    assert found.worth


def test_the_break_even_is_where_a_year_comes_to_nothing() -> None:
    for kind in ("STANDARD_IA", "GLACIER_IR"):
        found = economics(100, 10 * GB, kind, next_access_days=20, reads_a_month=1)
        assert found.break_even is not None
        at = economics(100, 10 * GB, kind, next_access_days=20, reads_a_month=found.break_even)
        assert (at.saving - at.retrieval) * HORIZON_MONTHS == pytest.approx(at.transition + at.penalty)
        assert economics(100, 10 * GB, kind, next_access_days=20, reads_a_month=found.break_even * 0.99).worth
        assert not economics(100, 10 * GB, kind, next_access_days=20, reads_a_month=found.break_even * 1.01).worth


def test_a_read_costs_the_retrieval_and_the_dearer_requests() -> None:
    found = economics(1_000, 10 * GB, "GLACIER_IR", reads_a_month=2)
    assert found.retrieval == pytest.approx(2 * (10 * 0.03 + 1 * (0.01 - 0.0004)))


def test_standard_ia_carries_about_one_full_read_a_month_and_glacier_half_of_that() -> None:
    assert economics(10, 100 * GB, "STANDARD_IA").break_even == pytest.approx(1.05, abs=0.01)
    assert economics(10, 100 * GB, "GLACIER_IR").break_even == pytest.approx(0.633, abs=0.01)


@pytest.mark.parametrize(("days", "left"), [(None, 0), (90, 0), (120, 0), (30, 60), (0, 90)])
def test_who_takes_files_back_early_pays_for_the_days_that_are_left(days: float | None, left: int) -> None:
    found = economics(1, 10 * GB, "GLACIER_IR", next_access_days=days)
    assert found.penalty == pytest.approx(10 * 0.004 * left / 30)


def test_many_small_files_cost_more_to_watch_than_a_year_saves() -> None:
    assert not economics(1_000_000, 1_000_000 * 140_000, "INTELLIGENT_TIERING").worth
    assert economics(1_000, 1_000_000 * 140_000, "INTELLIGENT_TIERING").worth
    # The classes without a fee for each object pay down to the smallest that are moved, if nobody reads them.
    assert economics(1_000_000, 1_000_000 * 131_073, "STANDARD_IA").worth


def test_no_files_are_not_worth_a_move() -> None:
    assert not economics(0, 0, "STANDARD_IA").worth


def test_intelligent_tiering_asks_by_how_long_nobody_has_read() -> None:
    assert storage_price("INTELLIGENT_TIERING", 30) == pytest.approx(0.023)
    assert storage_price("INTELLIGENT_TIERING", 60) == pytest.approx((0.023 + 0.0125) / 2)
    assert storage_price("INTELLIGENT_TIERING", None) == pytest.approx((30 * 0.023 + 60 * 0.0125 + 270 * 0.004) / 360)
    # No read costs anything there, but each object does: what is read each week saves nothing.
    assert economics(10, 100 * GB, "INTELLIGENT_TIERING", next_access_days=200).break_even is None
    assert not economics(10, 100 * GB, "INTELLIGENT_TIERING", next_access_days=7, reads_a_month=4).worth


def test_what_is_cold_already_saves_the_rest() -> None:
    found = economics(1, 10 * GB, "GLACIER_IR", now="STANDARD_IA")
    assert found.saving == pytest.approx(10 * (0.0125 - 0.004))


def test_an_object_moves_on_and_never_back() -> None:
    for table in TABLES:
        order = [one.name for one in table.classes]
        for i, now in enumerate(order):
            for j, kind in enumerate(order):
                assert table.may_move(now, kind) == (i < j)
        assert not table.may_move(order[0], "of another storage")
        assert not table.may_move("of another storage", order[1])


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.storage)
def test_a_colder_class_is_cheaper_to_keep_dearer_to_read_and_kept_for_longer(table: ClassTable) -> None:
    kept = [one for one in table.classes if one.name != "INTELLIGENT_TIERING"]  # which asks by how long nobody has read
    assert [one.storage for one in kept] == sorted({one.storage for one in kept}, reverse=True)
    assert [one.least_days for one in kept] == sorted(one.least_days for one in kept)
    live = [one for one in kept if one.readable]
    assert [(one.retrieval, one.get, one.transition) for one in live] == sorted(
        (one.retrieval, one.get, one.transition) for one in live
    )
    assert kept[0].least_days == kept[0].retrieval == 0


def test_each_storage_has_its_prices() -> None:
    azure = economics(8_000, 1024 * GB, "Cool", table=AZURE)
    assert azure.saving == pytest.approx(1024 * (0.018 - 0.01))
    assert azure.worth
    early = economics(1, 10 * GB, "ARCHIVE", table=GOOGLE, next_access_days=65)
    assert early.penalty == pytest.approx(10 * 0.0012 * 300 / 30)
    assert not economics(100, 10 * GB, "ARCHIVE", table=GOOGLE, reads_a_month=1).worth
    assert economics(1, 10 * GB, "Cold", table=AZURE, now="Cool").saving == pytest.approx(10 * (0.01 - 0.0036))
    assert S3.date == "2026-11-22"
