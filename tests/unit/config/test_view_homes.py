"""Views that read each other are refreshed by the jobs of one stream."""

from firn.config.view_homes import joined


def test_a_view_is_at_home_where_a_view_over_it_is() -> None:
    assert joined({"a": 1, "b": 0}, {"a": ["t"], "b": ["a", "u"]}) == {"a": 0, "b": 0}


def test_views_that_a_third_one_joins_have_one_home_in_any_order() -> None:
    homes = {"a": 3, "b": 1, "c": 2, "d": 1, "e": 0}
    reads = {"a": ["t"], "b": ["u"], "c": ["a"], "d": ["c", "b"], "e": ["v"]}
    expected = {"a": 1, "b": 1, "c": 1, "d": 1, "e": 0}
    assert joined(homes, reads) == expected
    assert joined(homes, dict(reversed(reads.items()))) == expected


def test_a_long_chain_and_many_over_one() -> None:
    chain = {n: [n - 1] for n in range(1, 1_000)} | {0: []}
    assert set(joined({n: 1_000 - n for n in range(1_000)}, chain).values()) == {1}
    star = {n: [0] for n in range(1, 1_000)}
    assert set(joined({n: n for n in range(1_000)}, star).values()) == {0}


def test_a_view_that_has_no_home_joins_nothing() -> None:
    assert joined({"a": 1}, {"a": ["gone"], "gone": ["a"]}) == {"a": 1}
