"""Events that a staged log may hold, written into it as they are: what ingest would refuse today included."""

import json
import os
from datetime import datetime, timedelta
from typing import Any

from firn.changes.change import Parsed
from firn.log import layout
from firn.log.batches import FORMAT, BatchMeta, write_batch
from firn.log.store import put_if_absent
from tests.integration.spark.spark_lake import Lake

Raw = dict[str, Any]
_TEXTS = ("key", "before", "after", "schema")


def change(table: str, lsn: int, after: Any, **more: Any) -> Raw:
    """A staged change of PostgreSQL at position `lsn`. `after`: the row, or its image as text."""
    usual = {
        "op": "c", "table": table, "ts": 1_700_000_000_000 + lsn, "connector": "postgresql",
        "order": f'["{lsn}","{lsn}"]', "tx_order": None, "emitted": None, "flat": False,
        "key": None, "before": None, "schema": None, "transaction": None,
    }  # fmt: skip
    return {**usual, "after": after, **more}


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def stage(lake: Lake, events: list[Raw]) -> str:
    """Puts a batch into the log without ingest. -> its id."""
    lake.now += timedelta(seconds=1)
    data, batch = parsed_of(lake.stream, events, lake.now, lake.config.sha)
    assert put_if_absent(lake.store, layout.staged_path(batch), data)
    return batch


def parsed_of(stream: str, events: list[Raw], now: datetime, config: str = "") -> tuple[bytes, str]:
    """A batch's bytes and its id."""
    batch = layout.batch_id(stream, now, os.urandom(8))
    rows = [one | {name: _bytes(one[name]) for name in _TEXTS} for one in events]
    names = [name for name in Parsed.__struct_fields__ if name not in ("index", "ignored", "rejected")]
    parsed = Parsed(
        index=list(range(len(rows))), **{name: [row[name] for row in rows] for name in names}, ignored={}, rejected=[]
    )
    tables: dict[str, int] = {}
    for row in rows:
        tables[row["table"]] = tables.get(row["table"], 0) + 1
    meta = BatchMeta(FORMAT, stream, batch, layout.instant(now), config, len(rows), 0, {}, tables)
    return write_batch(parsed, meta), batch
