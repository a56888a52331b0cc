"""Decoded rows one at a time: what they are as changes, and who they are in an append table."""

import pickle
from typing import Any

import pytest

from firn.changes.decode.codec import DecodeSettings
from firn.changes.decode.row_decoder import READ, Decoding
from firn.changes.decode.types import DOUBLE, FLOAT, LONG, STRING, Column, decimal, list_of, parse
from firn.changes.merge import decoded_rows
from firn.changes.merge.fold import NAN, OTHERS, key_of

DECODING = Decoding((Column("id", LONG), Column("v", STRING)), (0,), DecodeSettings())


def raw(op: str, after: str | None = None, before: str | None = None, **more: Any) -> dict[str, Any]:
    empty = dict.fromkeys(READ)
    place = {"epoch": 1, "batch": "b", "index": 0, "ts": 5, "pos": b"p" * 45, "ord": b"\1" + b"p" * 45 + b"o" * 9}
    return empty | place | {"op": op, "after": after, "before": before, "flat": False, "occurrence": 0} | more


def test_good_rows_and_rejected_ones_are_told_apart() -> None:
    changes = [raw("c", '{"id": 1, "v": "a"}'), raw("c", '{"v": "no key"}'), raw("t"), raw("u", None)]
    good, rejected = decoded_rows.decoded(changes, DECODING, mirror=True)
    assert [decoded_rows.key_of(row, DECODING) for row in good] == [(1,)]
    assert [row[decoded_rows.CODE] for row in rejected] == ["no_key", "bad_image"]


def test_a_keyless_image_joins_if_it_holds_the_key_and_is_dead_if_not() -> None:
    images = ['{"id": 1, "v": "a"}', '{"id": null, "v": "a null is a value"}', '{"v": "no key"}', '{"ID": 1}']
    good, rejected = decoded_rows.decoded([raw("u", image) for image in images], DECODING, mirror=True)
    assert [decoded_rows.key_of(row, DECODING) for row in good] == [(1,), (None,)]
    assert [row[decoded_rows.CODE] for row in rejected] == ["no_key", "no_key"]


def test_what_is_wrong_in_a_row_is_told_before_the_key_that_no_good_row_names() -> None:
    """Of the first rows of a table, all with a decimal that can't be read, none says what its key is."""
    total = Column("total", decimal(10, 2))
    decoding = Decoding((total,), (), DecodeSettings(), no_key="no change names id", others=(Column("id", LONG),))
    images = ['{"id": 1, "total": "9.50"}', '{"id": 2, "total": "A7Y="}']
    good, rejected = decoded_rows.decoded([raw("c", image) for image in images] + [raw("d")], decoding, mirror=True)
    assert not good
    assert [row[decoded_rows.CODE] for row in rejected] == ["type_mismatch", "no_key", "no_key"]
    assert "decimal.handling.mode: string" in rejected[0][decoded_rows.MESSAGE]


def test_a_row_is_a_change_with_its_total_order_and_the_columns_that_it_leaves_out() -> None:
    image = '{"id": 1, "v": "__debezium_unavailable_value"}'
    ((update,), _), ((create,), _), ((read,), _), ((delete,), _) = (
        decoded_rows.decoded(
            [raw(op, None if op == "d" else image, '{"id": 1}' if op == "d" else None)], DECODING, mirror=True
        )
        for op in "ucrd"
    )
    changes = [decoded_rows.row_change(row, DECODING) for row in (update, create, read, delete)]
    assert [change.unavailable for change in changes] == [{"v"}, {"v"}, set(), set()]
    assert [change.key for change in changes] == [(1,)] * 4
    assert changes[0].order == raw("u")["ord"]
    assert changes[1].values == {"id": 1, "v": "__debezium_unavailable_value"}
    assert changes[3].values is None


def test_a_changed_key_is_one_that_the_row_before_names_whole() -> None:
    """Some sources send of the row before only the columns that changed, or part of the key."""
    both = Decoding((Column("id", LONG), Column("part", STRING), Column("v", STRING)), (0, 1), DecodeSettings())
    after = '{"id": 1, "part": "x", "v": "a"}'
    for before, ops in (('{"id": 1}', "u"), ('{"v": "old"}', "u"), ('{"id": 2, "part": "x"}', "dc"), (after, "u")):
        good, _ = decoded_rows.decoded([raw("u", after, before)], both, mirror=True)
        assert "".join(row[decoded_rows.OP] for row in good) == ops, before


def test_truncates_that_can_be_placed_are_changes_too() -> None:
    found = decoded_rows.truncates([raw("t"), raw("t", fault="bad_position"), raw("c", "{}")], {})
    assert [(change.op, change.position) for change in found] == [("t", b"p" * 45)]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({}, {"batch": "later", "index": 7}, True),  # delivered again
        ({}, {"occurrence": 1}, False),
        ({}, {"pos": b"q" * 45, "ord": b"\1" + b"q" * 45 + b"o" * 9}, False),
        ({}, {"table": "app.u"}, False),
        ({}, {"ord": b"\1" + b"p" * 45 + b"Oooooooooo"}, False),  # another op
        ({}, {"ord": b"\1" + b"p" * 45 + b"oooooooooO"}, False),  # other content
        ({"tx_order": 3}, {"tx_order": 4}, False),
        ({"tx_order": 3}, {"tx_order": 3, "occurrence": 1}, True),
        ({"tx_order": 3}, {"tx_order": 3, "ord": b"\1" + b"p" * 45 + b"oooooooooO"}, False),
        ({"pos": None}, {"pos": None, "batch": "later"}, False),
        ({"pos": None, "origin": "b:0"}, {"pos": None, "batch": "later", "origin": "b:0"}, True),
        ({"pos": None}, {"pos": None, "batch": "later", "origin": "b:0"}, True),  # a replayed dead letter
    ],
)
def test_the_identity_in_an_append_table(one: dict[str, Any], other: dict[str, Any], same: bool) -> None:
    rows, _ = decoded_rows.decoded([raw("c", '{"id": 1}') | one, raw("c", '{"id": 1}') | other], DECODING, mirror=False)
    assert (decoded_rows.identity(rows[0], "s") == decoded_rows.identity(rows[1], "s")) is same


def appended(*changes: dict[str, Any]) -> list[list[Any]]:
    return decoded_rows.decoded(changes, DECODING, mirror=False)[0]


def test_equal_changes_of_two_streams_are_two() -> None:
    (row,) = appended(raw("c", '{"id": 1}'))
    assert decoded_rows.identity(row, "a") != decoded_rows.identity(row, "b")


def test_a_table_that_holds_a_change_by_its_first_identity_has_it() -> None:
    """The first identity of each is what tables from then hold."""
    placed, numbered, arrived = rows = appended(
        raw("c", '{"id": 1}'), raw("c", '{"id": 1}', tx_order=3), raw("c", '{"id": 1}', pos=None)
    )
    there = [decoded_rows.first_identity(row) for row in rows]
    assert there == [
        "5539ec2c7266b35ba19ed38578dc92ef", "05a30449ea78c03da8fc8aab8b56664e", "bd1f7fd1d0f63344aff4de89588bc2db"
    ]  # fmt: skip
    assert decoded_rows.Appendable(rows, "s", first=True).without(there) == {}
    assert set(there) <= decoded_rows.Appendable(rows, "s", first=True).names
    arrival = decoded_rows.identity(arrived, "s")
    assert arrival == there[2]
    assert decoded_rows.Appendable(rows, "s", first=False).without(there).keys() == {
        decoded_rows.identity(placed, "s"), decoded_rows.identity(numbered, "s")
    }  # fmt: skip


def test_two_changes_of_one_first_identity_are_both_new_to_a_table_without_it() -> None:
    rows = appended(raw("t", table="app.t"), raw("t", table="app.u"))
    assert len({decoded_rows.first_identity(row) for row in rows}) == 1
    assert [*decoded_rows.Appendable(rows, "s", first=True).without(()).values()] == rows


def test_nan_is_one_key_in_any_process() -> None:
    decoding = Decoding((Column("id", DOUBLE),), (0,), DecodeSettings())
    (one, other), _ = decoded_rows.decoded([raw("c", '{"id": "NaN"}')] * 2, decoding, mirror=True)
    keys = {
        decoded_rows.key_of(one, decoding),
        decoded_rows.key_of(other, decoding),
        (NAN,),
        pickle.loads(pickle.dumps((NAN,))),
    }
    assert len(keys) == 1
    assert key_of([float("nan"), 1.5, None, "NaN"]) == (NAN, 1.5, None, "NaN")


def test_texts_that_round_to_one_float_of_32_bits_are_one_key() -> None:
    kinds = (FLOAT, list_of(FLOAT), DOUBLE)
    columns = tuple(Column(name, kind) for name, kind in zip("fld", kinds, strict=True))
    decoding = Decoding(columns, (0, 1, 2), DecodeSettings())
    keys = [
        decoded_rows.key_of([None] * decoded_rows.WIDTH + [number, [number, None], 0.5], decoding)
        for number in (0.1, 0.10000000149011612)
    ]
    assert keys[0] == keys[1] == (0.10000000149011612, (0.10000000149011612, None), 0.5)
    assert decoded_rows.key_of([None] * decoded_rows.WIDTH + [None, None, float("nan")], decoding) == (None, None, NAN)


@pytest.mark.parametrize(
    ("kind", "text"), [("double", '"NaN"'), ("list<list<double>>", '[["NaN"], [1]]'), ("double", "-0.0")]
)
def test_an_update_of_a_key_that_is_nan_is_no_move(kind: str, text: str) -> None:
    decoding = Decoding((Column("id", parse(kind)), Column("v", STRING)), (0,), DecodeSettings())
    change = raw("u", f'{{"id": {text}, "v": "a"}}', f'{{"id": {text.replace("-", "")}}}')
    good, rejected = decoded_rows.decoded([change], decoding, mirror=True)
    assert ([row[decoded_rows.OP] for row in good], rejected) == (["u"], [])


def patched(after: str, decoding: Decoding = DECODING) -> Any:
    (row,), _ = decoded_rows.decoded([raw("u", after, connector="rows")], decoding, mirror=True)
    return decoded_rows.row_change(row, decoding)


def test_a_plain_row_that_is_an_update_names_what_it_writes_and_leaves_out_all_others() -> None:
    assert patched('{"id": 1}').values == {"id": 1}
    assert patched('{"id": 1, "v": null}').values == {"id": 1, "v": None}
    assert patched('{"id": 1, "v": "__debezium_unavailable_value"}').values["v"] == "__debezium_unavailable_value"
    assert patched('{"id": 1, "v": "a"}').unavailable == {OTHERS}
    renamed = Decoding((Column("id", LONG), Column("new", STRING, earlier=("old",))), (0,), DecodeSettings())
    assert patched('{"id": 1, "old": "a"}', renamed).values == {"id": 1, "new": "a"}


def test_a_null_counts_in_a_column_that_is_not_there_yet_but_for_the_names_that_firn_keeps() -> None:
    image = '{"id": 1, "later": null, "more": 5, "_firn_held": null, "_firn_pos": null, "\\u0000": null}'
    assert patched(image).values == {"id": 1, "later": None, "\0": None}


def test_a_patch_that_can_not_be_read_is_a_dead_letter() -> None:
    images = ['{"v": "no key"}', '{"id": "x", "v": 1}', "[]", '{"id": 1, "\\ud800": null}', '{"id": 1', '"{}"']
    changes = [raw("u", image, connector="rows") for image in images]
    good, rejected = decoded_rows.decoded(changes, DECODING, mirror=True)
    assert (good, len(rejected)) == ([], len(images))
