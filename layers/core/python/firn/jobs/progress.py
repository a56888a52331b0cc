"""What a table's metadata says: columns, key, and how far each stream has come in main's ancestry."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from firn.changes.fields import column_of
from firn.changes.types import INFERRED, Column, storable
from firn.jobs.planning import METADATA

EPOCH = "firn.epoch."
SEALED = "firn.sealed."  # that epoch's nonce: numbers begin anew where a staging area does, nonces never come again
REBUILD = "firn.rebuild"  # in the first snapshot of a table that was rebuilt in place: which rebuild it was
SCHEMA = "firn.schema"  # in a snapshot: how often the table was altered up to it (docs/adr/0031)
MODE, KEY = "firn.mode", "firn.key"  # table properties
INFERRED_AS = "firn.inferred"  # table property: see TableState.inferred
# Of a table of delete facts: the newest fact, the newest truncate (orders, hex), and whether there are facts of op c.
NEWEST, TRUNCATED, CREATES = "firn.newest", "firn.truncated", "firn.creates"
FACTS = "firn.deletes"  # table property: where the delete facts are, if not in `{table}__deletes`
FLOOR = "firn.floor"  # property of that table: the order (plain) up to which facts were dropped
HELD_IDS = "firn.held"  # table property: ids of the fields that rows may hold


@dataclass(frozen=True)
class Basis:
    """What a plan for a table rests on, beside a stream's progress. Where it is another one by the time of the commit,
    the plan's files could hold values under fields that nobody reads any more, or rows of another key.

    uuid       the table's: one that is dropped and made again is another one under the same name
    mode, key  its properties, None where it has none
    rebuilt    the number of the rebuild in place that it is
    altered    how often a column was renamed or got another type, or the partitioning changed
    """

    uuid: str
    mode: str | None
    key: str | None
    rebuilt: int
    altered: int

    @classmethod
    def of(cls, uuid: str, properties: Mapping[str, str], summaries: Iterable[Mapping[str, str]]) -> "Basis":
        """`summaries`: of a snapshot and its ancestors."""
        found = list(summaries)
        return cls(uuid, properties.get(MODE), properties.get(KEY), _highest(REBUILD, found), _highest(SCHEMA, found))

    def next(self) -> "Basis":
        """The same after one alteration more."""
        return replace(self, altered=self.altered + 1)

    def summary(self) -> dict[str, str]:
        """What each commit says of it, so that a snapshot tells all that its ancestors told."""
        return {SCHEMA: str(self.altered)} if self.altered else {}


@dataclass(frozen=True)
class TableState:
    """One version of an Iceberg table's metadata, as plain values.

    `fields` are Iceberg's own JSON objects of the current schema (`id`, `name`, `required`, `type`);
    `ancestry` holds the summaries of the current snapshot and its ancestors, newest first; `partitioned_by` holds the
    ids of the fields that the table is or was partitioned by.
    """

    location: str
    properties: Mapping[str, str]
    fields: tuple[Mapping[str, Any], ...]
    snapshot_id: int | None
    ancestry: tuple[Mapping[str, str], ...]
    partitioned_by: frozenset[int] = frozenset()
    uuid: str = ""

    @property
    def records(self) -> int:
        """Rows in data files, deleted ones included; 0 where no snapshot tells."""
        return int(self.ancestry[0].get("total-records", 0)) if self.ancestry else 0

    def columns(self) -> tuple[tuple[Column, ...], frozenset[str]]:
        """The source's columns, and the names of those whose type Firn has no word for. Metadata columns left out."""
        fields = [field for field in self.fields if field["name"] not in METADATA]
        known = [column_of(field) for field in fields]
        unknown = frozenset(field["name"] for field, column in zip(fields, known, strict=True) if column is None)
        columns = [column for column in known if column is not None]
        as_seen = [replace(c, type=INFERRED.get(self.inferred.get(c.name, ""), c.type)) for c in columns]
        stored = zip(columns, as_seen, strict=True)
        return tuple(seen if storable(seen.type) == column.type else column for column, seen in stored), unknown

    @property
    def inferred(self) -> Mapping[str, str]:
        """Columns of which inference has seen only what is double once a fraction is among it, with what that was
        (changes.types.INFERRED)."""
        return dict(json.loads(self.properties.get(INFERRED_AS, "{}")))

    def fixed(self) -> frozenset[str]:
        """Columns whose values are never written anew for another type: all of a table that Firn did not create, and
        those that the table is or was partitioned by."""
        names = {int(field["id"]): str(field["name"]) for field in self.fields}
        if self.key() is None:
            return frozenset(names.values())
        return frozenset(names[source] for source in self.partitioned_by if source in names)

    def key(self) -> tuple[str, ...] | None:
        """The key as the property `firn.key` tells it; None for a table that Firn did not create."""
        text = self.properties.get(KEY)
        return None if text is None else tuple(json.loads(text))

    def renamed(self, names: Mapping[str, str]) -> "TableState":
        """The same with columns under other names (old -> new), as a commit of metadata would leave it."""
        if not names:
            return self
        fields = tuple({**field, "name": names.get(field["name"], field["name"])} for field in self.fields)
        inferred = {names.get(name, name): kind for name, kind in self.inferred.items()}
        properties = {**self.properties, INFERRED_AS: json.dumps(inferred)} if inferred else self.properties
        return replace(self, fields=fields, properties=properties)

    def progress(self, stream: str) -> int:
        """The highest epoch of the stream that is in this table; 0 before the first."""
        return progress_in(stream, self.ancestry)

    def sealed(self, stream: str) -> str | None:
        """The nonce of the epoch that is the progress; None if no snapshot tells it."""
        n = self.progress(stream)
        found = (summary.get(SEALED + stream) for summary in self.ancestry if epoch_of(stream, summary) == n)
        return next(found, None) if n else None

    @property
    def basis(self) -> Basis:
        """What a plan for this table rests on."""
        return Basis.of(self.uuid, self.properties, self.ancestry)


def progress_in(stream: str, summaries: Iterable[Mapping[str, str]]) -> int:
    """The highest `firn.epoch.{stream}` in the summaries: a twin may have landed after its successor."""
    return _highest(EPOCH + stream, summaries)


def field_before(column: Column, number: int | None, fields: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Which of the fields (as TableState.fields) of an earlier schema the column was; None if it was not there.

    number  its field id today. Where it has got another one since, as another type needs, the name tells, or one that
            it had before
    """
    there = {int(field["id"]): field for field in fields}
    named = {str(field["name"]): field for field in there.values()}
    if number in there:
        return there[number]
    return next((named[name] for name in (column.name, *column.earlier) if name in named), None)


def epoch_of(stream: str, summary: Mapping[str, str]) -> int:
    """The epoch of the stream up to which a snapshot brought its table; 0 if it is none of the stream's."""
    return progress_in(stream, (summary,))


def parse(metadata: str, branch: str | None = None) -> TableState:
    """Reads table metadata JSON (Iceberg spec, appendix C: format v2 and v3). `branch`: whose snapshots to tell of;
    None for main.
    """
    table = json.loads(metadata)
    schema = next(schema for schema in table["schemas"] if schema["schema-id"] == table["current-schema-id"])
    snapshots = {snapshot["snapshot-id"]: snapshot for snapshot in table.get("snapshots") or ()}
    refs = table.get("refs") or {}
    current = table.get("current-snapshot-id") if branch is None else refs.get(branch, {}).get("snapshot-id")
    current = None if current in (None, -1) else current
    return TableState(
        location=table["location"],
        properties=table.get("properties") or {},
        fields=tuple(schema["fields"]),
        snapshot_id=current,
        ancestry=tuple(_ancestors(current, snapshots)),
        partitioned_by=frozenset(
            int(field["source-id"]) for spec in table.get("partition-specs") or () for field in spec["fields"]
        ),
        uuid=table.get("table-uuid", ""),
    )


def _ancestors(current: int | None, snapshots: Mapping[int, Mapping[str, Any]]) -> Iterator[Mapping[str, str]]:
    while current is not None and (snapshot := snapshots.get(current)) is not None:
        yield snapshot.get("summary") or {}
        current = snapshot.get("parent-snapshot-id")


def _highest(name: str, summaries: Iterable[Mapping[str, str]]) -> int:
    """The highest number under this name, 0 without one."""
    return max((int(summary[name]) for summary in summaries if name in summary), default=0)
