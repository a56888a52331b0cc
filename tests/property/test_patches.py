"""Rows that say only a part of their columns: in whatever order, split and repeats they come, the table is as if they
had been replayed in the order of their positions, each writing the columns it names."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from firn.changes.merge import nested_updates
from firn.changes.merge.decide import Decided
from firn.changes.merge.fold import OTHERS, Key, Row, RowChange, fold
from firn.changes.merge.nested_updates import LARGEST, MOST, Composed, Composing, applied, read, written
from firn.changes.merge.ordering import plain, read_held, stored_held, total
from firn.changes.positions import RANK
from tests.memory_table import MemoryTable
from tests.property.test_decide import delivered, deliveries
from tests.soak import times

COLUMNS = "abcd"
Shown = Mapping[Key, Mapping[str, Any]]


def told(op: str, at: int, key: int, **columns: Any) -> RowChange:
    """A change; of op u a patch of these columns."""
    position = at.to_bytes(45)
    values = None if op in "dt" else {"id": key} | columns
    left_out = frozenset({OTHERS}) if op == "u" else frozenset[str]()
    return RowChange(op, () if op == "t" else (key,), position, total(position + RANK[op]), values, left_out, "t")


@st.composite
def patches(draw: st.DrawFn) -> list[RowChange]:
    """A history: patches mostly, some whole rows and deletes, rarely a truncate. Later ones name more columns."""
    log = []
    for at in range(draw(st.integers(1, 14))):
        op = draw(st.sampled_from("uuuuuuucddt" if at % 5 == 4 else "uuuuuuucd"))
        columns = draw(st.sets(st.sampled_from(COLUMNS[: 2 + at // 4]), max_size=3))
        values = {name: draw(st.sampled_from([None, at, at])) for name in sorted(columns)}
        log.append(told(op, at, draw(st.integers(1, 2)), **values if op in "cu" else {}))
    return log


def replayed(log: Iterable[RowChange]) -> Shown:
    """The specification of patches, once more and for them alone."""
    rows: dict[Key, dict[str, Any]] = {}
    moved: dict[str, Any] = {}
    for one in sorted(log, key=lambda one: one.order):
        if one.op == "t":
            rows.clear()
        elif one.op == "d":
            moved = rows.pop(one.key, {})
        else:
            left_out = rows.get(one.key, {}) if one.op == "u" else moved if one.unavailable else {}
            rows[one.key] = left_out | dict(one.values or {})
    return shown(rows)


def shown(rows: Mapping[Key, Mapping[str, Any]]) -> Shown:
    """What a reader sees: a column without a value is null, there or not."""
    return {key: {name: value for name, value in row.items() if value is not None} for key, row in rows.items()}


def values_of(rows: Mapping[Key, Row]) -> Shown:
    return shown({key: row.values for key, row in rows.items()})


def told_by(rows: Mapping[Key, Row]) -> Mapping[Key, tuple[Any, ...]]:
    """All that rows tell."""
    values = values_of(rows)
    return {key: (values[key], row.order, row.held, row.source) for key, row in rows.items()}


@dataclass
class StoredTable(MemoryTable):
    """A table whose rows are what its columns hold: a column comes with its first value. `ids`: of its columns."""

    ids: dict[str, int] = field(default_factory=dict)

    def commit(self, batch: Sequence[RowChange]) -> Decided:
        seen = sorted({name for one in batch for name, value in (one.values or {}).items() if value is not None})
        self.ids |= {name: len(self.ids) + number for number, name in enumerate(set(seen) - self.ids.keys(), 1)}
        self.live = {key: self._of_today(row) for key, row in self.live.items()}
        decided = super().commit(batch)
        self.live = {key: self._stored(row) for key, row in self.live.items()}
        return decided

    def _of_today(self, row: Row) -> Row:
        return Row(dict.fromkeys(self.ids) | dict(row.values), row.order, row.held, row.source)

    def _stored(self, row: Row) -> Row:
        held = stored_held(plain(row.order) or b"", row.held, self.ids)
        values = {name: row.values.get(name) for name in self.ids}
        return Row(values, row.order, read_held(held, {n: name for name, n in self.ids.items()}), row.source)


@given(patches(), st.data())
def test_the_specification_replays_patches_in_any_order(log: list[RowChange], data: st.DataObject) -> None:
    state = fold({}, data.draw(st.permutations(log)))
    assert values_of(state.rows) == replayed(log)
    assert fold({}, log) == state


@st.composite
def with_moves(draw: st.DrawFn) -> list[RowChange]:
    """Patches, deletes and changed keys, which take along what they leave out."""
    log = []
    for at in range(draw(st.integers(1, 12))):
        op = draw(st.sampled_from("uuuummmcdt"))
        columns = draw(st.sets(st.sampled_from(COLUMNS[:3]), max_size=2))
        values = {name: draw(st.sampled_from([None, at, at])) for name in sorted(columns)}
        key, other = draw(st.permutations([1, 2, 3]))[:2]
        if op == "m":
            log.append(told("d", at, other))
            log.append(replace(told("c", at, key, **values), unavailable=frozenset({OTHERS})))
        else:
            log.append(told(op, at, key, **values if op in "cu" else {}))
    return log


@given(with_moves(), st.data())
def test_a_changed_key_takes_along_what_it_leaves_out(log: list[RowChange], data: st.DataObject) -> None:
    batches = data.draw(deliveries(log))
    assert values_of(fold({}, log).rows) == replayed(log)
    for count in range(1, len(batches) + 1):
        come = [change for batch in batches[:count] for change in batch]
        assert values_of(delivered(batches[:count])) == values_of(fold({}, come).rows)


@given(patches(), st.data())
def test_the_row_engine_equals_the_specification_in_any_split(log: list[RowChange], data: st.DataObject) -> None:
    batches = data.draw(deliveries(log))
    for count in range(1, len(batches) + 1):
        come = [change for batch in batches[:count] for change in batch]
        assert told_by(delivered(batches[:count])) == told_by(fold({}, come).rows)


@given(patches(), st.data())
@example([told("u", 1, 1, b=7), told("u", 2, 1, b=None)], None)  # a null in a column that is not there yet
@example([told("c", 1, 1, a=1), told("u", 2, 1, b=None), told("u", 3, 1, a=3)], None)
def test_what_a_table_stores_of_its_rows_is_enough(log: list[RowChange], data: st.DataObject | None) -> None:
    batches = data.draw(deliveries(log)) if data is not None else [[one] for one in reversed(log)]
    table, come = StoredTable(), list[RowChange]()
    for batch in batches:
        table.commit(batch)
        come += batch
        assert values_of(table.live) == replayed(come)


@given(patches(), st.data())
def test_the_rows_alone_carry_on_where_the_patches_left_off(log: list[RowChange], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(log)))
    table = fold({}, log[:cut]).rows
    assert told_by(fold(table, data.draw(st.permutations(log[cut:]))).rows) == told_by(fold({}, log).rows)
    again = [one for one in log[:cut] if one.op == "u" and one.key in table and _is_since(one, log[:cut])]
    assert told_by(fold(table, again).rows) == told_by(table)


def _is_since(one: RowChange, log: Iterable[RowChange]) -> bool:
    """Whether no delete came after it: a table without its memory would take it for new."""
    return not any(
        other.order > one.order for other in log if other.op == "t" or (other.op, other.key) == ("d", one.key)
    )


# --- updates of parts of a value

_PATHS = st.sampled_from((["p"], ["q"], ["p", "q"], ["0"], ["1", "p"]))


@st.composite
def steps(draw: st.DrawFn) -> str:
    kinds = draw(st.lists(st.sampled_from(("set", "set", "unset", "cut")), min_size=1, max_size=2))
    found: list[list[Any]] = []
    for kind in kinds:
        what = {"set": [draw(st.sampled_from((1, "x", None, [7], {"p": 2})))], "cut": [draw(st.integers(0, 2))]}
        found.append([kind, draw(_PATHS), *what.get(kind, [])])
    return json.dumps(found)


@st.composite
def with_steps(draw: st.DrawFn) -> list[RowChange]:
    """Patches whose columns are set or stepped into, whole rows, deletes, truncates."""
    log = []
    for at in range(draw(st.integers(1, 12))):
        op = draw(st.sampled_from("uuuuuucdt" if at % 5 == 4 else "uuuuuuccd"))
        columns = sorted(draw(st.sets(st.sampled_from("ab"), max_size=2)))
        whole = st.sampled_from((None, '{"p":{"q":1},"q":[1,2]}', "[1,{},3]", "text"))
        one = told(op, at, draw(st.integers(1, 2)), **({name: draw(whole) for name in columns} if op in "cu" else {}))
        if op == "u":
            names = frozenset(name for name in columns if draw(st.booleans()))
            one = replace(one, values={**one.values, **{name: draw(steps()) for name in names}}, stepped=names)
        log.append(one)
    return log


def stepped(log: Iterable[RowChange]) -> Shown:
    """The specification of steps, once more and for them alone."""
    rows: dict[Key, dict[str, Any]] = {}
    for one in sorted(log, key=lambda one: one.order):
        if one.op in "td":
            rows = {} if one.op == "t" else {key: row for key, row in rows.items() if key != one.key}
            continue
        earlier = rows.get(one.key, {}) if one.op == "u" else {}
        new = {n: applied(earlier.get(n), [v]) if n in one.stepped else v for n, v in (one.values or {}).items()}
        rows[one.key] = earlier | new
    return shown(rows)


@given(with_steps(), st.data())
def test_steps_into_values_are_replayed_in_any_order_and_split(log: list[RowChange], data: st.DataObject) -> None:
    assert values_of(fold({}, data.draw(st.permutations(log))).rows) == stepped(log)
    batches = data.draw(deliveries(log))
    table = StoredTable()
    for count, batch in enumerate(batches, 1):
        table.commit(batch)
        come = [change for batch in batches[:count] for change in batch]
        assert values_of(table.live) == stepped({one.identity: one for one in come}.values())
        assert told_by(delivered(batches[:count])) == told_by(fold({}, come).rows)
    folded = fold({}, log).rows
    assert values_of(fold(folded, log).rows) == values_of(folded), "what a row tells and the log tells counts once"


def _plainly(base: str | None, steps: Sequence[str]) -> str | None:
    """All steps from the start, each on a value of its own: as `applied`, once more."""
    try:
        value = None if base is None else json.loads(base)
    except ValueError:
        return base
    for told in steps:
        for kind, path, *more in json.loads(told):
            value = _stepped(value, path, kind, more[0] if more else None)
    return None if value is None else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _stepped(value: Any, path: Sequence[str], kind: str, what: Any) -> Any:
    if not path:
        return (value[:what] if isinstance(value, list) else value) if kind == "cut" else what
    name, inner = path[0], path[1:]
    value = {} if value is None and kind == "set" else value
    if isinstance(value, dict):
        if not inner and kind == "unset":
            return {one: part for one, part in value.items() if one != name}
        there = name in value or kind == "set"
        return value | {name: _stepped(value.get(name), inner, kind, what)} if there else value
    if not isinstance(value, list) or not name.isdecimal() or len(name) > 7:
        return value
    place = int(name)
    if place >= len(value) and (kind != "set" or place > len(value) + 1_000):
        return value
    found = [*value, *[None] * (place + 1 - len(value))]
    found[place] = None if kind == "unset" and not inner else _stepped(found[place], inner, kind, what)
    return found


_BASES = st.sampled_from(
    (None, "null", "7", "text", "[1,{},3]", '{"p":{"q":1},"q":[1,2]}', '{"p":[],"é":"\U0001f600"}')
)


@settings(max_examples=times(25, 20_000, 400))
@given(_BASES, st.lists(steps(), max_size=8))
def test_steps_one_by_one_are_byte_for_byte_what_all_of_them_from_the_start_make(
    base: str | None, told: list[str]
) -> None:
    one = Composing(b"a", base)
    for number, step in enumerate(told, 1):
        for _ in range(2):  # told again it is the same one
            one.then(number.to_bytes(4), step)
        steps = tuple((at.to_bytes(4), text) for at, text in enumerate(told[:number], 1))
        assert one.composed() == Composed(b"a", base, steps)
        assert one.value == _plainly(base, told[:number]) == one.composed().value == Composing.of(one.composed()).value
    assert applied(base, told) == _plainly(base, told)


def test_a_step_costs_what_it_reaches_however_many_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what all before it cost, once more: 1,000 steps of one field in one range took more than a second."""
    read, real = [0], nested_updates._decode

    def counted(text: bytes) -> Any:
        read[0] += 1
        return real(text)

    monkeypatch.setattr(nested_updates, "_decode", counted)
    log = [told("c", 0, 1, a="{}")]
    for at in range(1, 301):
        one = told("u", at, 1, a=json.dumps([["set", [f"p{at}"], at]]))
        log.append(replace(one, stepped=frozenset("a")))
    (row,) = fold({}, log).rows.values()
    assert json.loads(row.values["a"]) == {f"p{at}": at for at in range(1, 301)}
    assert read[0] <= len(log) + 1


def test_so_many_steps_that_the_oldest_are_put_together() -> None:
    one = Composing(b"a", "{}")
    for n in range(MOST + 10):
        one.then(n.to_bytes(4), json.dumps([["set", [str(n % 7)], n]]))
    short = one.composed().shortened()
    assert (len(short.steps), short.value) == (MOST, one.value)
    assert read(written({"c": short})) == {"c": short}
    large = Composing(b"a", "{}")
    for n in range(4):
        large.then(n.to_bytes(4), json.dumps([["set", ["p"], str(n) * (LARGEST // 2 - 50)]]))
    short = large.composed().shortened()
    assert (len(short.steps), short.value) == (2, large.value)


def test_steps_that_lead_nowhere_change_nothing() -> None:
    for base, told in (
        ("text", [["set", ["p"], 1]]), ("[1]", [["set", ["5000"], 1]]), ("[1]", [["unset", ["7"]]]),
        ("7", [["cut", [], 1]]),
        ('{"a": 1}', [["cut", ["a"], 0]]), ("[" * 5_000, [["set", ["0"], 1]]), ("[1]", [["set", ["p"], 1]]),
    ):  # fmt: skip
        assert str(applied(base, [json.dumps(told)])).replace(" ", "") == base.replace(" ", "")
