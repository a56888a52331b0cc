"""Of several rows of a key that others wrote, which one counts."""

from itertools import permutations

from firn.changes.merge.fold import LOADED, Row
from firn_spark.merge.key_lookup import _newest


def test_the_newest_row_of_a_key_counts_whatever_the_order_of_the_files() -> None:
    old, new = Row({"v": "a"}, b"\1" + b"a"), Row({"v": "b"}, b"\1" + b"b", source="x")
    alike = Row({"v": "c"}, b"\1" + b"b", source="x")
    for rows in permutations((((1,), old), ((1,), new), ((1,), alike), ((2,), Row({"v": None}, LOADED)))):
        chosen = _newest(rows)
        assert {key: rows[number][1] for key, number in chosen.items()} == {(1,): alike, (2,): Row({"v": None}, LOADED)}
