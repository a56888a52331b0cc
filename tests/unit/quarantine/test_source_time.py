"""When positions say that a source went back: pure."""

from firn.changes.positions import position
from firn.quarantine.rules import High, next_high, span_of, tells_commits, went_back
from firn_spark.staged.span import together

MINUTE = 60_000


def at(commit: int, generation: int = 0) -> bytes:
    found = position("postgresql", "u", f'["{commit}","{commit}"]', generation)
    assert found is not None
    return found


def high(commit: int, ts: int) -> High:
    return at(commit).hex(), ts


def fell(changes: list[tuple[bytes, int]], before: High | None) -> bool:
    return went_back(span_of(changes, before), before)


def test_lower_positions_at_clearly_newer_times_mean_that_the_source_went_back() -> None:
    assert fell([(at(50), 6 * MINUTE)], high(100, 0))


def test_late_doubled_and_only_slightly_newer_changes_do_not() -> None:
    before = high(100, 10 * MINUTE)
    assert not fell([(at(50), 9 * MINUTE), (at(100), 10 * MINUTE), (at(60), 15 * MINUTE)], before)
    assert not fell([(at(101), 60 * MINUTE)], before)
    assert not fell([(at(50), 60 * MINUTE)], None)


def test_another_generation_is_another_order() -> None:
    assert not fell([(at(50, 1), 60 * MINUTE)], high(100, 0))
    assert next_high(span_of([(at(50, 1), 7)], high(100, 5)), high(100, 5)) == (at(50, 1).hex(), 7)
    assert not fell([(at(50, 0), 60 * MINUTE)], (at(10, 1).hex(), 0)), "a dead letter of before, replayed"


def test_a_position_that_tells_no_commit_says_nothing_about_time() -> None:
    flat = position("postgresql", "u", "50", 0)
    assert flat is not None
    assert not fell([(flat, 60 * MINUTE)], high(100, 0))


def test_only_a_high_of_the_same_generation_says_that_commits_are_told() -> None:
    assert tells_commits(high(100, 0), 0)
    assert not tells_commits(high(100, 0), 1)
    assert not tells_commits(None, 0)


def test_a_long_transaction_does_not_set_the_time_back() -> None:
    before = high(100, 0)
    span = span_of([(at(200), 29 * MINUTE), (at(300), 1 * MINUTE)], before)
    after = next_high(span, before)
    assert after == (at(300).hex(), 29 * MINUTE)
    assert not fell([(at(250), 20 * MINUTE)], after)


def test_changes_below_the_high_never_move_it() -> None:
    """Else a restored source would push the time before it, a range at a time, and never be noticed."""
    before = high(100, 0)
    span = span_of([(at(50), 4 * MINUTE)], before)
    assert not went_back(span, before)
    assert next_high(span, before) == before
    assert fell([(at(51), 6 * MINUTE)], before)


def test_a_new_generation_has_a_time_of_its_own() -> None:
    """The old source's clock was ahead: its time would hide that the new one was restored."""
    before = high(100, 60 * MINUTE)
    span = span_of([(at(50, 1), 7), (at(60, 1), 10 * MINUTE)], before)
    after = next_high(span, before)
    assert after == (at(60, 1).hex(), 10 * MINUTE)
    assert fell([(at(55, 1), 16 * MINUTE)], after)


def test_changes_of_the_generation_before_in_one_range_say_nothing_about_the_new_ones_time() -> None:
    for before in (None, high(100, 60 * MINUTE)):
        span = span_of([(at(200), 70 * MINUTE), (at(60, 1), 10 * MINUTE), (at(50, 1), 11 * MINUTE)], before)
        assert next_high(span, before) == (at(60, 1).hex(), 11 * MINUTE)
        parts = [span_of([one], before) for one in [(at(200), 70 * MINUTE), (at(60, 1), 11 * MINUTE)]]
        assert next_high(together(parts), before) == (at(60, 1).hex(), 11 * MINUTE)
