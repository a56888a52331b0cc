"""Which snapshot of a table a moment means, and which lie between two, whoever has read the table's metadata. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

from firn.errors import TerminalError

AsOf = str | int | datetime | date | None
"""A time, a snapshot id, the name of a tag or branch; None: now."""

_FIRST_SNAPSHOT_LIKE: Final = 10**15
"""Epoch milliseconds stay below this until the year 33658; Iceberg's snapshot ids are random 63-bit numbers."""


class NoSuchMoment(TerminalError):
    """The table has no snapshot for this `as_of`; the text says what there is instead."""


@dataclass(frozen=True)
class SnapshotHistory:
    """`name`: the table's; `parents`: of the snapshots that it still has; `refs`: the snapshot of each tag and branch;
    `log`: when (ms) which snapshot became the current one, oldest first."""

    name: str
    parents: Mapping[int, int | None]
    refs: Mapping[str, int]
    log: Sequence[tuple[int, int]]

    def at(self, as_of: str | int | datetime | date) -> int:
        """The snapshot at an ISO time (without a zone: UTC) or milliseconds since 1970, with this id, or of this tag or
        branch. Raises NoSuchMoment."""
        if isinstance(as_of, datetime):
            return self._at_time(as_of, as_of.isoformat())
        if isinstance(as_of, bool) or not isinstance(as_of, str | int | date):
            its = "its .id, " if hasattr(as_of, "id") else ""  # a snapshot that somebody has looked up
            raise NoSuchMoment(
                f"as of a {type(as_of).__name__}, which is not a moment; give {its}a datetime, an ISO time, ms since "
                "1970 (a whole number), a snapshot id, or the name of a tag or branch"
            )
        text = str(as_of).strip()
        if text in self.refs:
            return self.refs[text]
        if text.lstrip("-").isdecimal():
            number = int(text)
            if number in self.parents:
                return number
            if 0 <= number < _FIRST_SNAPSHOT_LIKE:
                return self._at_time(datetime.fromtimestamp(number / 1000, UTC), text)
            raise NoSuchMoment(
                f"{self.name} has no snapshot {text}, or it has expired (firn history {self.name} lists them); "
                "a snapshot belongs to one table: to read several together, give a time"
            )
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            refs = ", ".join(sorted(self.refs)) or "none"
            raise NoSuchMoment(
                f"as of {text!r}: {self.name} has no such tag or branch (it has: {refs}), and it is not a time either; "
                "write 2026-01-31T12:00:00Z, milliseconds since 1970, or a snapshot id"
            ) from None
        return self._at_time(moment, text)

    def _at_time(self, moment: datetime, said: str) -> int:
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        until = int(moment.timestamp() * 1000)
        found = next((snapshot for time, snapshot in reversed(self.log) if time <= until), None)
        if found is not None and found in self.parents:
            return found
        if not self.log:
            raise NoSuchMoment(f"{self.name} has no snapshot yet")
        first = datetime.fromtimestamp(self.log[0][0] / 1000, UTC).isoformat(timespec="milliseconds")
        raise NoSuchMoment(f"{self.name} had no snapshot at {said}: its first kept one is of {first}")


def line(parents: Mapping[int, int | None], before: int | None, after: int | None) -> list[int] | None:
    """The snapshots after `before` (None: from the first) up to `after`, oldest first. `parents`: of all kept ones.

    None if `before` is not an ancestor of `after`, or if the chain is broken: a snapshot between them has expired.
    """
    found: list[int] = []
    at = after
    while at is not None and at != before:
        if at not in parents:
            return None
        found.append(at)
        at = parents[at]
    return found[::-1] if at == before or after is None else None
