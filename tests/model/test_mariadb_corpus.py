"""MariaDB's events as Debezium recorded them, in order and in any other, against MariaDB's own final tables: each table
by type, and what the events do not hold by name (tests/mariadb_corpus.py)."""

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from firn.commit import job
from firn.config.names import TableName
from firn.ingest import accept
from firn.log import cuts, epochs, published_configs
from firn.log.layout import dead_prefix
from firn.log.store import paths
from tests.mariadb_corpus import CORPUS, KEYS, KNOWN, differences, records, streams
from tests.mariadb_encodings import Encoding, sent
from tests.model.memory_ground import MemoryGround
from tests.soak import few_cases, seeds

STREAM = "maria"
EVENTS = [record["value"] for record in records(CORPUS / "plain.ndjson.gz") if record["value"] is not None]


class Landed:
    """A stream of requests, committed in memory."""

    def __init__(self, requests: Sequence[Sequence[Any]], commits: int, yaml: str = streams(STREAM)) -> None:
        self.ground, self.now = MemoryGround(), datetime(2026, 11, 25, tzinfo=UTC)
        self.rejected: list[Any] = []
        config = published_configs.publish(self.ground.store, yaml)
        for place, request in enumerate(requests, 1):
            body = b"\n".join(json.dumps(event, ensure_ascii=False).encode() for event in request)
            done = accept.accept(self.ground.store, config, STREAM, body, now=self._tick())
            self.rejected += done.errors
            if place * commits // len(requests) > (place - 1) * commits // len(requests):
                self._commit(config.sha)

    def _tick(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    def _commit(self, sha: str) -> None:
        store = self.ground.store
        found = epochs.candidates(store, STREAM, self._tick(), above=cuts.newest(store, STREAM))
        sealed = epochs.seal(store, STREAM, found, now=self.now, config=sha, nonce=f"{found.next_n:032x}")
        assert sealed is not None
        lines: list[Any] = []
        done = job.run(store, self.ground.lake, STREAM, sealed.n, sealed.n, log=lines.append, now=self._tick, attempt=1)
        assert done == 0, lines
        self.rejected += paths(store, dead_prefix(STREAM))

    def rows(self, table: str) -> list[dict[str, Any]]:
        return self.ground.rows(TableName(STREAM, table))

    def wrong(self) -> dict[str, list[str]]:
        found = {table: differences(table, self.rows(table)) for table in KEYS}
        return {table: lines for table, lines in found.items() if lines}


def test_in_order_every_table_is_the_sources_by_type() -> None:
    landed = Landed([EVENTS[n : n + 500] for n in range(0, len(EVENTS), 500)], commits=2)
    assert landed.rejected == []
    assert landed.wrong() == KNOWN


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_in_any_order_doubled_and_split_anyhow_every_table_is_the_sources(seed: int) -> None:
    dice = random.Random(seed)
    delivered = [*EVENTS, *(event for event in EVENTS if dice.random() < 0.3)]
    dice.shuffle(delivered)
    requests = []
    while delivered:
        size = dice.randint(1, 600)
        requests.append(delivered[:size])
        delivered = delivered[size:]
    landed = Landed(requests, commits=3)
    assert landed.rejected == []
    assert landed.wrong() == KNOWN


# Settings, whether types are declared, and what these settings do not send.
ENCODINGS = {
    "with schema": (Encoding("string", "microseconds", "hex", "precise", schema=True), True, {}),
    "types of the schema alone": (Encoding("precise", "nanoseconds", unsigned="precise", schema=True), False, {}),
    "unsigned by its source type": (
        Encoding("precise", "adaptive_time_microseconds", schema=True, propagated=True), False, {}
    ),
    "flattened": (Encoding("string", "microseconds", "base64-url-safe", "precise", flat=True), True, {}),
    "flattened, with schema": (Encoding("precise", "nanoseconds", schema=True, flat=True, propagated=True), False, {}),
    # isostring has no times below zero or beyond a day, connect no microseconds.
    "as text": (Encoding("string", "isostring", "hex", "precise"), True, {"t_time": {"t0", "t3", "t6"}}),
    "connect": (
        Encoding("precise", "connect", "hex", "long"), True,
        {"t_time": {"t6", "dt6"}, "orders": {"placed"}, "late_like": {"placed"}, "pk_dec": set()},
    ),
}  # fmt: skip
# Tables whose columns have had other types than their last, which is all that tests.mariadb_encodings knows.
EVOLVED = {"evolve", "dropme"}
# ExtractNewRecordState drops truncates.
NOT_TRUNCATED = {
    "trunc_a": ["(1,) is not in the source", "(2,) is not in the source", "(3,) is not in the source"],
    "trunc_b": ["(1,) is not in the source", "(2,) is not in the source"],
}


@few_cases(2)
@pytest.mark.parametrize("name", ENCODINGS)
def test_written_by_other_settings_every_table_is_the_sources(name: str) -> None:
    encoding, declared, unsent = ENCODINGS[name]
    settings = {
        "decimal.handling.mode": encoding.decimal, "time.precision.mode": encoding.time,
        "binary.handling.mode": encoding.binary, "bigint.unsigned.handling.mode": encoding.unsigned,
    }  # fmt: skip
    yaml = streams(STREAM, settings, "flat" if encoding.flat else "debezium", declare=declared)
    events = sent([one for one in EVENTS if (one.get("source") or {}).get("table") not in EVOLVED], encoding)
    random.Random(name).shuffle(events)
    landed = Landed([events[n : n + 900] for n in range(0, len(events), 900)], 2, yaml)
    assert landed.rejected == []
    left_out = EVOLVED | {table for table, columns in unsent.items() if not columns}
    wrong = {
        table: differences(table, landed.rows(table), unsent.get(table, ())) for table in KEYS if table not in left_out
    }
    known = KNOWN | (NOT_TRUNCATED if encoding.flat else {})
    told = {
        table: [line for line in lines if line.split()[1].rstrip(":") not in unsent.get(table, ())]
        for table, lines in known.items()
        if table not in left_out
    }
    assert {table: lines for table, lines in wrong.items() if lines} == {t: lines for t, lines in told.items() if lines}
