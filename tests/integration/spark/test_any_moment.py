"""Debezium's own events, committed in many epochs: the rows of every snapshot are those of the specification, and the
changes between any two lead from the one to the other."""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Snapshot

from firn.changes.merge.fold import RowChange, fold
from firn.changes.positions import order_key, position
from firn.maintenance import compaction_trigger
from firn_lake.changes.row_changes import Changes
from firn_lake.lake import Lake as Reader
from firn_lake.reading.versions import version_of
from firn_spark.driver import small_files
from tests.applying import applied, rows_of
from tests.integration.spark.spark_lake import CORPUS, Lake, values
from tests.integration.spark.test_changes import merge
from tests.soak import LONG, long_only

pytestmark = pytest.mark.spark

# Copy-on-write takes Spark for each epoch, and so most of the time.
EPOCHS = {"merge-on-read": 48, "copy-on-write": 48} if LONG else {"merge-on-read": 8, "copy-on-write": 5}
MERGED = 5 if LONG else 3  # a merge of small files after so many epochs
OLD, NEW = "status", "state"  # the column that the source renames half-way
Row = Mapping[str, Any]


def change(event: Mapping[str, Any]) -> RowChange:
    """An event of the corpus as the specification knows it."""
    op, image = event["op"], event["after"] or event["before"]
    where = position("postgresql", op, event["source"]["sequence"], 0)
    content = repr(sorted((name, value) for name, value in image.items())).encode()
    return RowChange(op, (image["id"],), where, order_key(where, op, content), event["after"])


def delivered(count: int) -> list[list[dict[str, Any]]]:
    """The events of `orders` in about `count` epochs, a little out of order, some of them twice."""
    told = [
        one for one in values(CORPUS / "spec" / "plain.ndjson.gz") if one.get("source", {}).get("table") == "orders"
    ]
    dice = random.Random(8)
    told = [event for _, event in sorted(((n + dice.uniform(0, 12), event) for n, event in enumerate(told)),
                                         key=lambda pair: pair[0])]  # fmt: skip
    told += dice.choices(told, k=8)
    size = -(-len(told) // count)
    return [told[first : first + size] for first in range(0, len(told), size)]


def renamed(event: dict[str, Any], half: bool) -> dict[str, Any]:
    """The event as the source tells it once the column has its new name."""

    def of(image: dict[str, Any] | None) -> dict[str, Any] | None:
        return image and {NEW if half and name == OLD else name: value for name, value in image.items()}

    return event | {"before": of(event["before"]), "after": of(event["after"])}


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are merged when the test says so."""
    monkeypatch.setattr(compaction_trigger, "EVERY", 10**9)
    monkeypatch.setattr(small_files, "_AT_LEAST", 2)


def committed(lake: Lake, epochs: list[list[dict[str, Any]]]) -> None:
    """All epochs, with merges of small files and the rename in between."""
    half = len(epochs) // 2
    for number, events in enumerate(epochs):
        if number == half:
            with lake.catalog.load_table("lake.orders").update_schema() as change_of:
                change_of.rename_column(OLD, NEW)
        lake.land([renamed(event, number >= half) for event in events])
        if number % MERGED == MERGED - 1:
            merge(lake, "lake.orders")


def expected(epochs: list[list[dict[str, Any]]]) -> list[Counter[str]]:
    """The rows after each number of epochs, as the specification says."""
    found = []
    for count in range(len(epochs) + 1):
        changes = {repr(event): change(event) for events in epochs[:count] for event in events}
        found.append(plain(row.values for row in fold({}, changes.values()).rows.values()))
    return found


def plain(rows: Any) -> Counter[str]:
    """Rows whatever the order of their columns, under the old name."""
    return Counter(repr(sorted((OLD if name == NEW else name, value) for name, value in row.items())) for row in rows)


@long_only
@pytest.mark.parametrize("write", ["merge-on-read", "copy-on-write"])
def test_every_snapshot_and_every_two_of_them(lake: Callable[[str], Lake], write: str) -> None:
    epochs = delivered(EPOCHS[write])
    text = (
        "warehouse: file:///set/by/the/deployment\ncatalog: {type: sql}\nstreams:\n  spec:\n    tables:\n"
        f"      s.orders: {{to: lake.orders, key: [id], write: {write}}}\n"
    )
    one = lake(text)
    committed(one, epochs)
    table = Reader(one.catalog).table("lake.orders")
    iceberg = table.iceberg
    kept = iceberg.metadata.snapshots
    operations = Counter(one.summary.operation.value for one in kept if one.summary)
    print(f"{write}: {len(kept)} snapshots, {dict(operations)}")
    assert len(kept) > len(epochs)
    assert len(kept) >= 50 or not LONG
    assert operations["replace"] or write == "copy-on-write"
    check_each(table, expected(epochs))
    known: dict[tuple[int | None, str], Counter[str]] = {}

    def rows(snapshot: Snapshot | None, schema: Schema) -> Counter[str]:
        """The rows at a snapshot with the columns of another; read once."""
        place = snapshot.snapshot_id if snapshot else None, repr(schema)
        if place not in known:
            known[place] = rows_of(iceberg, snapshot, schema)
        return known[place]

    pairs = list(itertools.product([None, *kept], kept))
    for before, after in pairs:
        changes = Changes(before, version_of(iceberg, after))
        assert applied(rows(before, changes._rows), changes) == rows(after, changes._rows), changes
    print(f"{write}: {len(pairs)} pairs")


def check_each(table: Any, wanted: list[Counter[str]]) -> None:
    """Each snapshot, by its id and by its time, has the rows of the epoch that it brought the table to."""
    epoch, seen = 0, set()
    for snapshot in table.snapshots():
        epoch = max(epoch, dict(snapshot.epochs).get("spec", 0))
        seen.add(epoch)
        for as_of in (snapshot.id, snapshot.time):
            rows = plain(table.read(as_of=as_of).pylist())
            assert rows == wanted[epoch], f"epoch {epoch} as of {as_of}"
    assert seen == set(range(1, len(wanted)))
