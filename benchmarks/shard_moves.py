"""A large shard that is split and then moved while changes flow into it, beside a plain rebuild of it. JSON lines.

    python -m benchmarks.shard_moves [--rows 5000000] [--events 20000] [--second 100] [--pairs 2]

The accounts of the other suites lie in one shard, `s0`. One thread posts so many changes a second through the real
ingest code; beside it one warm job after the other seals what there is and commits it. After some rounds half of the
shard is split off, and then the shard is moved to another table. Each round tells its seconds, its CPU seconds and how
old its oldest change was when its cut was there. What a round under a new map takes more than the median of the others
is what the move cost; beside it Spark writes the same rows of the same table into a new one, sorted by the key, as the
plainest rebuild does that reads no log. In the end the rows of all shards are checked against what DuckDB replays.
"""

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from benchmarks import firn_case, pairs, reference, shards, small_load, spark
from benchmarks.firn_case import STREAM
from benchmarks.spark import CACHE, Lake
from firn.changes.metadata_columns import MIRROR_METADATA
from firn.changes.placement import map_changes
from firn.changes.placement.shard_map import Home, ShardMap
from firn.config.map_document import MapVersion
from firn.config.names import TableName
from firn.ingest import accept
from firn.log import cuts, epochs, published_configs, shard_maps
from firn.log.store import open_store
from firn_spark.tables.evolve import Tables

REST: Final = "rest.accounts"
BEFORE: Final = 4  # rounds before each change of the map
CHANGES: Final[dict[str, Callable[[ShardMap], ShardMap]]] = {
    "split": lambda now: map_changes.split(now, "s0", "s1", Home("s1.accounts")),
    "move": lambda now: map_changes.move(now, "s0", Home("moved.accounts")),
}


class Flow:
    """The stream of one run: a thread posts, and rounds commit what there is."""

    def __init__(self, lake: Lake, changes: Path, second: int) -> None:
        self.lake, self.staging = lake, f"file://{lake.folder}/staging"
        self.store = open_store(self.staging)
        self.config = published_configs.publish(self.store, shards.config(1))
        self.settings = self.config.streams[STREAM]
        self._lines = (line for file in sorted(changes.glob("*.ndjson")) for line in file.open("rb"))
        self._second = second
        self.posting = Thread(target=self._post)
        self.hurry = Event()  # all that is left comes at once
        self.slowest = 0.0  # answer of ingest, before that
        self._posted: dict[str, float] = {}  # when, by batch

    def _post(self) -> None:
        due = time.monotonic()
        while body := b"".join(islice(self._lines, self._second)):
            began = time.monotonic()
            answer = accept.accept(self.store, self.config, STREAM, body, now=datetime.now(UTC))
            if not self.hurry.is_set():
                self.slowest = max(self.slowest, time.monotonic() - began)
            self._posted[answer.batch_id] = began
            assert not answer.rejected, answer
            due += 1
            self.hurry.wait(max(0.0, due - time.monotonic()))

    def round(self) -> dict[str, Any] | None:
        """What waits becomes an epoch and is committed. -> what is told of it; None if nothing waits."""
        now, above = datetime.now(UTC), cuts.newest(self.store, STREAM)
        found = epochs.candidates(self.store, STREAM, now, above=above)
        if not found.batches:
            return None
        versions = shard_maps.newest(self.store, self.settings)
        nonce = str(found.next_n)
        sealed = epochs.seal(self.store, STREAM, found, now=now, config=self.config.sha, nonce=nonce, shards=versions)
        assert sealed is not None
        began = time.monotonic()
        what = partial(firn_case.commit_epochs, self.lake, self.staging, sealed.n, sealed.n)
        cpu, _ = pairs.timed(what)
        oldest = min(self._posted.pop(one.id, began) for one in sealed.batches)
        told = {"epoch": sealed.n, "events": sealed.events, "seconds": round(time.monotonic() - began, 2)}
        told |= {"cpu": round(cpu, 2), "oldest": round(time.monotonic() - oldest, 2)}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024  # of this process, without the JVM
        return told | {"map": versions.get(REST, 1), "peak_mb": peak}

    def change(self, how: Callable[[ShardMap], ShardMap]) -> None:
        """The next version of the map."""
        rule = shards.rule_of(1)
        assert rule.shard is not None
        number = shard_maps.newest(self.store, self.settings).get(REST, 1)
        before = shard_maps.read(self.store, STREAM, REST, rule.shard, number)
        made = MapVersion.next(before, how(before.map), "2026-11-21T00:00:00.000Z", "a benchmark")
        assert shard_maps.put(self.store, STREAM, REST, made)


def rebuilt(lake: Lake, source: str, where: str, name: str) -> dict[str, Any]:
    """The same rows in a new table, by Spark alone."""
    table = TableName.parse(f"again.{name}")
    Tables(lake.spark).create(table, lake.warehouse, list(shards.COLUMNS), MIRROR_METADATA, [], {})
    began = time.monotonic()

    def write() -> None:
        rows = lake.spark.sql(f"SELECT * FROM firn.{source} WHERE {where}")
        rows.sort("id").writeTo(f"firn.{table}").append()

    cpu, _ = pairs.timed(write)
    return {"who": "rebuild", "of": name, "seconds": round(time.monotonic() - began, 2), "cpu": round(cpu, 2)}


def told(**more: Any) -> dict[str, Any]:
    """Printed, too."""
    print(json.dumps(more), flush=True)
    return more


def main() -> None:
    """One run of all, and rebuilds after it."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=5_000_000)
    arguments.add_argument("--events", type=int, default=20_000)
    arguments.add_argument("--second", type=int, default=100)
    arguments.add_argument("--pairs", type=int, default=2)
    given = arguments.parse_args()
    session, data = spark.start(), CACHE / "data"
    source, changes = small_load.base(data, given.rows), small_load.events(data, given.rows, given.events)
    lake = spark.restored(session, shards.base(session, source, 1), CACHE / "runs" / "shard-moves")
    flow = Flow(lake, changes, given.second)
    flow.posting.start()
    plans, rounds = list(CHANGES.items()), list[dict[str, Any]]()
    moved = dict[str, dict[str, Any]]()
    while True:
        is_alive = flow.posting.is_alive()
        if (last := flow.round()) is None:
            if not is_alive:
                break
            time.sleep(0.1)
            continue
        what = list(CHANGES)[last["map"] - 2] if rounds and last["map"] > rounds[-1]["map"] else None
        rounds.append(told(who="round", what=what, **last))
        if what:
            moved[what] = last
        if len(rounds) % BEFORE:
            continue
        if not plans:
            flow.hurry.set()
            continue
        name, how = plans.pop(0)
        told(who="map", what=name)
        flow.change(how)
    if moved.keys() != CHANGES.keys():
        raise SystemExit("the changes came to an end before the shard was split and moved; write more --events")
    plain = [one for one in rounds[1 : BEFORE * (len(CHANGES) + 1)] if one["what"] is None]
    usual = {of: statistics.median(one[of] for one in plain) for of in ("seconds", "cpu", "oldest")}
    told(who="usual", **usual, slowest_answer=round(flow.slowest, 3))
    names = ["moved.accounts", "s1.accounts"]  # in the rest is nothing
    right = reference.digest_of({**lake.table, "names": names}) == reference.expected(source, changes)
    rows = {one: lake.spark.table(f"firn.{one}").count() for one in names}
    for what, table in (("split", "s1.accounts"), ("move", "moved.accounts")):
        again = [told(**rebuilt(lake, table, "true", f"{what}_{n}")) for n in range(given.pairs + 1)][1:]
        cost = {of: round(moved[what][of] - usual[of], 2) for of in ("seconds", "cpu")}
        by = {of: round(cost[of] / statistics.median(one[of] for one in again), 2) for of in cost}
        told(
            who=what,
            rows=rows[table],
            cost=cost,
            by_rebuild=by,
            **{of: moved[what][of] for of in ("oldest", "peak_mb")},
        )
    told(who="all", right=right, rows=sum(rows.values()))
    assert right


if __name__ == "__main__":
    main()
