"""Staged rows of the changes that the commit job can't take, for the dead letters (firn/commit/rejects.py)."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from firn.commit.rejects import KEPT
from firn_spark.staged.frames import changes_in

_STAGED = ("epoch", "batch", "index", "generation", "pos", *KEPT, "schema_id")


def rejected(raw: DataFrame, decoded: DataFrame) -> list[dict[str, Any]]:
    """The staged rows of the rejected changes of `decoded`, with `_code` and `_message`, by batch and index."""
    bad = decoded.where(f.col("_code").isNotNull()).select("_batch", "_index", "_code", "_message")
    changes = changes_in(raw, _STAGED)
    same = (changes["batch"] == bad["_batch"]) & (changes["index"] == bad["_index"])
    rows = changes.join(f.broadcast(bad), same, "inner")
    return _collected(raw, rows)


def refused(raw: DataFrame, tables: Sequence[str], code: str, message: str) -> list[dict[str, Any]]:
    """All staged rows of source tables that no table takes, as `rejected` gives them."""
    rows = changes_in(raw.where(f.col("table").isin(*tables)), _STAGED)
    return _collected(raw, rows.withColumns({"_code": f.lit(code), "_message": f.lit(message)}))


def _collected(raw: DataFrame, rows: DataFrame) -> list[dict[str, Any]]:
    found = rows.select(*_STAGED, "_code", "_message").orderBy("batch", "index").collect()
    ids = {row["schema_id"] for row in found} - {None}
    schemas: dict[str, str] = {}
    if ids:
        facts = raw.where((f.col("fact") == "schema") & f.col("schema_id").isin(*ids))
        schemas = {row["schema_id"]: row["value"] for row in facts.select("schema_id", "value").distinct().collect()}
    return [row.asDict() | {"schema": schemas.get(row["schema_id"])} for row in found]
