"""What is in the lake: tables with their size and origin, and the snapshots of a table."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from firn.errors import TerminalError
from firn.tables.shard_names import shard_in
from firn_lake.long_history import columns_of, main_of, snapshots_of, summaries_of
from firn_lake.snapshot_columns import NONE, SnapshotColumns, number, of_summary, row_counts

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot


class TableNotFound(TerminalError):
    """The lake has no table of that name."""


@dataclass(frozen=True)
class Retyped:
    """A column that got another type (in Iceberg's words), and when."""

    column: str
    before: str
    after: str
    since: datetime

    def __str__(self) -> str:
        return f"{self.column} is {self.after}, not {self.before}, since {self.since:%Y-%m-%d %H:%M} UTC"


@dataclass(frozen=True)
class TableSummary:
    """One table: `rows` are those of its current snapshot, `size_bytes` those of its live data files, `retyped` what
    its snapshots tell of columns that got another type, newest last, `pipelines` those that ever fed it, an append,
    `source` the source table, or what a view reads, `shards` the tables that it is read from, if it is several."""

    name: str
    rows: int | None  # None: the table has equality deletes, which only a scan can count
    snapshots: int
    size_bytes: int
    files: int
    source: str | None
    stream: str | None
    mode: str | None
    key: tuple[str, ...]
    updated_at: datetime | None
    current_snapshot: int | None
    retyped: tuple[Retyped, ...] = ()
    identifier: tuple[str, ...] = ()
    pipelines: tuple[str, ...] = ()
    shards: tuple[str, ...] = ()


@dataclass(frozen=True)
class SnapshotSummary:
    """One snapshot of a table. Counts are rows; None where the writer left the count out. `retyped`: the columns that
    got another type with it."""

    id: int
    parent: int | None
    time: datetime
    operation: str
    added: int | None
    deleted: int | None
    total: int | None
    epochs: Mapping[str, int]
    refs: tuple[str, ...]
    retyped: tuple[Retyped, ...] = ()

    def _repr_html_(self) -> str:
        from firn_lake.notebook import html_table

        named = f" ({', '.join(self.refs)})" if self.refs else ""
        values = [self.time.isoformat(" "), self.operation, self.added, self.deleted, self.total]
        return html_table(f"snapshot {self.id}{named}", ["time", "operation", "added", "deleted", "rows"], [values])


def identifier_text(identifier: tuple[str, ...]) -> str:
    """`namespace.table` for people; parts that hold a dot, a space or a quote are quoted so that SQL takes them."""
    return ".".join(_quoted_if_needed(part) for part in (".".join(identifier[:-1]), identifier[-1]) if part)


def shown(table: "Table") -> str:
    """The table's name for people."""
    return identifier_text(table.name())


def fed_as(table: "Table", *, whole: bool = False) -> str | None:
    """The name under which changes come into a table; None of a shard by itself: which of the changes come to lie in it
    no batch says. `whole`: it is asked for all shards, and is their rest."""
    return None if not whole and shard_in(table.properties) is not None else ".".join(table.name())


def table_identifiers(catalog: "Catalog") -> list[tuple[str, ...]]:
    """Identifiers of all tables of the catalog, nested namespaces included, sorted."""
    found: list[tuple[str, ...]] = []
    waiting = list(catalog.list_namespaces())
    seen = set()
    while waiting:
        namespace = waiting.pop()
        if namespace in seen:
            continue
        seen.add(namespace)
        found.extend(tuple(identifier) for identifier in catalog.list_tables(namespace))
        waiting.extend(tuple(child) for child in catalog.list_namespaces(namespace))
    return sorted(set(found))


def find_table(catalog: "Catalog", name: str) -> "Table":
    """The table that `name` means: `shop.orders`, `shop."Mixed Case-Table"`, or `orders` if only one namespace has it.

    Raises TableNotFound with the names there are.
    """
    identifiers = table_identifiers(catalog)
    return catalog.load_table(match_identifier(split_name(name), identifiers))


def match_identifier(parts: tuple[str, ...], identifiers: list[tuple[str, ...]]) -> tuple[str, ...]:
    """The one identifier that `parts` (as a person wrote them) mean; exact spelling wins over other case.

    Raises TableNotFound if none or several fit.
    """
    wanted = ".".join(parts)
    for spelled in (str, str.casefold):
        matches = [
            one
            for one in identifiers
            if spelled(".".join(one)) == spelled(wanted) or (len(parts) == 1 and spelled(one[-1]) == spelled(parts[0]))
        ]
        if len(matches) == 1:
            return matches[0]
        if matches:
            several = ", ".join(identifier_text(one) for one in matches)
            raise TableNotFound(f"{wanted!r} could be any of {several}: write the namespace too")
    there_are = ", ".join(identifier_text(one) for one in identifiers[:20]) or "none yet: send changes, then firn flush"
    raise TableNotFound(f"no table {wanted!r} in the lake; tables: {there_are}")


def split_name(name: str) -> tuple[str, ...]:
    """`a."b.c".d` to ("a", "b.c", "d"); a name with spaces needs no quotes here."""
    parts: list[str] = []
    current, quoted, position = "", False, 0
    while position < len(name):
        character = name[position]
        if quoted and character == '"' and name[position + 1 : position + 2] == '"':
            current += '"'
            position += 1
        elif character == '"' and (quoted or not current):
            quoted = not quoted
        elif character == "." and not quoted:
            parts.append(current)
            current = ""
        else:
            current += character
        position += 1
    return (*parts, current)


def summarize(table: "Table") -> TableSummary:
    """The summary of one table, from its metadata alone: no data file is read."""
    columns = columns_of(table.metadata)
    current = table.metadata.current_snapshot_id
    snapshot = None if current is None else table.snapshot_by_id(current)
    told = _told(snapshot)
    properties = table.properties
    return TableSummary(
        name=shown(table),
        rows=row_counts(*map(number, of_summary(told)))[2] if snapshot else 0,
        snapshots=len(columns),
        size_bytes=number(told.get("total-files-size", "")) or 0,
        files=number(told.get("total-data-files", "")) or 0,
        source=_read_by(table) if properties.get("firn.mode") == "view" else properties.get("firn.source"),
        stream=properties.get("firn.stream"),
        mode=properties.get("firn.mode"),
        key=key_of(table.metadata),
        updated_at=time_of(snapshot.timestamp_ms) if snapshot else None,
        current_snapshot=snapshot.snapshot_id if snapshot else None,
        retyped=tuple(change for one in columns.by_age() if one in columns.types for change in _retyped(columns, one)),
        identifier=table.name(),
        pipelines=_pipelines(properties.get("firn.pipeline.input", "{}")),
    )


def _read_by(view: "Table") -> str | None:
    """The tables that a view was made of last."""
    from firn.views.cut import SOURCES, told

    newest = [_told(view.current_snapshot())]
    said = told(tuple(newest if SOURCES in newest[0] else (one for _, one in main_of(view.metadata))))
    return None if said is None else ", ".join(sorted(map(str, said.sources)))


def _pipelines(text: str) -> tuple[str, ...]:
    try:
        found = json.loads(text)
    except ValueError:
        return ()
    return tuple(found) if isinstance(found, dict) else ()


def list_tables(catalog: "Catalog") -> list[TableSummary]:
    """All tables of the catalog, by name; not Firn's own memory of deletes beside each."""
    summaries = (summarize(catalog.load_table(identifier)) for identifier in table_identifiers(catalog))
    return [summary for summary in summaries if summary.mode != "deletes"]


def count_rows(table: "Table") -> int:
    """Rows of the current snapshot, exactly; reads the data files that have deletes."""
    return int(table.scan().count())


def history(table: "Table", places: Sequence[int] | None = None) -> list[SnapshotSummary]:
    """Snapshots of the table that are still kept, oldest first; or those at these places of its metadata, in their
    order. Raises StorageUnavailable."""
    refs: dict[int, list[str]] = {}
    for name, ref in sorted(table.metadata.refs.items()):
        refs.setdefault(ref.snapshot_id, []).append(name)
    columns = columns_of(table.metadata)
    if places is None:
        epochs = dict(enumerate(_epochs(summaries_of(table.metadata))))
        places = columns.by_age()
    else:
        some = snapshots_of(table.metadata, [columns.ids[one] for one in places])
        epochs = dict(zip(places, _epochs(map(_told, some)), strict=True))
    return [_summary(columns, one, epochs[one], tuple(refs.get(columns.ids[one], ()))) for one in places]


def uncounted(one: SnapshotSummary) -> SnapshotSummary:
    """A snapshot of the rest as one of all shards: nobody has counted the rows of all."""
    return replace(one, added=None, deleted=None, total=None)


def _summary(columns: SnapshotColumns, place: int, epochs: Mapping[str, int], refs: tuple[str, ...]) -> SnapshotSummary:
    parent, total = columns.parents[place], columns.total[place]
    return SnapshotSummary(
        id=columns.ids[place],
        parent=None if parent == NONE else parent,
        time=time_of(columns.times[place]),
        operation=columns.operations[place],
        added=columns.added[place],
        deleted=columns.deleted[place],
        total=None if total == NONE else total,
        epochs=epochs,
        refs=refs,
        retyped=_retyped(columns, place),
    )


def _retyped(columns: SnapshotColumns, place: int) -> tuple[Retyped, ...]:
    """The columns that got another type with this snapshot."""
    if place not in columns.types:
        return ()
    from firn.tables.type_changes import TYPES, told_by

    when = time_of(columns.times[place])
    return tuple(Retyped(one.column, one.before, one.after, when) for one in told_by({TYPES: columns.types[place]}))


def epochs_of(snapshot: "Snapshot") -> dict[str, int]:
    """Stream -> the epoch that the snapshot brought the table to; empty if no stream wrote it."""
    return _epochs([_told(snapshot)])[0]


def _epochs(summaries: Iterable[Mapping[str, str]]) -> list[dict[str, int]]:
    # With all that decodes, which only few need who look at tables.
    from firn.tables.table_state import EPOCH, streams_in

    return [
        {stream: int(value) for stream in streams_in(told) if (value := told[EPOCH + stream]).isdecimal()}
        for told in summaries
    ]


def key_of(metadata: "TableMetadata") -> tuple[str, ...]:
    """The columns that tell the rows of a table apart: Firn's key, else Iceberg's identifier fields."""
    return key_columns(metadata.properties.get("firn.key")) or tuple(sorted(metadata.schema().identifier_field_names()))


def key_columns(text: str | None) -> tuple[str, ...]:
    """Columns of the table property `firn.key`, a JSON array of column names; empty without a key."""
    if not text:
        return ()
    try:
        names = json.loads(text)
    except ValueError:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return tuple(str(name) for name in names) if isinstance(names, list) else (str(names),)


def _told(snapshot: "Snapshot | None") -> Mapping[str, str]:
    return snapshot.summary.additional_properties if snapshot and snapshot.summary else {}


def time_of(milliseconds: int) -> datetime:
    """The moment so long after 1970."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _quoted_if_needed(part: str) -> str:
    if part and not part[0].isdigit() and part.replace("_", "a").isalnum() and part.isascii():
        return part
    escaped = part.replace('"', '""')
    return f'"{escaped}"'
