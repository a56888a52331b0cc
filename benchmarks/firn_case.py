"""Firn's side: events through the real ingest code into sealed epochs, then the real commit job on them."""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from benchmarks.spark import CACHE, TABLE, Lake, base_lake
from firn.changes.decode.types import Column, Type
from firn.changes.metadata_columns import MIRROR_METADATA, POSITION, TIME
from firn.changes.positions import WIDTH
from firn.config.epoch_limits import Caps
from firn.config.names import TableName
from firn.config.partitions import parse
from firn.ingest import accept
from firn.log import cuts, epochs, published_configs
from firn.log.store import open_store
from firn.tables import partition_policy
from firn_spark import commit
from firn_spark.tables.evolve import Tables

STREAM = "bank"
CONFIG = """
streams:
  bank:
    envelope: debezium
    debezium: {decimal.handling.mode: string}
    tables:
      public.accounts:
        to: bank.accounts
        key: [id]
        columns:
          {id: long, name: string, balance: 'decimal(18,2)', branch: int, updated_at: timestamptz(6), note: string}
"""
LOADED = datetime(2026, 1, 1, tzinfo=UTC)
STAGED = datetime(2026, 11, 21, tzinfo=UTC)
_NO_CAPS = Caps(10**12, 10**12)  # all in one epoch, however much it is
EVENTS_A_REQUEST = 2_500  # 10 M events are 4,000 batches; an epoch holds 5,000


def stage(name: str, bodies: Iterator[Iterator[bytes]], config: str = CONFIG) -> Path:
    """The staging folder `name`: each of the series of events becomes requests and one sealed epoch. Made if absent."""
    folder = CACHE / "staged" / name
    if not folder.exists():
        making = folder.with_suffix(".making")
        shutil.rmtree(making, ignore_errors=True)
        store = open_store(f"file://{making}")
        known = published_configs.publish(store, config)
        now = STAGED
        for lines in bodies:
            while body := b"".join(islice(lines, EVENTS_A_REQUEST)):
                now += timedelta(milliseconds=100)
                answer = accept.accept(store, known, STREAM, body, now=now)
                assert not answer.rejected, answer
            now += timedelta(seconds=1)
            found = epochs.candidates(store, STREAM, now, above=cuts.newest(store, STREAM), caps=_NO_CAPS)
            assert epochs.seal(store, STREAM, found, now=now, config=known.sha, nonce=str(found.next_n))
        making.rename(folder)
    return folder


def stage_files(events: Path, parts: int, care: str = "", partition: str = "") -> Path:
    """The events of a folder of NDJSON files as so many epochs of equal size; `care`: one more line of firn.yaml;
    `partition`: what the table is partitioned by."""
    files = sorted(events.glob("*.ndjson"))
    size = len(files) // parts

    def bodies() -> Iterator[Iterator[bytes]]:
        for n in range(parts):
            yield (line for file in files[n * size : (n + 1) * size] for line in file.open("rb"))

    rule = CONFIG.replace("key: [id]\n", f"key: [id]\n        partition_by: ['{partition}']\n") if partition else CONFIG
    name = f"{events.name}-{parts}{'-care' if care else ''}{_slug(partition)}"
    return stage(name, bodies(), care + rule)


def _slug(partition: str) -> str:
    return re.sub(r"\W+", "-", f"-{partition}").rstrip("-") if partition else ""


def base(spark: SparkSession, rows: int, source: Path, name: str | None = None, partition: str = "") -> Path:
    """A base lake with the rows of the Parquet files in `source`, as a bulk load would write them: the job's own table,
    and with each row the order of a snapshot read. `name`: of one that a run may take files away from; `partition`:
    what it is partitioned by."""

    def load(lake: Lake) -> None:
        columns = [
            Column("id", Type("long"), required=True), Column("name", Type("string")),
            Column("balance", Type("decimal", precision=18, scale=2)), Column("branch", Type("int")),
            Column("updated_at", Type("timestamptz")), Column("note", Type("string")),
        ]  # fmt: skip
        properties = {
            "firn.key": '["id"]',
            "firn.mode": "mirror",
            "firn.stream": STREAM,
            "firn.source": "public.accounts",
        }
        fields = [parse(partition)] if partition else []
        properties |= partition_policy.asked(fields) if fields else {}
        Tables(lake.spark).create(TableName.parse(TABLE), lake.warehouse, columns, MIRROR_METADATA, fields, properties)
        position = bytes(WIDTH - 5) + (23_000_000_000).to_bytes(5) + b"\2"
        loaded = lake.spark.read.parquet(str(source)).select(
            "*",
            f.concat(f.lit(position), f.unhex(f.lpad(f.hex(f.xxhash64("id", "note")), 16, "0"))).alias(POSITION),
            f.lit(LOADED).alias(TIME),
        )
        loaded.writeTo(f"firn.{TABLE}").append()

    return base_lake(spark, name or f"firn-{rows}{_slug(partition)}", load)


def link_staging(staged: Path, lake: Lake) -> str:
    """The staging store of a run: the same staged objects and epochs, in the lake's own folder. -> its URL."""
    target = lake.folder / "staging"
    shutil.copytree(staged, target, copy_function=os.link)
    return f"file://{target}"


def commit_epochs(lake: Lake, staging: str, first: int, last: int) -> list[dict[str, Any]]:
    """Runs the job. -> its log lines. Raises AssertionError if it failed."""
    lines: list[dict[str, Any]] = []
    code = commit.run(
        STREAM, staging, lake.warehouse, lake.catalog_uri, first, last, spark=lake.spark, log=lines.append
    )
    assert code == 0, lines
    return lines


_FOLD = """
select key, max_by(struct(op, image), position) change
from (select op, image, coalesce(image.id, gone.id) key, from_json(`order`, 'array<string>') said,
             struct(cast(said[0] as bigint), cast(said[1] as bigint)) position
      from (select op, `order`, from_json(after, '{image}') image, from_json(before, 'id bigint') gone from staged))
group by key
"""
_IMAGE = "id bigint, name string, balance decimal(18,2), branch int, updated_at bigint, note string"


def fold_alone(lake: Lake, staging: str) -> None:
    """A floor: plain Spark reads the staged events, types their rows, keeps the last of each key, writes nothing."""
    read = lake.spark.read.option("recursiveFileLookup", "true")
    read.parquet(f"{staging}/staged").createOrReplaceTempView("staged")
    lake.spark.sql(_FOLD.format(image=_IMAGE)).write.format("noop").mode("overwrite").save()


def told(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the job's log says of where its time went: seconds of the tables, and of their stages if it names them."""
    tables = [line for line in lines if "mode" in line]
    stages: dict[str, float] = {}
    for line in tables:
        for name, seconds in line.get("stages", {}).items():
            stages[name] = stages.get(name, 0.0) + seconds
    return {"table_seconds": sum(line["seconds"] for line in tables)} | ({"stages": stages} if stages else {})
