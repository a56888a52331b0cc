"""The account of a stream whose changes go to several tables. Tables in memory take what a pipeline brings as it is."""

from tests.model.lake_contract import CONFIG, Stream, event
from tests.unit.audit.audited import Ground, audited

PIPELINES = """    pipelines:
      log: {sql: INSERT INTO lake.log SELECT id FROM app.orders}
      rest: {mode: mirror, sql: INSERT INTO lake.rest SELECT id FROM app.orders}
"""


def test_what_goes_to_two_tables_is_accounted_for_in_both() -> None:
    ground = Ground()
    stream = Stream(ground, CONFIG + PIPELINES)
    stream.land(event("c", 1, {"id": 1}), event("c", 2, {"id": 2}), event("c", 3, {"id": 1}, table="other"))
    stream.seal(event("u", 4, {"id": 1}), event("c", 5, {"id": 1}, table="unknown"))
    found = audited(stream, ground)
    assert found.balanced, found.differences
    assert (found.acked, found.copies, found.merged, found.pending) == (5, 3, 5, 2)
    assert {one.table: (one.events, one.pending) for one in found.tables} == {
        "lake.orders": (3, 1), "lake.log": (3, 1), "lake.other": (1, 0), "lake.rest": (0, 0),
    }  # fmt: skip


def test_a_pipeline_that_came_later_is_accounted_for_from_its_first_epoch_on() -> None:
    ground = Ground()
    stream = Stream(ground)
    stream.land(event("c", 1, {"id": 1}))
    stream.publish(CONFIG + PIPELINES)
    stream.land(event("c", 2, {"id": 2}))
    found = audited(stream, ground)
    assert found.balanced, found.differences
    assert found.copies == 1
    assert stream.cut().counts["lake.log"]["events"] == 1
