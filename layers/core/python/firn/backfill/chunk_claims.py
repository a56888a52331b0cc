"""Which batch a chunk is staged as. A chunk has one, whoever reads it and wherever a job dies.

A batch's id holds the time when it is staged, for dispatch lists by it: so it can't be known before. A claim, created
if absent, names it first. One whose batch was never put is settled as a queue message's is (docs/adr/0007): the batch
is made void at its very path, and the next link of the claim has a batch of its own.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from firn.changes.change import Parsed
from firn.errors import FirnError
from firn.log import backfill_layout, layout
from firn.log.batches import FORMAT, BatchMeta, read_meta, write_batch
from firn.log.store import Store, get, put_if_absent

_MOST_LINKS: Final = 1_000


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a chunk was staged as, or will be; `batch` is "" for one without rows, which is staged by its claim alone.

    position  of its reads, as the source writes it
    raw       bytes of its row images
    waited    seconds for transactions to end
    checked   the checksum that source and staged rows have in common (`--verify`), "" if nobody looked
    """

    format: int
    batch: str
    rows: int
    raw: int
    position: str
    waited: float = 0.0
    checked: str = ""


@dataclass(frozen=True)
class Place:
    """Where a chunk stands: `staged` is its claim once its batch is there, else `link` is the next to claim."""

    staged: Claim | None
    link: int = 1


_decode: Final = msgspec.json.Decoder(Claim).decode


def find(store: Store, stream: str, backfill: str, chunk: int, config: str) -> Place:
    """Whether the chunk is staged. A batch that was claimed and is not there is made void; `config`: the sha for that.

    Raises StorageUnavailable, UnknownOutcome.
    """
    for link in range(1, _MOST_LINKS):
        claim = read(store, stream, backfill, chunk, link)
        if claim is None:
            return Place(None, link)
        if not claim.batch or _is_staged(store, claim.batch, config):
            return Place(claim)
    raise FirnError(f"chunk {chunk} of backfill {backfill} was claimed {_MOST_LINKS} times and never staged")


def read(store: Store, stream: str, backfill: str, chunk: int, link: int) -> Claim | None:
    """One link of a chunk's claim. Raises StorageUnavailable."""
    data = get(store, backfill_layout.chunk_path(stream, backfill, chunk, link))
    return None if data is None else _decode(data)


def stage(
    store: Store,
    stream: str,
    backfill: str,
    chunk: int,
    config: str,
    now: Callable[[], datetime],
    body: Callable[[str, str], bytes],
    claim: Claim,
) -> Claim:
    """Stages a chunk that was read, unless it is by now. `body`: the object for a batch id and a time of receipt;
    `claim`: with any batch. -> the claim of what is staged. Raises StorageUnavailable, UnknownOutcome."""
    while True:
        place = find(store, stream, backfill, chunk, config)
        if place.staged is not None:
            return place.staged
        path = backfill_layout.chunk_path(stream, backfill, chunk, place.link)
        if not claim.rows:
            nothing = msgspec.structs.replace(claim, format=FORMAT, batch="")
            if put_if_absent(store, path, msgspec.json.encode(nothing)):
                return nothing
            continue
        when = now()
        batch = layout.batch_id(stream, when, _seed(backfill, chunk, place.link))
        mine = msgspec.structs.replace(claim, format=FORMAT, batch=batch)
        data = body(batch, layout.instant(when))
        if put_if_absent(store, path, msgspec.json.encode(mine)) and put_if_absent(
            store, layout.staged_path(batch), data
        ):
            return mine


def _seed(backfill: str, chunk: int, link: int) -> bytes:
    """What tells its batch from others of the same millisecond: the chunk itself."""
    return hashlib.blake2b(f"{backfill} {chunk} {link}".encode(), digest_size=8).digest()


def _is_staged(store: Store, batch: str, config: str) -> bool:
    """Whether the batch holds its chunk. One that is not there is made void, and holds nothing from then on."""
    path = layout.staged_path(batch)
    meta = read_meta(store, path)
    if meta is None:
        if put_if_absent(store, path, _void(batch, config)):
            return False
        meta = read_meta(store, path)
    return meta is not None and meta.accepted > 0


def _void(batch: str, config: str) -> bytes:
    nothing = Parsed(**{name: [] for name in Parsed.__struct_fields__ if name != "ignored"}, ignored={})
    received = layout.instant(layout.time_of(batch))
    return write_batch(nothing, BatchMeta(FORMAT, layout.stream_of(batch), batch, received, config, 0, 0, {}, {}))
