"""Truncates that come late, or that others come late to, in a table of one source table, whichever home commits."""

from collections.abc import Callable
from typing import Any

import pytest

from firn.changes.merge.fold import fold
from tests.integration.spark.homes import HOMES, commit_in, row
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import GONE, config, event
from tests.integration.spark.test_mixed_ranges import several
from tests.integration.spark.test_specification import change
from tests.soak import few_cases

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def at_home(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_in(home, monkeypatch, events=5, one_task=5)


def check(one: Lake, told: list[list[dict[str, Any]]]) -> None:
    for part in told:
        one.land(part)
    names = ("id", "v", "w")
    placed = (each for part in told for each in part if "sequence" in each["source"])
    specified = fold({}, map(change, placed)).rows.values()
    expected = sorted(tuple(made.values.get(name) for name in names) for made in specified)
    assert sorted(tuple(made[name] for name in names) for made in one.rows("lake.t")) == expected


@few_cases(1)
@HOMES
@pytest.mark.parametrize(("last", "write"), [("u", "merge-on-read"), ("d", "copy-on-write")])
def test_a_row_that_loses_values_to_a_late_truncate_and_gets_another_change_is_one(
    lake: Callable[[str], Lake], last: str, write: str
) -> None:
    told = [
        [event("c", 10 + n, row(n)) for n in range(9)],
        [event("u", 100, row(1, v="new", w=GONE))],
        [event("t", 50), event("d", 200, None, row(1)) if last == "d" else event("u", 200, row(1, v="last"))]
        + [event("c", 210 + n, row(20 + n)) for n in range(5)],
    ]
    check(lake(config(f"key: [id], write: {write}")), told)


@few_cases(1)
@HOMES
@pytest.mark.parametrize("other", [None, 40, 70])
def test_a_truncate_is_newer_than_what_has_no_position(lake: Callable[[str], Lake], other: int | None) -> None:
    """`other`: where another change of the range is."""
    unplaced = event("u", 90, row(1, w="unplaced"))
    unplaced["source"] = {name: told for name, told in unplaced["source"].items() if name not in ("lsn", "sequence")}
    told = [
        [event("c", 10 + n, row(n)) for n in range(4)] + [event("t", 50)],
        [unplaced, event("u", 60, row(1, w=GONE))] + ([event("c", other, row(3))] if other is not None else []),
    ]
    check(lake(config()), told)


@HOMES
def test_a_truncate_of_one_of_several_source_tables_is_newer_than_what_has_no_position(
    lake: Callable[[str], Lake], home: str
) -> None:
    one = lake(several("key: [id], columns: {id: long, v: string, w: string}"))
    one.land([event("c", 10 + n, row(n), table="ab"[n % 2]) for n in range(8)] + [event("t", 50, table="a")])
    assert sorted(one.by_key("lake.t", "id")) == [1, 3, 5, 7]
    one.land([unplaced("u", 0) | {"source": unplaced("u", 0)["source"] | {"table": "a"}}]
             + [event("u", 60 + n, row(n, v="new"), table="b") for n in (1, 3)])  # fmt: skip
    assert {key: each["v"] for key, each in one.by_key("lake.t", "id").items()} == {
        1: "new",
        3: "new",
        5: "v5",
        7: "v7",
    }
    assert one.line("lake.t")["way"]["lookup"] == home


def unplaced(op: str, number: int) -> dict[str, Any]:
    one = event(op, 90, None if op == "d" else row(number, v="arrived"), row(number) if op == "d" else None)
    one["source"] = {name: told for name, told in one["source"].items() if name not in ("lsn", "sequence")}
    return one


@HOMES
def test_a_delete_without_a_position_removes_and_is_not_remembered(lake: Callable[[str], Lake], home: str) -> None:
    """The order of arrival decides, and what has a position wins."""
    one = lake(config())
    one.land([unplaced("u", n) for n in range(8)])
    one.land([unplaced("d", n) for n in range(3)] + [event("c", 20, row(4)), unplaced("d", 4)])
    assert {key: each["v"] for key, each in one.by_key("lake.t", "id").items()} == {
        3: "arrived", 4: "v4", 5: "arrived", 6: "arrived", 7: "arrived",
    }  # fmt: skip
    said = one.line("lake.t")
    assert (said["way"]["lookup"], said["way"]["by"], said["merged"]) == (home, "columns", 4)
    assert not one.catalog.table_exists(("lake", "t__deletes"))
    one.land([unplaced("u", 0), event("d", 30, None, row(5)), unplaced("u", 5), unplaced("d", 3)])
    assert sorted(one.by_key("lake.t", "id")) == [0, 4, 6, 7]
    assert [fact["id"] for fact in one.rows("lake.t__deletes")] == [5]
