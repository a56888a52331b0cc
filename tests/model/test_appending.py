"""Two streams into one append table, in memory: the rows are the specification's. What an older table takes."""

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from firn.changes.merge import decoded_rows
from firn.commit import job
from firn.config.names import TableName
from firn.ingest import accept
from firn.log import cuts, epochs, published_configs
from firn.tables.table_state import FIRST_IDENTITY
from tests.appending import CONFIG, STREAMS, TABLES, Happened, Sent, requests, source, specified, ticking
from tests.model import memory_lake
from tests.model.memory_ground import MemoryGround
from tests.model.memory_lake import Call
from tests.soak import seeds

LOG = TableName("lake", "log")


class Killed(BaseException):
    """The job is no more."""


def killing(dice: random.Random) -> Callable[[Call, Callable[[], Any]], Any]:
    """Some calls on the catalog are a job's last, before their effect or after it."""

    def around(_: Call, effect: Callable[[], Any]) -> Any:
        if (die := dice.random()) < 0.05:
            raise Killed
        answer = effect()
        if die < 0.1:
            raise Killed
        return answer

    return around


class Streams:
    """The streams of tests.appending, and the tables that they feed."""

    def __init__(self) -> None:
        self.ground = MemoryGround()
        self.store = self.ground.store
        self.config = published_configs.publish(self.store, CONFIG)
        self.now = datetime(2026, 11, 21, tzinfo=UTC)

    def tick(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    def post(self, stream: str, some: Sequence[Sent]) -> None:
        body = b"\n".join(json.dumps(one.event).encode() for one in some)
        accept.accept(self.store, self.config, stream, body, now=self.tick())

    def commit(self, stream: str) -> None:
        found = epochs.candidates(self.store, stream, self.tick(), above=cuts.newest(self.store, stream))
        if found.batches:
            nonce = f"{found.next_n:032x}"
            sealed = epochs.seal(self.store, stream, found, now=self.now, config=self.config.sha, nonce=nonce)
            assert sealed is not None
            self._run(stream, sealed.n)

    def _run(self, stream: str, n: int) -> None:
        lines: list[Any] = []
        try:
            done = job.run(self.store, self.ground.lake, stream, n, n, log=lines.append, now=self.tick, attempt=1)
        except Killed:
            self._run(stream, n)
        else:
            assert done == 0, lines

    def land(self, stream: str, *some: Sent) -> None:
        self.post(stream, some)
        self.commit(stream)

    @property
    def values(self) -> Counter[str | None]:
        return Counter(row["v"] for row in self.ground.rows(LOG))

    @property
    def properties(self) -> Mapping[str, str]:
        return self.ground.catalog.tables[LOG].properties


@pytest.mark.parametrize("seed", seeds(20, 400))
def test_two_streams_into_one_append_table_shuffled_doubled_split_truncated_and_killed_equal_the_specification(
    seed: int,
) -> None:
    dice, clock = random.Random(seed), ticking()
    sources = [
        source(stream, dice, clock, numbered=dice.random() < 0.5, restarts=dice.random() < 0.5) for stream in STREAMS
    ]
    sent = requests(sources, dice)
    streams = Streams()
    streams.ground.catalog.around = killing(dice)
    for stream, some in sent:
        streams.post(stream, some)
        if dice.random() < 0.4:
            streams.commit(dice.choice(STREAMS))
    for stream in STREAMS:
        streams.commit(stream)
    assert streams.values == Counter(value for _, value in specified(sent).elements())


def test_an_older_table_takes_nothing_twice_and_no_two_changes_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ticking()
    number = lambda n, value, table=TABLES[0], lsn=1: Happened("a", table, "c", 1, lsn, value).sent(n, next(clock))  # noqa: E731
    truncates = [Happened("a", table, "t", 2, 1, None).sent(None, next(clock)) for table in TABLES]
    old = [number(1, "x"), number(2, "y"), Happened("a", TABLES[0], "c", 1, 3, "plain").sent(None, next(clock))]
    streams = Streams()
    with monkeypatch.context() as then:
        then.setattr(decoded_rows, "identity", lambda row, _: decoded_rows.first_identity(row))
        then.setattr(memory_lake, "NO_FIRST_IDENTITY", {})
        streams.land("a", *old)
    assert streams.values == Counter(["x", "y", "plain"])
    streams.land("a", *old, *truncates)
    assert streams.values == Counter(["x", "y", "plain", None, None])
    assert json.loads(streams.properties[FIRST_IDENTITY]) == ["a"]
    # The table holds nothing of this stream by its first identity.
    streams.land("b", *(Sent(replace(one.what, stream="b"), one.number, one.emitted) for one in old))
    streams.land("a", *old, *truncates, number(2, "z", lsn=5), number(2, "w", lsn=5))
    assert streams.values == Counter(["x", "y", "plain"] * 2 + [None, None, "z", "w"])
    assert json.loads(streams.properties[FIRST_IDENTITY]) == ["a"]


def test_a_table_that_is_made_now_holds_nothing_by_its_first_identity() -> None:
    streams = Streams()
    streams.land("a", Happened("a", TABLES[0], "c", 1, 1, "x").sent(None, None))
    streams.land("b", Happened("b", TABLES[0], "c", 1, 1, "x").sent(None, None))
    assert json.loads(streams.properties[FIRST_IDENTITY]) == []
    assert streams.ground.catalog.tables[LOG].state().first_identity == ()
