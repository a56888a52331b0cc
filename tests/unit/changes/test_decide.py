"""What becomes of each key: against the specification, and what that does not count."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from firn.changes.merge.decide import Before, decide
from firn.changes.merge.fold import LOADED, Row, RowChange, fold
from firn.changes.merge.key_rows import Truncates, linked_keys
from firn.changes.merge.ordering import stored_held
from firn.changes.merge.ordering import total as total_of


def order(n: int) -> bytes:
    return b"\1" + n.to_bytes(45, "big") + b"\0" * 9


def change(op: str, key: int, n: int, v: Any = None, unavailable: Sequence[str] = ()) -> RowChange:
    values = None if op == "d" else {"id": key, "v": v, "w": n}
    total = order(n)[:46] + bytes([op != "d"]) + bytes(8)  # at one position a delete comes first
    return RowChange(op, (key,), total[1:46], total, values, frozenset(unavailable))


def row(key: int, n: int, v: Any = "old") -> Row:
    return Row({"id": key, "v": v, "w": n}, order(n))


@st.composite
def histories(draw: st.DrawFn) -> list[RowChange]:
    found = []
    for n in range(1, draw(st.integers(1, 14))):
        op, key = draw(st.sampled_from("cuudr")), draw(st.integers(0, 2))
        gone = ["v"] if op == "u" and draw(st.booleans()) else []
        found.append(change(op, key, n, f"v{n}", gone))
    return found


@given(histories(), st.data())
def test_two_ranges_in_any_order_give_what_all_changes_at_once_give(told: list[RowChange], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(told))
    cut = data.draw(st.integers(0, len(told)))
    first = decide(Before(), shuffled[:cut], b"")
    deletes = [one for one in shuffled[:cut] if one.op == "d"]
    second = decide(Before(first.writes, facts=deletes), shuffled[cut:], b"")
    rows = dict(first.writes)
    for key in second.removes:
        del rows[key]
    rows |= second.writes
    assert rows == fold({}, told).rows


def test_a_stale_change_decides_nothing() -> None:
    decided = decide(Before({(1,): row(1, 9)}), [change("u", 1, 5, "new")], b"")
    assert (decided.writes, decided.removes, decided.told) == ({}, [], 0)


def test_a_newer_change_replaces_the_row_and_a_delete_buries_it() -> None:
    before = Before({(1,): row(1, 1), (2,): row(2, 1)})
    decided = decide(before, [change("u", 1, 5, "new"), change("d", 2, 6)], b"")
    assert {key: found.values["v"] for key, found in decided.writes.items()} == {(1,): "new"}
    assert (sorted(decided.removes), decided.told) == ([(1,), (2,)], 2)


def test_a_truncate_removes_older_rows_without_counting_them() -> None:
    truncate = RowChange("t", (), order(6)[1:46], order(6), None)
    before = Before({(1,): row(1, 1), (2,): row(2, 9)}, truncates=Truncates(new=[truncate]))
    decided = decide(before, [change("c", 3, 4, "too old"), change("c", 4, 8, "kept")], b"")
    assert (decided.removes, list(decided.writes), decided.told) == ([(1,)], [(4,)], 1)


def test_a_row_below_the_floor_that_is_not_there_is_too_old() -> None:
    changes = [change("u", 1, 5, "new"), change("u", 2, 5, "new"), change("u", 3, 7, "new")]
    decided = decide(Before({(1,): row(1, 1)}), changes, order(6)[1:])
    assert (decided.too_old, sorted(decided.writes), decided.told) == ({(2,)}, [(1,), (3,)], 2)


def test_linked_keys_are_written_anew_from_all_that_is_known() -> None:
    there = ((1,), row(1, 1, "long"))
    moved = [change("d", 1, 5), change("c", 2, 5, "?", ["v"])]
    decided = decide(Before(dict([there]), linked={(1,), (2,)}, there=[there]), moved, b"")
    assert {key: found.values["v"] for key, found in decided.writes.items()} == {(2,): "long"}
    assert (decided.removes, decided.told) == ([(1,)], 2)


def test_orders_as_columns_hold_them() -> None:
    assert (total_of(b"x"), total_of(None), total_of(b"")) == (b"\1x", LOADED, LOADED)
    held = {"a": b"\1a", "b": b"", "c": b"\0arrival", "d": b"\1z", "e": LOADED}
    ids = {name: number for number, name in enumerate("abcde", 1)}
    assert stored_held(b"m", held, ids) == [(1, b"a"), (2, b""), (3, b""), (5, b"")]
    assert stored_held(b"m", {}, ids) is None
    # A row's held columns come out of a set: their order is another in each process.
    assert stored_held(b"m", dict(reversed(held.items())), ids) == stored_held(b"m", held, ids)


def test_ten_thousand_moves_in_a_row_are_linked_from_one_end_to_the_other() -> None:
    """To compare each with each would take minutes."""
    count = 10_000
    moved = [
        one
        for n in range(count)
        for one in (change("d", n, 9 + count - n), change("c", n + 1, 9 + count - n, "?", "v"))
    ]
    late = change("u", 0, 5, "late")
    assert linked_keys([late], moved) == {(n,) for n in range(count + 1)}
    assert linked_keys([change("u", 0, 9 + 2 * count)], moved) == set()
    assert linked_keys([change("u", count + 1, 5)], moved, [(count + 1,)]) == {(count + 1,)}
    truncate = RowChange("t", (), order(5)[1:46], order(5), None)
    assert linked_keys([truncate], moved[-2:]) == {(count - 1,), (count,)}
