"""Streams that share a job: none waits for one that will not take its epochs."""

import json
from datetime import timedelta

from obstore.store import MemoryStore

from firn.config.model import Config
from firn.dispatch.dispatcher import Dispatched, Terms, dispatch
from firn.ingest.accept import accept
from firn.log import published_configs
from firn.log.store import Store
from tests.unit.dispatch.jobs_list import MINUTE, NOW, ListOfJobs

TEXT = """
streams:
  one: {envelope: rows, tables: {t: {to: lake.one, mode: append}}}
  other: {envelope: rows, tables: {t: {to: lake.other, mode: append}}}
"""


def dispatched(store: Store, jobs: ListOfJobs, config: Config, stream: str, after: timedelta) -> Dispatched:
    terms = Terms(config.sha, together=config.sharing(stream))
    return dispatch(store, stream, jobs, now=NOW + after + MINUTE, terms=terms)


def sent(store: Store, config: Config, stream: str, after: timedelta) -> None:
    accept(store, config, stream, json.dumps({"id": 1}).encode(), now=NOW + after, table="t")


def test_a_stream_waits_for_no_job_of_another_configuration() -> None:
    """Such a job touches nothing that was sealed under another one (commit/warm_job.py), and while its own stream is
    busy it stays for hours."""
    store, jobs = MemoryStore(), ListOfJobs()
    old = published_configs.publish(store, TEXT)
    sent(store, old, "other", timedelta())
    dispatch(store, "other", None, now=NOW + MINUTE, terms=Terms(old.sha))
    new = published_configs.publish(store, TEXT + "# more\n")
    sent(store, new, "one", 2 * MINUTE)
    assert dispatched(store, jobs, new, "one", 2 * MINUTE).run == "r1"
    assert dispatched(store, jobs, new, "other", 3 * MINUTE).run == "r2"
    # What is sealed under the configuration of a job is that job's.
    sent(store, new, "other", 4 * MINUTE)
    jobs.started = {key: run for key, run in jobs.started.items() if run.stream == "one"}
    assert dispatched(store, jobs, new, "other", 4 * MINUTE).waits_for == "r1"
