"""The columns of a table come from the changes that it takes: however they are split, and whatever else comes with them
and is a dead letter."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.changes.decode.iceberg_fields import typed_json
from firn.changes.merge import decoded_rows
from firn.commit.staged_changes import facts_of, said_by
from firn.config.model import StreamConfig
from firn.config.reader import parse
from firn.tables.planning import MOST_COLUMNS, TooManyColumns
from firn.tables.routing import Target, route
from firn.tables.settled_plan import RowJudge, settled
from firn.tables.table_plan import Planned, planned, with_schemas
from firn.tables.table_state import INFERRED_AS, TableState
from tests.soak import times

Raw = dict[str, Any]
SCHEMAS = {
    name: json.dumps(
        {"type": "struct", "fields": [{"type": "struct", "field": "after", "fields": [
            {"type": "int64", "field": "id"}, {"type": kind, "optional": True, "field": "n"},
            {"type": "string", "optional": True, "field": name},
        ]}]}
    )
    for name, kind in (("s1", "int64"), ("s2", "double"))
}  # fmt: skip


def stream(mode: str, more: str = "", id: str = "id: long, ") -> StreamConfig:
    rule = f"{{to: lake.t, key: [id], mode: {mode}, columns: {{{id}price: 'decimal(5,2)'}}{more}}}"
    texts = "debezium: {decimal.handling.mode: string}"
    return parse(f"catalog: {{type: sql}}\nstreams:\n  spec:\n    {texts}\n    tables: {{a.t: {rule}}}\n").streams[
        "spec"
    ]


def change(
    op: str,
    before: str | None,
    after: str | None,
    schema: str | None = None,
    fault: str | None = None,
    key: str | None = None,
) -> Raw:
    return {
        "op": op, "before": before, "after": after, "schema_id": schema, "schema": SCHEMAS.get(schema or ""),
        "fault": fault, "fault_text": fault, "table": "a.t", "flat": False, "key": key, "ts": 1, "pos": None,
        "tx_order": None, "occurrence": 0, "origin": None, "connector": "postgresql", "generation": None,
    }  # fmt: skip


VALUES = st.sampled_from(
    ["1", "2.5", '"9.99"', '"abc"', "9007199254740993", "9" * 25, "true", '"NaN"', "1e400", "null", "[1]", '{"a":1}']
)
IDS = st.sampled_from(["1", "2", "3", '"x"', "1.5", None])
PRICES = st.sampled_from([None, '"1.50"', '"many"', '"123456.789"'])


@st.composite
def images(draw: st.DrawFn) -> str | None:
    cells = {"id": draw(IDS), "price": draw(PRICES), "n": draw(st.none() | VALUES), "m": draw(st.none() | VALUES)}
    cells |= {draw(st.sampled_from(["", "extra", "odd"])): draw(st.none() | VALUES)} if draw(st.booleans()) else {}
    some = ",".join(f"{json.dumps(name)}:{text}" for name, text in cells.items() if name and text is not None)
    return draw(st.sampled_from([f"{{{some}}}"] * 6 + ["[1]", "{", None]))


@st.composite
def changes(draw: st.DrawFn) -> Raw:
    op = draw(st.sampled_from("cccuuudr"))
    before = draw(images()) if op in "ud" else None
    after = None if op == "d" else draw(images())
    fault = draw(st.sampled_from([None] * 6 + ["bad_position", "no_order"]))
    if draw(st.integers(0, 3)):
        key = draw(st.none() | images()) if op == "d" else None
        return change(op, before, after, None, fault, key)
    name = draw(st.sampled_from(sorted(SCHEMAS)))
    number = "1" if name == "s1" else draw(st.sampled_from(["1", "2.5"]))
    id = draw(st.sampled_from(["1", "2", '"x"']))
    return change("c", None, f'{{"id":{id},"n":{number},"{name}":"v"}}', name, fault)


def staged(epochs: Sequence[Sequence[Sequence[Raw]]]) -> list[list[list[Raw]]]:
    """The changes of the batches of epochs, at their places."""
    found = []
    for n, epoch in enumerate(epochs, 1):
        found.append(
            [
                [
                    one | {"epoch": n, "batch": f"b{n}-{number}", "index": index, "ord": b"%d" % one["number"]}
                    for index, one in enumerate(batch)
                ]
                for number, batch in enumerate(epoch)
            ]
        )
    return found


def target_of(config: StreamConfig, batches: Sequence[list[Raw]]) -> Target:
    counts = Counter((one["table"], one["epoch"], one["op"]) for batch in batches for one in batch)
    said = [fact | {"epoch": b[0]["epoch"], "batch": b[0]["batch"]} for b in batches if b for fact in said_by(b)]
    return route(config, facts_of(counts, said)).targets[0]


def after(plan: Planned) -> TableState:
    fields = tuple(
        {"id": place, "name": one.name, "required": False, "type": typed_json(one.type, count(100))}
        for place, one in enumerate(plan.columns.columns, 1)
    )
    properties = {
        "firn.key": json.dumps(plan.key), "firn.mode": plan.mode.name, INFERRED_AS: json.dumps(plan.columns.inferred)
    }  # fmt: skip
    return TableState("memory://t", properties, fields, 1, ({},))


def types_in(state: TableState | None) -> tuple[dict[str, str], Mapping[str, str]]:
    found = state.columns[0] if state else ()
    return {column.name: str(column.type) for column in found}, state.inferred if state else {}


def landed(config: StreamConfig, epochs: Sequence[Sequence[list[Raw]]]) -> tuple[TableState | None, set[int]]:
    """The table after these epochs, and the numbers of the changes that are dead letters."""
    state, dead = None, set[int]()
    for batches in epochs:
        every = [one for batch in batches for one in batch]
        if not every:
            continue
        plan = settled(target_of(config, batches), config, state, RowJudge(batches), exact=True)
        good, bad = decoded_rows.decoded(every, plan.decoding, mirror=plan.mode.keyed)
        dead |= {one["number"] for one in every if (one["batch"], one["index"]) in decoded_rows.why_of(bad)}
        state = after(plan) if good or state else None
    return state, dead


@settings(max_examples=times(13, 3_000, 200), deadline=None)
@given(
    st.data(),
    st.lists(changes(), min_size=1, max_size=9),
    st.sampled_from(["mirror", "append"]),
    st.sampled_from(["id: long, ", ""]),
)
def test_types_are_those_of_the_changes_that_are_taken_however_they_are_split(
    data: st.DataObject, some: list[Raw], mode: str, id: str
) -> None:
    config = stream(mode, id=id)
    numbered = [one | {"number": number} for number, one in enumerate(some)]
    dead = {one["number"] for one in numbered if landed(config, staged([[[one]]]))[1]}
    taken = [one for one in numbered if one["number"] not in dead]
    cleared = [one | {"fault": None, "fault_text": None} for one in taken]
    expected = None
    if taken:
        [batches] = staged([[cleared]])
        expected = after(planned(target_of(config, batches), config, None))
    order = data.draw(st.permutations(numbered))
    epochs: list[list[list[Raw]]] = [[[]]]
    for one in order:
        where = data.draw(st.sampled_from(["epoch", "batch", "same", "same"]))
        if where == "epoch":
            epochs.append([[]])
        elif where == "batch":
            epochs[-1].append([])
        epochs[-1][-1].append(one)
    state, found = landed(config, staged([[batch for batch in epoch if batch] for epoch in epochs]))
    assert found == dead
    assert types_in(state) == types_in(expected)


def test_a_change_without_a_place_counts_for_the_table_that_takes_it() -> None:
    """A delete that `order_by` can't place: a mirror refuses it, an append table has a row of it."""
    row = change("c", None, '{"id":1,"n":1}') | {"number": 0}
    gone = change("d", '{"id":1,"n":"text","more":1}', None, fault="no_order") | {"number": 1}
    for mode, types in (("append", {"n": "string", "more": "int53"}), ("mirror", {"n": "int53"})):
        state, dead = landed(stream(mode), staged([[[row], [gone]]]))
        assert types_in(state)[0] == {"id": "long", "price": "decimal(5,2)"} | types
        assert dead == (set() if mode == "append" else {1})


def test_a_dead_letter_of_many_columns_does_not_hold_the_table() -> None:
    wide = ",".join(f'"c{n}":1' for n in range(MOST_COLUMNS + 1))
    row = change("c", None, '{"id":1,"n":1}') | {"number": 0}
    bad = change("c", None, f'{{"id":"x",{wide}}}') | {"number": 1}
    state, dead = landed(stream("mirror"), staged([[[row, bad]]]))
    assert types_in(state)[0] == {"id": "long", "price": "decimal(5,2)", "n": "int53"}
    assert dead == {1}
    good = change("c", None, f'{{"id":2,{wide}}}') | {"number": 1}
    with pytest.raises(TooManyColumns):
        landed(stream("mirror"), staged([[[row, good]]]))


def test_what_the_table_holds_already_has_no_say_again() -> None:
    """A range that is committed again tells of epochs that the table has, dead letters among them."""
    config = stream("mirror")
    bad = change("c", None, '{"id":"x","n":"text"}') | {"number": 0}
    first, second = staged([[[bad]], [[change("c", None, '{"id":1,"n":1}') | {"number": 1}]]])
    told = target_of(config, [*first, *second]).above(1)
    plan = settled(told, config, None, RowJudge(second), exact=False)
    assert {one.name: str(one.type) for one in plan.columns.columns}["n"] == "long"


def test_a_declared_column_keeps_its_type_whatever_comes() -> None:
    rows = [change("c", None, f'{{"id":{n},"price":{p}}}') for n, p in enumerate(['"1.50"', '"x"', "true", "1e9"])]
    for mode in ("mirror", "append"):
        epochs = staged([[[one | {"number": number}]] for number, one in enumerate(rows)])
        state, dead = landed(stream(mode), epochs)
        assert types_in(state)[0] == {"id": "long", "price": "decimal(5,2)"}
        assert dead == {1, 2, 3}


def test_what_is_read_again_out_of_the_log_is_judged_as_it_was() -> None:
    config = stream("mirror")
    some = [change("c", None, image) for image in ('{"id":1,"n":1}', '{"id":2,"n":2,"odd":1e400}', '{"id":"x"}')]
    [batches] = staged([[[one | {"number": number} for number, one in enumerate(some)]]])
    target = target_of(config, batches)
    state, dead = landed(config, [batches])
    assert dead == {1, 2}
    counts = {(one["table"], 1, one["op"]): 1 for one in batches[0]}
    facts = facts_of(counts, [fact | {"epoch": 1, "batch": "b1-0"} for fact in said_by(batches[0])])
    again = with_schemas(planned(target.telling({}), config, state).decoding, target, facts)
    good, bad = decoded_rows.decoded(batches[0], again, mirror=True)
    assert [row[decoded_rows.INDEX] for row in good] == [0]
    assert {row[decoded_rows.INDEX] for row in bad} == dead
    assert len(good[0]) == decoded_rows.WIDTH + len(again.columns)
