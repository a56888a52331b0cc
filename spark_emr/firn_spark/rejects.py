"""Changes that the commit job can't take become dead letters, before the good ones are committed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from firn.staging import layout
from firn.staging.dead import DeadLetter, write_dead
from firn.staging.epochs import Epoch
from firn.staging.store import Store
from firn.streams.names import TableName

_STAGED = ("table", "op", "ts", "connector", "order", "flat", "before", "after", "schema_id")


def rejected(raw: DataFrame, decoded: DataFrame) -> list[dict[str, Any]]:
    """The staged rows of the rejected changes of `decoded`, with `_code` and `_message`, by batch and index."""
    bad = decoded.where(f.col("_code").isNotNull()).select("_batch", "_index", "_code", "_message")
    same = (raw["batch"] == bad["_batch"]) & (raw["index"] == bad["_index"])
    rows = raw.where(f.col("fact").isNull()).join(f.broadcast(bad), same, "inner")
    return _collected(raw, rows)


def refused(raw: DataFrame, table: str, code: str, message: str) -> list[dict[str, Any]]:
    """All staged rows of a source table that can't be placed, as `rejected` gives them."""
    rows = raw.where((f.col("table") == table) & f.col("fact").isNull())
    return _collected(raw, rows.withColumns({"_code": f.lit(code), "_message": f.lit(message)}))


def _collected(raw: DataFrame, rows: DataFrame) -> list[dict[str, Any]]:
    found = rows.select("epoch", "batch", "index", *_STAGED, "_code", "_message").orderBy("batch", "index").collect()
    ids = {row["schema_id"] for row in found} - {None}
    schemas: dict[str, str] = {}
    if ids:
        facts = raw.where((f.col("fact") == "schema") & f.col("schema_id").isin(*ids))
        schemas = {row["schema_id"]: row["value"] for row in facts.select("schema_id", "value").distinct().collect()}
    return [row.asDict() | {"schema": schemas.get(row["schema_id"])} for row in found]


def write_rejects(
    store: Store, stream: str, target: TableName | str, epochs: Mapping[int, Epoch], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Writes one object for each epoch, if absent: a rerun, over whatever range, finds its own work done.

    Raises StorageUnavailable, UnknownOutcome.
    """
    place = target.slug.replace("/", ".") if isinstance(target, TableName) else target
    for n in sorted({row["epoch"] for row in rows}):
        path = layout.dead_path(stream, epochs[n].time, f"commit-{n:020d}-{place}")
        write_dead(store, path, list(_letters(stream, (row for row in rows if row["epoch"] == n))))


def _letters(stream: str, rows: Iterable[Mapping[str, Any]]) -> Iterable[DeadLetter]:
    for row in rows:
        yield DeadLetter(
            reason=row["_code"],
            message=row["_message"],
            stream=stream,
            table=row["table"],
            batch=row["batch"],
            index=row["index"],
            received_at=layout.time_of(row["batch"]),
            original=original(row),
        )


def original(row: Mapping[str, Any]) -> bytes:
    """A staged row as an event that ingest takes again: its images are the bytes that the source sent.

    A flattened event is its image; the others are put together again from what is kept, as Debezium writes them.
    """
    image = row["after"] or row["before"]
    if row["flat"] and image is not None:
        value: Any = _raw(image)
    else:
        schema, _, table = row["table"].rpartition(".")
        value = {
            "before": _raw(row["before"]),
            "after": _raw(row["after"]),
            "source": {
                "connector": row["connector"], "schema": schema or None, "table": table, "ts_ms": row["ts"],
                "sequence": row["order"],
            },
            "op": row["op"],
        }  # fmt: skip
    return msgspec.json.encode(value if row["schema"] is None else {"schema": _raw(row["schema"]), "payload": value})


def _raw(text: str | None) -> msgspec.Raw:
    return msgspec.Raw((text or "null").encode())
