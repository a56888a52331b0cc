"""Where the reads of a chunk stand: the floor, and places in PostgreSQL's log."""

import pytest

from firn.backfill.read_position import ForeignStream, floor_of, lsn_of, lsn_text, order_of_read
from firn.changes.positions import position


def high(order: str, op: str = "u", generation: int = 2) -> str:
    found = position("postgresql", op, order, generation)
    assert found is not None
    return found.hex()


@pytest.mark.parametrize(
    ("order", "op", "floor"),
    [
        ('["100","90"]', "u", 100),  # a long transaction's change lies below the commit before it
        ('["100","120"]', "u", 120),  # its own commit is above its change
        ('[null,"120"]', "u", 0),  # it tells no commit: every change beats a read
        ("120", "u", 0),
        ('["100","120"]', "r", 0),
    ],
)
def test_the_floor_is_the_highest_place_that_the_tables_know(order: str, op: str, floor: int) -> None:
    assert floor_of(high(order, op), 2) == floor


def test_what_another_generation_knows_says_nothing() -> None:
    assert floor_of(high('["100","120"]', generation=1), 2) == 0
    assert floor_of(None, 2) == 0


def test_a_read_loses_against_a_change_at_the_floor_and_wins_below_it() -> None:
    read = position("postgresql", "r", order_of_read(100, 500), 0)
    assert read is not None
    for order, wins in (('["100","1"]', False), ('["101","1"]', False), ('["99","600"]', True), ('[null,"600"]', True)):
        change = position("postgresql", "u", order, 0)
        assert change is not None
        assert (read > change) == wins, order


def test_a_stream_that_is_ahead_of_the_log_is_of_another_server() -> None:
    with pytest.raises(ForeignStream, match=r"stand at 0/65 and the server's log ends at 0/64"):
        order_of_read(101, 100)


def test_places_in_the_log_are_read_and_written_as_postgresql_does() -> None:
    assert lsn_of("16/B374D848") == 0x16B374D848
    assert lsn_text(0x16B374D848) == "16/B374D848"
    with pytest.raises(ValueError, match="is not a place in PostgreSQL's log"):
        lsn_of("42")


def test_beside_a_pulled_stream_a_read_wins_against_what_was_committed_below_it() -> None:
    read = position("postgresql", "r", order_of_read(0, 500, pulled=True), 0)
    below, above = position("postgresql", "u", "[499,300]", 0), position("postgresql", "u", "[508,505]", 0)
    assert sorted(filter(None, (above, read, below))) == [below, read, above]
    with pytest.raises(ForeignStream):
        order_of_read(501, 500, pulled=True)
