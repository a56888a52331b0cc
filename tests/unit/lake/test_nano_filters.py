"""Filters on nanoseconds: of each row as whole numbers say, whatever files, row groups and partitions leave out."""

import json
import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import EqualTo, GreaterThan, LessThanOrEqual

from firn_lake.encoding import encoded
from firn_lake.lake import Lake
from firn_lake.lake_table import LakeTable
from firn_lake.reading.versions import BadFilter
from tests.soak import few_cases, times

FIRST, LAST, NOW = -(2**63), 2**63 - 1, 1_700_000_000_123_456_789
VALUES: Final = [FIRST, -1_000_000_000, -1, 0, 1, NOW - 1, NOW, NOW + 1, NOW + 10**14, LAST, None]
OPERATORS: Final[dict[str, Callable[[int, int], bool]]] = {
    "=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "<>": operator.ne,
}  # fmt: skip


def text(value: int, end: str = "") -> str:
    seconds, rest = divmod(value, 10**9)
    return f"{pa.scalar(seconds, pa.timestamp('s')).as_py().isoformat()}.{rest:09}{end}"


def table_of(catalog: Catalog, by: list[str]) -> LakeTable:
    catalog.create_namespace_if_not_exists("own")
    catalog.create_table("own.n", pa.schema([("id", pa.int64())]), properties={"format-version": "3"})
    table = Lake(catalog).table("own.n")
    table.evolve(add={"at": "timestamp_ns", "zoned": "timestamptz_ns"})
    table.partition(by)
    for first in range(0, len(VALUES), 2):
        some = VALUES[first : first + 2]
        moments = {"at": pa.array(some, pa.timestamp("ns")), "zoned": pa.array(some, pa.timestamp("ns", "UTC"))}
        table.append(pa.table({"id": list(range(first, first + len(some)))} | moments))
    return Lake(catalog).table("own.n")


NEAR: Final = st.sampled_from([one for one in VALUES if one is not None]).flatmap(
    lambda one: st.integers(max(FIRST, one - 1_001), min(LAST, one + 1_001))
)


@few_cases(1)
@pytest.mark.parametrize("by", [[], ["hour(at)", "bucket(3, zoned)"], ["year(zoned)"]])
def test_a_filter_takes_the_rows_that_whole_numbers_take(catalog: Catalog, by: list[str]) -> None:
    table = table_of(catalog, by)

    @settings(max_examples=times(5, 500, 25), deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.sampled_from(list(OPERATORS)), NEAR | st.integers(FIRST, LAST), st.sampled_from(["at", "zoned"]))
    def as_numbers_do(sign: str, value: int, column: str) -> None:
        end = "Z" if column == "zoned" else ""
        wanted = [n for n, one in enumerate(VALUES) if one is not None and OPERATORS[sign](one, value)]
        said = f"{column} {sign} '{text(value, end)}'"
        assert sorted(table.read(["id"], filter=said).arrow()["id"].to_pylist()) == wanted
        assert sum(one.rows for one in table.prune(said).read) >= len(wanted)
        sql = f"SELECT id FROM own.n WHERE \"{column}\" {sign} '{text(value, end)}' ORDER BY id"
        assert Lake(catalog).sql(sql).arrow()["id"].to_pylist() == wanted

    as_numbers_do()


def test_what_is_outside_by_a_nanosecond_is_not_read(catalog: Catalog) -> None:
    table = table_of(catalog, [])
    told = table.prune(f"at > '{text(NOW)}' and at <= '{text(NOW + 1)}'")
    assert [one.rows for one in told.read] == [2]


def test_pythons_moments_and_numbers_are_compared_as_nanoseconds(catalog: Catalog) -> None:
    table, moment = table_of(catalog, []), datetime(2023, 11, 14, 22, 13, 20, 123_456)

    def ids(filter: Any) -> list[int]:
        return sorted(table.read(["id"], filter=filter).arrow()["id"].to_pylist())

    assert ids(GreaterThan("at", moment)) == [5, 6, 7, 8, 9]
    assert ids(GreaterThan("at", moment + timedelta(microseconds=1))) == [8, 9]
    assert ids(LessThanOrEqual("zoned", moment.replace(tzinfo=UTC))) == [0, 1, 2, 3, 4]
    assert ids(EqualTo("at", NOW)) == [6]
    assert ids("at is null") == [10]
    assert ids(f"zoned in ('{text(NOW, 'Z')}', '{text(-1, '+00:00')}')") == [2, 6]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("at > '2023-11-14T22:13:20.1234567891'", "more than 9 digits after the second"),
        ("at > '2023-11-14T22:13:20+01:00'", "an offset in a timestamp without zone"),
        ("zoned > '2023-11-14T22:13:20'", "has no offset; write such as"),
        ("at > '1600-01-01T00:00:00'", "lies outside 1677-09-21 to 2262-04-11"),
        ("zoned < '2300-01-01T00:00:00Z'", "lies outside 1677-09-21 to 2262-04-11"),
        ("at > 'yesterday'", "not an ISO 8601 timestamp"),
    ],
)
def test_a_text_that_is_no_moment_is_refused(catalog: Catalog, said: str, why: str) -> None:
    with pytest.raises(BadFilter, match=why):
        table_of(catalog, []).read(filter=said).arrow()


def test_python_and_json_have_all_digits_as_text(catalog: Catalog) -> None:
    table_of(catalog, [])
    columns = '"at", zoned, [zoned] AS "some", {a: "at"} AS part, MAP {id: "at"} AS "by"'
    found = Lake(catalog).sql(f"SELECT {columns} FROM own.n WHERE id IN (6, 10) ORDER BY id")
    at, zoned = text(NOW), text(NOW, "Z")
    there = {"at": at, "zoned": zoned, "some": [zoned], "part": {"a": at}, "by": [(6, at)]}
    nothing = {"at": None, "zoned": None, "some": [None], "part": {"a": None}, "by": [(10, None)]}
    assert found.pylist() == [there, nothing]
    body = json.loads(b"".join(encoded(found.schema, found, "json", {})))
    assert body["rows"] == [there | {"by": [[6, at]]}, nothing | {"by": [[10, None]]}]
    assert pc.sum(Lake(catalog).sql('SELECT epoch_ns("at") n FROM own.n WHERE id = 6').arrow()["n"]).as_py() == NOW
