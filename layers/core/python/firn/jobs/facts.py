"""What staged batches say about a table: its inline schemas, the columns seen without one, its records' keys."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from firn.changes.connect import columns_of
from firn.changes.infer import seen_in
from firn.changes.types import INFERRED, Column
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
    return tuple(Column(name, INFERRED.get(kind) or parse_type(kind)) for name, kind in json.loads(text))


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


SAID_BY: Final = ("table", "flat", "schema_id", "schema", "key", "before", "after", "op")


def facts_in(columns: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """What this object says about its tables: inline schemas, columns where there is none, the names of the keys."""
    rows = list(zip(*(columns[name] for name in SAID_BY), strict=True))
    # The text stands on the first row that uses the schema, and two tables may share one.
    schemas = {row[2]: row[3] for row in rows if row[3] is not None}
    by_table = sorted((row for row in rows if row[7] != "t"), key=lambda row: row[0])
    for name, of_table in groupby(by_table, key=lambda row: row[0]):
        changes = list(of_table)
        used = dict.fromkeys((bool(row[1]), row[2]) for row in changes)
        for flat, schema_id in used:
            fact = {"table": name, "flat": flat, "schema_id": schema_id}
            if schema_id is not None:
                yield fact | {"fact": "schema", "value": schemas[schema_id]}
                continue
            bare = [row for row in changes if row[2] is None and bool(row[1]) is flat]
            images = [image.encode() for row in bare for image in row[5:7] if image is not None]
            yield fact | {"fact": "columns", "value": columns_to_json(seen_in(images, flat=flat))}
        for key in {_key_names(row[4]) for row in changes}:
            yield {"table": name, "fact": "key", "value": json.dumps(key) if key else None}


def _key_names(key: str | None) -> tuple[str, ...] | None:
    if key is None:
        return None
    try:
        names = json.loads(key)
    except ValueError:
        return None
    return tuple(names) if isinstance(names, dict) else None
