"""One chunk of a table in MySQL or MariaDB: read in a transaction of its own, at a place in the binlog."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from firn.backfill.chunk_plan import Chunk, Plan, PlannedTable
from firn.backfill.mysql_connection import MysqlRefused, RowTooLarge, Session
from firn.backfill.mysql_log import SNAPSHOT, LogPlace, expect_same_log, server_name, settled_place
from firn.backfill.mysql_plan import count_mysql_sql, read_mysql_sql
from firn.backfill.postgres_chunk import ForeignServer

_GONE: Final = {1054: "column", 1146: "table"}  # error numbers
_SHORT: Final = 9  # digits that tell any float of 32 bits from all others


class TableChanged(MysqlRefused):
    """What the plan reads is not there any more."""


@dataclass(frozen=True)
class OpenedChunk:
    """A chunk whose snapshot is open. `place`: of its reads in the binlog; `at_ms`: when it was opened, by the server's
    clock; `waited`: seconds for transactions."""

    place: LogPlace
    at_ms: int
    waited: float


def open_mysql_chunk(session: Session, plan: Plan, floor: int, before: LogPlace | None = None) -> OpenedChunk:
    """Begins a chunk's transaction, once what is prepared has ended.

    Raises TransientError, ForeignServer, ForeignStream, ConfigError: the session is of no use then.
    """
    server = server_name(session)
    if server != plan.server:
        raise ForeignServer(
            f"server_id and server_uuid are {server}, and {plan.server} in the plan: another server answers. "
            "Begin anew: firn backfill --cancel, then the same command again"
        )
    place, waited = settled_place(session, before)
    expect_same_log(place, plan.log, floor)
    session.rows(SNAPSHOT)
    at = session.value("SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)")
    return OpenedChunk(place, int(at), waited)


def read_mysql_rows(
    session: Session, table: PlannedTable, chunk: Chunk, take: Callable[[bytes, bytes | None], None]
) -> None:
    """`take` is called with the image and the key, or None, of each row. Raises TableChanged, RowTooLarge,
    TransientError (the table was altered since the snapshot was opened)."""
    convert = {cell.name for cell in table.cells if cell.convert}
    decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

    def row(image: bytes | None, key: bytes | None = None) -> None:
        if image is None or (table.key and key is None):
            raise RowTooLarge(
                f"a row of {table.name} is larger than the server's max_allowed_packet: raise that, or leave the row "
                "out with --where"
            )
        if convert:
            cells = decode(image)
            for name in convert:
                cells[name] = msgspec.Raw(shortest(bytes(cells[name])))
            image = msgspec.json.encode(cells)
        take(image, key)

    try:
        session.each(read_mysql_sql(table, chunk), row)
    except MysqlRefused as error:
        if error.code not in _GONE:
            raise
        raise TableChanged(
            f"{error}: a {_GONE[error.code]} of {table.name} has gone since the plan was made, or --where names none. "
            "firn backfill --cancel, then the same command again",
            error.code,
        ) from None


def counted_in_mysql(session: Session, table: PlannedTable, chunk: Chunk) -> tuple[int, str]:
    """How many rows the chunk has, and their checksum."""
    count, total = session.rows(count_mysql_sql(table, chunk))[0]
    return int(count), str(total)


def shortest(raw: bytes) -> bytes:
    """The JSON of a 32-bit float by as few digits as tell it from its neighbours, as connectors write it. `raw`: null,
    or its JSON as a double, which is its exact value."""
    import struct

    if raw == b"null":
        return raw
    value = float(raw.strip(b'"'))
    packed = struct.pack("f", value)
    for digits in range(1, _SHORT + 1):
        text = f"{value:.{digits}g}"
        if struct.pack("f", float(text)) == packed:
            return repr(float(text)).encode()
    return raw
