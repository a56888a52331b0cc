"""Which snapshot of a table an `--as-of` means (a time, a snapshot id, a tag or a branch), or a `--cut`."""

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from firn.errors import TerminalError
from firn.log.cuts import Cut

if TYPE_CHECKING:
    from pyiceberg.table import Table

AsOf = str | int | datetime | date | None
"""A time, a snapshot id, the name of a tag or branch; None: now."""

_FIRST_SNAPSHOT_LIKE = 10**15
"""Epoch milliseconds stay below this until the year 33658; Iceberg's snapshot ids are random 63-bit numbers."""


class NoSuchMoment(TerminalError):
    """The table has no snapshot for this `as_of`."""


def snapshot_at(table: "Table", as_of: AsOf) -> int | None:
    """The id of the snapshot that `as_of` means in `table`; None (the current one) for None.

    `as_of` is an ISO time (without a zone: UTC), milliseconds since 1970, a snapshot id, or the name of a tag or
    branch. Raises NoSuchMoment with what there is instead.
    """
    if as_of is None:
        return None
    if isinstance(as_of, datetime):
        return _at_time(table, as_of, as_of.isoformat())
    if isinstance(as_of, bool) or not isinstance(as_of, str | int | date):
        raise NoSuchMoment(
            f"as of {as_of!r}: a {type(as_of).__name__} is not a moment; give a datetime, an ISO time, ms since "
            "1970 (a whole number), a snapshot id, or the name of a tag or branch"
        )
    text = str(as_of).strip()
    if (ref := table.metadata.refs.get(text)) is not None:
        return int(ref.snapshot_id)
    if text.lstrip("-").isdecimal():
        number = int(text)
        if table.snapshot_by_id(number) is not None:
            return number
        if 0 <= number < _FIRST_SNAPSHOT_LIKE:
            return _at_time(table, datetime.fromtimestamp(number / 1000, UTC), text)
        raise NoSuchMoment(
            f"{_name(table)} has no snapshot {text}, or it has expired (firn history {_name(table)} lists them); "
            "a snapshot belongs to one table: to read several together, give a time"
        )
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        refs = ", ".join(sorted(table.metadata.refs)) or "none"
        raise NoSuchMoment(
            f"as of {text!r}: {_name(table)} has no such tag or branch (it has: {refs}), and it is not a time either; "
            "write 2026-01-31T12:00:00Z, milliseconds since 1970, or a snapshot id"
        ) from None
    return _at_time(table, moment, text)


def snapshot_in(table: "Table", cut: Cut) -> int:
    """The id of the table's snapshot in `cut`. Raises NoSuchMoment if the cut doesn't hold the table, or it expired."""
    snapshot = cut.tables.get(_name(table))
    if snapshot is None:
        holds = ", ".join(sorted(cut.tables)) or "nothing"
        raise NoSuchMoment(f"cut {cut.n} of {cut.stream} does not hold {_name(table)}; it holds {holds}")
    if table.snapshot_by_id(snapshot) is None:
        raise NoSuchMoment(
            f"snapshot {snapshot} of {_name(table)}, which cut {cut.n} of {cut.stream} names, has expired; "
            "firn cut list shows newer cuts, and firn cut keep holds one for good"
        )
    return snapshot


def _at_time(table: "Table", moment: datetime, said: str) -> int:
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    snapshot = table.snapshot_as_of_timestamp(int(moment.timestamp() * 1000))
    if snapshot is not None:
        return int(snapshot.snapshot_id)
    kept = table.history()
    if not kept:
        raise NoSuchMoment(f"{_name(table)} has no snapshot yet")
    first = datetime.fromtimestamp(kept[0].timestamp_ms / 1000, UTC)
    raise NoSuchMoment(
        f"{_name(table)} had no snapshot at {said}: its first kept one is of {first.isoformat(timespec='milliseconds')}"
    )


def _name(table: "Table") -> str:
    return ".".join(table.name())
