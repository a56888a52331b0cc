"""What an audit says of rows: by the specification, and no more than the log can tell."""

from collections.abc import Iterable
from typing import Any

from firn.audit.row_check import AppendRows, Logged, MirrorRows, RowAccount, Values, same
from firn.changes.merge.fold import Key, Row, RowChange
from firn.changes.merge.ordering import total
from firn.changes.positions import order_key

ONE, TWO = (1,), (2,)


def position(n: int) -> bytes:
    return n.to_bytes(45)


def order(n: int, op: str = "u") -> bytes:
    return b"\1" + order_key(position(n), op, b"")


def change(op: str, key: Key, n: int, *, needed: bool = True, **more: Any) -> Logged:
    values = None if op in "dt" else {"id": key[0], "v": more.pop("v", str(n))}
    made = RowChange(op, key, position(n), order(n, op), values, **more)
    return Logged(key, "shop.1", n, needed, made)


def row(n: int, op: str = "u", **values: Any) -> Row:
    return Row({"v": str(n)} | values, order(n, op))


def mirrored(
    logged: Iterable[Logged], rows: Iterable[tuple[Key, Row]], *, columns: tuple[str, ...] = (), **how: Any
) -> RowAccount:
    found = RowAccount("lake.t")
    some = list(logged)
    truncates = [one for one in some if one.change is not None and one.change.op == "t"]
    judge = MirrorRows(found, truncates=truncates, values=Values(columns) if columns else None, **how)
    judge.judge([one for one in some if one not in truncates], rows)
    return found


def said(found: RowAccount) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.what, one.row) for one in found.samples]


def test_the_newest_change_of_a_key_must_be_in_its_row() -> None:
    log = [change("c", ONE, 10), change("u", ONE, 20), change("c", TWO, 11), change("d", TWO, 21)]
    right = mirrored(log, [(ONE, row(20))])
    assert (right.right, right.expected, right.found) == (True, 1, 1)
    assert said(mirrored(log, [])) == [("missing", ("1",))]
    assert said(mirrored(log, [(ONE, row(10, "c"))])) == [("missing", ("1",))]
    assert said(mirrored(log, [(ONE, row(20)), (TWO, row(11, "c"))])) == [("surplus", ("2",))]
    assert said(mirrored(log, [(ONE, row(20)), (ONE, row(20))])) == [("surplus", ("1",))]
    assert said(mirrored(log, [(ONE, row(20)), (("9",), row(5))])) == [("surplus", ("9",))]
    (sample,) = mirrored(log, []).samples
    assert (sample.batch, sample.index, str(sample)) == ("shop.1", 20, "1 by shop.1:20")


def test_what_the_table_need_not_have_in_explains_a_row_either_way() -> None:
    for op, rows in (("u", [(ONE, row(20))]), ("u", [(ONE, row(10, "c"))]), ("d", []), ("d", [(ONE, row(10, "c"))])):
        log = [change("c", ONE, 10), change(op, ONE, 20, needed=False)]
        assert mirrored(log, rows).right
    assert not mirrored([change("c", ONE, 10), change("u", ONE, 20, needed=False)], []).right
    log = [change("c", ONE, 10), change("t", (), 20, needed=False)]
    assert mirrored(log, []).right
    assert mirrored(log, [(ONE, row(10, "c"))]).right


def test_a_row_older_than_the_log_is_not_judged_and_one_that_a_newer_change_beat_is_missing() -> None:
    log = [change("u", ONE, 20)]
    older = mirrored(log, [(ONE, row(30)), (TWO, row(5))], whole=False)
    assert (older.right, older.untold) == (True, {"older": 2})
    assert said(mirrored(log, [(ONE, row(15))], whole=False)) == [("missing", ("1",))]
    assert said(mirrored([change("d", TWO, 20)], [(TWO, row(15))], whole=False)) == [("surplus", ("2",))]
    deleted = RowChange("d", ONE, position(25), order(25, "d"), None)
    assert said(mirrored(log, [], whole=False)) == [("missing", ("1",))]
    assert mirrored(log, [], whole=False, facts=lambda _: [deleted]).right
    assert not mirrored(log, [], whole=True, facts=lambda _: [deleted]).right


def test_rows_of_others_rows_without_an_order_and_rows_of_refused_changes_are_not_judged() -> None:
    adopted = mirrored([change("c", ONE, 10)], [(ONE, row(10, "c")), (TWO, Row({"v": "x"}, total(None)))])
    assert (adopted.right, adopted.untold) == (True, {"adopted": 1})
    arrived = RowChange("c", ONE, None, b"\0" + bytes(12) + b"\1", {"v": "1"})
    unordered = mirrored([Logged(ONE, "b", 0, True, arrived)], [(ONE, Row({"v": "1"}, total(None)))])
    assert (unordered.right, unordered.untold) == (True, {"unordered": 1})
    assert said(mirrored([Logged(ONE, "b", 0, True, arrived)], [])) == [("missing", ("1",))]
    refused = mirrored([], [(ONE, row(7))], refused={order(7)})
    assert (refused.right, refused.untold) == (True, {"refused": 1})


def test_an_order_of_a_position_alone_is_that_of_the_newest_change_there() -> None:
    old = Row({"v": "10"}, b"\1" + position(10))
    assert mirrored([change("c", ONE, 10)], [(ONE, old)]).right
    assert said(mirrored([change("c", ONE, 10), change("u", ONE, 11)], [(ONE, old)])) == [("missing", ("1",))]


def test_values_are_compared_with_what_the_specification_gives() -> None:
    log = [change("c", ONE, 10, v="a"), change("u", ONE, 20, v="?", unavailable=frozenset({"v"}))]
    held = Row({"id": 1, "v": "a"}, order(20), {"v": order(10, "c")})
    assert mirrored(log, [(ONE, held)], columns=("id", "v")).right
    lost = mirrored(log, [(ONE, Row({"id": 1, "v": None}, order(20), {"v": order(10, "c")}))], columns=("id", "v"))
    assert (lost.differs, lost.columns, lost.samples[0].columns) == (1, {"v": 1}, ("v",))
    assert mirrored(log, [(ONE, Row({}, order(20)))]).right, "which change made it is as it should be"
    partly = mirrored(log, [(ONE, Row({"id": 1, "v": None}, order(20)))], columns=("id", "v"), moved={ONE})
    assert (partly.right, partly.untold) == (True, {"moved": 1})


def test_of_a_column_that_became_text_only_a_lost_value_is_told() -> None:
    found = RowAccount("lake.t")
    judge = MirrorRows(found, values=Values(["v"], retyped={"v"}))
    log = [change("c", (n,), 10 + n, v="1.0") for n in range(3)]
    judge.judge(log, [((n,), Row({"v": v}, order(10 + n, "c"))) for n, v in enumerate(("1.0", "1", None))])
    assert (found.found, found.differs, found.untold) == (2, 1, {"retyped": 1})


def test_a_default_that_may_have_been_another_one_is_not_told() -> None:
    """Rows have the default of the day on which they came, and the log says only that nobody named the column."""
    found = RowAccount("lake.t")
    judge = MirrorRows(found, values=Values(["v"], defaults={"v": 8}))
    log = [change("c", (n,), 10 + n, v=v) for n, v in enumerate((8, 8, 8, 7))]
    judge.judge(log, [((n,), Row({"v": v}, order(10 + n, "c"))) for n, v in enumerate((8, 5, None, 5))])
    assert (found.found, found.differs, found.untold) == (3, 1, {"default": 2})


def test_a_truncate_that_emptied_another_source_tables_rows_is_told() -> None:
    log = [
        change("c", ONE, 10, source="app.a"), change("c", TWO, 11, source="app.b"), change("t", (), 20, source="app.a"),
    ]  # fmt: skip
    more: dict[str, Any] = {"source": "app.b"}
    assert mirrored(log, [(TWO, Row({"v": "11"}, order(11, "c"), **more))]).right
    assert said(mirrored(log, [])) == [("missing", ("2",))]


def appended(*names: str, **more: Any) -> list[Logged]:
    return [Logged(name, "shop.1", place, True, **more) for place, name in enumerate(names)]


def test_each_change_is_one_row_of_an_append_table() -> None:
    found = RowAccount("lake.log")
    rows: list[tuple[str | None, dict[str, Any]]] = [("a", {}), ("a", {}), ("c", {}), ("x", {}), (None, {})]
    AppendRows(found).judge([*appended("a", "b"), Logged("c", "shop.1", 7, needed=False)], rows)
    assert (found.expected, found.found, found.missing, found.surplus) == (2, 1, 1, 2)
    assert (said(found), found.untold) == (
        [("surplus", ("a",)), ("surplus", ("x",)), ("missing", ("b",))], {"adopted": 1},
    )  # fmt: skip
    older = RowAccount("lake.log")
    AppendRows(older, whole=False).judge(appended("a"), rows[2:])
    assert (older.missing, older.surplus, older.untold) == (1, 0, {"older": 2, "adopted": 1})


def test_a_row_may_be_there_under_the_identity_that_an_older_firn_gave_it() -> None:
    found = RowAccount("lake.log")
    judge = AppendRows(found)
    log = [one._replace(other=one.name.upper()) for one in appended("a", "b", "c")]
    absent, unknown = judge.judge(log, [("a", {}), ("B", {}), ("X", {})], others=True)
    assert (found.found, found.missing, found.surplus) == (1, 0, 0)
    judge.judge(absent, unknown)
    assert (found.found, found.missing, found.surplus) == (2, 1, 1)
    assert said(found) == [("surplus", ("X",)), ("missing", ("C",))]


def test_nothing_is_not_itself_and_a_nan_is() -> None:
    assert same([1.0, float("nan")], [1.0, float("nan")])
    assert not same(None, float("nan"))
    assert not same([1], [1, 2])


def test_a_nan_within_a_map_or_a_struct_is_itself_too() -> None:
    nan, other = float("nan"), float("nan")
    assert same([("a", nan), ("b", [nan])], [("a", other), ("b", [other])])
    assert same({"x": nan}, {"x": other})
    assert not same([("a", nan), ("b", 1.0)], [("b", 1.0), ("a", other)])
    assert not same([("a", nan)], [("b", other)])
    assert not same({"x": nan}, {"x": other, "y": None})
