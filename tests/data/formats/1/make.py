"""Writes staging-and-lake.tar.gz and expected.json: what the first landed version of each format looks like.

It ran once, with the code of commit 9735b34, and must not run with newer code: the fixture would stop being old. To see
how it was made, check that commit out and run in it, with PYTHONPATH naming that checkout and its
layers/core/python, layers/lake/python and spark_emr,

    python make.py JARS OUT

JARS: the folder of Spark's jars (.cache/jars). OUT: where the two files go. Everything is written below
/tmp/firn-format-1, because Iceberg's metadata and its catalog name files by absolute path: a test that opens the
tables has to unpack the fixture to that very folder.

What is in it: a stream `shop` with epochs 1 and 2 committed, epoch 3 sealed and not committed, one SQS batch staged and
in no epoch, and a receipt (key-4) whose batch was never written. expected.json says what the tables hold at that point,
and after the old code had committed epoch 3, then epoch 4 made of the rest.
"""

import json
import os
import shutil
import sqlite3
import sys
import tarfile
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

from firn.ingest import accept
from firn.log import cuts, epochs, layout, receipts
from firn.log.dead_letters import letters as dead
from firn.log.store import paths
from firn_spark import session
from tests.integration.spark.spark_lake import Lake, ndjson

FOLDER = Path("/tmp/firn-format-1")
STREAM = "shop"
GONE = "__debezium_unavailable_value"
CONFIG = f"""\
catalog: {{type: sql}}
warehouse: file://{FOLDER}/warehouse
streams:
  shop:
    envelope: auto
    debezium: {{decimal.handling.mode: string}}
    tables:
      public.orders: {{to: shop.orders, key: [id], columns: {{amount: 'decimal(10,2)'}}}}
      public.customers: {{to: shop.customers, key: [id]}}
      public.typed: {{to: shop.typed, key: [id]}}
      public.flat_rows: {{to: shop.flat_rows, key: [id]}}
      public.visits: {{to: shop.visits, mode: append}}
"""
TABLES = ("orders", "customers", "typed", "flat_rows", "visits")
MONEY = {
    "type": "bytes",
    "name": "org.apache.kafka.connect.data.Decimal",
    "parameters": {"scale": "2", "connect.decimal.precision": "8"},
}
_random = count(1)


def random(length: int) -> bytes:
    """Numbers, so that the batch ids are the same at each run."""
    return next(_random).to_bytes(length, "big")


def change(
    op: str, lsn: int, table: str, after: Any = None, before: Any = None, place: int | None = None
) -> dict[str, Any]:
    """A Debezium event of PostgreSQL. `place`: its number in the transaction, where the connector tells."""
    source = {"connector": "postgresql", "schema": "public", "table": table, "ts_ms": 1_700_000_000_000 + lsn}
    source |= {"sequence": json.dumps([None if op == "r" else str(lsn - 1), str(lsn)]), "lsn": lsn}
    event = {"op": op, "before": before, "after": after, "source": source, "ts_ms": source["ts_ms"]}
    return event if place is None else event | {"transaction": {"id": f"{lsn}", "total_order": place}}


def typed(op: str, lsn: int, after: dict[str, Any]) -> dict[str, Any]:
    """An event with its Connect schema inline."""
    row = [{"field": "id", "type": "int64", "optional": False}, {"field": "price", "optional": True} | MONEY]
    sides = [{"type": "struct", "fields": row, "optional": True, "field": side} for side in ("before", "after")]
    return {"schema": {"type": "struct", "fields": sides}, "payload": change(op, lsn, "typed", after)}


def flat(op: str, lsn: int, row: dict[str, Any]) -> dict[str, Any]:
    """A row as ExtractNewRecordState flattens it."""
    meta = {"__op": op, "__schema": "public", "__table": "flat_rows", "__lsn": lsn, "__connector": "postgresql"}
    return row | meta | {"__source_ts_ms": 1_700_000_000_000 + lsn, "__deleted": "true" if op == "d" else "false"}


FIRST = [
    *(change("c", 100 + n, "orders", {"id": n, "amount": f"{n}.50", "note": f"long text {n}"}) for n in range(1, 5)),
    change("c", 105, "orders", {"id": 9, "amount": "many", "note": "no number"}),  # a dead letter of the commit job
    *(change("r", 110 + n, "customers", {"id": n, "name": f"reader {n}"}) for n in range(1, 4)),
    change("c", 120, "visits", {"page": "/", "who": "a"}, place=1),
    change("c", 120, "visits", {"page": "/", "who": "a"}, place=2),
    change("c", 130, "visits", {"page": "/copied", "who": "b"}),  # equal rows of one COPY
    change("c", 130, "visits", {"page": "/copied", "who": "b"}),
    change("c", 140, "secrets", {"id": 1}),  # no rule: counted and left out
    {"op": "x"},  # a dead letter of ingest
]
SECOND = [typed("c", 150, {"id": 1, "price": "ZA=="}), typed("c", 151, {"id": 2, "price": "AMg="})]
THIRD = [[flat("c", 160, {"id": 1, "v": "one"}), flat("c", 161, {"id": 2, "v": "two"})], b"no json at all"]
FOURTH = [
    change("u", 200, "orders", {"id": 1, "amount": "11.00", "note": GONE}),
    change("d", 201, "orders", None, {"id": 2, "amount": None, "note": None}),
    change("u", 90, "orders", {"id": 3, "amount": "0.01", "note": "older than the row"}),
    change("t", 210, "customers"),
    change("c", 211, "customers", {"id": 5, "name": "after the truncate"}),
    change("c", 220, "visits", {"page": "/new", "who": "c"}),
]
FIFTH = [
    change("u", 300, "orders", {"id": 3, "amount": "33.00", "note": GONE}),
    change("d", 301, "orders", None, {"id": 4, "amount": None, "note": None}),
    change("u", 150, "orders", {"id": 1, "amount": "0.02", "note": "older than the row"}),
    change("d", 99, "orders", None, {"id": 3, "amount": None, "note": None}),
    change("d", 310, "orders", None, {"id": 1, "amount": None, "note": None}),  # 1 moves to 7, and keeps its note
    change("c", 310, "orders", {"id": 7, "amount": "77.00", "note": GONE}),
    change("u", 320, "customers", {"id": 5, "name": "renamed"}),
    change("c", 120, "visits", {"page": "/", "who": "a"}, place=2),  # delivered again
    change("c", 130, "visits", {"page": "/copied", "who": "b"}),
    change("c", 330, "visits", {"page": "/later", "who": "d"}),
    typed("u", 340, {"id": 2, "price": "ASw="}),
    flat("d", 350, {"id": 1, "v": "one"}),
]
SIXTH = [
    [change("u", 400, "orders", {"id": 3, "amount": "34.00", "note": GONE})],
    [flat("u", 410, {"id": 2, "v": "2"})],
]
SEVENTH = [change("c", 500, "orders", {"id": 8, "amount": "8.00", "note": "its batch is missing"})]


def main(jars: Path, out: Path) -> None:
    """Makes the folder, packs it, and goes on with the old code to see what should come of it."""
    if FOLDER.exists():
        sys.exit(f"{FOLDER} exists: remove it first")
    conf = {"spark.jars": ",".join(map(str, sorted(jars.glob("*.jar")))), "spark.master": "local[2]"}
    spark = session.build("sqlite:////nowhere/catalog.db", "file:///nowhere", conf)
    lake = Lake(spark, FOLDER, CONFIG, STREAM)
    posted = {
        "key-1": post(lake, FIRST, "key-1"),
        "none": post(lake, SECOND, None),
        "queue-1": take(lake, THIRD),
    }
    land(lake)
    posted["key-2"] = post(lake, FOURTH, "key-2")
    land(lake)
    posted["key-3"] = post(lake, FIFTH, "key-3")
    assert lake.seal() == 3
    posted["queue-2"] = take(lake, SIXTH)
    lake.now += timedelta(seconds=1)
    body = ndjson(SEVENTH)
    missing = layout.batch_id(STREAM, lake.now, random(8))
    receipts.claim(lake.store, "key-4", body, missing)
    posted["key-4"] = {"batch": missing, "body": body.decode(), "accepted": 1, "rejected": 0, "ignored": {}}
    expected = {"config": lake.config.sha, "posted": posted, "dead": letters(lake), "rows": {"now": rows(lake)}}
    expected["epochs"] = {n: [b.id for b in epochs.read(lake.store, STREAM, n).batches] for n in (1, 2, 3)}
    expected["cuts"] = {n: cuts.read(lake.store, STREAM, n).tables for n in (1, 2)}
    pack(lake, out / "staging-and-lake.tar.gz")
    assert lake.commit(3) == 0, lake.lines
    expected["rows"]["after epoch 3"] = rows(lake)
    land(lake)
    expected["rows"]["after epoch 4"] = rows(lake)
    (out / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    spark.stop()
    shutil.rmtree(FOLDER)


def post(lake: Lake, events: list[Any], key: str | None) -> dict[str, Any]:
    """One HTTP request."""
    lake.now += timedelta(seconds=1)
    body = ndjson(events)
    done = accept.accept(lake.store, lake.config, STREAM, body, now=lake.now, key=key, random=random)
    return told(done) | {"body": body.decode()}


def take(lake: Lake, messages: list[Any]) -> dict[str, Any]:
    """One Lambda batch of SQS messages."""
    lake.now += timedelta(seconds=1)
    bodies = [message if isinstance(message, bytes) else ndjson(message) for message in messages]
    return told(accept.accept_messages(lake.store, lake.config, STREAM, bodies, now=lake.now, random=random))


def told(done: accept.Accepted) -> dict[str, Any]:
    """What the sender was told."""
    return {"batch": done.batch_id, "accepted": done.accepted, "rejected": done.rejected, "ignored": done.ignored}


def land(lake: Lake) -> None:
    """Seals and commits."""
    assert lake.commit(lake.seal()) == 0, lake.lines


def rows(lake: Lake) -> dict[str, Any]:
    """The tables' rows without Firn's own columns, as JSON holds them, in a fixed order."""
    found = {}
    for table in TABLES:
        plain = [{k: v for k, v in r.items() if not k.startswith("_firn")} for r in lake.rows(f"{STREAM}.{table}")]
        found[table] = sorted(
            json.loads(json.dumps(plain, default=str)), key=lambda row: json.dumps(row, sort_keys=True)
        )
    return found


def letters(lake: Lake) -> list[dict[str, Any]]:
    """All dead letters, by path."""
    return [
        {"path": path, "reason": x.reason, "table": x.table, "batch": x.batch, "index": x.index}
        | {"original": x.original.decode()}
        for path in paths(lake.store, layout.dead_prefix(STREAM))
        for x in dead.read_dead(lake.store, path)
    ]


def pack(lake: Lake, archive: Path) -> None:
    """The folder as a tarball; Hadoop's checksum files are left out."""
    lake.catalog.engine.dispose()
    with sqlite3.connect(FOLDER / "catalog.db") as catalog:
        catalog.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    catalog.close()
    with tarfile.open(archive, "w:gz", compresslevel=9) as tar:
        tar.add(FOLDER, FOLDER.name, filter=_plain)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return None if member.name.endswith((".crc", "-wal", "-shm")) else member


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
