"""Without `key:` in firn.yaml the events' key is the table's, however they are split: or the table is held by name."""

from collections.abc import Callable
from typing import Any

import pytest

from firn.changes.merge.ordering import Order
from firn.config.names import TableName
from firn.log import epochs, holds, published_configs
from firn.log.generations import Generations
from firn.quarantine.lifting import resume
from firn_spark import rebuild
from firn_spark.driver.staged_changes import Held
from firn_spark.rebuild import Request
from firn_spark.staged.batch_facts import facts_of
from firn_spark.staged.frames import raw_changes
from firn_spark.staged.kept_generations import batches_of
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event, letters
from tests.soak import few_cases

pytestmark = pytest.mark.spark
Make = Callable[[str], Lake]
NAME = TableName("lake", "t")


def config(rule: str = "") -> str:
    return (
        "warehouse: file:///x\ncatalog: {type: sql}\nstreams:\n  spec:\n    tables:\n"
        f"      app.t: {{to: lake.t{rule}}}\n      app.u: {{to: lake.t{rule}}}\n"
    )


def record(key: dict[str, Any] | None, value: dict[str, Any]) -> dict[str, Any]:
    return {"destination": "p.app.t", "key": key, "value": value}


def held(lake: Lake) -> dict[str, str]:
    found = holds.read_all(lake.store, "spec").held()
    return {name: f"{one.reason}: {one.message}" for name, one in found.items()}


def rows(lake: Lake, table: str = "lake.t") -> list[dict[str, Any]]:
    found = [{k: v for k, v in row.items() if k[0] != "_"} for row in lake.rows(table)]
    return sorted(found, key=repr)


def rebuilt(lake: Lake, **how: Any) -> dict[str, Any]:
    """Runs a rebuild in ranges of one epoch. -> its result."""
    said: list[dict[str, Any]] = []
    request = Request("r1", NAME, **how)
    rebuild.run(request, lake.staging, lake.warehouse, lake.catalog_uri, spark=lake.spark, log=said.append, size=1)
    return said[-1]


def released(lake: Lake) -> None:
    """Releases the table; the next job brings it what it lacks."""
    lake.now = lake.now.replace(microsecond=0)
    resume(lake.store, "spec", "lake.t", None, "retry", lake.now)


KEYED = record({"id": 1}, event("c", 10, {"id": 1, "r": "a", "v": "x"}))
KEYLESS = event("u", 15, {"id": 1, "r": "a", "v": "y"})
OF_NONE = event("c", 16, {"r": "b", "v": "no id"})
GONE = event("d", 17, None, {"r": "b"})
OTHER_KEY = record({"r": "b", "id": 1}, event("c", 20, {"id": 1, "r": "b", "v": "z"}))


@few_cases(1)
@pytest.mark.parametrize("split", [False, True])
def test_keyless_images_that_hold_the_key_join_and_others_are_dead(lake: Make, split: bool) -> None:
    one = lake(config())
    for part in [[KEYED], [KEYLESS, OF_NONE, GONE]] if split else [[KEYLESS, OF_NONE, GONE, KEYED]]:
        one.land(part)
    assert rows(one) == [{"id": 1, "r": "a", "v": "y"}]
    assert [letter.reason for letter in letters(one)] == ["no_key", "no_key"]
    assert not held(one)


@HOMES
def test_a_delete_that_holds_nothing_but_its_key_may_be_the_first_change_of_a_table(
    lake: Make, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch)
    one = lake(config())
    one.land([record({"id": n}, event("d", 20)) for n in (1, 2**60)])
    assert (rows(one), letters(one)) == ([], [])
    one.land([KEYED, record({"id": 2}, event("c", 11, {"id": 2, "r": "a", "v": "x"}))])
    assert rows(one) == [{"id": 2, "r": "a", "v": "x"}]


@few_cases(1)
@pytest.mark.parametrize("split", [False, True])
def test_two_keys_hold_the_table_until_firn_yaml_says_which(lake: Make, split: bool) -> None:
    one = lake(config())
    for part in [[KEYED, KEYLESS], [OTHER_KEY]] if split else [[KEYED, KEYLESS, OTHER_KEY]]:
        one.land(part)
    (why,) = held(one).values()
    assert why.startswith("key_changed: KeyChanged: ")
    assert "set `key:`" in why
    assert ("[id] in the table and events name [r, id]" if split else "the keys [id] and [r, id]") in why
    one.config = published_configs.publish(one.store, config(", key: [id, r]"))
    if split:
        assert rows(one) == [{"id": 1, "r": "a", "v": "y"}], "as it was before"
        assert "the keys [id] and [r, id]" not in str(rebuilt(one, in_place=True))
    released(one)
    one.land([event("u", 30, {"id": 1, "r": "b", "v": "on"})])
    assert rows(one) == [{"id": 1, "r": "a", "v": "y"}, {"id": 1, "r": "b", "v": "on"}]
    assert not held(one)


@few_cases(1)
@pytest.mark.parametrize("way", ["in_place", "into"])
def test_a_table_that_was_begun_without_a_key_gets_it_by_a_rebuild(lake: Make, way: str) -> None:
    one = lake(config())
    one.land([KEYLESS, OF_NONE])
    assert len(rows(one)) == 2, "a table without a key is append"
    one.land([KEYED, event("t", 5)])
    (why,) = held(one).values()
    assert "the table is append" in why
    assert "now events name [id]" in why
    if way == "into":
        assert (result := rebuilt(one, into=TableName("lake", "again")))["status"] == "done", result["error"]
        assert rows(one, "lake.again") == [{"id": 1, "r": "a", "v": "y"}]
        return
    assert (result := rebuilt(one, in_place=True))["status"] == "done", result["error"]
    assert rows(one) == [{"id": 1, "r": "a", "v": "y"}]
    released(one)
    one.land([record({"id": 2}, event("c", 40, {"id": 2, "r": "c", "v": "on"})), event("d", 41, None, {"id": 1})])
    assert rows(one) == [{"id": 2, "r": "c", "v": "on"}]
    assert not held(one)


def test_an_append_table_that_is_meant_to_be_one_goes_on(lake: Make) -> None:
    one = lake(config())
    one.land([KEYLESS])
    one.land([KEYED])
    assert held(one)
    one.config = published_configs.publish(one.store, config(", mode: append"))
    released(one)
    one.land([OTHER_KEY])
    assert sorted(row["v"] for row in rows(one)) == ["x", "y", "z"]
    assert not held(one)


def test_a_table_that_others_made_keeps_the_key_that_its_first_events_named(lake: Make) -> None:
    one = lake(config())
    one.spark.sql("CREATE NAMESPACE firn.lake")
    one.spark.sql("CREATE TABLE firn.lake.t (id BIGINT, r STRING, v STRING)")
    one.land([KEYED])
    one.land([KEYLESS])
    assert rows(one) == [{"id": 1, "r": "a", "v": "y"}]
    one.land([OTHER_KEY])
    assert "[id] in the table and events name [r, id]" in str(held(one))


def test_every_way_of_reading_tells_the_same_keys(lake: Make) -> None:
    one = lake(config())
    sealed = []
    for part in ([KEYED, KEYLESS], [OTHER_KEY, KEYED, record({}, event("c", 21, {"id": 3}))], [event("t", 22)]):
        one.post(part)
        sealed.append(one.seal())
    found = {n: epoch for n in sealed if (epoch := epochs.read(one.store, "spec", n)) is not None}
    batches = batches_of(found, Generations(one.store, one.config.streams["spec"], sealed[-1]))
    spark = facts_of(raw_changes(one.spark, one.staging, batches, Order()))
    driver = Held(one.store, one.staging, [(batches, Order())], whole=True).facts
    assert spark["app.t"].keys == driver["app.t"].keys == {("id",): 2, ("r", "id"): 2}
