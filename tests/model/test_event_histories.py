"""Histories of tests/property/test_event_histories.py and test_large_values.py through ingest and the commit job, with
tables in memory: what is planned of columns and types, remembered and held between commits gives the source's table."""

import random
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from firn.commit import job
from firn.config.names import TableName
from firn.ingest.accept import accept
from firn.log import cuts, epochs, published_configs
from tests.model.memory_ground import MemoryGround
from tests.property import test_event_histories, test_large_values
from tests.property.test_event_histories import Table, requests_of, shown
from tests.soak import seeds

STREAM = "emitted"
LARGE = {f"{name}, large values": one for name, one in test_large_values.EMITTERS.items()}
EMITTERS = {**test_event_histories.EMITTERS, **LARGE}


def taken(envelope: str, key: str, bodies: list[bytes], dice: random.Random) -> Table:
    ground, now = MemoryGround(), datetime(2026, 11, 22, tzinfo=UTC)
    text = f"streams: {{{STREAM}: {{envelope: {envelope}, tables: {{'*': {{to: 'lake.{{table}}', key: [{key}]}}}}}}}}"
    store, config = ground.store, published_configs.publish(ground.store, text)
    for number, body in enumerate(bodies):
        now += timedelta(seconds=1)
        assert accept(store, config, STREAM, body, now=now).rejected == 0
        if dice.random() < 0.6 or number == len(bodies) - 1:
            found = epochs.candidates(store, STREAM, now, above=cuts.newest(store, STREAM))
            sealed = epochs.seal(store, STREAM, found, now=now, config=config.sha, nonce=f"{found.next_n:032x}")
            assert sealed is not None
            log: list[Any] = []
            clock = partial(datetime.fromisoformat, now.isoformat())
            done = job.run(store, ground.lake, STREAM, sealed.n, sealed.n, log=log.append, now=clock, attempt=1)
            assert done == 0, log
            assert [one for one in log if one.get("rejected")] == []
    name = TableName("lake", "t")
    return {(row[key],): row for row in (ground.rows(name) if name in ground.catalog.tables else ())}


@pytest.mark.parametrize("name", EMITTERS)
def test_the_job_makes_the_sources_table_of_what_an_emitter_tells(name: str) -> None:
    emitter = EMITTERS[name]
    for number in seeds(4, 300):
        dice = random.Random(number)
        bodies, source = requests_of(emitter, dice)
        found = taken(dice.choice((emitter.envelope, "auto")), emitter.key, bodies, dice)
        assert shown(found, emitter) == shown(source, emitter), f"FIRN_SEED={number}"
