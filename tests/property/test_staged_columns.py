"""Placing and facts by columns say what the core says row by row: for drawn batches, hostile ones too."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from firn.changes.merge import ordering
from firn.changes.merge.ordering import PLACED_BY, Order
from firn.tables.batch_facts import SAID_BY, facts_in
from firn_spark.staged import facts, placing
from firn_spark.staged.packed import CHANGES, STAGED
from firn_spark.staged.read import SealedBatch, rows_of, rows_of_all
from tests.soak import times

NUMBERS = st.sampled_from([0, 1, 2, 2**63, 2**64 - 1, 2**64, 10**30, -1]) | st.integers(0, 10**12)
LSNS = st.tuples(st.none() | NUMBERS, NUMBERS, st.sampled_from(['["%s","%s"]', '["%s", "%s"]', "[%s,%s]"]))
HOSTILE = st.sampled_from(
    ["", "[]", "5", '"5"', '["1"]', '["1","2"', '["1","2"],["3"', '"4"]', '["1","2"]\n', ' ["1","2"]', '["1","2"] ',
     '["a","b"]', '["1",null]', "[[1],2]", '["01","2"]', '["1.0","2"]', '["+1","2"]', '["1","2","3"]',
     '["1","2"]["1","2"]', "[" * 3]
)  # fmt: skip
MADE = {
    "mysql": st.tuples(st.integers(0, 9), st.integers(0, 9), st.none() | st.integers(0, 3)).map(
        lambda told: json.dumps([f"bin.{told[0]:06d}", *told[1:]])
    ),
    "db2": st.just('["0:1a","0:2b"]'),
    "mongodb": st.sampled_from(["[5,1]", "[5,1,null]", "[5,1,7,null]"]),
    "": st.just("[1,2]"),
    # Accepted at 1 s: a day after it are 86,401 s.
    "hasura": st.sampled_from(["[5]", "[86401000000]", "[86401001000]", '["0190000000001234567890abcdef",0]', "[-5]"]),
    "seed": st.sampled_from(["[5,1]", "[86401001000,0]", "[86401001001,7]", '["0190000000001234567890abcdef",0]']),
    "supabase": st.sampled_from(["@kafka-time:86401000:1:0:0", "@kafka-time:86401001:1:0:0", "@kafka-time:x:1:0:0"]),
    "rows": st.builds(
        '["{}",{}]'.format,
        st.sampled_from(["0190000000001234567890abcdef", "01900000000000000000000000ff", "ff" * 16, "0" * 28, "x"]),
        st.sampled_from([0, 1, 2, 10, 2**63, 10**18, 2**64, "01", ""]),
    ),
}
TIMES = ['"__ts_ms":5', '"__ts_ns": -17', '"__ts_us":"x"']
SPACES = st.sampled_from(["", " ", "\t", "\v", "\x1c", "\x85", "\u2003", "\u200b"])
SCHEMA = json.dumps({"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": [
    {"field": "id", "type": "int64", "optional": False}]}]})  # fmt: skip
CELLS = st.sampled_from([None, 1, 2.5, "a", "None", True, "NaN", 2**60, 2**70, [1], {"a": 1}, "\x00", "é\n"])


def lsn(told: tuple[Any, Any, str]) -> str:
    return (told[2] % told[:2]).replace('"None"', "null").replace("None", "null")


@st.composite
def texts(draw: Any, hostile: bool) -> str | None:
    if hostile and not draw(st.integers(0, 5)):
        return draw(
            st.sampled_from(
                ["", "null", "[1]", "{", "}", "{}{}", '{"a":1}\n', "\0", '"{}"', '{"":1}', '{"a":1', "None"]
            )
        )
    names = draw(st.lists(st.sampled_from(["id", "b", "C", "__op"]), unique=True, max_size=3))
    text = json.dumps({name: draw(CELLS) for name in names}, ensure_ascii=draw(st.booleans()))
    if draw(st.integers(0, 3)) == 0:
        space = draw(SPACES) if hostile else ""
        text = text[:-1] + "".join(f",{space}{one}" for one in draw(st.lists(st.sampled_from(TIMES), max_size=2))) + "}"
    return text


@st.composite
def staged(draw: Any) -> dict[str, pa.Array]:
    hostile, keys, flat = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    others = [["mysql"], ["mongodb"], ["db2"], ["postgresql", "mysql"], [""], ["hasura"], ["seed"], ["supabase"]]
    connectors = draw(st.sampled_from([["postgresql"]] * 4 + [["rows"]] * 2 + others))
    tables = draw(st.sampled_from(["a", "a", "ab"]))
    schemas = draw(st.sampled_from([(None,), ("s",), (None, "s")]))
    pool = draw(st.lists(texts(hostile), min_size=1, max_size=3))
    nowhere = connectors == ["rows"] and draw(st.booleans())  # of a stream with order_by
    rows: list[dict[str, Any]] = []
    for index in range(draw(st.integers(0, 6))):
        connector, op = draw(st.sampled_from(connectors)), draw(st.sampled_from("cuudr" if not hostile else "cuudrtm"))
        order = draw(LSNS.map(lsn) if connector == "postgresql" else MADE[connector])
        if hostile and not draw(st.integers(0, 3)):
            order = draw(HOSTILE | st.none())
        order = None if nowhere else order
        one = dict.fromkeys(STAGED) | {"index": index, "table": draw(st.sampled_from(tables)), "op": op, "flat": flat}
        one |= {"connector": connector, "order": order, "schema_id": draw(st.sampled_from(schemas))}
        one |= {name: draw(st.none() | st.sampled_from(pool)) for name in ("before", "after")}
        one |= {"key": draw(st.sampled_from(pool)) if keys else None}
        one |= {name: draw(st.none() | st.integers(0, 2)) for name in ("tx_order", "emitted", "ts")}
        if connector == "seed":
            one["ts"] = draw(st.sampled_from([None, 5, 86_401_001]))
        if hostile and not draw(st.integers(0, 5)):
            one |= {"generation": draw(st.none() | st.just(1)), "occurrence": draw(st.none() | st.just(3))}
            one["ts"] = draw(st.sampled_from([None, 2**62]))
        rows.append(one)
        if rows and not draw(st.integers(0, 3)):
            rows.append(rows[0] | {"index": index, "emitted": draw(st.none() | st.integers(0, 1))})
    for schema_id in {row["schema_id"] for row in rows} - {None}:  # its text stands on the first row that uses it
        next(row for row in rows if row["schema_id"] == schema_id)["schema"] = draw(st.sampled_from(["5", SCHEMA]))
    return {name: pa.array([row[name] for row in rows], kind) for name, kind in STAGED.items()}


@contextmanager
def however_few() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (placing, facts):
            patch.setattr(module, "FEW", 0)
        patch.setattr(facts, "_FEW_OF_A_TABLE", 0)
        yield


ORDERS = st.builds(
    Order, st.sampled_from([0, 7, 2**32]), st.sampled_from([(), (), ("id",), ("id", "b")]), st.sampled_from([None, 7])
)


@settings(max_examples=times(33, 20_000, 600))
@given(staged(), ORDERS)
def test_each_change_is_placed_as_it_is_alone(columns: dict[str, pa.Array], by: Order) -> None:
    lists = {name: columns[name].to_pylist() for name in (*PLACED_BY, "ts")}
    expected = ordering.placed(lists, 3, by, 1_000)
    with however_few():
        found = placing.placed(columns, 3, by, 1_000)
        event(f"at once: {placing._is_usual(columns, by)}")
    assert {name: array.to_pylist() for name, array in found.items()} == expected
    assert all(array.type == CHANGES.field(name).type for name, array in found.items())


@settings(max_examples=times(33, 20_000, 600))
@given(staged(), ORDERS)
def test_a_table_is_told_of_what_its_rows_tell(columns: dict[str, pa.Array], by: Order) -> None:
    columns |= placing.placed(columns, 3, by, 1_000)
    expected = facts_in({name: columns[name].to_pylist() for name in SAID_BY})
    with however_few():
        said, bad = facts.facts_of(columns)
    assert sorted(map(repr, said)) == sorted(map(repr, expected[0]))
    assert {row: str(why) for row, why in bad.items()} == {row: str(why) for row, why in expected[1].items()}


def test_what_is_usual_never_goes_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tests above would hold for columns that leave everything to the rows."""
    rows = [
        dict.fromkeys(STAGED)
        | {"index": index, "table": "ab"[index % 2], "op": "cudrt"[index % 5], "connector": "postgresql", "flat": False,
           "order": f'["{index}","{index + 5}"]', "key": '{"id":1}', "before": None, "after": f'{{"id":{index}}}'}
        for index in range(2 * placing.FEW)
    ]  # fmt: skip
    rows += [row | {"table": "c", "op": "t", "after": '{"gone":1}'} for row in rows[:2]]
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in STAGED.items()}
    columns["fault"] = pa.nulls(len(rows), pa.string())
    expected = facts_in({name: columns[name].to_pylist() for name in SAID_BY})
    for owner, name in ((ordering, "placed"), (placing, "_positions"), (facts, "facts_in")):
        monkeypatch.setattr(owner, name, None)
    assert len(placing.placed(columns, 0, Order(), 0)["ord"]) == len(rows)
    assert facts.facts_of(columns) == expected
    assert {(fact["table"], fact["fact"]) for fact in expected[0]} == set(product("ab", ("columns", "key", "keyed")))


def body_of(columns: dict[str, pa.Array]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


@settings(max_examples=times(8, 5_000, 100))
@given(st.lists(st.tuples(staged(), st.integers(1, 2), st.integers(0, 1)), max_size=3), ORDERS)
def test_requests_together_say_what_each_says_alone(
    drawn: list[tuple[dict[str, pa.Array], int, int]], by: Order
) -> None:
    told = [one for one in sorted(drawn, key=lambda one: one[1]) for _ in range(2)]  # each comes twice
    some = [
        (SealedBatch(epoch, place, f"20260301T123000000Z-{place}", "p", 0, generation), body_of(columns))
        for place, (columns, epoch, generation) in enumerate(told)
    ]
    together = as_alone(some, by)
    event(f"together: {together < len(some)}")


def test_equal_changes_of_two_requests_and_of_two_generations_are_told_apart_together_too() -> None:
    columns = changes_with(after=['{"id":1}', '{"id":1}'])
    bodies = [
        body_of({name: columns[name] for name in STAGED} | {"index": pa.array([first, first + 1], STAGED["index"])})
        for first in (0, 5, 0)
    ]
    some = [
        (SealedBatch(1, place, f"20260301T123000000Z-{place}", "p", 0, generation), bodies[place])
        for place, generation in enumerate((0, 0, 1))
    ]
    assert as_alone(some, Order()) == 2


def as_alone(some: Sequence[tuple[SealedBatch, bytes]], by: Order) -> int:
    """Requests that are read together say what each says alone. -> how many groups they are."""
    alone = [rows_of(batch, body, by) for batch, body in some]
    with however_few():
        together = list(rows_of_all(some, by))
    nothing = CHANGES.empty_table()
    assert pa.concat_tables([nothing, *(one.changes for one in together)]).equals(
        pa.concat_tables([nothing, *(one.changes for one in alone)])
    )
    facts_alone = [repr(fact) for one in alone for fact in one.said]
    assert sorted(repr(fact) for one in together for fact in one.said) == sorted(facts_alone)
    return len(together)


def changes_with(**lists: list[str | None]) -> dict[str, pa.Array]:
    rows = len(next(iter(lists.values())))
    usual: dict[str, list[Any]] = {"index": list(range(rows)), "flat": [False] * rows, "order": ['["1","2"]'] * rows}
    usual |= {"table": ["a"] * rows, "op": ["c"] * rows, "connector": ["postgresql"] * rows} | lists
    kinds = STAGED | {"fault": pa.string()}
    return {name: pa.array(usual.get(name, [None] * rows), kind) for name, kind in kinds.items()}


def same_both_ways(columns: dict[str, pa.Array]) -> None:
    lists = {name: array.to_pylist() for name, array in columns.items()}
    with however_few():
        assert {name: array.to_pylist() for name, array in placing.placed(columns, 0, Order(), 0).items()} == (
            ordering.placed({name: lists[name] for name in (*PLACED_BY, "ts")}, 0, Order(), 0)
        )
        assert facts.facts_of(columns)[0] == facts_in({name: lists[name] for name in SAID_BY})[0]


def test_texts_that_only_together_are_as_many_values_as_lines_are_read_one_by_one() -> None:
    for start, end in ("[]", "{}"):
        inner = ("1,", "2") if start == "[" else ('"a":', "2")
        one = start + "".join(inner) + end
        other = '"x"' if start == "{" else "2"
        parts = [one, start + inner[0], other + end, one + one, "", f"{one}\n{one}"]
        for some in product(parts, repeat=times(3, 4, 4)):
            same_both_ways(changes_with(**({"order": [*some]} if start == "[" else {"after": [*some]})))


@pytest.mark.parametrize(
    "space", [*map(chr, range(256)), *"\u1680\u2000\u200a\u200b\u2028\u2029\u202f\u205f\u3000\ufeff"]
)
def test_when_a_row_was_sent_is_left_out_whatever_the_spaces(space: str) -> None:
    images = [f'{{"a":1,{space}"__ts_ms":5}}', f'{{"a":1,"__ts_ns":{space}-5,"b":2}}', '{"a":1}']
    same_both_ways(changes_with(after=[*images], order=[f'["1","{place}"]' for place in range(3)]))
