"""One staged object as rows, as an executor reads it. No JVM."""

import json

from firn.changes.envelopes import parse
from firn.staging.batch import BatchMeta, write_batch
from firn_spark.read import RAW, Order, SealedBatch, rows_of

META = BatchMeta(1, "shop", "shop.x", "2026-03-01T12:30:00.000Z", "sha", 2, 0, {}, {"public.a": 2})


def test_columns_that_are_not_in_the_file_are_filled_in() -> None:
    source = {"connector": "postgresql", "schema": "public", "table": "a", "sequence": '["1","2"]'}
    events = [{"op": "c", "before": None, "after": {"id": n}, "source": source} for n in range(2)]
    body = write_batch(parse(json.dumps(events).encode(), "debezium"), META)
    changes, facts = rows_of(SealedBatch(1, 0, "shop.x", "p", len(body)), body, Order())
    assert changes.schema == facts.schema == RAW
    rows = changes.to_pylist()
    assert [(row["index"], row["flat"], row["ts"], row["key"], row["schema_id"]) for row in rows] == [
        (0, False, None, None, None),
        (1, False, None, None, None),
    ]
    assert [row["after"] for row in rows] == ['{"id": 0}', '{"id": 1}']
    assert {row["fact"] for row in facts.to_pylist()} == {"columns", "key"}
