from dataclasses import replace
from typing import Any

from firn.changes.merge.decide import Before, decide
from firn.changes.merge.fold import UNKNOWN, Key, Row, RowChange, State, fold

RANK = {"t": 0, "d": 1, "r": 2, "c": 3, "u": 4}


def at(position: int) -> bytes:
    return position.to_bytes(8, "big")


def order(op: str, position: int, **values: Any) -> bytes:
    return at(position) + bytes([RANK[op]]) + str(sorted(values.items())).encode()[:8].ljust(8)


def change(op: str, key: int, position: int, unavailable: tuple[str, ...] = (), **values: Any) -> RowChange:
    image = None if op in "dt" else {"id": key, **values}
    where = order(op, position, **values)
    return RowChange(op, () if op == "t" else (key,), at(position), where, image, frozenset(unavailable))


def of(source: str, one: RowChange) -> RowChange:
    return replace(one, source=source)


def rows(state: State) -> dict[Key, dict[str, Any]]:
    return {key: dict(row.values) for key, row in state.rows.items()}


def in_both_orders(*changes: RowChange) -> dict[Key, dict[str, Any]]:
    forward, backward = fold({}, changes), fold({}, changes[::-1])
    assert forward == backward
    one_by_one = fold({}, ())
    for one in changes[::-1]:
        one_by_one = fold(one_by_one, (one, one))
    assert one_by_one == forward
    return rows(forward)


def test_the_newest_change_wins_in_whatever_order_they_come() -> None:
    assert in_both_orders(change("c", 1, 1, v="a"), change("u", 1, 3, v="c"), change("u", 1, 2, v="b")) == {
        (1,): {"id": 1, "v": "c"}
    }


def test_a_delete_older_than_the_row_is_ignored() -> None:
    assert in_both_orders(change("d", 1, 1), change("c", 1, 2, v="a")) == {(1,): {"id": 1, "v": "a"}}


def test_a_delete_newer_than_the_row_removes_it_even_if_it_comes_first() -> None:
    assert in_both_orders(change("c", 1, 1, v="a"), change("d", 1, 2)) == {}


def test_insert_delete_insert_leaves_the_second_insert() -> None:
    assert in_both_orders(change("c", 1, 1, v="a"), change("d", 1, 2), change("c", 1, 3, v="b")) == {
        (1,): {"id": 1, "v": "b"}
    }


def test_at_one_position_a_delete_comes_before_a_create() -> None:
    assert in_both_orders(change("d", 1, 5), change("c", 1, 5, v="new")) == {(1,): {"id": 1, "v": "new"}}


def test_a_truncate_removes_what_is_older_and_nothing_newer() -> None:
    assert in_both_orders(change("c", 1, 1, v="a"), change("t", 0, 2), change("c", 2, 3, v="b")) == {
        (2,): {"id": 2, "v": "b"}
    }


def test_an_unavailable_column_keeps_the_earlier_value() -> None:
    state = fold({}, [change("c", 1, 1, v="a", n=1), change("u", 1, 2, ("v",), v="?", n=2)])
    assert rows(state) == {(1,): {"id": 1, "v": "a", "n": 2}}
    assert state.rows[1,].held == {"v": order("c", 1, v="a", n=1)}


def test_a_late_full_change_fills_a_column_that_a_newer_one_left_unavailable() -> None:
    late, newer = change("u", 1, 2, v="b", n=2), change("u", 1, 3, ("v",), v="?", n=3)
    before = fold({}, [change("c", 1, 1, v="a", n=1), newer])
    assert rows(before)[1,]["v"] == "a"
    after = fold(before, [late])
    assert rows(after) == {(1,): {"id": 1, "v": "b", "n": 3}}
    assert after.rows[1,].held == {"v": order("u", 2, v="b", n=2)}


def test_a_held_value_goes_with_a_delete_that_turns_out_to_lie_between() -> None:
    state = fold({}, [change("c", 1, 1, v="a"), change("u", 1, 3, ("v",), v="?")])
    state = fold(state, [change("d", 1, 2)])
    assert rows(state) == {(1,): {"id": 1, "v": None}}
    assert state.rows[1,].held == {"v": UNKNOWN}


def test_a_row_that_really_holds_the_placeholder_text_keeps_it() -> None:
    assert in_both_orders(change("c", 1, 1, ("v",), v="?"), change("r", 2, 1, ("v",), v="?")) == {
        (1,): {"id": 1, "v": "?"},
        (2,): {"id": 2, "v": "?"},
    }


def test_a_changed_key_as_delete_and_create_at_one_position_carries_the_unavailable_columns() -> None:
    moved = [change("d", 3, 5), change("c", 30, 5, ("v",), v="?", n=2)]
    assert in_both_orders(change("c", 3, 1, v="big", n=1), *moved) == {(30,): {"id": 30, "v": "big", "n": 2}}


def test_a_changed_key_carries_values_that_come_late_to_its_old_row() -> None:
    state = fold({}, [change("c", 3, 1, v="old"), change("d", 3, 5), change("c", 30, 5, ("v",), v="?")])
    state = fold(state, [change("u", 30, 7, ("v",), v="?", n=7)])
    assert rows(fold(state, [change("u", 3, 2, v="newer")]))[30,]["v"] == "newer"


def test_keys_that_change_places_in_one_transaction_keep_their_rows() -> None:
    """id 1 -> -1, 3 -> 1, -1 -> 3, with a column that no event repeats."""
    moves = [(1, -1, 10), (3, 1, 11), (-1, 3, 12)]
    changes = [change("c", 1, 1, v="one"), change("c", 3, 2, v="three")]
    for old, new, position in moves:
        changes += [change("d", old, position), change("c", new, position, ("v",), v="?")]
    assert in_both_orders(*changes) == {(1,): {"id": 1, "v": "three"}, (3,): {"id": 3, "v": "one"}}


def test_the_rows_of_one_copy_share_a_position_and_are_no_pairs() -> None:
    copied = [change("c", key, 5, ("v",), v="?") for key in (1, 2, 3)]
    assert set(in_both_orders(*copied)) == {(1,), (2,), (3,)}


def test_a_copy_and_a_delete_at_one_position_are_no_move() -> None:
    """Of several creates none can be told to be the deleted row."""
    copied = [change("d", 3, 5), *(change("c", key, 5, ("v",), v="?", n=key) for key in (1, 2))]
    found = in_both_orders(change("c", 3, 1, v="big"), *copied)
    assert found == {(key,): {"id": key, "v": "?", "n": key} for key in (1, 2)}


def test_a_delete_and_a_create_of_two_source_tables_are_no_move() -> None:
    gone, made = change("d", 3, 5), change("c", 30, 5, ("v",), v="?")
    found = in_both_orders(of("a", change("c", 3, 1, v="big")), of("a", gone), of("b", made))
    assert found == {(30,): {"id": 30, "v": "?"}}
    assert in_both_orders(of("a", change("c", 3, 1, v="big")), of("a", gone), of("a", made))[30,]["v"] == "big"


def test_a_truncate_empties_the_source_table_whose_rows_they_are_now() -> None:
    a, b = of("a", change("c", 1, 1, v="a")), of("b", change("c", 2, 2, v="b"))
    assert set(in_both_orders(a, b, of("a", change("t", 0, 3)))) == {(2,)}
    taken_over = of("b", change("u", 1, 2, v="b"))
    assert set(in_both_orders(a, taken_over, of("a", change("t", 0, 3)))) == {(1,)}
    assert set(in_both_orders(a, taken_over, of("b", change("t", 0, 3)))) == set()


def test_one_truncate_of_two_tables_is_two() -> None:
    rows_of_both = [of("a", change("c", 1, 1, v="a")), of("b", change("c", 2, 1, v="b"))]
    both = [of("a", change("t", 0, 3)), of("b", change("t", 0, 3))]
    assert in_both_orders(*rows_of_both, *both) == {}


def test_a_row_whose_source_table_is_not_known_goes_with_any_truncate() -> None:
    old = {(1,): Row({"id": 1, "v": "a"}, order("c", 1, v="a"))}
    assert rows(fold(old, [of("a", change("t", 0, 3))])) == {}


def test_a_snapshot_read_loses_against_a_newer_streamed_change_and_fills_what_it_held_back() -> None:
    assert in_both_orders(change("u", 1, 9, ("v",), v="?", n=9), change("r", 1, 5, v="read", n=5)) == {
        (1,): {"id": 1, "v": "read", "n": 9}
    }


def test_repeats_change_nothing() -> None:
    changes = [change("c", 1, 1, v="a"), change("u", 1, 2, ("v",), v="?"), change("d", 2, 1)]
    assert fold({}, changes * 3) == fold({}, changes)


def test_a_tombstone_keeps_the_deleted_row_and_outlives_a_new_one() -> None:
    state = fold({}, [change("c", 1, 1, v="a"), change("d", 1, 2), change("c", 1, 3, v="b")])
    assert state.tombstones[1,].order == order("d", 2)
    assert state.tombstones[1,].row == Row({"id": 1, "v": "a"}, order("c", 1, v="a"))


# a table of which only the rows are known


def test_an_update_keeps_what_it_leaves_out_of_a_row_that_another_tool_loaded() -> None:
    loaded = Row({"id": 1, "v": "long", "n": 1}, UNKNOWN)
    update = change("u", 1, 5, ("v",), v="?", n=2)
    assert rows(fold({(1,): loaded}, [update])) == {(1,): {"id": 1, "v": "long", "n": 2}}
    decided = decide(Before({(1,): loaded}), [update], b"")
    assert decided.writes[1,].values == {"id": 1, "v": "long", "n": 2}


def test_a_change_at_or_below_the_order_of_a_known_row_is_in_it_already() -> None:
    known = {(1,): Row({"id": 1, "v": "b"}, order("u", 2, v="b"))}
    assert rows(fold(known, [change("u", 1, 2, v="b"), change("u", 1, 1, v="y")])) == {(1,): {"id": 1, "v": "b"}}
    assert rows(fold(known, [change("u", 1, 3, v="c")])) == {(1,): {"id": 1, "v": "c"}}


def test_a_known_rows_held_column_is_filled_by_a_change_newer_than_where_it_came_from() -> None:
    known = {(1,): Row({"id": 1, "v": "a", "n": 5}, at(5), {"v": at(2)})}
    assert rows(fold(known, [change("u", 1, 1, v="older", n=1)])) == {(1,): {"id": 1, "v": "a", "n": 5}}
    assert rows(fold(known, [change("u", 1, 3, v="newer", n=3)])) == {(1,): {"id": 1, "v": "newer", "n": 5}}
    assert rows(fold(known, [change("d", 1, 3)])) == {(1,): {"id": 1, "v": None, "n": 5}}


def test_a_row_without_position_is_older_than_every_change() -> None:
    adopted = {(1,): Row({"id": 1, "v": "a", "n": 1}, UNKNOWN)}
    assert rows(fold(adopted, [change("u", 1, 0, ("v",), v="?", n=2)])) == {(1,): {"id": 1, "v": "a", "n": 2}}
    assert rows(fold(adopted, [change("d", 1, 0)])) == {}


def test_a_changed_key_takes_its_unavailable_columns_from_the_tables_row() -> None:
    known = {(3,): Row({"id": 3, "v": "big", "n": 1}, at(1))}
    moved = [change("d", 3, 5), change("c", 30, 5, ("v",), v="?", n=2)]
    state = fold(known, moved)
    assert rows(state) == {(30,): {"id": 30, "v": "big", "n": 2}}
    assert state.rows[30,].held == {}
