"""A table that Spark made becomes a stream's mirror by the rule that `firn adopt` gives, in both homes."""

from collections.abc import Callable

import pytest

from firn_lake.adoption import adoption
from firn_lake.lake import Lake as Reader
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_audit import audited
from tests.integration.spark.test_commit import config, event
from tests.soak import few_cases

pytestmark = pytest.mark.spark

HEAD = "warehouse: file:///set/by/the/deployment\ncatalog: {type: sql}\nstreams:\n  spec:\n    tables:\n      "


@few_cases(1)
@HOMES
@pytest.mark.parametrize("form", [1, 2, 3])
def test_what_fits_goes_on_as_a_mirror(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch, home: str, form: int
) -> None:
    commit_in(home, monkeypatch, events=3, one_task=3)
    before = lake(config())
    before.catalog.create_namespace("lake")
    columns = "(id bigint, v string, at timestamp)"
    before.spark.sql(
        f"CREATE TABLE firn.lake.t {columns} USING iceberg TBLPROPERTIES ('format-version' = '{form}')"
    ).collect()
    before.spark.sql("INSERT INTO firn.lake.t SELECT id, concat('a', id), current_timestamp() FROM range(6)").collect()
    found = adoption(Reader(before.catalog), "lake.t", ["id"], "app.t")
    assert (found.fits, found.rows) == (True, 6), found
    assert ("format: 2" in found.rule) == (form == 1), "format 1 has no deletes"
    one = lake(HEAD + found.rule)
    one.land(
        [event("u", 10, {"id": 1, "v": "b1"}), event("d", 11, None, {"id": 2}), event("c", 12, {"id": 9, "v": "b9"})]
    )
    one.land([event("u", 5, {"id": 1, "v": "older"}), event("u", 20, {"id": 3, "v": "c3"})])
    rows = {row["id"]: row["v"] for row in one.rows("lake.t")}
    assert rows == {0: "a0", 1: "b1", 3: "c3", 4: "a4", 5: "a5", 9: "b9"}
    assert all(row["at"] is not None for row in one.rows("lake.t") if row["id"] in (0, 4, 5))
    assert audited(one).differences == []
    again = adoption(Reader(one.catalog), "lake.t", ["id"], "app.t")
    assert again.against[0].startswith("it is fed by spec already")


def test_a_column_that_evolve_dropped_from_an_adopted_table_may_come_back(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_in("driver", monkeypatch, events=3, one_task=3)
    one = lake(HEAD + "app.t: {to: lake.t, key: [id]}")
    one.catalog.create_namespace("lake")
    one.spark.sql("CREATE TABLE firn.lake.t USING iceberg AS SELECT id, 'a' AS v, 'w' AS w FROM range(3)").collect()
    one.land([event("u", 10, {"id": 1, "v": "b1", "w": "x"})])
    Reader(one.catalog).table("lake.t").evolve(drop=["w"], despite_stream=True)
    one.land([event("u", 20, {"id": 2, "v": "b2", "w": "y"})])
    rows = {row["id"]: (row["v"], row["w"]) for row in one.rows("lake.t")}
    assert rows == {0: ("a", None), 1: ("b1", None), 2: ("b2", "y")}
