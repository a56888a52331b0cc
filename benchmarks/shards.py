"""What a hot table of several shards costs to commit, beside the same table in one, and in two lanes. JSON lines.

    python -m benchmarks.shards [--rows 1000000] [--events 200000] [--epochs 1] [--count 8] [--lanes 2] [--runs 6]
        [--with small ahead rows] [--without plain] [--parts] [--wait 0]

All cases are runs of one warm session: the commit job on so many sealed epochs, each run on the tables as they were, in
turns, and what counts are the ratios within a turn. `shards` is the accounts of the other suites by `hash(id)` in so
many tables and the rest, `lanes` the same committed in lanes, `small` in parts of at most 100,000 changes. Of `ahead` a
job of the first half of the epochs died once half of the shards were committed, and what is told is the job after it;
`rows` is the same in such parts, and one by one where a shard is ahead. `peak` is the most megabytes that the job's
Python process held, without its readers. The rows of all shards together are checked against what DuckDB replays.
`--parts`: of each run with shards, how often its parts come and what they take: seconds, CPU seconds of their threads,
and of all processes meanwhile. benchmarks/hot_table.py reckons with them. `--wait`: each commit takes so many seconds
more, as where a catalog and a storage answer from afar.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from benchmarks import firn_case, pairs, reference, small_load, spark
from benchmarks.firn_case import CONFIG, LOADED, STREAM
from benchmarks.spark import CACHE, Lake, base_lake
from firn.changes.decode.types import Column, Type
from firn.changes.metadata_columns import MIRROR_METADATA, POSITION, TIME
from firn.changes.placement.shard_values import HASHES
from firn.changes.positions import WIDTH
from firn.commit import range_parts
from firn.config.model import TableRule
from firn.config.reader import parse
from firn.tables import shard_cut
from firn_spark.driver import engine, sharded_mirror
from firn_spark.merge.delete_memory import DeleteMemory
from firn_spark.tables import fence
from firn_spark.tables.evolve import Tables

COLUMNS: Final = (
    Column("id", Type("long"), required=True), Column("name", Type("string")),
    Column("balance", Type("decimal", precision=18, scale=2)), Column("branch", Type("int")),
    Column("updated_at", Type("timestamptz")), Column("note", Type("string")),
)  # fmt: skip
_RULE: Final = "        to: '{shard}.accounts'\n        shard: {by: hash(id), count: "


def config(count: int, lanes: int = 1) -> str:
    """The accounts in so many shards."""
    text = CONFIG.replace("        to: bank.accounts\n", f"{_RULE}{count}}}\n")
    return text.replace("    tables:\n", f"    job: {{lanes: {lanes}}}\n    tables:\n")


def rule_of(count: int) -> TableRule:
    """Their rule."""
    return parse(config(count)).streams[STREAM].tables[0]


def tables(count: int) -> list[str]:
    """All of them but the rest's, which no row of theirs is in."""
    shards = rule_of(count).shard
    assert shards is not None
    return [str(table) for name, table in shards.tables.items() if name != shards.rest]


def base(spark_: SparkSession, source: Path, count: int) -> Path:
    """A base lake of so many shards with the rows of the Parquet files in `source`, as firn_case.base makes one of one
    table."""

    def load(lake: Lake) -> None:
        rule = rule_of(count)
        assert rule.shard is not None
        position = bytes(WIDTH - 5) + (23_000_000_000).to_bytes(5) + b"\2"
        # Iceberg's hash as all engines have it, but for the one value that is no number of a bucket.
        place = f"cast(firn.system.bucket({HASHES - 1}, id) * {count}L / {HASHES}L as int)"
        loaded = lake.spark.read.parquet(str(source)).select(
            "*",
            f.concat(f.lit(position), f.unhex(f.lpad(f.hex(f.xxhash64("id", "note")), 16, "0"))).alias(POSITION),
            f.lit(LOADED).alias(TIME),
        )
        loaded.createOrReplaceTempView("loaded")
        for name, table in rule.shard.tables.items():
            properties = {"firn.key": '["id"]', "firn.mode": "mirror", "firn.stream": STREAM}
            properties |= {"firn.source": "public.accounts", **shard_cut.properties(table, rule)}
            Tables(lake.spark).create(table, lake.warehouse, list(COLUMNS), MIRROR_METADATA, [], properties)
            if name != rule.shard.rest:
                mine = lake.spark.sql(f"SELECT * FROM loaded WHERE {place} = {name.removeprefix('s')}")
                mine.writeTo(f"firn.{table}").append()

    return base_lake(spark_, f"{source.name}-shards-{count}", load)


_PARTS: Final = {
    "decode": (engine, "_changes"), "look": (engine, "ShardedMirror"),
    "decide": (sharded_mirror.ShardedMirror, "decide"), "facts": (DeleteMemory, "write_facts"),
    "shard": (sharded_mirror.ShardedMirror, "_bring"),
    "write": (sharded_mirror.ShardedMirror, "write"), "land the rest": (engine, "land"),
    "all": (engine.DriverEngine, "_mirror_shards"),
}  # fmt: skip


@contextmanager
def parts() -> Iterator[dict[str, list[float]]]:
    """What the parts of a commit of shards take meanwhile: how often, seconds, CPU seconds of threads, and of all."""
    found: dict[str, list[float]] = {name: [0.0] * 4 for name in _PARTS}

    def timed(name: str, what: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            began, thread, every = time.perf_counter(), time.thread_time(), pairs.cpu()
            try:
                return what(*args, **named)
            finally:
                told = (1.0, time.perf_counter() - began, time.thread_time() - thread, pairs.cpu() - every)
                found[name] = [round(a + b, 3) for a, b in zip(found[name], told, strict=True)]

        return run

    with ExitStack() as stack:
        for name, (where, what) in _PARTS.items():
            stack.enter_context(patch.object(where, what, timed(name, getattr(where, what))))
        yield found


class Cases:
    """What the runs are on. `count`: of shards; `lanes`: in which they are committed; `in_parts`: whether a run tells
    what its parts take."""

    def __init__(
        self, session: SparkSession, rows: int, events: int, epochs: int, count: int, lanes: int, *, in_parts: bool
    ) -> None:
        data = CACHE / "data"
        source, changes = small_load.base(data, rows), small_load.events(data, rows, events)
        self.expected = reference.expected(source, changes)
        self._session, self._count, self._epochs, self._in_parts = session, count, epochs, in_parts

        def staged(name: str, text: str) -> Path:
            lines = (line for file in sorted(changes.glob("*.ndjson")) for line in file.open("rb"))
            bodies = (islice(lines, -(-events // epochs)) for _ in range(epochs))
            return firn_case.stage(f"{changes.name}{name}{f'-epochs-{epochs}' if epochs > 1 else ''}", bodies, text)

        self._staged = {
            "plain": staged("", CONFIG) if epochs > 1 else firn_case.stage_files(changes, 1),
            "shards": staged(f"-shards-{count}", config(count)),
            "lanes": staged(f"-shards-{count}-lanes-{lanes}", config(count, lanes)),
        }
        self._staged |= dict.fromkeys(("small", "ahead", "rows"), self._staged["shards"])
        self._bases = {
            "plain": firn_case.base(session, rows, source, source.name),
            "shards": base(session, source, count),
        }
        self._bases |= dict.fromkeys(("lanes", "small", "ahead", "rows"), self._bases["shards"])

    def run(self, who: str, n: int) -> dict[str, Any]:
        """One commit. -> what the job says of it."""
        lake = spark.restored(self._session, self._bases[who], CACHE / "runs" / f"shards-{who}-{n}")
        staging = firn_case.link_staging(self._staged[who], lake)
        with ExitStack() as stack:
            if who in ("small", "rows"):
                stack.enter_context(patch.multiple(range_parts, MOST_EVENTS=100_000, BYTES_OF_AN_EVENT=1_000))
            if who in ("ahead", "rows"):
                died(partial(firn_case.commit_epochs, lake, staging, 1, -(-self._epochs // 2)), self._count // 2)
            if who == "rows":
                of_mirror = sharded_mirror.ShardedMirror
                plain = of_mirror._are_plain
                stack.enter_context(patch.object(of_mirror, "_are_plain", lambda one: not one._ahead and plain(one)))
            of = stack.enter_context(parts()) if self._in_parts and who != "plain" else {}
            began = time.perf_counter()
            Path("/proc/self/clear_refs").write_text("5")
            cpu, lines = pairs.timed(partial(firn_case.commit_epochs, lake, staging, 1, self._epochs))
        told = {"who": who, "seconds": round(time.perf_counter() - began, 2), "cpu": round(cpu, 2), "peak": peak()}
        told |= {"by": next((one["way"]["by"] for one in lines if "way" in one), None), **firn_case.told(lines)}
        told |= {"parts": of} if of else {}
        names = None if who == "plain" else tables(self._count)
        told["right"] = reference.digest_of({**lake.table, "names": names}) == self.expected
        print(json.dumps(told), flush=True)
        return told


def peak() -> int:
    """The most megabytes that this process has held since it was told to forget."""
    told = Path("/proc/self/status").read_text().partition("VmHWM:")[2]
    return int(told.split()[0]) // 1024


class _Died(BaseException):
    pass


def died(job: Callable[[], Any], commits: int) -> None:
    """A job that dies once it has committed so many shards."""
    real, left = fence.commit, count(commits, -1)

    def dying(*args: Any) -> None:
        if next(left) <= 0:
            raise _Died
        real(*args)

    with patch.object(fence, "commit", dying), suppress(_Died):
        job()


def waiting(seconds: float, what: Callable[..., None], *args: Any) -> None:
    """Does it so much later."""
    time.sleep(seconds)
    what(*args)


def main() -> None:
    """All in turns, after a run of each to warm up."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--events", type=int, default=200_000)
    arguments.add_argument("--epochs", type=int, default=1)
    arguments.add_argument("--count", type=int, default=8)
    arguments.add_argument("--lanes", type=int, default=2)
    arguments.add_argument("--runs", type=int, default=6)
    arguments.add_argument("--with", dest="more", nargs="*", default=(), choices=("small", "ahead", "rows"))
    arguments.add_argument("--without", nargs="*", default=(), choices=("plain", "lanes"))
    arguments.add_argument("--parts", action="store_true")
    arguments.add_argument("--wait", type=float, default=0.0, help="seconds")
    given = arguments.parse_args()
    if given.wait:
        fence.commit = partial(waiting, given.wait, fence.commit)
    cases = Cases(spark.start(), given.rows, given.events, given.epochs, given.count, given.lanes, in_parts=given.parts)
    every = ("plain", "shards", "lanes", *given.more)
    found: dict[str, list[dict[str, Any]]] = {who: [] for who in every if who not in given.without}
    for n in range(given.runs + 1):
        for who in found if n % 2 else reversed(found):
            told = cases.run(who, n)
            if n:
                found[who].append(told)
    for who, other in (("shards", "plain"), ("lanes", "shards"), ("shards", "small"), ("ahead", "rows")):
        for of in ("seconds", "cpu") if who in found and other in found else ():
            by = sorted(mine[of] / its[of] for mine, its in zip(found[who], found[other], strict=True))
            print(json.dumps({f"{who} by {other}": of, "ratios": [round(one, 2) for one in by]}), flush=True)
    assert all(one["right"] for runs in found.values() for one in runs)


if __name__ == "__main__":
    main()
