import traceback
from datetime import UTC, datetime, timedelta
import pytest
from firn.config.maintenance import Care, Compaction
from firn.config.names import TableName
from firn.maintenance import compaction_trigger as turns
from firn_spark.maintenance import compaction, listing, orphans, expiry, manifests, optimizer_statistics, delete_memory_expiry
from firn_spark.maintenance.compaction import Budget
from firn_spark.maintenance.health import measure
from firn_spark.merge.facts_table import facts_beside
from firn_spark.driver import small_files
from firn_spark.tables.evolve import Tables
from firn_spark.files import row_lookup
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event, letters, with_schema
from tests.integration.spark.test_nanoseconds import config, NANO, counted
from tests.integration.spark.test_rebuild import rebuilt
from firn_lake.lake import Lake as Reader

pytestmark = pytest.mark.spark

def conf(more=""):
    return ("warehouse: file:///set/by/the/deployment\ncatalog: {type: sql}\nstreams:\n  spec:\n"
        f"    tables:\n      app.t: {{to: lake.t, key: [at], format: 3{more}}}\n")

def tried(name, do):
    try:
        r = do()
        print("OK  ", name, str(r)[:300], flush=True)
    except BaseException as e:
        lines = [l for l in str(e).splitlines() if l.strip()]
        print("FAIL", name, type(e).__name__, " | ".join(lines[:3])[:500], flush=True)
        tb = traceback.extract_tb(e.__traceback__)
        print("     ", [(f.filename.split("/")[-1], f.lineno) for f in tb if "firn" in f.filename][-4:], flush=True)

def test_explore(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(turns, "EVERY", 10**9)
    monkeypatch.setenv("FIRN_DRIVER_EVENTS", "20000")
    lake = Lake(spark, tmp_path, conf(", partition_by: [day(at)]"))
    schema = {"id": "int64", "at": NANO}
    def ev(op, pos, **v):
        return with_schema(event(op, pos, v), **schema)
    for n in range(9):
        lake.land([ev("c", 10 * n + k, id=10 * n + k, at=(10 * n + k) * 10**13 + 1) for k in range(3)])
    print(lake.lines)
    lake.land([ev("u", 500, id=777, at=1), with_schema(event("d", 501, None, {"id": 1, "at": 10**13 + 1}), **schema)])
    print(lake.lines, letters(lake))
    print(counted(Reader(lake.catalog).sql('select * from lake.t order by id').arrow())[:4])
    def load(name="lake.t"):
        return Tables(lake.spark).load(TableName.parse(name))
    print([dict(f) for f in load().state.fields][:2], load().state.version, load().state.properties.get("firn.nanoseconds"))
    facts = facts_beside(Tables(lake.spark), load())
    print("facts", facts and (facts.state.version, [f["name"] for f in facts.state.fields]))
    for part in ("files", "entries", "all_files", "all_manifests", "snapshots", "metadata_log_entries", "partitions", "refs"):
        tried(f"meta {part}", lambda: lake.spark.table(f"firn.lake.t.{part}").count())
        tried(f"meta {part} collect", lambda: len(lake.spark.table(f"firn.lake.t.{part}").limit(2).collect()))
    tried("spark.table", lambda: lake.spark.table("firn.lake.t").count())
    tried("by_spark", lambda: len(list(listing.by_spark(lake.spark, load()))))
    tried("measure", lambda: measure(lake.spark, load(), Care(), datetime.now(UTC)))
    tried("small", lambda: small_files.merge(lake.spark, load(), "spec"))
    tried("compact", lambda: compaction.compact(lake.spark, load(), "spec", Care(Compaction()), Budget(10**9)))
    tried("manifests", lambda: manifests.rewrite(lake.spark, Tables(lake.spark), load(), 10**9))
    from firn.config.maintenance import Expiry, Statistics
    from firn.log.store import open_store
    tried("expiry", lambda: list(expiry.expire_all(lake.spark, lake.store, load(), Expiry(), datetime.now(UTC)+timedelta(days=90))))
    if facts:
        tried("looked", lambda: expiry.looked_at(lake.spark, load(), facts, Expiry(), datetime.now(UTC)))
        tried("forget", lambda: delete_memory_expiry._old(lake.spark, facts, datetime.now(UTC)+timedelta(days=90)))
    from firn_spark import vended_keys
    tried("orphans", lambda: orphans.remove(lake.spark, load(), vended_keys.store_at(load().state.location), 0, datetime.now(UTC)+timedelta(days=90), others=[], dry_run=True))
    tried("stats", lambda: optimizer_statistics.compute(lake.spark, load(), Statistics(("id",))))
    tried("rebuild in place", lambda: rebuilt(lake, in_place=True) )
    tried("retype", lambda: lake.land([with_schema(event("c", 900, {"id": "x", "at": 5}), id="string", at=NANO)]))
    print(lake.lines)
    assert 0
