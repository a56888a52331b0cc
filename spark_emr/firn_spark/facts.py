"""What staged batches say about a table: its inline schemas, the columns seen without one, its records' keys."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from firn.changes.connect import columns_of
from firn.changes.types import Column
from firn.changes.types import parse as parse_type
from firn.errors import EventError


@dataclass
class TableFacts:
    """Facts about one source table.

    `schemas`: the columns of each inline schema by its id; `seen`: all sets of columns in order of arrival, the
    schemas' included; `keys`: the field names of the records' keys, None standing for a record without one;
    `events`: staged changes by epoch and op; `bad_schemas`: why a schema can't be read, by its id.
    """

    schemas: dict[str, tuple[Column, ...]] = field(default_factory=dict)
    seen: list[tuple[Column, ...]] = field(default_factory=list)
    keys: set[tuple[str, ...] | None] = field(default_factory=set)
    events: dict[tuple[int, str], int] = field(default_factory=dict)
    bad_schemas: dict[str, str] = field(default_factory=dict)


def columns_to_json(columns: Iterable[Column]) -> str:
    """Inferred columns as text: `[[name, type], …]`."""
    return json.dumps([[column.name, str(column.type)] for column in columns], ensure_ascii=False)


def columns_from_json(text: str) -> tuple[Column, ...]:
    """The inverse of `columns_to_json`."""
    return tuple(Column(name, parse_type(kind)) for name, kind in json.loads(text))


def facts_of(raw: DataFrame) -> dict[str, TableFacts]:
    """Collects what the rows of `raw` (columns read.RAW) say, by source table. Two small Spark jobs."""
    said = raw.groupBy("table", "flat", "schema_id", "fact", "value").agg(
        f.min(f.struct("epoch", "batch")).alias("first"),
    )
    counts = raw.where(f.col("fact").isNull()).groupBy("table", "epoch", "op").count()
    return collected(
        [row.asDict() for row in said.where(f.col("fact").isNotNull()).orderBy("first").collect()],
        [(row["table"], row["epoch"], row["op"], row["count"]) for row in counts.collect()],
    )


def collected(said: Sequence[Mapping[str, Any]], counts: Iterable[tuple[str, int, str, int]]) -> dict[str, TableFacts]:
    """Facts by table from rows {table, flat, schema_id, fact, value} in order of arrival, and
    (table, epoch, op, count)."""
    tables: dict[str, TableFacts] = {}
    for table, epoch, op, count in counts:
        tables.setdefault(table, TableFacts()).events[epoch, op] = count
    for row in said:
        facts = tables.setdefault(row["table"], TableFacts())
        match row["fact"]:
            case "schema":
                try:
                    columns = columns_of(row["value"].encode(), bool(row["flat"]))
                except EventError as error:
                    facts.bad_schemas[row["schema_id"]] = str(error)
                    continue
                facts.schemas[row["schema_id"]] = columns
                facts.seen.append(columns)
            case "columns":
                facts.seen.append(columns_from_json(row["value"]))
            case "key":
                facts.keys.add(tuple(json.loads(row["value"])) if row["value"] else None)
    return tables
