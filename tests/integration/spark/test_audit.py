"""`firn audit` over real Spark commits: whatever came, in whatever way, is counted once; and what is amiss is named."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from firn.audit.ledger import read
from firn.audit.ledger_view import Keeping
from firn.audit.verdict import Audit, audit
from firn.ingest.queue import Message, take
from firn.ingest.replay import Choice, replay
from firn.log import layout, published_configs
from firn_lake.audit.row_audit import Depth, audit_rows
from firn_lake.audit.table_histories import histories, loaded
from tests.integration.spark.spark_lake import Lake, ndjson

pytestmark = pytest.mark.spark

CONFIG = """
streams:
  spec:
    tables:
      app.orders: {to: lake.orders, key: [id]}
      app.log: {to: lake.log, mode: append}
      app.typed: {to: lake.typed, key: [id], columns: {n: int}}
"""


def event(op: str, lsn: int, after: Any = None, before: Any = None, table: str = "orders") -> dict[str, Any]:
    source = {"connector": "postgresql", "schema": "app", "table": table, "ts_ms": 1_700_000_000_000 + lsn}
    source |= {"sequence": json.dumps([str(lsn - 1), str(lsn)]), "lsn": lsn}
    return {"op": op, "before": before, "after": after, "source": source, "ts_ms": source["ts_ms"]}


def audited(lake: Lake, depth: Depth = Depth(deep=True)) -> Audit:  # noqa: B008
    """What `firn audit STREAM --deep` finds."""
    catalog = lake.catalog
    ledger = read(lake.store, lake.stream, lambda names: histories(catalog, lake.stream, names))
    found = audit(ledger, lake.now)
    tables = loaded(catalog, ledger.tables)
    current = lake.config.streams.get(lake.stream)
    found.take(audit_rows(lake.store, catalog, ledger, tables, lake.now, Keeping(), depth, current))
    for table in found.tables:
        assert table.accounted == table.events
        assert min(table.merged, table.superseded, table.ignored, table.dead, table.pending) >= 0
    return found


def test_all_that_was_acknowledged_is_accounted_for(lake: Callable[[str], Lake]) -> None:
    made = lake(CONFIG)
    first = [
        event("c", 10, {"id": 1, "v": "a"}), event("c", 11, {"id": 2, "v": "b"}), event("c", 12, {"id": 3, "v": "c"}),
        event("c", 13, {"id": 1, "n": 1}, table="typed"), event("c", 14, {"id": 2, "n": "x"}, table="typed"),
        event("c", 15, {"n": 1}, table="log"), event("c", 16, {"n": 1}, table="log"),
        event("c", 17, {"n": 1}, table="nowhere"), {"op": "x"}, {"ts_ms": 1},
    ]  # fmt: skip
    made.post(first)
    made.land(first)
    found = audited(made)
    assert found.differences == []
    assert (found.acked, found.pending, found.difference) == (20, 0, 0)
    assert (found.merged, found.superseded, found.dead) == (6, 6, 4)
    assert found.ignored == {"filtered_table": 2, "heartbeat": 2}

    # A key that changes, and nothing else of its row: one event of two rows. A truncate that can't be placed.
    bad = event("t", 30, table="typed")
    bad["source"] |= {"sequence": '["x","y"]', "lsn": "z"}
    second = [event("u", 20, {"id": 7, "v": "b"}, {"id": 2, "v": "b"}), event("d", 21, None, {"id": 3}), bad]
    second += [event("t", 31, table="typed"), event("u", 9, {"id": 1, "v": "old"}), event("d", 22, None, {"id": 99})]
    made.land(second)
    found = audited(made)
    assert found.differences == []
    assert (found.acked, found.pending) == (26, 0)

    message = Message("m", ndjson([event("u", 40, {"id": 8, "v": "q"}, {"id": 7, "v": "b"})]))
    take(made.store, made.config, made.stream, [message], now=made.now)
    made.config = published_configs.publish(made.store, CONFIG.replace("columns: {n: int}", "columns: {n: string}"))
    list(replay(made.store, made.config, made.stream, Choice(), clock=lambda: made.now))
    found = audited(made)
    assert (found.differences, found.difference) == ([], 0)
    assert (found.pending, found.replayed) == (4, 3)
    assert made.commit(made.seal()) == 0, made.lines
    found = audited(made)
    assert (found.differences, found.pending, found.difference) == ([], 0, 0)


def test_a_rollback_by_hand_and_a_lost_batch_are_named(lake: Callable[[str], Lake]) -> None:
    made = lake(CONFIG)
    (first,) = made.post([event("c", 1, {"id": 1, "v": "a"})])
    assert made.commit(made.seal()) == 0
    (second,) = made.post([event("c", 2, {"id": 2, "v": "a"})])
    assert made.commit(made.seal()) == 0
    assert audited(made).balanced

    made.store.delete(layout.staged_path(first.batch_id))
    (lost,) = audited(made).differences
    assert (lost.code, lost.batches) == ("batch_missing", (first.batch_id,))

    table = made.catalog.load_table("lake.orders")
    table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[0].snapshot_id).commit()
    found = audited(made)
    back = next(one for one in found.differences if one.code == "rolled_back")
    assert (back.batches, back.epochs, found.pending) == ((second.batch_id,), (2,), 1)
