"""What is inferred of a column must not depend on how its values were split over batches."""

import json
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.changes.decode import inference
from firn.changes.decode.inference import seen_in
from firn.changes.decode.types import Type, storable, widen


def inferred(values: list[str]) -> Type:
    [column] = seen_in([f'{{"v": {value}}}'.encode() for value in values])
    return column.type


@pytest.mark.parametrize(
    "values",
    [
        ["1", "1.5"],
        ["1", '"x"'],
        ["1", str(2**60), "1.5"],
        ["true", "1"],
        # Found by the shuffled corpora: a batch whose only values of a double column are NaN.
        ["1.5", '"NaN"'],
        ['"Infinity"', "1", "2.5"],
        ['"NaN"', "1"],
        ['"NaN"', str(2**60), "2.5"],
        ['"NaN"', '"text"', "2.5"],
        ['"NaN"', "true"],
    ],
)
def test_each_value_in_a_batch_of_its_own_gives_the_type_of_all_together(values: list[str]) -> None:
    assert storable(reduce(widen, (inferred([value]) for value in values))) == storable(inferred(values))


VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["NaN", "x", [1], {}])
)
ROWS = st.lists(
    st.permutations(["a", "b", "c"]).flatmap(lambda n: st.tuples(*(st.tuples(st.just(x), VALUES) for x in n)))
)


@given(ROWS, st.booleans())
def test_rows_that_are_read_together_show_what_each_shows(rows: list[tuple[tuple[str, Any], ...]], fewer: bool) -> None:
    images = [
        json.dumps(dict(row[: 2 if fewer and i % 2 else 3]), allow_nan=False).encode() for i, row in enumerate(rows)
    ]
    # An image across several lines, and one that is not an object, make each be read on its own.
    apart = [image.replace(b", ", b",\n") for image in images]
    assert seen_in(images) == seen_in(apart) == seen_in([*images, b"[]"])


NAMES = st.sampled_from(["id", "gone", "b`c", "x` - at `$", "é", "n"])


@given(st.lists(st.dictionaries(NAMES, st.none() | st.integers() | st.booleans() | st.text(max_size=3)), min_size=1))
def test_rows_with_members_that_the_first_lacks_show_the_same_columns_at_once_and_one_by_one(rows: list[Any]) -> None:
    lines = [json.dumps(row).encode() for row in rows]
    at_once = inference.seen_in_lines(b"\n".join(lines), len(lines))
    assert at_once is None or at_once == inference._columns(inference._cells(lines), False)


def test_a_few_members_that_the_first_row_lacks_cost_no_look_at_each_row() -> None:
    rows = [{"id": 1}, {"id": 2, "gone": True}, {"é": "x", "a b": 1}]
    at_once = inference.seen_in_lines("\n".join(map(json.dumps, rows)).encode(), 3)
    assert at_once is not None
    assert [column.name for column in at_once] == ["id", "gone", "é", "a b"]
