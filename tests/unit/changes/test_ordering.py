from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.changes.decode.row_decoder import META
from firn.changes.merge import decoded_rows
from firn.changes.merge.ordering import OWN_PLACE, PLACED_BY, Order, placed


def change(lsn: int = 10, **values: Any) -> dict[str, Any]:
    plain: dict[str, Any] = dict.fromkeys(PLACED_BY)
    row = plain | {"op": "c", "index": 0, "table": "app.t", "connector": "postgresql", "after": '{"a": 1}'}
    return row | {"order": f'["5","{lsn}"]'} | values


def of(*changes: dict[str, Any]) -> dict[str, list[Any]]:
    numbered = [one | {"index": i} for i, one in enumerate(changes)]
    return placed({name: [one[name] for one in numbered] for name in PLACED_BY}, 0, Order())


def test_the_equal_rows_of_one_copy_are_as_many_changes() -> None:
    assert of(change(), change(), change())["occurrence"] == [0, 1, 2]
    assert of(change(emitted=7), change(emitted=8), change(emitted=9))["occurrence"] == [0, 1, 2]


def test_an_event_that_one_request_brings_twice_is_one_change() -> None:
    assert of(change(emitted=7), change(11, emitted=8), change(emitted=7))["occurrence"] == [0, 0, 0]


def test_changes_of_equal_rows_after_and_others_before_are_two() -> None:
    """Two updates of one statement in a table without a key: both leave the same row, of another one."""
    one, other = (change(op="u", before=f'{{"a": {n}}}') for n in (1, 2))
    found = of(one, other, one)
    assert found["ord"][0] == found["ord"][2] != found["ord"][1]


def test_equal_rows_of_a_snapshot_are_told_apart_by_when_they_were_read() -> None:
    reads = of(change(op="r", emitted=7), change(op="r", emitted=8))
    assert reads["tx_order"] == [7, 8]
    assert of(change(op="r", emitted=7, tx_order=3))["tx_order"] == [3]
    assert of(change(emitted=7))["tx_order"] == [None]  # a streamed change may be emitted again after a restart


def test_a_flattened_change_that_is_sent_again_after_a_restart_is_the_same_change() -> None:
    def sent(op: str, at: int) -> dict[str, Any]:
        row = f'{{"a": 1, "note": ",\\"__ts_ms\\":1", "__op": "{op}", "__lsn": 10, "__ts_ms": {at}}}'
        return change(op=op, order="10", **{"before" if op == "d" else "after": row})

    for op in "cud":
        first, again = of(sent(op, 1_000)), of(sent(op, 2_000))
        assert (first["ord"], first["occurrence"]) == (again["ord"], again["occurrence"]), op
    assert of(sent("r", 1_000))["ord"] != of(sent("r", 2_000))["ord"], "equal rows of a snapshot are as many"
    other = sent("u", 1_000)
    assert of(other | {"after": other["after"].replace('ms\\":1', 'ms\\":2')})["ord"] != of(other)["ord"]


def test_truncates_of_two_tables_at_one_position_are_both_the_first() -> None:
    found = of(change(op="t", after=None), change(op="t", after=None, table="app.u"))
    assert found["occurrence"] == [OWN_PLACE, OWN_PLACE]


@pytest.mark.parametrize(
    ("connector", "op", "order", "own"),
    [
        ("postgresql", "u", '["1","2"]', True),
        ("postgresql", "d", "2", True),
        ("postgresql", "t", '["1","2"]', True),
        ("postgresql", "c", '["1","2"]', False),  # rows of one COPY share it
        ("postgresql", "r", '[null,"2"]', False),
        ("mysql", "c", '["b.000001",4,0]', True),
        ("mariadb", "u", '["b.000001",4,7]', True),
        ("mariadb", "c", '["b.000001",4,null]', False),  # flattened, without __row
        ("mariadb", "r", '["b.000001",4,0]', False),  # all of a snapshot have its position
        ("sqlserver", "u", '["00000027:00000758:0005","00000027:00000758:0003",1]', False),
        ("oracle", "u", '["10","5","0x000003.0000ad01.0010",1]', False),
    ],
)
def test_a_change_with_a_place_of_its_own_needs_no_number_and_no_request(
    connector: str, op: str, order: str, own: bool
) -> None:
    twice = change(connector=connector, op=op, order=order, tx_order=3)
    found = of(twice, twice | {"index": 1, "tx_order": 1, "emitted": 9})
    assert (found["occurrence"][0] == OWN_PLACE) is own
    rows: list[list[Any]] = [[None] * len(META) for _ in range(2)]
    for row, place in zip(rows, range(2), strict=True):
        row[decoded_rows.POS], row[decoded_rows.ORD] = found["pos"][place], found["ord"][place]
        row[decoded_rows.OCCURRENCE], row[decoded_rows.TX_ORDER] = found["occurrence"][place], found["tx_order"][place]
        row[decoded_rows.TABLE] = "app.t"
    same = decoded_rows.identity(rows[0], "s") == decoded_rows.identity(rows[1], "s")
    assert same is own


def test_a_replayed_change_keeps_its_generation_and_occurrence() -> None:
    again = of(change(generation=3, occurrence=2))
    assert again["pos"][0][:4] == (3).to_bytes(4, "big")
    assert again["occurrence"] == [2]


def test_a_position_that_cannot_be_read_is_a_fault_and_orders_by_arrival() -> None:
    broken = of(change(order='["x","y"]'))
    assert broken["fault"] == ["bad_position"]
    assert broken["pos"] == [None]
    assert broken["ord"][0][:1] == b"\0"


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from("tu"), st.none() | st.integers(1, 2)), max_size=8))
def test_each_change_counts_the_equal_ones_of_its_table_before_it(drawn: list[tuple[int, str, int | None]]) -> None:
    changes = [change(lsn, table=table, emitted=emitted) for lsn, table, emitted in drawn]
    expected = []
    for index, (lsn, table, emitted) in enumerate(drawn):
        events: list[Any] = []
        for before, (*same, at) in enumerate(drawn[: index + 1]):
            event = at if at is not None else f"the one at {before}"
            if same == [lsn, table] and event not in events:
                events.append(event)
        expected.append(events.index(emitted if emitted is not None else f"the one at {index}"))
    assert of(*changes)["occurrence"] == expected
