"""How shards come from one cut to the next."""

from firn.changes.decode.types import LONG
from firn.changes.placement.shard_map import Bands, Home, ShardMap, even
from firn.tables.shard_plan import Mark, Span, independent, lanes, spans, standing, whole

NAMES = ("s0", "s1", "s2")
SHARDS = ShardMap(
    2, "hash", "c", LONG, Bands(even(3), NAMES), "rest", {name: Home(f"{name}.t") for name in (*NAMES, "rest")}
)


def test_no_map_comes_back_whoever_seals_an_epoch() -> None:
    assert spans(2, {5: 1, 6: 3, 7: 2, 8: 4}) == (Span(2, (5,)), Span(3, (6, 7)), Span(4, (8,)))
    assert spans(2, {}) == ()


def test_lanes_have_each_shard_once() -> None:
    assert lanes(SHARDS, 2) == ({"rest", "s1"}, {"s0", "s2"})
    assert lanes(SHARDS, 0) == (SHARDS.shards,)
    assert len(lanes(SHARDS, 9)) == 4


def test_lanes_are_independent_where_the_key_tells_the_shard() -> None:
    assert independent(SHARDS, ("c", "k"))
    assert not independent(SHARDS, ("k",))


def test_how_far_a_shard_is() -> None:
    assert [standing(at, 5) for at in (4, 5, 6)] == ["behind", "there", "ahead"]


def test_a_cut_needs_the_marks_of_all_shards_at_one_epoch_and_version() -> None:
    marks = [Mark(7, 2, {"s0": 10, "s2": 12}), Mark(7, 1, {"s1": 1, "rest": 1}), Mark(8, 2, {"s1": 1, "rest": 1})]
    assert whole(SHARDS, 7, marks) is None
    assert whole(SHARDS, 7, [*marks, Mark(7, 2, {"s1": 11, "rest": None})]) == {"s0.t": 10, "s1.t": 11, "s2.t": 12}
