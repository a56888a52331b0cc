"""A table with as many snapshots as asked for, by writing its metadata: they all have the rows of the first."""

import gzip
import json
import random
import uuid
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table


def lengthened(
    catalog: Catalog, table: Table, count: int, *, packed: bool = False, indent: int | None = None, **more: Any
) -> Table:
    """The table with `count` snapshots, a minute each, the newest the newest of before; every
    seventh is an overwrite. `more`: what its metadata has besides."""
    metadata = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    random_ = random.Random(1)
    last = metadata["snapshots"][-1]
    parent: int | None = None
    snapshots: list[dict[str, Any]] = []
    for number in range(count):
        made = {**last, "snapshot-id": random_.randrange(10**17, 2**63), "sequence-number": number + 1}
        made["timestamp-ms"] = last["timestamp-ms"] - (count - number) * 60_000
        made["summary"] = _summary(number, random_)
        made.pop("parent-snapshot-id", None)
        snapshots.append(made if parent is None else {**made, "parent-snapshot-id": parent})
        parent = made["snapshot-id"]
    metadata["snapshots"] = snapshots
    metadata["snapshot-log"] = [{name: one[name] for name in ("timestamp-ms", "snapshot-id")} for one in snapshots]
    metadata |= {"current-snapshot-id": parent, "last-sequence-number": count, **more}
    metadata["refs"] = {
        "main": {"snapshot-id": parent, "type": "branch"},
        "first": {"snapshot-id": snapshots[0]["snapshot-id"], "type": "tag"},
    }
    if metadata["format-version"] == 1:
        metadata |= {"schema": metadata["schemas"][0], "partition-spec": []}
    name = f"{table.location().removeprefix('file://')}/metadata/00009-{uuid.uuid4()}"
    location = Path(f"{name}{'.gz' if packed else ''}.metadata.json")
    content = json.dumps(metadata, indent=indent).encode()
    location.write_bytes(gzip.compress(content) if packed else content)
    catalog.drop_table(table.name())
    return catalog.register_table(table.name(), f"file://{location}")


def _summary(number: int, random_: random.Random) -> dict[str, str]:
    """As Firn's jobs write them."""
    more = {"firn.types": '{"amount": ["int", "long"]}'} if number % 50 == 3 else {}
    return {
        "operation": "append" if number % 7 else "overwrite",
        "firn.format": "1",
        "firn.epoch.shop": str(number),
        "firn.run": str(uuid.UUID(int=random_.getrandbits(128))),
        "added-data-files": "1",
        "added-records": "3",
        "deleted-records": str(number % 3),
        "added-position-deletes": str(number % 2),
        "total-records": str(3 * number),
        "total-files-size": str(1_000 * number),
        "total-data-files": str(number + 1),
        "total-position-deletes": "1",
        "total-equality-deletes": "0" if number % 11 else "1",
        **more,
    }
