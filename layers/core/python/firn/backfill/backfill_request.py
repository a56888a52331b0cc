"""What was asked for: one object a backfill, written once by whoever starts it."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from firn.backfill.source_address import MYSQL, POSTGRES, scheme_of
from firn.log import backfill_layout as layout
from firn.log.batches import FORMAT, UnreadableBatch
from firn.log.store import Store, get, paths, put, put_if_absent

By = Literal["auto", "key", "ctid"]
CHUNK_ROWS: Final = 200_000
CHUNK_BYTES: Final = 48_000_000  # of rows as the source stores them


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """A backfill.

    source    an address without its password: postgres://user@host/db, mysql://…, or of files
    password  the place of the password (firn.config.secret_addresses), "" if it needs none; `iam`: a token of AWS's
    publication  what the stream has of the source: other tables, columns and rows are left out; "" if it is not known
    pulled    whether the source is the database whose slot Firn reads for the stream
    tables    source tables; of files the one that they fill. None: all that the stream takes
    where     a condition in the source's SQL that rows have to meet, "" for all
    position  of files: "" for below all changes of the stream, or "now"
    replace   rows of before this generation that the source no longer has go (docs/backfill.md)
    parallel  connections to the source at once; 0: as many as the job has cores
    """

    format: int
    id: str
    stream: str
    source: str
    made_at: str  # RFC 3339, UTC, milliseconds
    tables: tuple[str, ...] = ()
    password: str = ""
    where: str = ""
    position: str = ""
    by: By = "auto"
    chunk_rows: int = CHUNK_ROWS
    chunk_bytes: int = CHUNK_BYTES
    parallel: int = 0
    verify: bool = False
    replace: bool = False
    iam: bool = False
    publication: str = ""
    pulled: bool = False

    @property
    def is_database(self) -> bool:
        """Whether the source is a database, and not files."""
        return is_database(self.source)

    @property
    def is_mysql(self) -> bool:
        """Whether the source is a MySQL or a MariaDB."""
        return scheme_of(self.source) in MYSQL

    def is_same(self, other: "Request") -> bool:
        """Whether both ask for the same, at whatever time and however quickly."""
        own = msgspec.structs.replace(other, id=self.id, made_at=self.made_at, password=self.password)
        return msgspec.structs.replace(own, parallel=self.parallel) == self


def is_database(source: str) -> bool:
    """Whether an address is one of a database."""
    return scheme_of(source) in (*POSTGRES, *MYSQL)


class End(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a backfill ended. `status`: done or cancelled."""

    format: int
    status: Literal["done", "cancelled"]
    ended_at: str
    rows: int = 0
    chunks: int = 0
    bytes: int = 0


_decode: Final = msgspec.json.Decoder(Request).decode
_decode_end: Final = msgspec.json.Decoder(End).decode


def write(store: Store, request: Request) -> bool:
    """Put it if absent. -> False if another of that id is there. Raises StorageUnavailable, UnknownOutcome."""
    return put_if_absent(
        store, layout.backfill_path(request.stream, request.id, "request"), msgspec.json.encode(request)
    )


def overwrite(store: Store, request: Request) -> None:
    """Put it again, with what may change: where its password is. Raises StorageUnavailable, UnknownOutcome."""
    put(store, layout.backfill_path(request.stream, request.id, "request"), msgspec.json.encode(request))


def read(store: Store, stream: str, backfill: str) -> Request | None:
    """The request, None if there is none. Raises StorageUnavailable, UnreadableBatch (of a newer format)."""
    data = get(store, layout.backfill_path(stream, backfill, "request"))
    found = None if data is None else _decode(data)
    if found is not None and found.format > FORMAT:
        raise UnreadableBatch(f"backfill {backfill} has format {found.format}: update this side of Firn first")
    return found


def all_of(store: Store, stream: str) -> list[str]:
    """The ids of a stream's backfills, oldest first. Raises StorageUnavailable."""
    found = (layout.backfill_of(path) for path in paths(store, layout.backfills_prefix(stream)))
    return sorted({backfill for backfill, name in filter(None, found) if name == "request"})


def open_ones(store: Store, stream: str) -> Sequence[Request]:
    """Those that are neither done nor cancelled, oldest first. Raises StorageUnavailable."""
    ids = [one for one in all_of(store, stream) if ended(store, stream, one) is None]
    return [found for one in ids if (found := read(store, stream, one)) is not None]


def end(store: Store, stream: str, backfill: str, how: End) -> End:
    """Ends it, if nobody has. -> how it ended. Raises StorageUnavailable, UnknownOutcome."""
    path = layout.backfill_path(stream, backfill, "end")
    if put_if_absent(store, path, msgspec.json.encode(how)):
        return how
    return ended(store, stream, backfill) or how


def ended(store: Store, stream: str, backfill: str) -> End | None:
    """How it ended, None if it has not. Raises StorageUnavailable."""
    data = get(store, layout.backfill_path(stream, backfill, "end"))
    return None if data is None else _decode_end(data)
