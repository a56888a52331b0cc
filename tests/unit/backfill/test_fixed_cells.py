"""Columns of bytes of one length are backfilled from a source's bytes of any."""

import pytest

from firn.backfill.postgres_cells import goes_into
from firn.changes.decode.types import parse


@pytest.mark.parametrize(
    ("kind", "there", "goes"),
    [
        ("binary", "fixed[16]", True),
        ("fixed[16]", "fixed[16]", True),
        ("string", "fixed[16]", False),
        ("fixed[8]", "fixed[16]", False),
        ("int", "long", True),
        ("long", "int", False),
        ("binary", "string", True),
        ("string", "map<string, int>", False),
    ],
)
def test_what_goes_into_a_column(kind: str, there: str, goes: bool) -> None:
    assert goes_into(parse(kind), parse(there)) is goes
