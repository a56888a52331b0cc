"""A stream over tables in memory, and what `firn audit` would say of it: the real ingest, sealing, job and reading."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import msgspec

from firn.jobs.audit import Audit, audit
from firn.jobs.audit_view import Difference, Keeping
from firn.jobs.ledger import History, Ledger, history, read
from firn.staging import epochs, layout, quarantine
from firn.staging.epochs import Epoch
from firn.streams.names import TableName
from tests.model.lake_contract import STREAM, Stream, event
from tests.model.memory_ground import MemoryGround
from tests.model.memory_lake import Catalog

Ground = MemoryGround


def histories(catalog: Catalog, names: Iterable[str]) -> dict[str, History]:
    """The tables' histories, as the command reads them from Iceberg."""
    found = {}
    for name in names:
        table = catalog.tables.get(TableName.parse(name))
        if table is not None:
            snapshots = {one.id: (one.parent, one.summary) for one in table.snapshots.values()}
            found[name] = history(STREAM, table.current, snapshots)
    return found


def ledger(stream: Stream, ground: MemoryGround) -> Ledger:
    return read(ground.store, STREAM, lambda names: histories(ground.catalog, names))


def audited(stream: Stream, ground: MemoryGround, *, later: timedelta = timedelta(minutes=1), **keep: Any) -> Audit:
    return audit(ledger(stream, ground), stream.now + later, Keeping(**keep))


def only(found: Audit, code: str) -> Difference:
    """The one difference; with what was found instead in the message."""
    assert [one.code for one in found.differences] == [code], found.differences
    assert not found.balanced
    return found.differences[0]


def codes(found: Audit) -> list[str]:
    return sorted({one.code for one in found.differences})


def rewrite(ground: MemoryGround, n: int, **fields: Any) -> Epoch:
    """Epoch n with other fields, as nobody may write it."""
    data = bytes(ground.store.get(layout.epoch_path(STREAM, n)).bytes())
    changed = msgspec.structs.replace(msgspec.json.decode(data, type=Epoch), **fields)
    ground.store.put(layout.epoch_path(STREAM, n), epochs.encode(changed), mode="overwrite")
    return changed


def sums(found: Audit) -> Mapping[str, int]:
    names = ("acked", "merged", "superseded", "pending", "dead", "uncounted")
    return {name: getattr(found, name) for name in names} | {"ignored": sum(found.ignored.values())}


def typed(lsn: int, value: Any) -> dict[str, Any]:
    return event("c", lsn, {"id": value}, table="typed")


def release(stream: Stream, how: Any) -> None:
    held = quarantine.read_all(stream.store, STREAM).held()["lake.typed"]
    quarantine.lift(stream.store, held, how, layout.instant(stream.now))
