"""A table's snapshots over time, summed up to few points, and its columns with what they were: what pages show of
tables with very many of either. Both come from the table's metadata alone."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from firn.config.names import OWN
from firn_lake.long_history import columns_of
from firn_lake.reading.moments import snapshot_at
from firn_lake.snapshot_columns import NONE, SnapshotColumns
from firn_lake.tables import key_of, shown, time_of

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

MOST_POINTS: Final = 1_000
MOST_COLUMNS: Final = 1_000
ROW_COUNTS: Final = ("added", "deleted", "rows")
"""Of a point."""


def timeline(table: "Table", start: str | None, end: str | None, points: int) -> dict[str, Any]:
    """The snapshots from `start` to `end` (times or snapshot ids; None: all), oldest first, as at most `points` points
    (docs/console.md). Raises NoSuchMoment."""
    columns = columns_of(table.metadata)
    order = columns.by_age()
    begin, until = _rank(table, columns, order, start), _rank(table, columns, order, end)
    chosen = order[begin or 0 : len(order) if until is None else until + 1]
    current = table.metadata.current_snapshot_id
    times = dict(zip(columns.ids, columns.times, strict=True))
    return {
        "table": shown(table),
        "snapshots": len(chosen),
        "oldest": time_of(columns.times[order[0]]) if order else None,
        "newest": time_of(columns.times[order[-1]]) if order else None,
        "current": None if current is None else str(current),
        "refs": [
            {
                "name": name,
                "type": ref.snapshot_ref_type.value,
                "snapshot": str(ref.snapshot_id),
                "at": time_of(times[ref.snapshot_id]) if ref.snapshot_id in times else None,
            }
            for name, ref in sorted(table.metadata.refs.items())
        ],
        "points": [_point(columns, some) for some in _parts(chosen, points)],
    }


def _rank(table: "Table", columns: SnapshotColumns, order: Sequence[int], moment: str | None) -> int | None:
    """Where in the order the snapshot of a moment stands."""
    found = snapshot_at(table, moment)
    return None if found is None else order.index(columns.ids.index(found))


def _parts(some: Sequence[int], count: int) -> Iterator[Sequence[int]]:
    """As many parts of almost one size, none of them empty."""
    count = min(count, len(some))
    for n in range(count):
        yield some[len(some) * n // count : len(some) * (n + 1) // count]


def _point(columns: SnapshotColumns, some: Sequence[int]) -> dict[str, Any]:
    first, last = some[0], some[-1]
    return {
        "snapshots": len(some),
        "first": str(columns.ids[first]),
        "last": str(columns.ids[last]),
        "from": time_of(columns.times[first]),
        "to": time_of(columns.times[last]),
        "operation": columns.operations[last] if len(some) == 1 else None,
        "added": sum(columns.added[one] for one in some),
        "deleted": sum(columns.deleted[one] for one in some),
        "rows": None if columns.total[last] == NONE else columns.total[last],
    }


def column_page(
    table: "Table", as_of: str | None, like: str, after: int, limit: int, only: Collection[int] | None = None
) -> dict[str, Any]:
    """The columns by field id, from beyond the id `after` on, of those whose name holds `like` (in any case): nested
    fields too, and those that were dropped (docs/console.md). `only`: the ids of the columns that are shown, with what
    is in them; None: all. Raises NoSuchMoment."""
    metadata = table.metadata
    shown_by = metadata.current_schema_id
    if (snapshot := snapshot_at(table, as_of)) is not None:
        columns = columns_of(metadata)
        told = columns.schemas[columns.ids.index(snapshot)]
        shown_by = shown_by if told == NONE else told
    schemas = sorted((one for one in metadata.schemas if one.schema_id <= shown_by), key=lambda one: one.schema_id)
    since = _since(table)
    found: dict[int, dict[str, Any]] = {}
    for schema in schemas:
        now = _ids(schema, only)
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
            if only is None or one.source_id in _ids(current, only)
        ],
        "next": str(page[limit - 1]["id"]) if len(page) > limit else None,
    }


def _ids(schema: "Schema", only: Collection[int] | None) -> set[int]:
    """The ids of these columns and of all that is in them."""
    if only is None:
        return set(schema.field_ids)
    from pyiceberg.schema import Schema as Columns

    return set(Columns(*(field for field in schema.fields if field.field_id in only)).field_ids)


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
    columns = columns_of(table.metadata)
    found: dict[int, int] = {}
    for schema, time in zip(columns.schemas, columns.times, strict=True):
        if schema != NONE:
            found[schema] = min(time, found.get(schema, time))
    return {schema: time_of(at) for schema, at in found.items()}
