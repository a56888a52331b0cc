"""Whether a move to a colder class pays, by one table of prices."""

import pytest

from firn.maintenance.storage_prices import HORIZON_MONTHS, PRICES, WATERFALL, Kind, economics, may_move, storage_price

GB = 2**30
COLD: tuple[Kind, ...] = ("STANDARD_IA", "INTELLIGENT_TIERING", "GLACIER_IR")


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


def test_rules_move_on_and_never_back() -> None:
    assert may_move("STANDARD", "STANDARD_IA")
    assert may_move("STANDARD_IA", "GLACIER_IR")
    for kind in COLD:
        assert not may_move(kind, kind)
        assert not may_move("GLACIER", kind)
    assert not may_move("GLACIER_IR", "STANDARD_IA")


def test_all_classes_have_a_price_and_it_says_of_which_day() -> None:
    assert set(PRICES.of) == set(WATERFALL)
    assert PRICES.date == "2026-11-22"
    storage = [PRICES.of[kind].storage for kind in ("STANDARD", "STANDARD_IA", "GLACIER_IR")]
    assert storage == sorted(storage, reverse=True)
