"""A job's range ends where the stream's schemas change, so that each row is judged by the schema of its epoch."""

import json
from datetime import timedelta

import pytest
from obstore.store import MemoryStore

from firn.config.model import Config
from firn.dispatch.dispatcher import Dispatched, Terms, dispatch
from firn.ingest.accept import accept
from firn.log import cuts, published_configs
from firn.log.store import Store
from tests.unit.dispatch.jobs_list import MINUTE, NOW, ListOfJobs


def sealed(store: Store, jobs: ListOfJobs, config: Config, after: timedelta) -> Dispatched:
    accept(store, config, "shop", json.dumps({"id": 1}).encode(), now=NOW + after, table="t")
    return dispatch(store, "shop", jobs, now=NOW + after + MINUTE, terms=Terms(config.sha))


@pytest.mark.parametrize("files", [{}, {"raw": 0}])
def test_a_range_ends_where_the_schema_changes_and_not_where_other_settings_do(files: dict[str, int]) -> None:
    """Whether files of a sink are due or not."""
    store, jobs = MemoryStore(), ListOfJobs()
    schema = ", schema: {fields: [{name: id, type: int64}]}"
    rules = [("", ""), (schema, ""), (schema, ", u: {to: shop.u, mode: append}"), (schema.replace("64", "32"), "")]
    if files:
        cuts.write(store, cuts.make("shop", 0, "t", {}, files=files))
    jobs.start("shop", 1, 1, 9)  # a job is up, and takes nothing
    for n, (rule, more) in enumerate(rules):
        text = f"streams: {{shop: {{envelope: rows, tables: {{t: {{to: shop.t, mode: append{rule}}}{more}}}}}}}"
        config = published_configs.publish(MemoryStore(), text)
        store.put(f"config/{config.sha}.yaml", text.encode())  # the last narrows, which publish would not take
        done = sealed(store, jobs, config, 2 * n * MINUTE)
        assert done.waits_for == "r1"
    found = []
    for last in (1, 3, 4):
        jobs.end_all("SUCCESS")
        done = dispatch(store, "shop", jobs, now=NOW + timedelta(hours=last), terms=Terms(config.sha))
        found.append((list(jobs.started)[-1][1:3], done.pending))
        cuts.write(store, cuts.make("shop", last, "t", {"shop.t": last}, files=files))
    assert found == [((1, 1), (1, 4)), ((2, 3), (2, 4)), ((4, 4), (4, 4))]
