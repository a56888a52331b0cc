"""What keeps its generation when it comes again: pure."""

from typing import Any

from firn.changes.merge.ordering import PLACED_BY, Order, placed
from firn.changes.redelivery import Early, early, generation_of, lowest, name_of

Row = dict[str, Any]


def row(lsn: int = 10, ts: int | None = 5, **more: Any) -> Row:
    plain: Row = dict.fromkeys(PLACED_BY) | {
        "op": "c",
        "table": "app.t",
        "connector": "postgresql",
        "after": '{"a": 1}',
    }
    return plain | {"order": f'["5","{lsn}"]', "ts": ts} | more


def of(order: Order, *rows: Row) -> dict[str, list[Any]]:
    numbered = [one | {"index": i} for i, one in enumerate(rows)]
    return placed({name: [one[name] for one in numbered] for name in (*PLACED_BY, "ts")}, 0, order)


def names(generation: int, *rows: Row) -> list[bytes]:
    orders = of(Order(generation), *rows)["ord"]
    return [name_of(one["table"], order, one["ts"]) for one, order in zip(rows, orders, strict=True)]


def test_a_change_has_one_name_under_every_generation() -> None:
    assert names(0, row()) == names(7, row())


def test_what_differs_in_table_place_time_op_or_content_is_another_change() -> None:
    others = [row(11), row(ts=6), row(op="u"), row(after='{"a": 2}'), row(table="app.other"), row(before="{}")]
    assert len({*names(0, row(), *others)}) == 7


def test_only_what_is_of_a_raised_generation_and_old_enough_is_looked_up() -> None:
    def of_generation(generation: int, *rows: Row) -> Early:
        orders = of(Order(generation), *rows)["ord"]
        return early([(one["table"], order, one["ts"]) for one, order in zip(rows, orders, strict=True)], 10)

    assert of_generation(0, row()) == Early()
    assert of_generation(1, row(ts=11), row(ts=None), row(order=None)) == Early()
    found = of_generation(1, row(ts=10), row(ts=3, table="app.u"))
    assert (found.tables, found.oldest, len(found.names)) == ({"app.t", "app.u"}, 3, 2)
    assert found | Early() == Early() | found == found
    assert (found | of_generation(1, row(12, ts=2))).oldest == 2


def test_the_lowest_generation_that_the_log_has_of_a_change_is_its_own() -> None:
    [name] = names(0, row())
    held = [
        (one["table"], of(Order(n), one)["ord"][0], one["ts"])
        for n, one in ((3, row()), (1, row()), (2, row()), (0, row(11)))
    ]
    assert lowest(frozenset({name}), held) == {name: 1}


def test_what_came_before_keeps_its_generation_and_everything_else_has_the_batchs() -> None:
    [name] = names(0, row())
    found = of(Order(2, kept={name: 1}), row(), row(11), row(ts=6), row(generation=0))
    assert [generation_of(order) for order in found["ord"]] == [1, 2, 2, 0]
    assert [pos[:4] for pos in found["pos"]] == [order[1:5] for order in found["ord"]]
    assert found["ord"][0] == of(Order(1), row())["ord"][0]


def test_equal_changes_of_two_generations_in_one_request_are_no_pair() -> None:
    [name] = names(0, row())
    both = of(Order(1, kept={name: 0}), row(emitted=1, ts=6), row(emitted=2))
    assert both["occurrence"] == [0, 0]


def test_a_replayed_dead_letter_keeps_the_generation_that_it_died_under() -> None:
    [name] = names(0, row())
    found = of(Order(3, kept={name: 0}), row(generation=1))
    assert [generation_of(order) for order in found["ord"]] == [1]
