"""What is inferred of a column must not depend on how its values were split over batches."""

from functools import reduce

import pytest

from firn.changes.infer import seen_in
from firn.changes.types import Type, storable, widen


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
