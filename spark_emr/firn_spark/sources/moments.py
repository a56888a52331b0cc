"""What a table was at a moment, from its metadata: which snapshot, and what lies between two. Pure.

The same moments as firn_lake's: None (now), a snapshot's id, a tag or branch, a time (a datetime, ISO text,
milliseconds since 1970; UTC without a zone), or a cursor that firn_lake has stored.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firn.errors import TerminalError
from firn.tables.snapshot_history import AsOf, NoSuchMoment, SnapshotHistory, line


class NotOneLine(TerminalError):
    """One snapshot is not an ancestor of the other, or some between them have expired."""


class NotAppended(TerminalError):
    """Rows were changed or deleted since: what was appended does not tell what is there."""


@dataclass(frozen=True)
class Snapshot:
    """One snapshot of the metadata."""

    id: int
    parent: int | None
    time_ms: int
    operation: str
    schema: int | None


class Timeline:
    """The snapshots and refs of a table."""

    def __init__(self, name: str, metadata: Mapping[str, Any]) -> None:
        """`metadata`: Iceberg's table metadata, parsed."""
        self._name = name
        self._metadata = metadata
        self.snapshots = {one["snapshot-id"]: _snapshot(one) for one in metadata.get("snapshots") or ()}
        self.refs: Mapping[str, Mapping[str, Any]] = metadata.get("refs") or {}
        self._history = SnapshotHistory(
            name,
            {one.id: one.parent for one in self.snapshots.values()},
            {ref: one["snapshot-id"] for ref, one in self.refs.items()},
            [(one["timestamp-ms"], one["snapshot-id"]) for one in metadata.get("snapshot-log") or ()],
        )
        current = metadata.get("current-snapshot-id")
        self.current = self.snapshots.get(current) if current not in (None, -1) else None

    def at(self, as_of: AsOf) -> Snapshot | None:
        """The snapshot at a moment; None for now, in a table without any. Raises NoSuchMoment."""
        if as_of is None:
            return self.current
        if isinstance(as_of, str) and as_of.strip().startswith("{"):
            return self._at_cursor(as_of)
        return self.snapshots[self._history.at(as_of)]

    def is_branch(self, as_of: AsOf) -> bool:
        """Whether it means a branch, which is read with the columns of today."""
        ref = self.refs.get(as_of.strip()) if isinstance(as_of, str) else None
        return as_of is None or (ref is not None and ref["type"] == "branch")

    def line(self, before: Snapshot | None, after: Snapshot | None) -> Sequence[Snapshot]:
        """The snapshots after `before` (None: from the first) up to `after`, oldest first. Raises NotOneLine."""
        found = line(self._history.parents, *(one.id if one else None for one in (before, after)))
        if found is None:
            raise NotOneLine(
                f"{self._name}: there are no steps from snapshot {before.id if before else 'none'} to "
                f"{after.id if after else 'none'}: one is not an ancestor of the other, or snapshots between them "
                "have expired"
            )
        return [self.snapshots[one] for one in found]

    def schema(self, snapshot: Snapshot | None) -> Sequence[Mapping[str, Any]]:
        """The fields (Iceberg's JSON) that a snapshot was written with; None: those of today."""
        by_id = {one["schema-id"]: one for one in self._metadata["schemas"]}
        wanted = snapshot.schema if snapshot is not None else None
        found = by_id.get(wanted) or by_id[self._metadata["current-schema-id"]]
        return list(found["fields"])

    def _at_cursor(self, text: str) -> Snapshot | None:
        try:
            cursor = json.loads(text)
        except ValueError as error:
            raise NoSuchMoment(f"the cursor {text[:80]!r} is not JSON: {error}") from error
        if cursor.get("table") != self._metadata["table-uuid"]:
            raise NoSuchMoment(f"the cursor is of another table than {self._name}, or of one that was dropped since")
        snapshot = cursor.get("snapshot")
        return self.at(snapshot) if snapshot is not None else None


def _snapshot(told: Mapping[str, Any]) -> Snapshot:
    return Snapshot(
        told["snapshot-id"],
        told.get("parent-snapshot-id"),
        told["timestamp-ms"],
        (told.get("summary") or {}).get("operation", ""),
        told.get("schema-id"),
    )
