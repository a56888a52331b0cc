from firn.log import cuts
from firn.log.cuts import Cut


def cut(n: int, since: int | None) -> Cut:
    return cuts.make("shop", n, "t", {}, since=since)


def of(*found: Cut) -> list[int]:
    return list(cuts.chain({one.n: one for one in found}))


def test_a_cut_that_came_after_its_successors_is_left_out() -> None:
    assert of(cut(3, 0), cut(4, 3), cut(5, 3)) == [3, 5]
    assert of(cut(3, 0), cut(4, 3), cut(5, 3), cut(6, 5)) == [3, 5, 6]


def test_older_cuts_do_not_say_what_they_follow_and_all_count() -> None:
    assert of(cut(1, None), cut(2, None), cut(4, 2)) == [1, 2, 4]
    assert of() == []


def test_a_chain_whose_start_has_expired_begins_where_it_can() -> None:
    assert of(cut(7, 6), cut(9, 7)) == [7, 9]
