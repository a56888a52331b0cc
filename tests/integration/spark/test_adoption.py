"""A table that Spark made becomes a stream's mirror by the rule that `firn adopt` gives, in both homes."""

from collections.abc import Callable

import pytest

from firn_lake.adoption import adoption
from firn_lake.lake import Lake as Reader
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_audit import audited
from tests.integration.spark.test_commit import config, event

pytestmark = pytest.mark.spark

HEAD = "warehouse: file:///set/by/the/deployment\ncatalog: {type: sql}\nstreams:\n  spec:\n    tables:\n      "


@HOMES
def test_what_fits_goes_on_as_a_mirror(lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    commit_in(home, monkeypatch, events=3, one_task=3)
    before = lake(config())
    before.catalog.create_namespace("lake")
    before.spark.sql("CREATE TABLE firn.lake.t (id bigint, v string, at timestamp) USING iceberg").collect()
    before.spark.sql("INSERT INTO firn.lake.t SELECT id, concat('a', id), current_timestamp() FROM range(6)").collect()
    found = adoption(Reader(before.catalog), "lake.t", ["id"], "app.t")
    assert (found.fits, found.rows) == (True, 6), found
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
