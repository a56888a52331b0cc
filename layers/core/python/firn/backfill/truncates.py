"""`--replace`: what a restored or another source no longer has, goes.

All that it holds was read under the stream's raised generation. So one change more says the rest: a truncate of each
source table at the end of the generation before. It takes away the rows that have nothing newer, and no other, whenever
it is committed; staged last, it leaves no moment at which a table is empty.
"""

from datetime import UTC, datetime
from typing import Any, Final

from firn.backfill import chunk_claims
from firn.backfill.backfill_request import Request
from firn.backfill.chunk_claims import Claim
from firn.backfill.chunk_plan import Plan
from firn.backfill.read_position import NEVER
from firn.changes.change import Parsed
from firn.config.model import StreamConfig
from firn.log.batches import FORMAT, BatchMeta, write_batch
from firn.log.store import Store

_LAST: Final = f'["{NEVER}","{NEVER}"]'
_LAST_IN_BINLOG: Final = f'["binlog.{NEVER}",{NEVER},{NEVER}]'


def stage(store: Store, request: Request, plan: Plan, settings: StreamConfig, config: str) -> None:
    """Stages them, each once. Raises StorageUnavailable, UnknownOutcome."""
    for place, table in enumerate(plan.tables):

        def body(batch: str, received: str, name: str = table.name) -> bytes:
            meta = BatchMeta(FORMAT, request.stream, batch, received, config, 1, 0, {}, {name: 1})
            return write_batch(_truncate(name, request), meta, {"generation": [settings.generation - 1]})

        claim = Claim(FORMAT, "", 1, 0, "")
        chunk = len(plan.chunks) + place  # numbers of their own
        chunk_claims.stage(store, request.stream, request.id, chunk, config, lambda: datetime.now(UTC), body, claim)


def _truncate(table: str, request: Request) -> Parsed:
    connector, order = ("mysql", _LAST_IN_BINLOG) if request.is_mysql else ("postgresql", _LAST)
    none: list[Any] = [None]
    return Parsed(
        index=[0], op=["t"], table=[table], ts=none, connector=[connector], order=[order], tx_order=none,
        emitted=none, flat=[False], key=none, before=none, after=none, schema=none, transaction=none,
        ignored={}, rejected=[],
    )  # fmt: skip
