"""What a table must be, by an engine that none of the contestants' code runs through; and whether one is that.

DuckDB replays the events in SQL: the last event of each key by its LSN decides. A table's digest is its number of
rows, the sum of its balances, and the sum and the exclusive or of a hash of each row, so it needs no order. Tables are
read by PyIceberg, delta-rs or DuckDB.
"""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

Digest = dict[str, str]
_DIGEST = """
select count(*)::varchar as rows, sum(balance)::varchar as balance, sum(h::hugeint)::varchar as total,
  bit_xor(h)::varchar as mix
from (select balance::decimal(18, 2) balance, hash(
    id::bigint, name::varchar, balance::decimal(18, 2), branch::int, epoch_us(updated_at)::bigint, note::varchar) h
  from {rows})
"""
_IMAGE = "STRUCT(id BIGINT, name VARCHAR, balance VARCHAR, branch INT, updated_at BIGINT, note VARCHAR)"
LAST = f"""
select coalesce(after.id, before.id) id, op, after from read_ndjson('{{events}}', columns={{{{
  op: 'VARCHAR', source: 'STRUCT(lsn BIGINT)', before: 'STRUCT(id BIGINT)', after: '{_IMAGE}'}}}})
qualify row_number() over (partition by coalesce(after.id, before.id) order by source.lsn desc) = 1
"""
LEFT = "select * from '{base}/*.parquet' anti join last using (id)"
CHANGED = """
select id, after.name, after.balance::decimal(18, 2) balance, after.branch,
  make_timestamptz(after.updated_at) updated_at, after.note from last where op <> 'd'
"""


def result(base: Path | None) -> str:
    """SQL for the rows after the last changes, `last`, of the base table; None: of an empty one."""
    return CHANGED if base is None else f"{LEFT.format(base=base)} union all {CHANGED}"


def expected(base: Path | None, events: Path) -> Digest:
    """The digest of the table `base` (None: an empty one) after `events`; kept beside the events."""
    kept = events / f"expected-{base.name if base else 'empty'}.json"
    if not kept.exists():
        db = connect()
        db.sql(f"create temp table last as {LAST.format(events=f'{events}/*.ndjson')}")
        kept.write_text(json.dumps(_digest(db, f"({result(base)})")))
    found: Digest = json.loads(kept.read_text())
    return found


def connect() -> duckdb.DuckDBPyConnection:
    """DuckDB as all benchmarks use it: two threads, 4 GB."""
    return duckdb.connect(config={"threads": 2, "memory_limit": "4GB"})


def digest_of(where: dict[str, Any]) -> Digest:
    """The digest of a table: {"kind": "iceberg", "catalog", "name"}, {"kind": "delta", "path"} or {"kind": "parquet",
    "path"}. With "names" for "name": of many tables as if they were one."""
    if where.get("names"):
        return together([digest_of({**where, "name": name, "names": None}) for name in where["names"]])
    db = connect()
    if where["kind"] == "parquet":
        return _digest(db, f"'{where['path']}'")
    if where["kind"] == "delta":
        from deltalake import DeltaTable

        rows = DeltaTable(where["path"]).to_pyarrow_dataset()
    else:
        from pyiceberg.catalog.sql import SqlCatalog

        table = SqlCatalog("firn", uri=where["catalog"]).load_table(where["name"])
        names = ("id", "name", "balance", "branch", "updated_at", "note")
        rows = table.scan(selected_fields=names).to_arrow_batch_reader()
    db.register("result", rows)
    return _digest(db, "result")


def _digest(db: duckdb.DuckDBPyConnection, rows: str) -> Digest:
    found = db.sql(_DIGEST.format(rows=rows))
    return dict(zip(found.columns, found.fetchall()[0], strict=True))


def together(digests: list[Digest]) -> Digest:
    """The digest of all rows of several tables."""
    mix = 0
    for digest in digests:
        mix ^= int(digest["mix"])
    sums = {name: str(sum(Decimal(digest[name]) for digest in digests)) for name in ("rows", "balance", "total")}
    return sums | {"mix": str(mix)}
