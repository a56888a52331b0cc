"""What a table was at a moment, from its metadata: which snapshot, and what lies between two. Pure.

The same moments as firn_lake's: None (now), a snapshot's id, a tag or branch, a time (a datetime, ISO text,
milliseconds since 1970; UTC without a zone), or a cursor that firn_lake has stored.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from firn.errors import TerminalError

AsOf = datetime | int | str | None
_FIRST_SNAPSHOT_LIKE: Final = 10**15


class NoSuchMoment(TerminalError):
    """The table has no snapshot for this moment; the text names those it has."""


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
        current = metadata.get("current-snapshot-id")
        self.current = self.snapshots.get(current) if current not in (None, -1) else None

    def at(self, as_of: AsOf) -> Snapshot | None:
        """The snapshot at a moment; None for now, in a table without any. Raises NoSuchMoment."""
        if as_of is None:
            return self.current
        if isinstance(as_of, datetime):
            return self._at_time(as_of)
        text = str(as_of).strip()
        if text in self.refs:
            return self.snapshots[self.refs[text]["snapshot-id"]]
        if text.startswith("{"):
            return self._at_cursor(text)
        if text.lstrip("-").isdecimal():
            number = int(text)
            if number in self.snapshots:
                return self.snapshots[number]
            if 0 <= number < _FIRST_SNAPSHOT_LIKE:
                return self._at_time(datetime.fromtimestamp(number / 1000, UTC))
            raise NoSuchMoment(f"{self._name} has no snapshot {number}, or it has expired; {self._there()}")
        try:
            return self._at_time(datetime.fromisoformat(text))
        except ValueError:
            raise NoSuchMoment(
                f"as of {text!r}: no tag or branch of {self._name}, and no time; write 2026-01-31T12:00:00Z, "
                f"milliseconds since 1970, or a snapshot id; {self._there()}"
            ) from None

    def is_branch(self, as_of: AsOf) -> bool:
        """Whether it means a branch, which is read with the columns of today."""
        ref = self.refs.get(as_of.strip()) if isinstance(as_of, str) else None
        return as_of is None or (ref is not None and ref["type"] == "branch")

    def line(self, before: Snapshot | None, after: Snapshot | None) -> Sequence[Snapshot]:
        """The snapshots after `before` (None: from the first) up to `after`, oldest first. Raises NotOneLine."""
        found: list[Snapshot] = []
        at = after
        while at is not None and (before is None or at.id != before.id):
            found.append(at)
            if at.parent is None and before is None:
                break
            at = self.snapshots.get(at.parent) if at.parent is not None else None
            if at is None:
                raise NotOneLine(
                    f"{self._name}: there are no steps from snapshot {before.id if before else 'none'} to "
                    f"{after.id if after else 'none'}: one is not an ancestor of the other, or snapshots between them "
                    "have expired"
                )
        return found[::-1]

    def schema(self, snapshot: Snapshot | None) -> Sequence[Mapping[str, Any]]:
        """The fields (Iceberg's JSON) that a snapshot was written with; None: those of today."""
        by_id = {one["schema-id"]: one for one in self._metadata["schemas"]}
        wanted = snapshot.schema if snapshot is not None else None
        found = by_id.get(wanted) or by_id[self._metadata["current-schema-id"]]
        return list(found["fields"])

    def _at_time(self, moment: datetime) -> Snapshot:
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        log = [
            one for one in self._metadata.get("snapshot-log") or () if one["timestamp-ms"] <= moment.timestamp() * 1000
        ]
        if not log or log[-1]["snapshot-id"] not in self.snapshots:
            raise NoSuchMoment(
                f"{self._name} had no snapshot at {moment.isoformat()} that is still kept; {self._there()}"
            )
        return self.snapshots[log[-1]["snapshot-id"]]

    def _at_cursor(self, text: str) -> Snapshot | None:
        try:
            cursor = json.loads(text)
        except ValueError as error:
            raise NoSuchMoment(f"the cursor {text[:80]!r} is not JSON: {error}") from error
        if cursor.get("table") != self._metadata["table-uuid"]:
            raise NoSuchMoment(f"the cursor is of another table than {self._name}, or of one that was dropped since")
        snapshot = cursor.get("snapshot")
        return self.at(snapshot) if snapshot is not None else None

    def _there(self) -> str:
        if not self.snapshots:
            return "it has none yet"
        first, last = min(self._times()), max(self._times())
        refs = ", ".join(sorted(self.refs)) or "none"
        return f"it has {len(self.snapshots)} snapshots, from {first} to {last}, and the tags and branches: {refs}"

    def _times(self) -> list[str]:
        return [datetime.fromtimestamp(one.time_ms / 1000, UTC).isoformat() for one in self.snapshots.values()]


def _snapshot(told: Mapping[str, Any]) -> Snapshot:
    return Snapshot(
        told["snapshot-id"],
        told.get("parent-snapshot-id"),
        told["timestamp-ms"],
        (told.get("summary") or {}).get("operation", ""),
        told.get("schema-id"),
    )
