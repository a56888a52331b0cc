"""What two bags of rows differ by."""

from collections import Counter

import duckdb
import pytest

from firn_sql.views import bags


@pytest.mark.parametrize(
    ("more", "less"),
    [
        ("", ""),
        ("aab", "ab"),
        ("abc", "ccc"),
        ("", "aa"),
        ("aaaa", ""),
        ("aNN", "Nb"),
    ],
)
def test_what_differs_is_there_as_often_as_it_does(more: str, less: str) -> None:
    def rows(some: str) -> str:
        values = ", ".join(f"({n}, {'NULL' if one == 'N' else repr(one)})" for n, one in enumerate(some))
        return f"SELECT w0 FROM (VALUES (-1, 'z'), {values}) AS v(n, w0)" if some else "SELECT 'z' AS w0"

    wanted = [Counter(more) - Counter(less), Counter(less) - Counter(more)]
    is_once = all(n == 1 for one in wanted for n in one.values())
    with duckdb.connect() as run:
        both = bags.counted([rows(more)], [rows(less)], ["w0"])
        for once in {False, is_once}:
            found = [run.execute(bags.repeated(both, ["w0"], sign, once=once)).fetchall() for sign in ("", "-")]
            assert [Counter("N" if one is None else one for (one,) in each) for each in found] == wanted
