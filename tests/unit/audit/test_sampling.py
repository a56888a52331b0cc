"""Which rows a sample of the audit takes: the same of the log and of the table."""

from decimal import Decimal
from typing import Any

import pytest

from firn.changes.merge.fold import NAN
from firn_lake.audit.row_audit import Sampling


@pytest.mark.parametrize(
    ("one", "other"),
    [((0.0,), (-0.0,)), ((1, Decimal("0.00")), (1, Decimal("-0.00"))), (((0.0, 1.0), "a"), ((-0.0, 1.0), "a"))],
)
def test_keys_that_are_equal_are_taken_together(one: Any, other: Any) -> None:
    assert one == other
    for seed in range(20):
        sampling = Sampling(0.5, seed)
        assert sampling.takes(one) == sampling.takes(other)
        assert sampling.of([(one, b"log"), (other, b"table")]) in ([], [(one, b"log"), (other, b"table")])


def test_about_so_many_are_taken_of_whatever_keys() -> None:
    sampling = Sampling(0.5, 1)
    for keys in (list(range(1_000)), [(n, -n / 7) for n in range(1_000)], [f"{n:032x}" for n in range(1_000)]):
        assert 400 < sum(map(sampling.takes, keys)) < 600
    assert Sampling(1.0, 0).takes((NAN,))
