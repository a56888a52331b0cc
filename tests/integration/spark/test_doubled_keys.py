"""Keys of which another writer made several rows: the newest counts, and a change that decides the key leaves one."""

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
NAMES = ("id", "v", "w")
ROWS = 12


@pytest.fixture(autouse=True)
def at_home(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_in(home, monkeypatch, events=5, one_task=5)


def doubled(one: Lake, table: str = "t") -> list[dict[str, Any]]:
    """A table of which each row is there as it is, and once more as it was before."""
    told = [event("c", 10 + n, row(n), table=table) for n in range(ROWS)]
    one.land(told)
    before = one.catalog.load_table(("lake", "t")).metadata.current_snapshot_id
    told += [event("u", 100 + n, row(n, v="new", w=GONE), table=table) for n in range(ROWS)]
    one.land(told[ROWS:])
    one.spark.sql(
        f"INSERT INTO firn.lake.t BY NAME SELECT *, NULL AS _firn_held FROM firn.lake.t VERSION AS OF {before}"
    )
    return told


def values(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(one.get(name) for name in NAMES) for one in rows)


def specified(told: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return values(dict(one.values) for one in fold({}, map(change, told)).rows.values())


@few_cases(1)
@HOMES
@pytest.mark.parametrize("write", ["merge-on-read", "copy-on-write"])
def test_of_a_key_that_a_change_decides_one_row_is_left(lake: Callable[[str], Lake], home: str, write: str) -> None:
    one = lake(config(f"key: [id], columns: {{id: long, v: string, w: string}}, write: {write}"))
    told = doubled(one)
    news = [
        event("u", 200, row(0, w=GONE)),  # as it was before by the newer of its rows
        event("u", 201, row(1)),
        event("d", 202, None, row(2)),
        event("d", 203, None, row(3)), event("c", 203, row(30, v="moved", w=GONE)),
        event("c", 204, row(31)),
        event("u", 50, row(4)),  # older than one of its rows, newer than the other: it tells what that one held
    ]  # fmt: skip
    one.land(news)
    assert one.line("lake.t")["way"]["lookup"] == home
    left = set(range(5, ROWS))
    found = values(one.rows("lake.t"))
    assert [each for each in found if each[0] not in left] == [
        each for each in specified([*told, *news]) if each[0] not in left
    ]
    assert [each for each in found if each[0] in left] == sorted(
        each for key in left for each in ((key, "new", f"w{key}"), (key, f"v{key}", f"w{key}"))
    ), "what no change decides stays as it is"


@few_cases(1)
@HOMES
@pytest.mark.parametrize("tables", ["t", "ab"])
def test_a_truncate_takes_the_rows_of_a_doubled_key_that_are_older(
    lake: Callable[[str], Lake], home: str, tables: str
) -> None:
    rule = "key: [id], columns: {id: long, v: string, w: string}"
    one = lake(several(rule) if len(tables) > 1 else config(rule))
    told = doubled(one, tables[0])
    news = [
        event("t", 50, table=tables[0]),
        event("u", 201, row(1), table=tables[0]),
        event("c", 204, row(31), table=tables[0]),
    ]
    one.land(news)
    if tables == "t" or home == "driver":
        assert one.line("lake.t")["way"]["lookup"] == home
    assert values(one.rows("lake.t")) == specified([*told, *news])


@few_cases(1)
@HOMES
@pytest.mark.parametrize("beside", [(), (event("u", 21, {"id": 2, "v": GONE, "w": "new"}),)], ids=["alone", "beside"])
def test_which_of_equal_rows_counts_does_not_hang_on_what_else_changes(
    lake: Callable[[str], Lake], home: str, beside: tuple[dict[str, Any], ...]
) -> None:
    """Rows that another tool loaded have no order: the one of the highest values counts, all columns taken together."""
    one = lake(config("key: [id], columns: {id: long, v: string, w: string}"))
    one.land([event("c", 10, row(2))])
    rows = "(1, 'a', 'z', NULL, NULL), (1, 'b', 'y', NULL, NULL)"
    one.spark.sql(f"INSERT INTO firn.lake.t (id, v, w, _firn_pos, _firn_ts) VALUES {rows}")
    one.land([event("u", 20, {"id": 1, "v": "new", "w": GONE}), *beside])
    assert one.line("lake.t")["way"]["lookup"] == home
    assert [found for found in values(one.rows("lake.t")) if found[0] == 1] == [(1, "new", "y")]
