"""Where a MySQL or MariaDB's snapshot stands in its binlog, and the wait for what is in the log and in no snapshot.

`START TRANSACTION WITH CONSISTENT SNAPSHOT` and the status variables `binlog_snapshot_file` and `_position` (MariaDB,
Percona Server) tell the very place: what lies below it in the binlog is in the snapshot, all else begins above it. But
for XA: a transaction that is prepared has its rows in the binlog, and so in the stream, and is in no snapshot until
XA COMMIT. So the place is asked for first, then those that are prepared are waited for, and then the snapshot is opened
that is read. It may show more than lies below that place, which the stream tells again (docs/adr/0061-backfill.md).
"""

import re
import time
from dataclasses import dataclass
from typing import Any, Final, Protocol

from firn.backfill.mysql_connection import names
from firn.backfill.read_position import ForeignStream
from firn.changes.order_texts import file_number
from firn.errors import ConfigError, TransientError

PATIENCE: Final = 600.0  # seconds for prepared transactions to end, before the chunk is tried again later
LONG: Final = 10.0  # after which a chunk takes the position of an earlier one
_PREPARING: Final = 1.0  # seconds from the binlog's write of a prepared transaction until XA RECOVER lists it, at most
_LOOK_EVERY: Final = 0.05
SNAPSHOT: Final = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
_PLACE: Final = re.compile(r"(.+):([0-9]+)")


class Asked(Protocol):
    """A session that is asked."""

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement."""


@dataclass(frozen=True)
class LogPlace:
    """A place in the binlog: a file's name, and the offset in it."""

    file: str
    offset: int

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"

    @property
    def number(self) -> int:
        """As the commit part of positions has it (changes/positions.py). ValueError if the file has no number."""
        return file_number(self.file) << 64 | self.offset

    def order(self) -> str:
        """The order text of reads: older than a change at this very place, newer than all before."""
        return f'["{self.file}",{self.offset},0]'


def place_of(text: str) -> LogPlace:
    """The place that `str` wrote. ValueError if it is none."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:60]!r} is no place in a binlog; write such as binlog.000004:1234")
    return LogPlace(found[1], int(found[2]))


def log_position(session: Asked) -> LogPlace:
    """Where a snapshot of now stands. Ends the session's transaction, if one is open.

    Raises ConfigError if the server does not tell: it writes no binlog, or is Oracle's MySQL.
    """
    session.rows(SNAPSHOT)
    told = names(session.rows("SHOW STATUS LIKE 'binlog\\_snapshot\\_%'"))
    session.rows("COMMIT")
    if "binlog_snapshot_file" not in told:
        raise ConfigError(
            "this server does not tell where a snapshot stands in its binlog (binlog_snapshot_file, which MariaDB and "
            "Percona Server have): let Debezium take an incremental snapshot, or write the tables into files"
        )
    if not told["binlog_snapshot_file"]:
        raise ConfigError(
            "the server writes no binlog (log_bin), so no stream can come from it: see docs/sources/mysql.md"
        )
    return LogPlace(told["binlog_snapshot_file"], int(told["binlog_snapshot_position"]))


def server_name(session: Asked) -> str:
    """What tells the server from another one."""
    ids = names(session.rows("SHOW GLOBAL VARIABLES WHERE variable_name IN ('server_id', 'server_uuid', 'server_uid')"))
    return "/".join(ids[name] for name in sorted(ids))


def settled_place(session: Asked, before: LogPlace | None) -> tuple[LogPlace, float]:
    """Waits until what is prepared now has ended. -> the place below which a snapshot opened from now on shows all, and
    the seconds it took. `before`: of an earlier wait, which holds as well where a transaction stays prepared for long.

    Raises TransientError (transactions that stay prepared), ConfigError.
    """
    began = time.monotonic()
    place = log_position(session)
    if _xa_is_used(session):
        time.sleep(_PREPARING)
    left = _prepared(session)
    looks = 0
    while left:
        waited = time.monotonic() - began
        if before is not None and waited > LONG:
            return before, waited
        if waited > PATIENCE:
            raise TransientError(
                f"an XA transaction that was prepared {PATIENCE:.0f} s ago has not ended: look for it by XA RECOVER, "
                "and end it by XA COMMIT or XA ROLLBACK, or wait"
            )
        looks += 1
        time.sleep(min(1.0, _LOOK_EVERY * looks))
        left &= _prepared(session)
    return place, time.monotonic() - began


def _xa_is_used(session: Asked) -> bool:
    told = names(session.rows("SHOW GLOBAL STATUS LIKE 'Com\\_xa\\_prepare'"))
    return told.get("com_xa_prepare", "0") != "0"


def _prepared(session: Asked) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in session.rows("XA RECOVER")}


def expect_same_log(place: LogPlace, planned: str, floor: int) -> None:
    """Raises ForeignStream if the stream, or this backfill's plan, knows of places that the server has not reached.
    `floor`: the commit part of the highest position of the stream's tables, 0 if they know none."""
    if floor > place.number:
        raise ForeignStream(
            f"the stream's changes stand above {place}, where the server's binlog ends: this is not the server that "
            "the stream comes from, or it was restored. Correct --from, or raise the stream's `generation` in "
            "firn.yaml, publish it, and run `firn backfill --replace` (docs/backfill.md)"
        )
    if planned and place_of(planned).number > place.number:
        raise ForeignStream(
            f"the binlog ends at {place}, and was at {planned} when the plan was made: it began again. Begin anew: "
            "firn backfill --cancel, then the same command again"
        )
