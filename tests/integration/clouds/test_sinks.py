"""A job's turn at a file sink on each cloud: real ingest, sealing and job, tables in memory, files there."""

import json
from datetime import timedelta
from typing import Any

from firn.dispatch.dispatcher import Terms, dispatch
from firn.log.store import get, open_store, paths
from firn.sinks import plans
from tests.model.lake_contract import STREAM, Stream, event
from tests.model.memory_ground import MemoryGround

CONFIG = """
streams:
  shop:
    tables:
      app.orders: {to: lake.orders, key: [id]}
    pipelines:
      raw:
        sql: SELECT * FROM app.orders
        files:
          {to: 'TO', format: json, compression: none, path: 'r={region}', roll: {every: 60s, size: 1MB}}
"""


def test_each_change_is_in_a_file_once_and_the_manifest_names_the_files(cloud: Any) -> None:
    to = cloud.url("files/raw")
    stream = Stream(MemoryGround(), CONFIG.replace("TO", to))
    regions = ("eu", "a b/ä 100%", None)
    for n in range(6):
        stream.land(event("c", n, {"id": n, "region": regions[n % 3]}))
    stream.now += timedelta(minutes=5)
    done = dispatch(stream.store, STREAM, None, now=stream.now, terms=Terms(stream.config.sha), tick=timedelta())
    assert done.pending is not None
    assert stream.commit(*done.pending) == 0, stream.lines
    store, named = open_store(to), [one.path for m in plans.manifests(stream.store, STREAM, "raw") for one in m.files]
    assert len(named) == 3
    assert paths(store, "") == sorted(named)
    lines = b"".join(get(store, path) or b"" for path in named).splitlines()
    assert sorted(json.loads(line)["id"] for line in lines) == list(range(6))
