"""What staged batches say about a table: its inline schemas, the columns seen without one, its records' keys."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress
from typing import Any, Final

import msgspec

from firn.changes.decode.connect_schema import columns_of
from firn.changes.decode.inference import seen_in
from firn.changes.decode.json_lines import joined
from firn.changes.decode.poison import poison, poisoned
from firn.changes.decode.types import INFERRED, Column
from firn.changes.decode.types import parse as parse_type
from firn.errors import EventError


@dataclass
class TableFacts:
    """Facts about one source table.

    `schemas`: the columns of each inline schema by its id; `seen`: all sets of columns in order of arrival, those of
    the schemas that good changes use included; `keys`: the keys that records name (their field names, in their order),
    each with the newest epoch that does; `keyed`: the columns that the keys of deletes show, where no schema says
    their types: a delete may hold nothing else; `events`: staged changes by epoch and op; `bad_schemas`: why a schema
    can't be read, by its id; `unordered`: whether there are changes without a place in the order, which an append table
    takes and `seen` leaves out.
    """

    schemas: dict[str, tuple[Column, ...]] = field(default_factory=dict)
    seen: list[tuple[Column, ...]] = field(default_factory=list)
    keyed: list[tuple[Column, ...]] = field(default_factory=list)
    keys: dict[tuple[str, ...], int] = field(default_factory=dict)
    events: dict[tuple[int, str], int] = field(default_factory=dict)
    bad_schemas: dict[str, str] = field(default_factory=dict)
    unordered: bool = False


def columns_to_json(columns: Iterable[Column]) -> str:
    """Inferred columns as text: `[[name, type], …]`."""
    return json.dumps([[column.name, str(column.type)] for column in columns], ensure_ascii=False)


def columns_from_json(text: str) -> tuple[Column, ...]:
    """The inverse of `columns_to_json`."""
    return tuple(Column(name, INFERRED.get(kind) or parse_type(kind)) for name, kind in json.loads(text))


def collected(said: Sequence[Mapping[str, Any]], counts: Iterable[tuple[str, int, str, int]]) -> dict[str, TableFacts]:
    """Facts by table from rows {table, flat, schema_id, fact, value} in order of arrival, those of a key with their
    epoch, and (table, epoch, op, count)."""
    tables: dict[str, TableFacts] = {}
    for table, epoch, op, count in counts:
        tables.setdefault(table, TableFacts()).events[epoch, op] = count
    for row in said:  # a schema may be told after its first use
        if row["fact"] == "schema":
            _schema(tables.setdefault(row["table"], TableFacts()), row)
    for row in said:
        facts = tables.setdefault(row["table"], TableFacts())
        match row["fact"]:
            case "uses" if row["schema_id"] in facts.schemas:
                facts.seen.append(facts.schemas[row["schema_id"]])
            case "columns":
                facts.seen.append(columns_from_json(row["value"]))
            case "keyed":
                facts.keyed.append(columns_from_json(row["value"]))
            case "key":
                key = tuple(json.loads(row["value"]))
                facts.keys[key] = max(row["epoch"], facts.keys.get(key, 0))
            case "unordered":
                facts.unordered = True
    return tables


def _schema(facts: TableFacts, row: Mapping[str, Any]) -> None:
    try:
        facts.schemas[row["schema_id"]] = columns_of(row["value"].encode(), bool(row["flat"]))
    except Exception as error:  # noqa: BLE001 (whatever it holds: its events are dead letters)
        facts.bad_schemas[row["schema_id"]] = str(poison(error))


Facts = list[dict[str, Any]]
UNORDERED: Final = "no_order"  # the fault of a change that only a mirror table refuses
SAID_BY: Final = ("table", "flat", "schema_id", "schema", "key", "before", "after", "op", "fault")


def facts_in(columns: Mapping[str, Sequence[Any]]) -> tuple[Facts, dict[int, EventError]]:
    """What this object says about its tables: inline schemas, columns where there is none, the names of the keys. And
    the places of events that can't be asked (changes.poison), whose facts are left out. Of what has a fault already the
    schema alone is told, and that nobody uses it: values that no table gets must not give their column another type."""
    # The text stands on the first row that uses the schema, and two tables may share one.
    texts = zip(columns["schema_id"], columns["schema"], strict=True)
    schemas = {name: text for name, text in texts if text is not None}
    try:
        return list(_said(columns, schemas)), {}
    except Exception as error:
        poison(error)
        rows = range(len(columns["table"]))
        bad = poisoned(rows, lambda row: list(_said(_some(columns, [row]), schemas)))
        if not bad:
            raise
        return list(_said(_some(columns, [row for row in rows if row not in bad]), schemas)), bad


def _some(columns: Mapping[str, Sequence[Any]], rows: Sequence[int]) -> dict[str, list[Any]]:
    return {name: [values[row] for row in rows] for name, values in columns.items()}


def _said(columns: Mapping[str, Sequence[Any]], schemas: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for name, of_table in _by_table(columns):
        forms = [(bool(flat), id) for flat, id in zip(of_table["flat"], of_table["schema_id"], strict=True)]
        good = [fault is None for fault in of_table["fault"]]
        used = dict.fromkeys(forms)
        for flat, schema_id in used:
            fact = {"table": name, "flat": flat, "schema_id": schema_id}
            mine = [it_is and form == (flat, schema_id) for form, it_is in zip(forms, good, strict=True)]
            if schema_id is not None:
                yield fact | {"fact": "schema", "value": schemas[schema_id]}
                if any(mine):
                    yield fact | USES
                continue
            images: Iterable[str | None] = chain.from_iterable(zip(of_table["before"], of_table["after"], strict=True))
            if not all(mine):
                images = compress(images, (it_is for it_is in mine for _ in range(2)))
            seen = seen_in([image.encode() for image in images if image is not None], flat=flat)
            yield fact | columns_fact(seen)
            deletes = (op == "d" and it_is for op, it_is in zip(of_table["op"], mine, strict=True))
            keys = [key.encode() for key in compress(of_table["key"], deletes) if key is not None]
            yield from keyed_facts(fact, seen_in(keys, flat=False) if keys else ())
        for key in _key_names(list(compress(of_table["key"], good))):
            yield key_fact(name, key)
        if UNORDERED in of_table["fault"]:
            yield unordered_fact(name)


USES: Final = {"fact": "uses", "value": ""}
"""With its schema_id: a change that counts has this inline schema."""


def unordered_fact(table: str) -> dict[str, Any]:
    """The fact of TableFacts.unordered."""
    return {"table": table, "fact": "unordered", "value": ""}


def columns_fact(seen: Sequence[Column]) -> dict[str, Any]:
    """The fact of columns that images show. Raises EventError."""
    if not all(column.name for column in seen):
        raise EventError("bad_image", "the row has a column without a name, which no table can have")
    return {"fact": "columns", "value": columns_to_json(seen)}


def keyed_facts(fact: Mapping[str, Any], shown: Sequence[Column]) -> Iterator[dict[str, Any]]:
    """The fact of TableFacts.keyed, if the keys of deletes show anything. `fact`: what is the same of a table's
    facts."""
    named = [column for column in shown if column.name]
    if named:
        yield {**fact, "fact": "keyed", "value": columns_to_json(named)}


def key_fact(table: str, names: Sequence[str]) -> dict[str, Any]:
    """The fact of the names in a table's keys. Raises UnicodeError."""
    text = json.dumps(names, ensure_ascii=False)
    text.encode()  # half a surrogate pair is not a name that could be passed on
    return {"table": table, "fact": "key", "value": text}


def _by_table(columns: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, Mapping[str, Sequence[Any]]]]:
    """The rows of each table, sorted by its name, without truncates."""
    tables, ops = columns["table"], columns["op"]
    names = sorted(set(tables))
    if len(names) == 1 and "t" not in ops:
        yield names[0], columns
        return
    places: dict[str, list[int]] = {name: [] for name in names}
    for place, (name, op) in enumerate(zip(tables, ops, strict=True)):
        if op != "t":
            places[name].append(place)
    for name, mine in places.items():
        if mine:
            yield name, _some(columns, mine)


_decode_keys: Final = msgspec.json.Decoder(dict[str, Any]).decode_lines


def _key_names(keys: Sequence[str | None]) -> set[tuple[str, ...]]:
    """The names that the keys of records have, in their order. A record without a key of names says nothing."""
    texts = [key for key in keys if key is not None]
    lines = joined([text.encode() for text in texts])
    found = None if lines is None else key_names_in_lines(lines, len(texts))
    return {names for names in map(_names_in, texts) if names} if found is None else found


def key_names_in_lines(lines: bytes, count: int) -> set[tuple[str, ...]] | None:
    """The names of keys that are `count` lines (json_lines.one_a_line); None unless all are objects."""
    try:
        named = _decode_keys(lines)
    except (msgspec.MsgspecError, UnicodeError):
        return None
    return {tuple(key) for key in named if key} if len(named) == count else None


def _names_in(key: str) -> tuple[str, ...]:
    try:
        names = json.loads(key)
    except ValueError:
        return ()
    return tuple(names) if isinstance(names, dict) else ()
