"""A table's snapshots over time, summed up to few points, and its columns with what they were: what pages show of
tables with very many of either. Both come from the table's metadata alone."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from firn.config.names import OWN
from firn_lake.reading.moments import snapshot_at
from firn_lake.tables import key_of, shown, summary

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

MOST_POINTS: Final = 1_000
MOST_COLUMNS: Final = 1_000


def timeline(table: "Table", start: str | None, end: str | None, points: int) -> dict[str, Any]:
    """The snapshots from `start` to `end` (times or snapshot ids; None: all), oldest first, as at most `points` points
    (docs/console.md). Raises NoSuchMoment."""
    every = sorted(table.metadata.snapshots, key=lambda one: (one.timestamp_ms, one.sequence_number or 0))
    places = {one.snapshot_id: n for n, one in enumerate(every)}
    begin, until = snapshot_at(table, start), snapshot_at(table, end)
    first = 0 if begin is None else places[begin]
    last = len(every) - 1 if until is None else places[until]
    chosen = every[first : last + 1]
    current = table.metadata.current_snapshot_id
    return {
        "table": shown(table),
        "snapshots": len(chosen),
        "oldest": _time(every[0]) if every else None,
        "newest": _time(every[-1]) if every else None,
        "current": None if current is None else str(current),
        "refs": [
            {
                "name": name,
                "type": ref.snapshot_ref_type.value,
                "snapshot": str(ref.snapshot_id),
                "at": _time(every[places[ref.snapshot_id]]) if ref.snapshot_id in places else None,
            }
            for name, ref in sorted(table.metadata.refs.items())
        ],
        "points": [_point(some) for some in _parts(chosen, points)],
    }


def _time(snapshot: "Snapshot") -> datetime:
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)


def _parts(some: Sequence["Snapshot"], count: int) -> Iterator[Sequence["Snapshot"]]:
    """As many parts of almost one size, none of them empty."""
    count = min(count, len(some))
    for n in range(count):
        yield some[len(some) * n // count : len(some) * (n + 1) // count]


def _point(some: Sequence["Snapshot"]) -> dict[str, Any]:
    newest = summary(some[-1], ())
    return {
        "snapshots": len(some),
        "first": str(some[0].snapshot_id),
        "last": str(some[-1].snapshot_id),
        "from": _time(some[0]),
        "to": _time(some[-1]),
        "operation": newest.operation if len(some) == 1 else None,
        "added": sum(_count(one, "added-records") for one in some),
        "deleted": sum(_count(one, "deleted-records", "added-position-deletes") for one in some),
        "rows": newest.total,
    }


def _count(snapshot: "Snapshot", *names: str) -> int:
    told = snapshot.summary.additional_properties if snapshot.summary else {}
    return sum(int(value) for name in names if (value := told.get(name, "")).isdecimal())


def column_page(table: "Table", as_of: str | None, like: str, after: int, limit: int) -> dict[str, Any]:
    """The columns by field id, from beyond the id `after` on, of those whose name holds `like` (in any case): nested
    fields too, and those that were dropped (docs/console.md). Raises NoSuchMoment."""
    metadata = table.metadata
    shown_by = metadata.current_schema_id
    if (snapshot := snapshot_at(table, as_of)) is not None:
        told = {one.snapshot_id: one.schema_id for one in metadata.snapshots}[snapshot]
        shown_by = shown_by if told is None else told
    schemas = sorted((one for one in metadata.schemas if one.schema_id <= shown_by), key=lambda one: one.schema_id)
    since = _since(table)
    found: dict[int, dict[str, Any]] = {}
    for schema in schemas:
        now = set(schema.field_ids)
        for gone in found.keys() - now:
            found[gone].setdefault("dropped_at", since.get(schema.schema_id))
        for field_id in sorted(now):
            _look(found, schema, field_id, since)
    wanted = [one for _, one in sorted(found.items()) if like.lower() in one["name"].lower()]
    page = [one for one in wanted if one["id"] > after]
    current = schemas[-1] if schemas else table.schema()
    return {
        "table": shown(table),
        "key": key_of(metadata),
        "schema_id": shown_by,
        "total": len(wanted),
        "columns": page[:limit],
        "partition": [
            {"field": one.name, "transform": str(one.transform), "source": current.find_column_name(one.source_id)}
            for one in table.spec().fields
        ],
        "next": str(page[limit - 1]["id"]) if len(page) > limit else None,
    }


def _look(found: dict[int, dict[str, Any]], schema: "Schema", field_id: int, since: Mapping[int, datetime]) -> None:
    """One field as one schema has it."""
    name = schema.find_column_name(field_id) or ""
    if name.partition(".")[0].startswith(OWN):
        return
    field = schema.find_field(field_id)
    was = {"name": name, "type": str(field.field_type), "required": field.required}
    one = found.setdefault(field_id, {"id": field_id, "history": []})
    one.pop("dropped_at", None)
    one |= {**was, "doc": field.doc}
    before = one["history"][-1] if one["history"] else {}
    if any(before.get(word) != value for word, value in was.items()):
        one["history"].append({"schema_id": schema.schema_id, "at": since.get(schema.schema_id), **was})


def _since(table: "Table") -> dict[int, datetime]:
    """When each schema's first snapshot was made, of those that are kept."""
    found: dict[int, int] = {}
    for one in table.metadata.snapshots:
        if one.schema_id is not None:
            found[one.schema_id] = min(one.timestamp_ms, found.get(one.schema_id, one.timestamp_ms))
    return {schema: datetime.fromtimestamp(at / 1000, UTC) for schema, at in found.items()}
